"""What memories say of entities: mentions, relations and events (EXT-8, EEE-2, HYP-3, HYP-4).

Everything follows from the rows: what a memory says replaces what it said before, and what it says
goes with it. A relation that several memories state weighs more, and is there as long as one does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from spector.graph import EntityDirectory, HyperGraph, TypeRegistry

from .model import Entity, MemoryRow, Relation, entities_of
from .names import NameIndex
from .snapshots import load_json, save_json

_OTHER: Final = 21  # the type of what only a relation names (TYP-1)
_LEAST: Final = 3  # entities of an event (HYP-2)
_MOST: Final = 8
_AGENT: Final = 1
_OBJECT: Final = 2
_CONTEXT: Final = 3
_ROLES: Final = {  # of an entity that nobody gave a role, by its type (HYP-4)
    "LOCATION": 5,
    "DATE_TIME": 6,
    "TECHNOLOGY": 4,
    "TOOL": 4,
    "API": 4,
}
_REINFORCEMENT: Final = 0.2  # EEE-2
_HEAVIEST: Final = 3.0
_ENTRY_BYTES: Final = 220  # of a fact in the dictionaries below

Fact = tuple[int, int, int]  # source, target, type
Said = Mapping[int, tuple[tuple[Entity, ...], tuple[Relation, ...]]]


class Mentions:
    """Feeds what rows say of entities to the directory and to the graph of events.

    Any thread may read the stores; one at a time calls the methods.
    """

    def __init__(self) -> None:
        self.entity_types = TypeRegistry.entities()
        self.relation_types = TypeRegistry.relations()
        self.roles = TypeRegistry.roles()
        self.directory = EntityDirectory(
            entity_types=self.entity_types, relation_types=self.relation_types
        )
        self.hyper = HyperGraph()
        self.names = NameIndex()  # of what memories mention: numbers are entities
        self._named: set[int] = set()
        self._facts: dict[int, tuple[Fact, ...]] = {}  # by memory
        self._stated: dict[Fact, int] = {}  # by how many memories

    def __len__(self) -> int:
        """How many entities are or were mentioned."""
        return len(self._named)

    def remove(self, slots: Sequence[int]) -> None:
        """Take away what memories say, but for their links: those go with what they are about."""
        if not self._named:
            return
        self.hyper.remove_memory(list(slots))
        left: dict[Fact, int] = {}
        for slot in slots:
            for fact in self._facts.pop(slot, ()):
                left[fact] = self._stated[fact] = self._stated[fact] - 1
        if not left:
            return
        weights = [
            min(_HEAVIEST, 1 + _REINFORCEMENT * (n - 1)) if n else 0.0 for n in left.values()
        ]
        self.directory.limit_relations(*_columns(left), np.asarray(weights, np.float32))
        for fact, n in left.items():
            if not n:
                del self._stated[fact]

    def put(self, rows: Mapping[int, MemoryRow], about: Iterable[tuple[int, int]] = ()) -> None:
        """Add what memories say; `remove` has taken away what they said before.

        `about` are pairs of an entity and a memory that are linked already.
        """
        said = {slot: entities_of(row) for slot, row in rows.items() if row[19]}
        if not said:
            return
        try:
            names, numbers = self._intern(said)
        except ValueError:  # a name that this version does not take, only from another's journal
            said = {slot: self._sound(*each) for slot, each in said.items()}
            names, numbers = self._intern(said)
        links: dict[tuple[int, int], None] = {}
        facts: list[Fact] = []
        events = _Events()
        place = 0
        for slot, (entities, relations) in said.items():
            own = numbers[place : place + len(entities)]
            place += len(entities)
            ends = numbers[place : place + 2 * len(relations)]
            place += 2 * len(relations)
            links |= dict.fromkeys((number, slot) for number in own)
            told = self._relate(ends, relations)
            if told:
                self._facts[slot] = told
                facts += told
            members = list(dict.fromkeys(own))
            if len(members) >= _LEAST:
                roles = self._role_of(own, entities, told)
                stated = {kind for _, _, kind in told}
                kind = stated.pop() if len(stated) == 1 else self._related
                events.add(slot, members, [roles[member] for member in members], kind, rows[slot])
        for link in about:
            links.pop(link, None)
        if links:
            linked, slots = (list(column) for column in zip(*links, strict=True))
            self.directory.link(linked, np.asarray(slots, np.uint32), False)
        self._name(names, numbers)
        if facts:
            for fact in facts:
                self._stated[fact] = self._stated.get(fact, 0) + 1
            self.directory.add_relations(*_columns(facts))
        events.store(self.hyper)

    def _intern(self, said: Said) -> tuple[list[str], list[int]]:
        """All names with their entities: of each memory its own, then the ends of its relations."""
        names: list[str] = []
        types: list[int] = []
        kinds: dict[str, int] = {}
        for entities, relations in said.values():
            names += [entity.name for entity in entities]
            for entity in entities:
                kind = kinds.get(entity.type)
                if kind is None:
                    kind = kinds[entity.type] = self.entity_types.id(entity.type)
                types.append(kind)
            for relation in relations:
                names += (relation.source, relation.target)
                types += (_OTHER, _OTHER)
        return names, self.directory.intern(names, np.asarray(types, np.uint32)).tolist()

    def _sound(
        self, entities: Sequence[Entity], relations: Sequence[Relation]
    ) -> tuple[tuple[Entity, ...], tuple[Relation, ...]]:
        """Those whose names can be entities: a bad one takes no other with it (EXT-8)."""

        def usable(*names: str) -> bool:
            try:
                self.directory.intern(list(names), _OTHER)
            except ValueError:
                return False
            return True

        return (
            tuple(entity for entity in entities if usable(entity.name)),
            tuple(each for each in relations if usable(each.source, each.target)),
        )

    def follow_merges(self) -> None:
        """Count what memories state by the survivors of merged entities (ENT-9)."""
        resolve = self.directory.resolve
        facts: dict[int, tuple[Fact, ...]] = {}
        stated: dict[Fact, int] = {}
        for slot, told in self._facts.items():
            now = dict.fromkeys((resolve(a), resolve(b), kind) for a, b, kind in told)
            facts[slot] = tuple(fact for fact in now if fact[0] != fact[1])
            for fact in facts[slot]:
                stated[fact] = stated.get(fact, 0) + 1
        self._facts, self._stated = facts, stated

    @property
    def _related(self) -> int:
        return self.relation_types.id("RELATED_TO")

    def _relate(self, ends: Sequence[int], relations: Sequence[Relation]) -> tuple[Fact, ...]:
        """The facts of one memory; two names of one entity are no relation."""
        found: dict[Fact, None] = {}
        for source, target, relation in zip(ends[::2], ends[1::2], relations, strict=True):
            if source != target:
                found[source, target, self.relation_types.id(relation.type)] = None
        return tuple(found)

    def _role_of(
        self, numbers: Sequence[int], entities: Sequence[Entity], facts: Sequence[Fact]
    ) -> dict[int, int]:
        """HYP-4: what was given, else what the relations say, else what the type says."""
        roles: dict[int, int] = {}
        sources = {source for source, _, _ in facts}
        targets = {target for _, target, _ in facts}
        for number, entity in zip(numbers, entities, strict=True):
            if entity.role is not None:
                role = self.roles.id(entity.role)
            elif number in sources:
                role = _AGENT
            elif number in targets:
                role = _OBJECT
            else:
                role = _ROLES.get(entity.type, _CONTEXT)
            roles.setdefault(number, role)
        return roles

    def _name(self, names: Sequence[str], numbers: Sequence[int]) -> None:
        for name, number in zip(names, numbers, strict=True):
            if number not in self._named:
                self._named.add(number)
                self.names.add(name, number)

    def save_parts(self, folder: Path) -> None:
        """Write all of it into a folder (a snapshot)."""
        self.entity_types.save(folder / "entity-types.reg")
        self.relation_types.save(folder / "relation-types.reg")
        self.roles.save(folder / "roles.reg")
        self.directory.save(folder / "entity-directory.graph")
        self.hyper.save(folder / "hyper-entity.graph")
        rest = {
            "names": self.names.added,
            "named": sorted(self._named),
            "facts": sorted(self._facts.items()),
        }
        save_json(folder / "mentions.json", rest)

    def load_parts(self, folder: Path) -> None:
        """Of a new object: take what `save_parts` wrote."""
        self.entity_types = TypeRegistry.load(folder / "entity-types.reg", "entities")
        self.relation_types = TypeRegistry.load(folder / "relation-types.reg", "relations")
        self.roles = TypeRegistry.load(folder / "roles.reg", "roles")
        self.directory = EntityDirectory.load(
            folder / "entity-directory.graph", self.entity_types, self.relation_types
        )
        self.hyper = HyperGraph.load(folder / "hyper-entity.graph")
        stored = load_json(folder / "mentions.json")
        self.names.add_all(stored["names"])
        self._named = set(stored["named"])
        for slot, told in stored["facts"]:
            facts = self._facts[slot] = tuple((source, to, kind) for source, to, kind in told)
            for fact in facts:
                self._stated[fact] = self._stated.get(fact, 0) + 1

    def bytes(self) -> dict[str, int]:
        """Memory of the stores (BUD-4, BUD-5)."""
        facts = sum(map(sys.getsizeof, (self._facts, self._stated, self._named)))
        return {
            "entities": sum(self.directory.memory_usage().values())
            + self.names.memory_usage()
            + facts
            + _ENTRY_BYTES * len(self._stated),
            "hyperedges": sum(self.hyper.memory_usage().values()),
        }


class _Events:
    """Events in the making, as the arrays that `HyperGraph.add_many` takes."""

    def __init__(self) -> None:
        self._kinds: list[int] = []
        self._ends = [0]
        self._entities: list[int] = []
        self._roles: list[int] = []
        self._memories: list[int] = []
        self._times: list[int] = []

    def add(
        self, slot: int, members: list[int], roles: list[int], kind: int, row: MemoryRow
    ) -> None:
        """One event, or several with the first entity in each, if it has more than 8 (HYP-3)."""
        for chosen in _parts(len(members)):
            self._entities += [members[i] for i in chosen]
            self._roles += [roles[i] for i in chosen]
            self._ends.append(len(self._entities))
            self._kinds.append(kind)
            self._memories.append(slot)
            self._times.append(row[10])  # when it was stored last

    def store(self, hyper: HyperGraph) -> None:
        if self._kinds:
            hyper.add_many(
                self._kinds,
                self._ends,
                self._entities,
                self._roles,
                self._memories,
                np.asarray(self._times, np.int64),
            )


def _parts(n: int) -> list[list[int]]:
    if n <= _MOST:
        return [list(range(n))]
    count = -(-(n - 1) // (_MOST - 1))
    size, longer = divmod(n - 1, count)
    parts, first = [], 1
    for place in range(count):
        last = first + size + (place < longer)
        parts.append([0, *range(first, last)])
        first = last
    return parts


def _columns(
    facts: Iterable[Fact],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    table = np.asarray(list(facts), np.uint32).reshape(-1, 3).T
    source, target, kind = (np.ascontiguousarray(column) for column in table)
    return source, target, kind
