"""EntityDirectory: names, links, collection over hyperedges, merging, files, bytes.

find_entity without Python: `bench/cpp/bench_entities.cpp`.
"""

from __future__ import annotations

import argparse
import functools
import statistics
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.graph.generators import (
    Hyperedges,
    SplitMix64,
    entity_names,
    entity_types,
    hyperedges,
    starts,
)
from bench.graph.peers import compare_collect
from bench.graph.records import Record, result
from bench.graph.timing import disk_s, each_us, loop_ns, median_s, once_s, wall_s
from spector.graph import EntityDirectory, HyperGraph

report = functools.partial(result, "entities")

JAVA_COLLECT_US = {"even": (12, 860, 19_000), "zipf": (0.8, 0.8, 1)}  # a quarter of the answer


def filled(n_entities: int, events: Hyperedges) -> EntityDirectory:
    directory = EntityDirectory()
    directory.intern(entity_names(n_entities), entity_types(n_entities))
    directory.link(events.entities, events.memories)
    return directory


class Plain:
    """Breadth first over arrays: all links, and the hyperedges that are not evicted (HYP-6)."""

    def __init__(self, n_entities: int, events: Hyperedges, hyper: HyperGraph) -> None:
        left = hyper.edges()
        self.members, self.indptr = left.entities, left.indptr
        places = np.repeat(np.arange(len(left), dtype=np.uint32), np.diff(left.indptr))
        self.events = self.grouped(n_entities, left.entities, places)
        self.memories = self.grouped(n_entities, events.entities, events.memories)

    def grouped(
        self, n_entities: int, entities: NDArray[np.uint32], values: NDArray[np.uint32]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        counts = np.bincount(entities, minlength=n_entities)
        first = np.concatenate([[0], np.cumsum(counts)])
        return first, values[np.argsort(entities, kind="stable")]

    def rows(
        self, first: NDArray[np.int64], values: NDArray[np.uint32], of: NDArray[np.uint32]
    ) -> NDArray[np.uint32]:
        parts = [values[first[i] : first[i + 1]] for i in of.tolist()]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.uint32)

    def collect(self, start: int, hops: int) -> NDArray[np.uint32]:
        reached = np.array([start], np.uint32)
        for _ in range(hops):
            events = self.rows(*self.events, reached)
            reached = np.union1d(reached, self.rows(self.indptr, self.members, events))
        return self.rows(*self.memories, reached)


def misspelled(n: int) -> list[str]:
    """Names of two to four words of their own, each fifth of them again with one letter changed."""
    random = SplitMix64(11)
    letters = "abcdefghijklmnopqrstuvwxyz"
    names: dict[str, None] = {}
    while len(names) < n:
        shape = random.below(3, 4).tolist()
        text = "".join(letters[i] for i in random.below(26, 40).tolist())
        name = " ".join(text[10 * w : 10 * w + 4 + shape[w]] for w in range(2 + shape[3]))
        names[name] = None
        if len(names) % 5 == 0 and len(names) < n:
            place, letter = random.below(len(name), 1)[0], letters[random.below(26, 1)[0]]
            names[name[:place] + letter + name[place + 1 :]] = None
    return list(names)


def run(options: argparse.Namespace) -> Iterator[Record]:
    n, rounds = options.entities, options.rounds
    names, types = entity_names(n), entity_types(n)

    seconds = median_s(lambda: EntityDirectory().intern(names, types), rounds)
    yield report("intern, one list", n / seconds / 1e6, "M/s", java=3.5)
    directory = EntityDirectory()
    few = names[: min(n, 20_000)]
    seconds = once_s(lambda: [directory.intern(name, 3) for name in few])
    yield report("intern, one by one", len(few) / seconds / 1e6, "M/s")

    for kind in ("even", "zipf"):
        events = hyperedges(n, options.hyperedges, zipf=kind == "zipf")
        yield from linking(options, kind, events)
        yield from collection(options, kind, events)
    yield from single(options, filled(n, events), names)
    yield from upkeep(options, events)

    many = misspelled(n)
    directory = EntityDirectory()
    directory.intern(many, 0)
    seconds = once_s(lambda: directory.merge_similar())
    merged = sum(directory.resolve(id) != id for id in range(n))
    yield report("merge_similar", seconds, "s", names=n, merged=merged)


