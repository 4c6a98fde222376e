"""Engines asked in turn, and what their times come to."""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.peers import TEXTS, Engine, Meter, Spector, Updatable

SLICE = 25  # queries that one engine answers in a row
RAW_DOCS = 200_000  # built from raw texts, of the first documents
WARM_UP = 20  # queries that are not counted, per engine

Record = dict[str, Any]


def build_record(engine: Engine) -> Record:
    corpus = engine.corpus
    with Meter() as meter:
        engine.build(meter)
    sizes = engine.sizes()
    return {
        "kind": "build",
        "engine": engine.name,
        "input": engine.input,
        "cpu_s": round(meter.cpu_s, 3),
        "wall_s": round(meter.wall_s, 3),
        "docs_per_cpu_s": round(corpus.n_docs / meter.cpu_s),
        "tokens_per_cpu_s": round(len(corpus.tokens) / meter.cpu_s),
        "peak_mb": None if meter.peak_mb is None else round(meter.peak_mb, 1),
        "kept_mb": round(meter.kept_mb, 1),
        "bytes": sizes,
        "bytes_per_posting": {
            place: round(size / corpus.n_postings, 2) for place, size in sizes.items()
        },
    }


def text_record(engine: Updatable) -> Record:
    """Building from raw texts, analysis included, with each engine's plainest word splitter."""
    batches = islice(engine.corpus.raw_texts(TEXTS), RAW_DOCS // TEXTS)
    n_docs = min(RAW_DOCS, engine.corpus.n_docs)
    with Meter() as meter:
        engine.build_texts(batches, meter)
    return {
        "kind": "texts",
        "engine": engine.name,
        "documents": n_docs,
        "cpu_s": round(meter.cpu_s, 3),
        "wall_s": round(meter.wall_s, 3),
        "docs_per_cpu_s": round(n_docs / meter.cpu_s),
        "peak_mb": None if meter.peak_mb is None else round(meter.peak_mb, 1),
    }


def disk_record(engine: Spector, queries: Sequence[Any], repeats: int) -> Record:
    """Saving; opening, mapped and copied, and the first search and removal of what was opened.

    The file is in the system's cache. A first search has lists to unpack that no search has asked
    for; the same query again has none.
    """
    saved = engine.saved
    asked = [engine.prepare(query) for query in queries[:repeats]]
    kinds = ("save", "open", "first_search", "search_again", "first_remove", "open_copied")
    wall: dict[str, list[float]] = {kind: [] for kind in kinds}
    cpu: dict[str, list[float]] = {kind: [] for kind in kinds}

    def timed(kind: str, work: Callable[..., Any], *arguments: Any) -> Any:
        begin, used = time.perf_counter(), time.process_time()
        result = work(*arguments)
        wall[kind].append(1000 * (time.perf_counter() - begin))
        cpu[kind].append(1000 * (time.process_time() - used))
        return result

    for number, query in enumerate(asked):
        index = timed("open", engine.index.load, saved, True)
        for kind in ("first_search", "search_again"):
            timed(kind, index.search_tokens, query, 10)
        if number < 3:  # these take their time
            timed("first_remove", index.remove, "0")
            timed("open_copied", engine.index.load, saved)
            timed("save", engine.index.save, saved)
    return {
        "kind": "disk",
        "engine": engine.name,
        "bytes_per_posting": round(saved.stat().st_size / engine.corpus.n_postings, 2),
        "wall_ms": {kind: round(statistics.median(seen), 3) for kind, seen in wall.items()},
        "wall_ms_best": {kind: round(min(seen), 3) for kind, seen in wall.items()},
        "cpu_ms": {kind: round(statistics.median(seen), 3) for kind, seen in cpu.items()},
        "load_average": round(os.getloadavg()[0], 2),
    }


def clock_us() -> float:
    """What measuring adds to each query: the time of no query at all."""
    empty = []
    for _ in range(1000):
        begin = time.thread_time_ns()
        empty.append(time.thread_time_ns() - begin)
    return statistics.median(empty) / 1000


def ask_all(
    engines: Sequence[Engine], queries: Sequence[Any], k: int, rounds: int, budget_s: float
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Median CPU and wall microseconds of each query; NaN where an engine ran out of its budget."""
    prepared = [[engine.prepare(query) for query in queries] for engine in engines]
    shape = (len(engines), rounds, len(queries))
    cpu, wall = np.full(shape, np.nan), np.full(shape, np.nan)
    spent = [0.0] * len(engines)
    now, used = time.perf_counter_ns, time.thread_time_ns
    for number, engine in enumerate(engines):
        for query in prepared[number][:WARM_UP]:
            engine.search(query, k)
    gc.collect()
    gc.disable()
    turn = 0
    for round in range(rounds):
        for first in range(0, len(queries), SLICE):
            for place in range(len(engines)):
                number = (place + turn) % len(engines)
                if spent[number] > budget_s:
                    continue
                search = engines[number].search
                part = prepared[number][first : first + SLICE]
                begin = time.process_time()
                for position, query in enumerate(part, first):
                    wall_0, cpu_0 = now(), used()
                    search(query, k)
                    cpu_1, wall_1 = used(), now()
                    cpu[number, round, position] = cpu_1 - cpu_0
                    wall[number, round, position] = wall_1 - wall_0
                spent[number] += time.process_time() - begin
            turn += 1
    gc.enable()
    with np.errstate(all="ignore"):
        return {
            engine.name: {
                "cpu": _medians(cpu[number]) / 1000,
                "wall": _medians(wall[number]) / 1000,
                "threads": np.array([spent[number] / (np.nansum(cpu[number]) / 1e9)]),
            }
            for number, engine in enumerate(engines)
        }


def _medians(rounds: NDArray[np.float64]) -> NDArray[np.float64]:
    medians = np.full(rounds.shape[1], np.nan)
    answered = ~np.isnan(rounds).all(axis=0)
    medians[answered] = np.nanmedian(rounds[:, answered], axis=0)
    return medians


def summary(us: NDArray[np.float64]) -> dict[str, float]:
    us = us[~np.isnan(us)]
    p50, p95, p99 = np.percentile(us, [50, 95, 99])
    figures = {"mean": us.mean(), "p50": p50, "p95": p95, "p99": p99}
    return {name: round(float(figure), 2) for name, figure in figures.items()}


def ratio(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> dict[str, float]:
    both = ~np.isnan(ours) & ~np.isnan(theirs)
    mine, other = summary(ours[both]), summary(theirs[both])
    return {name: round(mine[name] / other[name], 4) for name in mine}


def query_records(times: dict[str, dict[str, NDArray[np.float64]]], k: int) -> Iterator[Record]:
    for name, seen in times.items():
        cpu = summary(seen["cpu"])
        yield {
            "kind": "queries",
            "engine": name,
            "k": k,
            "queries": int(np.count_nonzero(~np.isnan(seen["cpu"]))),
            "cpu_us": cpu,
            "wall_us": summary(seen["wall"]),
            "qps": round(1e6 / cpu["mean"]),
            # About 1: all the work was in the thread that asked.
            "process_to_thread_cpu": round(float(seen["threads"][0]), 3),
        }
    first, *others = times
    for name in others:
        yield {
            "kind": "ratio",
            "k": k,
            "engine": first,
            "to": name,
            "cpu": ratio(times[first]["cpu"], times[name]["cpu"]),
            "wall": ratio(times[first]["wall"], times[name]["wall"]),
        }


def floor_record(path: Path, corpus: Record) -> Record:
    """The mean query of the corpus at the speed of two loops (bench/cpp/bench_floor.cpp)."""
    seconds = {
        each["name"]: 1 / each["items_per_second"]
        for each in json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
    }
    postings = corpus["postings_per_query"]["mean"]
    adding = 1e6 * seconds["floor_scatter_add"] * postings
    scanning = 1e6 * seconds["floor_scan"] * corpus["documents"]
    return {
        "kind": "floor",
        "engine": Spector.name,
        "ns_per_posting": round(1e9 * seconds["floor_scatter_add"], 3),
        "ns_per_document": round(1e9 * seconds["floor_scan"], 4),
        "mean_us": round(adding + scanning, 2),
    }


def batch_record(engine: Spector, queries: Sequence[Any], k: int, rounds: int) -> Record:
    """Wall time of the same queries in one call, on one and on two threads, in turn."""
    ends = np.cumsum([0] + [len(query) for query in queries])
    tokens = np.concatenate(queries)
    seen: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for threads, spent in seen.items():
            begin = time.perf_counter()
            engine.index.search_tokens_batch(ends, tokens, k, threads=threads)
            spent.append((time.perf_counter() - begin) / len(queries))
    one, two = (statistics.median(spent) for spent in seen.values())
    return {
        "kind": "batch",
        "engine": engine.name,
        "k": k,
        "qps_1_thread": round(1 / one),
        "qps_2_threads": round(1 / two),
        "speedup": round(one / two, 2),
        "load_average": round(os.getloadavg()[0], 2),
    }
