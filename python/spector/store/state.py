"""A hash of what each store of a replica holds: equal for equal events, in every process.

What does not decide answers is left out: numbers that entities got by the order in which a replica
met them, names that nothing has any more, and the types of entities, of which the first that was
told counts (ENT-3), also when no row tells it any more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from .reader import Reader
from .replica import Replica


def state_hash(reader: Reader, replica: Replica) -> dict[str, str]:
    """The hash of each store, and of the journal's totals."""
    found = {"journal": _digest(_journal(reader))}
    for name, parts in _STORES.items():
        found[name] = _digest(parts(replica))
    return found


def _digest(parts: Iterable[Any]) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            hasher.update(np.ascontiguousarray(part).tobytes())
        else:
            hasher.update(json.dumps(part, sort_keys=True, default=_plain).encode())
        hasher.update(b"\n")
    return hasher.hexdigest()[:16]


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else repr(value)


def _journal(reader: Reader) -> Iterable[Any]:
    totals = reader.totals()
    # Not the events, of which some may be pruned, nor the settings, which have the store's id.
    return [*([name, *totals[name]] for name in ("memories", "vectors")), reader.newest_event()]


def _keyword(replica: Replica) -> Iterable[Any]:
    stats = replica.index.stats()
    yield [stats[name] for name in ("documents", "total_length")]
    yield [slot for slot in range(replica.graphs.size) if slot in replica.index]


def _records(replica: Replica) -> Iterable[Any]:
    slots = replica.records.slots()
    yield slots
    yield replica.records.headers(slots).view(np.uint8)
    for slot in slots.tolist():
        vector = replica.records.vector(slot)
        if vector is not None:
            yield slot
            yield vector


def _sparse(replica: Replica) -> Iterable[Any]:
    yield [slot for slot in range(replica.graphs.size) if replica.sparse.contains(slot)]


def _tokens(replica: Replica) -> Iterable[Any]:
    yield [slot for slot in range(replica.graphs.size) if replica.tokens.contains(slot)]


def _hebbian(replica: Replica) -> Iterable[Any]:
    yield replica.graphs.hebbian.cycle
    edges = replica.graphs.hebbian.edges()
    yield from (edges.a, edges.b, edges.weight, edges.last_cycle)


def _temporal(replica: Replica) -> Iterable[Any]:
    records = replica.graphs.temporal.records()
    yield from (records.prev, records.next, records.session, records.time)


def _sessions(replica: Replica) -> Iterable[Any]:
    yield from replica.graphs.sessions().values()


def _coactivation(replica: Replica) -> Iterable[Any]:
    graph = replica.graphs.coactivation
    yield from (sorted(graph.tags()), sorted(graph.pairs()), sorted(graph.edges()))


def _capture(replica: Replica) -> Iterable[Any]:
    capture = replica.graphs.capture
    for tag in capture.tags():
        yield tag
        yield capture.slots(tag)


def _entities(replica: Replica) -> Iterable[Any]:
    mentions = replica.graphs.mentions
    directory = mentions.directory
    hashes = [directory.name_hash(number) for number in range(len(directory))]
    kinds = mentions.relation_types.hashes()
    first = len(mentions.relation_types) - len(kinds)
    named: list[Any] = []
    for number in range(len(directory)):
        links = directory.links(number)
        relations = directory.relations(number)
        if len(links) or len(relations):
            told = zip(
                relations.entities.tolist(),
                relations.types.tolist(),
                relations.weights.tolist(),
                relations.cycles.tolist(),
                strict=True,
            )
            known = zip(
                links.memories.tolist(), links.weights.tolist(), links.about.tolist(), strict=True
            )
            named.append(
                [
                    hashes[number],
                    sorted(known),
                    sorted(
                        (hashes[to], str(kind) if kind < first else kinds[kind - first], *rest)
                        for to, kind, *rest in told
                    ),
                ]
            )
    yield sorted(named)


def _learning(replica: Replica) -> Iterable[Any]:
    learning = replica.learning
    yield from (learning.bandit.stats(), sorted(learning.sequence.edges()), learning.as_dict())
    yield from (sorted(replica.suppressed), sorted(replica.reminders.items()))


_STORES: Final[dict[str, Callable[[Replica], Iterable[Any]]]] = {
    "keyword": _keyword,
    "records": _records,
    "sparse": _sparse,
    "tokens": _tokens,
    "hebbian": _hebbian,
    "temporal": _temporal,
    "sessions": _sessions,
    "coactivation": _coactivation,
    "capture": _capture,
    "entities": _entities,
    "learning": _learning,
}
