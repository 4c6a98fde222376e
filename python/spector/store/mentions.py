"""What memories say of entities: mentions, relations and events (EXT-8, EEE-2, HYP-3, HYP-4).

What a memory says replaces what it said before, and what it says goes with it. A relation that
several memories state weighs more, and is there as long as one does.

All of it follows from what the last reflection made of it, and from the rows that were stored
since: in which order they were, how often, and what they said in between, does not matter. So a
process that reads only the latest rows has what one has that saw them all.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from spector.graph import EntityDirectory, HyperGraph, TypeRegistry

from .model import Entity, MemoryRow, Relation, entities_of
from .names import EntityNames
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
_PROMOTED: Final = 4
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
        self.names = EntityNames()  # of what memories mention
        self._facts: dict[int, tuple[Fact, ...]] = {}  # by memory
        self._stated: dict[Fact, int] = {}  # by how many memories
        # Since the last reflection: which memories have stated facts, and what became of facts.
        self._since: set[int] = set()
        self._changed: dict[Fact, _Change] = {}

    def __len__(self) -> int:
        """How many entities are or were mentioned."""
        return self.names.n_entities

    def remove(self, slots: Sequence[int]) -> None:
        """Take away what memories say, but for their links: those go with what they are about."""
        if not len(self.directory):
            return
        self.hyper.remove_memory(list(slots))
        gone = [(slot, fact) for slot in slots for fact in self._facts.pop(slot, ())]
        if not gone:
            return
        self._note([fact for _, fact in gone])
        for slot, fact in gone:
            self._stated[fact] -= 1
            if (change := self._changed.get(fact)) is not None:
                change.count(gone=slot not in self._since, by=-1)
        self._restate(fact for _, fact in gone)

    def _note(self, facts: Sequence[Fact]) -> None:
        """Before facts are stated more or less often: keep what the last reflection left of them.
        Before the first one there is nothing to keep."""
        if not self.directory.cycle:
            return
        unknown = list(dict.fromkeys(fact for fact in facts if fact not in self._changed))
        weights, cycles = self.directory.relation_states(*_columns(unknown))
        for fact, weight, cycle in zip(unknown, weights.tolist(), cycles.tolist(), strict=True):
            self._changed[fact] = _Change(weight, cycle, self._stated.get(fact, 0))

    def _restate(self, facts: Iterable[Fact]) -> None:
        """Let facts weigh what follows from who states them (EEE-2)."""
        distinct = list(dict.fromkeys(facts))
        now = self.directory.cycle % 65536
        weights, cycles = [], []
        for fact in distinct:
            n = self._stated.get(fact, 0)
            change = self._changed.get(fact)
            weight, cycle = (_weight(n), now) if change is None else change.state(now)
            weights.append(weight)
            cycles.append(cycle)
            if not n:
                self._stated.pop(fact, None)
        self.directory.restate_relations(
            *_columns(distinct), np.asarray(weights, np.float32), np.asarray(cycles, np.uint16)
        )

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
        self.names.note(names, self.directory)
        if facts:
            self._note(facts)
            for fact in facts:
                self._stated[fact] = self._stated.get(fact, 0) + 1
                if (change := self._changed.get(fact)) is not None:
                    change.count(gone=False, by=1)
            if self._changed:
                self._since.update(slot for slot in said if slot in self._facts)
            self._restate(facts)
        events.store(self.hyper)

    def recognise(self, rows: Mapping[int, MemoryRow]) -> None:
        """Know the names that memories say, of entities that are there."""
        names: list[str] = []
        for row in rows.values():
            if row[19]:
                entities, relations = entities_of(row)
                names += [entity.name for entity in entities]
                for relation in relations:
                    names += (relation.source, relation.target)
        self.names.note(names, self.directory)

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

    # Reflections

    @property
    def _registries(self) -> tuple[TypeRegistry, TypeRegistry, TypeRegistry]:
        return self.entity_types, self.relation_types, self.roles

    def copy(self) -> Mentions:
        """The same, but for the names in texts."""
        with tempfile.TemporaryDirectory() as place:
            self._save_stores(Path(place), hashed=False)
            hashes = [registry.hashes() for registry in self._registries]
            names = [registry.names() for registry in self._registries]
            return self._of_stores(Path(place), hashes, names)

    def reflect(self, pairs: Iterable[tuple[int, int]]) -> dict[str, int]:
        """RFL-6 and RFL-7: associations become relations, similar names one entity, and what is not
        told again fades. Returns what was done.

        `pairs` are memories that are associated.
        """
        directory, hyper = self.directory, self.hyper
        promoted = sum(self._promote(a, b) for a, b in pairs)
        merged = directory.merge_similar().tolist()
        for gone, stays in merged:
            for left in hyper.merge(gone, stays):
                source, target = (directory.resolve(one) for one in left.entities[:2])
                if source != target:
                    directory.add_relation(source, target, left.type)
        if merged:
            self._follow_merges()
        faded = directory.decay_adjacency_weights()
        reclaimed = directory.compact_adjacency()
        self._since.clear()
        self._changed.clear()
        return {
            "promoted": promoted,
            "merged": len(merged),
            "links_faded": faded,
            "bytes_reclaimed": reclaimed,
            "relations_faded": directory.decay_relations(),
            "hyperedges_faded": hyper.decay(),
        }

    def _promote(self, a: int, b: int) -> int:
        """Relate what two associated memories name, at most four of each (RFL-6)."""
        mine, other = (
            self.directory.entities_for_memory(slot).tolist()[:_PROMOTED] for slot in (a, b)
        )
        ends = [(x, y) for x in mine for y in other if x not in other and y not in mine]
        for x, y in ends:
            self.directory.add_relation(x, y, "RELATED_TO")
        return len(ends)

    def _follow_merges(self) -> None:
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

    def checkpoint(self) -> dict[str, bytes]:
        """What a reflection made, for the journal: numbers and hashes, never text (AM-17)."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            self._save_stores(folder, hashed=True)
            hashes = [registry.hashes() for registry in self._registries]
            save_json(folder / "types.json", {"hashes": hashes})
            return {path.name: path.read_bytes() for path in folder.iterdir()}

    def unknown_types(self, parts: Mapping[str, bytes]) -> bool:
        """Whether a checkpoint has types whose names are not known here."""
        return any(
            not set(hashes).issubset(registry.hashes())
            for registry, hashes in zip(self._registries, _types_of(parts), strict=True)
        )

    def of_checkpoint(self, parts: Mapping[str, bytes], rows: Iterable[MemoryRow]) -> Mentions:
        """What `checkpoint` gave, with the names that are known here; those of types are looked for
        in `rows` as well."""
        kinds = [set(registry.names()) for registry in self._registries]
        for row in rows:
            if row[19]:
                entities, relations = entities_of(row)
                kinds[0].update(self.entity_types.normalize(one.type) for one in entities)
                kinds[1].update(self.relation_types.normalize(one.type) for one in relations)
                kinds[2].update(self.roles.normalize(one.role) for one in entities if one.role)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for name, content in parts.items():
                (folder / name).write_bytes(content)
            found = self._of_stores(folder, _types_of(parts), kinds)
        found.names.note([name for name, _ in self.names.added], found.directory)
        return found

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

    def save_parts(self, folder: Path) -> None:
        """Write all of it into a folder (a snapshot)."""
        self.entity_types.save(folder / "entity-types.reg")
        self.relation_types.save(folder / "relation-types.reg")
        self.roles.save(folder / "roles.reg")
        self._save_stores(folder, hashed=False)
        save_json(folder / "mentions.json", {"names": self.names.added})

    def _save_stores(self, folder: Path, hashed: bool) -> None:
        self.directory.save(folder / "entity-directory.graph", hashed)
        self.hyper.save(folder / "hyper-entity.graph")
        rest = {
            "facts": sorted(self._facts.items()),
            "since": sorted(self._since),
            "changed": sorted((fact, change.saved()) for fact, change in self._changed.items()),
        }
        save_json(folder / "facts.json", rest)

    def load_parts(self, folder: Path) -> None:
        """Of a new object: take what `save_parts` wrote."""
        self.entity_types = TypeRegistry.load(folder / "entity-types.reg", "entities")
        self.relation_types = TypeRegistry.load(folder / "relation-types.reg", "relations")
        self.roles = TypeRegistry.load(folder / "roles.reg", "roles")
        self._load_stores(folder)
        self.names.add_all(load_json(folder / "mentions.json")["names"])

    def _load_stores(self, folder: Path) -> None:
        self.directory = EntityDirectory.load(
            folder / "entity-directory.graph", self.entity_types, self.relation_types
        )
        self.hyper = HyperGraph.load(folder / "hyper-entity.graph")
        stored = load_json(folder / "facts.json")
        for slot, told in stored["facts"]:
            facts = self._facts[slot] = tuple((source, to, kind) for source, to, kind in told)
            for fact in facts:
                self._stated[fact] = self._stated.get(fact, 0) + 1
        self._since = set(stored["since"])
        self._changed = {tuple(fact): _Change(*change) for fact, change in stored["changed"]}

    @staticmethod
    def _of_stores(
        folder: Path, hashes: Sequence[Iterable[str]], names: Sequence[Iterable[str]]
    ) -> Mentions:
        made = Mentions()
        made.entity_types = TypeRegistry.restored("entities", hashes[0], names[0])
        made.relation_types = TypeRegistry.restored("relations", hashes[1], names[1])
        made.roles = TypeRegistry.restored("roles", hashes[2], names[2])
        made._load_stores(folder)
        return made

    def bytes(self) -> dict[str, int]:
        """Memory of the stores (BUD-4, BUD-5)."""
        facts = sum(map(sys.getsizeof, (self._facts, self._stated, self._since, self._changed)))
        return {
            "entities": sum(self.directory.memory_usage().values())
            + self.names.memory_usage()
            + facts
            + _ENTRY_BYTES * (len(self._stated) + len(self._changed)),
            "hyperedges": sum(self.hyper.memory_usage().values()),
        }


