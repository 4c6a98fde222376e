"""HebbianGraph: spreading, strengthening, decay, bridges, bytes and files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from bench.graph import generators, timing
from bench.graph.peers import compare_spread
from bench.graph.records import Record, result
from spector.graph import HebbianGraph

PART = "hebbian"
# Of the Java system at 1M nodes (compacted), by degree: spreading in us, new pairs in millions a
# second, save and load in ms.
JAVA = {2: (463.0, 1.24, 72.0, 94.0), 24: (1260.0, 0.38, 623.0, 693.0)}
SPREAD_US = {2: 4.0, 24: 60.0}


def run(options: argparse.Namespace) -> Iterator[Record]:
    for degree in (2, 24):
        yield from _degree(options, degree)


def _degree(options: argparse.Namespace, degree: int) -> Iterator[Record]:
    n, full = options.nodes, options.full
    java = JAVA[degree] if full else (None,) * 4
    at = f"degree {degree}"

    a, b, delta = generators.pairs(n, n * degree // 2)
    graph = HebbianGraph()
    graph.resize(n)
    seconds = timing.once_s(lambda: graph.strengthen_many(a, b, delta))
    yield result(
        PART, f"strengthen_many, new pairs, {at}", len(a) / seconds / 1e6, "M/s",
        target=3.0 if full and degree == 2 else None, at_least=True, java=java[1],
    )  # fmt: skip
    graph.compact()
    yield result(
        PART, f"bytes of a node, {at}", graph.memory_usage() / n, "B",
        target=30.8 if full and degree == 2 else None, java=28.0 if degree == 2 else None,
    )  # fmt: skip

    sets = list(generators.seed_sets(n))
    us = timing.each_us({"ours": graph.spread}, sets, options.rounds)["ours"]
    yield result(
        PART, f"spread, 10 seeds, depth 2, Python, {at}", float(np.median(us)), "us",
        target=SPREAD_US[degree] if full else None, java=java[0],
        results=int(np.median([len(graph.spread(seeds)[0]) for seeds in sets])),
    )  # fmt: skip
    us = timing.each_us({"ours": lambda seeds: graph.spread(seeds, limit=50)}, sets, options.rounds)
    yield result(PART, f"the same, the best 50, {at}", float(np.median(us["ours"])), "us")

    # Peers leave out every seed, we only each seed's own: sets in which that is the same.
    alike = [seeds for seeds in sets if not np.isin(seeds, graph.spread(seeds)[0]).any()]
    edges = graph.edges()
    yield from compare_spread(
        PART, f"spread, depth 2, {at}", graph.spread, (n, edges.a, edges.b, edges.weight),
        (alike or [seeds[:1] for seeds in sets])[:50], options.rounds,
    )  # fmt: skip

    n_bytes = 24 * graph.edge_count
    read_s = timing.one_read_s(n_bytes)
    seconds = timing.median_s(lambda: graph.decay(1.0), options.rounds)
    yield result(
        PART, f"decay, in reads of the edges' bytes, {at}", seconds / read_s, "x",
        target=3.0 if full and degree == 24 else None, ms=round(1000 * seconds, 2),
    )  # fmt: skip
    seconds = timing.median_s(graph.recompute_bridges, options.rounds)
    yield result(
        PART, f"bridges, in reads of the edges' bytes, {at}", seconds / read_s, "x",
        target=30.0 if full and degree == 24 else None, ms=round(1000 * seconds, 2),
    )  # fmt: skip

    path = options.folder / "hebbian.graph"
    write_s, load_s = timing.disk_s(n_bytes + 4 * n, options.folder)
    for name, call, plain, java_ms in (
        ("save", lambda: graph.save(path), write_s, java[2]),
        ("load", lambda: HebbianGraph.load(path), load_s, java[3]),
    ):
        seconds = timing.wall_s(call, options.rounds)
        yield result(
            PART, f"{name}, {at}", 1000 * seconds, "ms", java=java_ms,
            plain_file_ms=round(1000 * plain, 1),
        )  # fmt: skip
    again = HebbianGraph.load(path)
    mine, theirs = graph.edges(), again.edges()
    equal = all(np.array_equal(x, y) for x, y in zip(mine, theirs, strict=True))
    yield result(PART, f"edges, {at}", graph.edge_count, "", checked=equal)
