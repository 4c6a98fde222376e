"""HyperGraph: adding, eviction as the rule says, reading, decay, files, bytes."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.graph.generators import Hyperedges, hyperedges, starts
from bench.graph.records import Record, result
from bench.graph.timing import disk_s, loop_ns, median_s, once_s, one_read_s, wall_s
from spector.graph import HyperGraph

LIMIT = 64

report = functools.partial(result, "hyper")


def filled(events: Hyperedges) -> HyperGraph:
    n = len(events.weights)
    graph = HyperGraph(LIMIT)
    graph.add_many(
        0,
        events.indptr,
        events.entities,
        events.roles,
        np.arange(n),
        np.arange(n),
        events.weights,
    )
    return graph


def survivors(events: Hyperedges) -> dict[int, set[int]]:
    """Ids of the edges that HYP-6 keeps, by entity: events come in time, all of them different."""
    ends, entities = events.indptr.tolist(), events.entities.tolist()
    lists: dict[int, set[int]] = {}
    for edge in range(len(ends) - 1):
        members = entities[ends[edge] : ends[edge + 1]]
        for entity in members:
            own = lists.setdefault(entity, set())
            if len(own) == LIMIT:
                oldest = min(own)
                for other in entities[ends[oldest] : ends[oldest + 1]]:
                    lists[other].discard(oldest)
        for entity in members:
            lists[entity].add(edge)
    return lists


def keeps(graph: HyperGraph, events: Hyperedges) -> bool:
    """Whether edges, members, weights and lists are exactly those of the plain model."""
    lists = survivors(events)
    expected = np.array(sorted(set().union(*lists.values())), np.int64)
    found = graph.edges()
    if not np.array_equal(found.ids, expected):
        return False
    counts = np.diff(events.indptr)
    mask = np.zeros(len(counts), bool)
    mask[expected] = True
    if not np.array_equal(found.entities, events.entities[np.repeat(mask, counts)]):
        return False
    if not np.array_equal(found.weights, events.weights[expected]):
        return False
    return all(set(graph.hyperedges_for(entity).tolist()) == ids for entity, ids in lists.items())


def plain_common(graph: HyperGraph, pair: NDArray[np.uint32]) -> set[int]:
    first, second = (set(graph.hyperedges_for(entity).tolist()) for entity in pair.tolist())
    return first & second


def run(options: argparse.Namespace) -> Iterator[Record]:
    n_entities, n = options.entities, options.hyperedges
    for kind in ("even", "zipf"):
        events = hyperedges(n_entities, n, zipf=kind == "zipf")
        seconds = median_s(lambda events=events: filled(events), options.rounds)
        java = (1271 if kind == "even" else 687) if options.full else None
        yield report(f"add_many, {kind}", n / seconds / 1000, "k/s", java=java)
        graph = filled(events)
        yield report(
            f"survivors of {n:,}, {kind}",
            len(graph),
            "edges",
            java=(300_000 if kind == "even" else 21_810) if options.full else None,
            checked=keeps(graph, events),
        )
        usage = graph.memory_usage()
        needed = usage["nodes"] + usage["vertices"] + usage["incidence"]
        yield report(
            f"bytes per hyperedge, {kind}",
            sum(usage.values()) / len(graph),
            "B",
            java=183 if options.full else None,
            needed=round(needed / len(graph), 1),
            overhead=round(usage["overhead"] / len(graph), 1),
            indexes=round(usage["indexes"] / len(graph), 1),
        )

        single = HyperGraph(LIMIT)
        some = min(n, 20_000)
        ends = events.indptr.tolist()
        members = [events.entities[ends[i] : ends[i + 1]] for i in range(some)]

        def add_all(
            single: HyperGraph = single, members: list[NDArray[np.uint32]] = members
        ) -> None:
            for i, entities in enumerate(members):
                single.add(0, entities, None, i, i)

        yield report(f"add, one at a time, {kind}", some / once_s(add_all) / 1000, "k/s")

        asked = starts(n_entities, 2000).tolist()
        yield report(
            f"hyperedges_for, {kind}", loop_ns(graph.hyperedges_for, asked, options.rounds), "ns"
        )
        pairs = [events.entities[ends[i] : ends[i] + 2] for i in range(max(0, n - 2000), n)]
        yield report(
            f"common of two, {kind}",
            loop_ns(graph.common, pairs, options.rounds),
            "ns",
            checked=all(
                set(graph.common(pair).tolist()) == plain_common(graph, pair) for pair in pairs
            ),
        )
        sweep = usage["nodes"]
        decay = median_s(lambda graph=graph: graph.decay(0.999, 0.2), options.rounds)
        yield report(
            f"decay, {kind}",
            1000 * decay,
            "ms",
            java=(81 if kind == "even" else 59) if options.full else None,
            reads=round(decay / one_read_s(sweep), 1),
        )
        path = options.folder / "hyper-entity.graph"
        save = wall_s(lambda graph=graph, path=path: graph.save(path), options.rounds)
        load = wall_s(lambda path=path: HyperGraph.load(path), options.rounds)
        write, read = disk_s(path.stat().st_size, options.folder)
        java_ms = (57, 538) if kind == "even" else (74, 285)
        yield report(
            f"save, {kind}",
            1000 * save,
            "ms",
            java=java_ms[0] if options.full else None,
            plain_write_ms=round(1000 * write, 1),
        )
        same = HyperGraph.load(path).edges().tolist() == graph.edges().tolist()
        yield report(
            f"load, {kind}",
            1000 * load,
            "ms",
            java=java_ms[1] if options.full else None,
            checked=same,
            plain_read_ms=round(1000 * read, 1),
        )
