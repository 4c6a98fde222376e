"""Tags: counts of pairs, sequences, and the way from a query's tags to memories (L1, L4).

The tables are full when they are measured: 10,000 pairs and 10,000 edges. Memories have three tags
each, from the contexts of the baseline, which hold 450 different ones.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import combinations, pairwise

import numpy as np

from bench.graph import generators, timing
from bench.graph.records import Record, result
from spector.graph import CrossCapture, TagCoActivation

CONTEXTS = 20_000  # more pairs than the table holds
MB = 1e6


def run(options: argparse.Namespace) -> Iterator[Record]:
    contexts = generators.tag_contexts(CONTEXTS)
    yield from _counts(options, contexts)
    yield from _memories(options, contexts)


def _counts(options: argparse.Namespace, contexts: list[tuple[str, str, str]]) -> Iterator[Record]:
    # Without pruning the counts are those of a plain count.
    exact = TagCoActivation(capacity=100_000)
    seconds = timing.once_s(lambda: exact.observe_many(contexts))
    plain = Counter(tuple(sorted(pair)) for tags in contexts for pair in combinations(tags, 2))
    right = exact.pairs() == sorted((a, b, n) for (a, b), n in plain.items())
    yield result(
        "tags", "observe, 3 tags, in one call", len(contexts) / seconds / 1e6, "M/s", checked=right
    )

    full = TagCoActivation()
    full.observe_many(contexts)
    head = [tags for tags in contexts[:2000] if full.co_activation(*tags[:2])]
    yield result("tags", "observe, table full", timing.loop_ns(full.observe, contexts, 1), "ns")
    stats = full.stats()
    yield result("tags", "pairs kept", stats["pairs"], "of 10,000")

    for first, second in pairwise(contexts[:4000]):
        full.observe_sequence(first, second, 5_000)
    yield result("tags", "edges kept", full.stats()["edges"], "of 10,000")

    sequences = list(zip(contexts[:2000], contexts[2000:4000], strict=True))
    nanoseconds = timing.loop_ns(
        lambda pair: full.observe_sequence(pair[0], pair[1], 5_000), sequences, options.rounds
    )
    yield result("tags", "observe_sequence, 3 and 3 tags, table full", nanoseconds / 1000, "us")

    tags = [tag for own in head for tag in own]
    everything = {tag: full.associated(tag, 10_000) for tag in set(tags)}
    ordered = all(
        found == sorted(found, key=lambda item: (-item[1], item[0]))
        and all(full.co_activation(tag, other) == n for other, n in found)
        for tag, found in everything.items()
    )
    degree = float(np.mean([len(everything[tag]) for tag in tags]))
    for name, call in {
        "co_activation": lambda tag: full.co_activation(tag, tags[0]),
        f"associated, 5 of {degree:.0f}": lambda tag: full.associated(tag, 5),
        "predict, 5": lambda tag: full.predict(tag, 5),
    }.items():
        nanoseconds = timing.loop_ns(call, tags, options.rounds)
        yield result("tags", name, nanoseconds / 1000, "us", checked=ordered)

    yield result(
        "tags",
        "co-activation, both tables full",
        full.memory_usage()["tables"] / MB,
        "MB",
        target=1.15 if options.full else None,  # BUD-2
    )
    path = options.folder / "coactivation.dat"
    yield result("tags", "save", 1000 * timing.wall_s(lambda: full.save(path), 3), "ms")
    yield result("tags", "load", 1000 * timing.wall_s(lambda: TagCoActivation.load(path), 3), "ms")
    loaded = TagCoActivation.load(path)
    same = loaded.pairs() == full.pairs() and loaded.edges() == full.edges()
    yield result("tags", "file", path.stat().st_size / MB, "MB", checked=same)


def _memories(
    options: argparse.Namespace, contexts: list[tuple[str, str, str]]
) -> Iterator[Record]:
    n = options.nodes
    tags = (contexts * (n // len(contexts) + 1))[:n]
    counts = TagCoActivation()
    counts.observe_many(tags[: min(n, 100_000)])
    index = CrossCapture()
    slots = np.arange(n, dtype=np.uint32)
    seconds = timing.once_s(lambda: index.add_many(slots, tags))
    yield result("tags", "cross-capture: made from all memories", n / seconds / 1e6, "M/s")
    entries = index.stats()["entries"]
    usage = index.memory_usage()
    yield result(
        "tags",
        "cross-capture: bytes for a tag of a memory",
        (usage["slots"] + usage["tags"]) / entries,
        "B",
        target=round(12 * 1.15, 1) if options.full else None,  # BUD-3
    )
    some = list(range(0, n, max(1, n // 2000)))
    nanoseconds = timing.loop_ns(
        lambda slot: index.update(slot, tags[slot + 1 if slot + 1 < n else 0]), some, 1
    )
    for slot in some:
        index.update(slot, tags[slot])
    yield result("tags", "cross-capture: update of a memory", nanoseconds / 1000, "us")

    held: dict[str, set[int]] = {}
    for slot, own in enumerate(tags):
        for tag in own:
            held.setdefault(tag, set()).add(slot)
    queries = [own[:2] for own in contexts[:200]]
    right = all(
        index.match(pair).tolist() == sorted(held[pair[0]] & held[pair[1]])
        and index.match(pair, "any").tolist() == sorted(held[pair[0]] | held[pair[1]])
        for pair in queries[:20]
    )
    for mode in ("all", "any"):
        us = timing.each_us({"ours": partial(index.match, mode=mode)}, queries, options.rounds)
        found = float(np.median([len(index.match(pair, mode)) for pair in queries]))
        yield result(
            "tags",
            f"cross-capture: match {mode} of 2 tags, {found:,.0f} memories",
            float(np.median(us["ours"])),
            "us",
            checked=right,
        )
    us = timing.each_us(
        {"ours": lambda pair: index.expand(pair, 1.0, counts)}, queries, options.rounds
    )
    reached = all(
        all(slot in held[to] for slot, (_, to) in zip(found[0].tolist(), found[2], strict=True))
        and (np.diff(found[1]) <= 0).all()
        for found in (index.expand(pair, 1.0, counts) for pair in queries[:50])
    )
    yield result(
        "tags",
        "cross-capture: expand 2 query tags",
        float(np.median(us["ours"])),
        "us",
        checked=reached,
    )