class _Change:
    """A fact since the last reflection.

    Attributes
    ----------
    weight, cycle : float, int
        What the reflection left of the relation (EEE-1); 0: nothing.
    told, gone, new : int
        Memories that stated it then, those of them that have changed since, and those that have
        stated it since.
    """

    __slots__ = ("cycle", "gone", "new", "told", "weight")

    def __init__(self, weight: float, cycle: int, told: int, gone: int = 0, new: int = 0) -> None:
        self.weight = weight
        self.cycle = cycle
        self.told = told
        self.gone = gone
        self.new = new

    def count(self, *, gone: bool, by: int) -> None:
        """A memory states it more, or less; `gone`: one that did before the reflection."""
        if gone:
            self.gone -= by
        else:
            self.new += by

    def state(self, now: int) -> tuple[float, int]:
        """The weight and the cycle that it has now."""
        left = self.told - self.gone
        weight = 0.0
        if left or not self.told:  # what nobody stated the reflection found by itself
            weight = min(self.weight, _weight(left)) if left else self.weight
        if not self.new:
            return weight, self.cycle
        if not weight:
            return _weight(self.new), now
        return min(_HEAVIEST, weight + _REINFORCEMENT * self.new), now

    def saved(self) -> tuple[float, int, int, int, int]:
        """The arguments that make it again."""
        return self.weight, self.cycle, self.told, self.gone, self.new


def _weight(n: int) -> float:
    """Of a relation that `n` memories state (EEE-2)."""
    return min(_HEAVIEST, 1 + _REINFORCEMENT * (n - 1)) if n else 0.0


def _types_of(parts: Mapping[str, bytes]) -> list[list[str]]:
    found: list[list[str]] = json.loads(parts["types.json"])["hashes"]
    return found


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