def linking(options: argparse.Namespace, kind: str, events: Hyperedges) -> Iterator[Record]:
    names, types = entity_names(options.entities), entity_types(options.entities)
    memories = events.memories

    def link() -> float:
        directory = EntityDirectory()
        directory.intern(names, types)
        return once_s(lambda: directory.link(events.entities, memories))

    seconds = statistics.median(link() for _ in range(options.rounds))
    java = 2.0 if kind == "even" else 0.25
    yield report(f"link, arrays, {kind}", len(memories) / seconds / 1e6, "M/s", java=java)
    directory = EntityDirectory()
    directory.intern(names, types)
    pairs = list(zip(events.entities[:20_000].tolist(), memories[:20_000].tolist(), strict=True))
    seconds = once_s(lambda: [directory.link(entity, memory) for entity, memory in pairs])
    yield report(f"link, one by one, {kind}", len(pairs) / seconds / 1e6, "M/s", java=java)


def collection(options: argparse.Namespace, kind: str, events: Hyperedges) -> Iterator[Record]:
    n, count = options.entities, len(events.weights)
    directory = filled(n, events)
    hyper = HyperGraph()
    numbers = np.arange(count)
    hyper.add_many(
        0, events.indptr, events.entities, events.roles, numbers, numbers, events.weights
    )
    plain = Plain(n, events, hyper)

    def collect(start: int, hops: int) -> NDArray[np.uint32]:
        return directory.collect_memories(start, max_hops=hops, hyper=hyper)

    for hops, java in enumerate(JAVA_COLLECT_US[kind]):
        chosen = starts(n, 100 if hops == 2 else 500).tolist()
        checked = all(
            np.array_equal(collect(start, hops), plain.collect(start, hops))
            for start in chosen[:20]
        )
        ours = functools.partial(collect, hops=hops)
        spent = each_us({"ours": ours}, chosen, options.rounds)["ours"]
        yield report(
            f"collect {hops} hops, {kind}",
            float(np.median(spent)),
            "us",
            target=1500 if options.full and hops == 2 and kind == "even" else None,
            java=java,
            checked=checked,
            memories=float(np.mean([len(ours(start)) for start in chosen])),
        )
    if kind == "even":
        yield from compare_collect(
            "entities",
            "collect 2 hops",
            functools.partial(collect, hops=2),
            n,
            events.indptr,
            events.entities,
            starts(n, 20).tolist(),
            options.rounds,
        )


def single(
    options: argparse.Namespace, directory: EntityDirectory, names: list[str]
) -> Iterator[Record]:
    """Questions about one entity, Python call included."""
    n, rounds = options.entities, options.rounds
    asked = [
        names[i] if place % 10 else f"Absent-{i}"
        for place, i in enumerate(starts(n, 20_000).tolist())
    ]
    found = [directory.find_entity(name) for name in asked]
    checked = all(
        (id == -1 and name.startswith("Absent")) or names[id] == name
        for id, name in zip(found, asked, strict=True)
    )
    yield report(
        "find_entity", loop_ns(directory.find_entity, asked, rounds), "ns", java=67, checked=checked
    )
    ids = starts(n, 20_000).tolist()
    slots = starts(options.hyperedges, 20_000).tolist()
    yield report("fan_factor", loop_ns(directory.fan_factor, ids, rounds), "ns", java=28)
    yield report("name", loop_ns(directory.name, ids, rounds), "ns", java=320_000)
    yield report(
        "memories_for_entity", loop_ns(directory.memories_for_entity, ids, rounds), "ns", java=204
    )
    yield report(
        "entities_for_memory",
        loop_ns(directory.entities_for_memory, slots, rounds),
        "ns",
        java=1_700_000,
    )


def upkeep(options: argparse.Namespace, events: Hyperedges) -> Iterator[Record]:
    """Sweeps, files and bytes."""
    n, rounds = options.entities, options.rounds
    directory = filled(n, events)
    usage = directory.memory_usage()
    seconds = median_s(lambda: directory.decay_adjacency_weights(0.99), rounds)
    yield report("decay_adjacency_weights", seconds * 1e3, "ms", java=330)
    seconds = once_s(lambda: directory.compact_adjacency())
    yield report("compact_adjacency", seconds * 1e3, "ms", java=330, freed=usage["dead"])
    usage = directory.memory_usage()
    budget = 64 * n + 8 * directory.link_count
    core = usage["nodes"] + usage["links"] + usage["dead"]
    target = budget / 1e6 if options.full else None
    yield report("bytes, of entities and links", core / 1e6, "MB", target=target)
    yield report("bytes, all", sum(usage.values()) / 1e6, "MB", **usage)

    path = options.folder / "entity-directory.graph"
    save = wall_s(lambda: directory.save(path), rounds)
    size = path.stat().st_size
    load = wall_s(lambda: EntityDirectory.load(path), rounds)
    disk_write, disk_read = disk_s(size, options.folder)
    yield report("save", size / save / 1e6, "MB/s", plain_write=round(size / disk_write / 1e6))
    yield report("load", size / load / 1e6, "MB/s", plain_read=round(size / disk_read / 1e6))
