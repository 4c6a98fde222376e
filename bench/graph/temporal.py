"""TemporalChain: linking, following, files, bytes."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator

import numpy as np

from bench.graph.generators import chain_links, starts
from bench.graph.records import Record, result
from bench.graph.timing import disk_s, loop_ns, median_s, once_s, wall_s
from spector.graph import TemporalChain

LENGTH = 50

report = functools.partial(result, "temporal")


def run(options: argparse.Namespace) -> Iterator[Record]:
    n = options.nodes
    current, prev, session = chain_links(n, LENGTH)

    def filled() -> TemporalChain:
        chain = TemporalChain(n)
        chain.link(current, prev, session)
        return chain

    def java(value: float) -> float | None:
        return value if options.full else None

    yield report(
        "link, in one call",
        1e9 * median_s(filled, options.rounds) / len(current),
        "ns",
        java=java(90),
    )
    chain = filled()
    some = 20_000
    singles = list(
        zip(*(column[:some].tolist() for column in (current, prev, session)), strict=True)
    )
    single = TemporalChain(n)

    def link_all() -> None:
        for link in singles:
            single.link(*link)

    yield report("link, one at a time", 1e9 * once_s(link_all) / len(singles), "ns")

    asked = starts(n, 10_000)
    for hops in (3, 50):
        for backward in (False, True):
            name = f"{'backward' if backward else 'forward'} {hops} hops"
            seconds = median_s(
                lambda hops=hops, backward=backward: chain.followers(asked, hops, backward),
                max(5, options.rounds),
            )
            indptr, slots = chain.followers(asked, hops, backward)
            place = asked.astype(np.int64) % LENGTH
            room = place if backward else np.minimum(LENGTH - 1 - place, n - 1 - asked)
            steps = np.minimum(hops, room)
            first = np.repeat(np.cumsum(steps) - steps, steps)
            away = 1 + np.arange(steps.sum()) - first
            expected = np.repeat(asked.astype(np.int64), steps) + (-away if backward else away)
            yield report(
                f"{name}, many starts",
                1e9 * seconds / len(asked),
                "ns",
                java=java((854 if backward else 360) if hops == 3 else 386)
                if hops == 3 or not backward
                else None,
                checked=np.array_equal(np.diff(indptr), steps) and np.array_equal(slots, expected),
            )
    yield report(
        "follow_forward 3 hops, one call",
        loop_ns(lambda start: chain.follow_forward(start, 3), asked.tolist(), options.rounds),
        "ns",
        java=java(360),
    )
    path = options.folder / "temporal.chain"
    save = wall_s(lambda: chain.save(path), options.rounds)
    load = wall_s(lambda: TemporalChain.load(path), options.rounds)
    write, read = disk_s(path.stat().st_size, options.folder)
    yield report("save", 1000 * save, "ms", java=java(59), plain_write_ms=round(1000 * write, 1))
    same = np.array_equal(TemporalChain.load(path).records().next, chain.records().next)
    yield report("load", 1000 * load, "ms", checked=same, plain_read_ms=round(1000 * read, 1))
    yield report(
        "bytes per slot",
        sum(chain.memory_usage().values()) / n,
        "B",
        target=1.15 * 16 if options.full else None,
        java=java(16),
    )
