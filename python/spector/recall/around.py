"""What the graph knows around some entities (ENT-10, MCP-8): entities, facts, ways, memories."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from spector.graph import TypeRegistry
from spector.store.graphs import Graphs
from spector.store.model import Memory, to_memory
from spector.store.reader import Reader
from spector.store.values import nearest, show

__all__ = ["Fact", "Known", "Surroundings", "around"]

_MOST_ENTITIES: Final = 200
_MOST_STEPS: Final = 10_000  # looked at for ways
_MOST_NAMES: Final = 20_000  # looked at for the nearest


@dataclass(frozen=True, slots=True)
class Known:
    """An entity.

    Attributes
    ----------
    name, type : str
    hops : int
        How far from the start.
    memories : int
        How many memories are about it or mention it.
    """

    name: str
    type: str
    hops: int
    memories: int


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation that memories state; the more do, the larger its weight."""

    source: str
    type: str
    target: str
    weight: float


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is around some entities.

    Attributes
    ----------
    start : tuple of str
        Where it began; empty where a query names nothing known.
    entities : tuple of Known
        Nearest first.
    facts : tuple of Fact
        Between them.
    paths : tuple of str
        Ways to the target, shortest first: ``Ann -MANAGES-> Launch <-WORKS_ON- Bob``.
    memories : tuple of Memory
        Of these entities, nearest first.
    """

    start: tuple[str, ...]
    entities: tuple[Known, ...]
    facts: tuple[Fact, ...]
    paths: tuple[str, ...]
    memories: tuple[Memory, ...]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Step:
    """From one entity to another: over a relation, or an event that both took part in."""

    other: int
    label: str
    weight: float
    event: int | None = None


def around(
    graphs: Graphs,
    reader: Reader,
    start: str | None,
    query: str,
    target: str | None,
    max_hops: int,
    entity_types: Collection[str] | None,
    relation_types: Collection[str] | None,
    most_memories: int,
    most_paths: int,
) -> Surroundings:
    """Look around; see `SpectorMemory.graph_recall`."""
    mentions = graphs.mentions
    directory = mentions.directory
    begin = [_find(graphs, "start_entity", start)] if start is not None else _named(graphs, query)
    goal = None if target is None else _find(graphs, "target_entity", target)
    allowed = _numbers("relation_types", relation_types, mentions.relation_types)
    kinds = _numbers("entity_types", entity_types, mentions.entity_types)
    if not begin:
        return Surroundings((), (), (), (), ())
    found, far = directory.traverse(begin, allowed, max_hops, mentions.hyper)
    hops = dict(zip(found.tolist(), far.tolist(), strict=True))
    if kinds is not None:
        hops = {
            entity: distance
            for entity, distance in hops.items()
            if not distance or directory.type(entity) in kinds
        }
    hops = dict(list(hops.items())[:_MOST_ENTITIES])

    def type_name(entity: int) -> str:
        return mentions.entity_types.name(directory.type(entity)) or "OTHER"

    entities = tuple(
        Known(directory.name(each), type_name(each), distance, directory.ref_count(each))
        for each, distance in hops.items()
    )
    facts = tuple(_facts(graphs, hops, allowed))
    paths = () if goal is None else _paths(graphs, begin, goal, max_hops, allowed, most_paths)
    memories = tuple(_memories(graphs, reader, hops, most_memories))
    return Surroundings(
        tuple(directory.name(each) for each in begin), entities, facts, paths, memories
    )


def _find(graphs: Graphs, argument: str, name: str) -> int:
    directory = graphs.entities
    entity = directory.find_entity(name)
    if entity < 0:
        known = [directory.name(each) for each in range(min(len(directory), _MOST_NAMES))]
        guess = nearest(name, known)
        if not known:
            guess = "; no memory names any: give entities=, or open with entity_extraction_mode="
        raise ValueError(f"{argument}: no entity is called {show(name)}{guess}")
    return directory.resolve(entity)


def _named(graphs: Graphs, query: str) -> list[int]:
    """The entities that a text names."""
    found: dict[int, None] = {}
    for index in (graphs.mentions.names, graphs.names):
        for _, numbers in index.find(query):
            found |= dict.fromkeys(graphs.entities.resolve(number) for number in numbers)
    return list(found)


def _numbers(
    argument: str, names: Collection[str] | None, registry: TypeRegistry
) -> list[int] | None:
    if names is None:
        return None
    numbers = []
    for name in names:
        number = registry.find(name)
        if number is None:
            wanted = registry.normalize(name)
            guess = nearest(wanted, registry.names())
            raise ValueError(f"{argument}: there is no type {show(wanted)}{guess}")
        numbers.append(number)
    return numbers


def _facts(graphs: Graphs, hops: Collection[int], allowed: Sequence[int] | None) -> Iterator[Fact]:
    directory = graphs.entities
    for entity in hops:
        related = directory.relations(entity)
        columns = (related.entities.tolist(), related.types.tolist(), related.weights.tolist())
        for other, kind, weight in zip(*columns, strict=True):
            if other in hops and (allowed is None or kind in allowed):
                yield Fact(
                    directory.name(entity),
                    _relation_name(graphs, kind),
                    directory.name(other),
                    round(weight, 4),
                )


def _relation_name(graphs: Graphs, kind: int) -> str:
    return graphs.mentions.relation_types.name(kind) or "OTHER"


def _steps(graphs: Graphs, entity: int, allowed: Sequence[int] | None) -> Iterator[_Step]:
    directory = graphs.entities
    hyper = graphs.mentions.hyper
    told: set[tuple[int, int]] = set()
    for incoming, form in ((False, "-{}->"), (True, "<-{}-")):
        related = directory.relations(entity, incoming)
        columns = (related.entities.tolist(), related.types.tolist(), related.weights.tolist())
        for other, kind, weight in zip(*columns, strict=True):
            if allowed is None or kind in allowed:
                told.add((other, kind))
                yield _Step(other, form.format(_relation_name(graphs, kind)), weight)
    for event in hyper.edges(hyper.hyperedges_for(entity)).tolist():
        if allowed is None or event.type in allowed:
            label = f"-[{_relation_name(graphs, event.type)}]-"
            for other in event.entities:
                if other != entity and (other, event.type) not in told:
                    yield _Step(other, label, event.weight, event.id)


def _paths(
    graphs: Graphs,
    begin: Sequence[int],
    goal: int,
    max_hops: int,
    allowed: Sequence[int] | None,
    most: int,
) -> tuple[str, ...]:
    """The shortest ways, among equals those over the heaviest edges; none passes a place twice."""
    directory = graphs.entities
    found: dict[str, None] = {}
    order = 0
    waiting: list[tuple[int, float, int, tuple[int, ...], str, int | None]]
    waiting = [(0, 0.0, -1 - each, (each,), directory.name(each), None) for each in begin]
    heapq.heapify(waiting)
    while waiting and len(found) < most and order < _MOST_STEPS:
        hops, lightness, _, way, text, last = heapq.heappop(waiting)
        if way[-1] == goal:
            if hops:
                found[text] = None
            continue
        if hops == max_hops:
            continue
        for step in _steps(graphs, way[-1], allowed):
            order += 1
            # Two steps within one event say no more than one.
            if step.other in way or (last is not None and step.event == last):
                continue
            told = f"{text} {step.label} {directory.name(step.other)}"
            way_on = (*way, step.other)
            further = (hops + 1, lightness - step.weight, order, way_on, told, step.event)
            heapq.heappush(waiting, further)
    return tuple(found)


def _memories(graphs: Graphs, reader: Reader, hops: Collection[int], most: int) -> Iterator[Memory]:
    """What is about them before what mentions them, newest first."""
    chosen: dict[int, None] = {}
    for entity in hops:
        links = graphs.entities.links(entity)
        pairs = zip(links.about.tolist(), links.memories.tolist(), strict=True)
        chosen |= dict.fromkeys(slot for _, slot in sorted(pairs, reverse=True))
    given = 0
    for slot in chosen:
        if given == most:
            return
        row = reader.rows([slot]).get(slot)
        if row is not None:
            memory = to_memory(row)
            if memory.suppressed is None:  # SUP-1
                given += 1
                yield memory
