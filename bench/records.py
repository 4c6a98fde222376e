"""The record store: scans beside plain reading of as many bytes, and how fast it is filled.

``python -m bench.records [--sizes 2000,100000,1000000]`` prints one JSON line per result, then a
table. Times are CPU times of the calling thread, medians of rounds in which all kinds take turns.
Reading is numpy's sum over an array of its own; ``spector_bench --benchmark_filter=records`` reads
the store's own memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.machine import machine
from spector.records import RecordStore, ScoringOptions

DIMENSIONS = 384
NOW = 1_900_000_000_000
DAY = 86_400_000
BATCH = 10_000
K = 10

Record = dict[str, Any]


def fill(n: int, storage: str) -> tuple[RecordStore, Record]:
    """Clustered unit vectors with ages up to 90 days and any importance."""
    rng = np.random.default_rng(42)
    store = RecordStore(DIMENSIONS, storage=storage)
    centres = rng.standard_normal((1000, DIMENSIONS), np.float32)
    spent = 0.0
    for first in range(0, n, BATCH):
        slots = np.arange(first, min(n, first + BATCH), dtype=np.uint32)
        vectors = centres[rng.integers(1000, size=len(slots))]
        vectors = vectors + 0.7 * rng.standard_normal((len(slots), DIMENSIONS), np.float32)
        fields = {
            "timestamp": NOW - rng.integers(0, 90 * DAY, len(slots)),
            "importance": rng.uniform(0.05, 10, len(slots)).astype(np.float32),
        }
        begin = time.thread_time()
        store.put(slots, vectors, **fields)
        spent += time.thread_time() - begin
    usage = store.memory_usage()
    return store, {
        "kind": "put",
        "records": n,
        "storage": storage,
        "records_per_cpu_s": round(n / spent),
        "bytes_per_record": round(usage["bytes"] / n, 1),
        "vector_bytes": usage["vector_bytes"],
    }


def single_puts(store: RecordStore, n: int) -> Record:
    """Replacing one record at a time, each a transaction of its own."""
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((1000, DIMENSIONS), np.float32)
    times = []
    for slot, vector in zip(rng.integers(n, size=1000).tolist(), vectors, strict=True):
        begin = time.thread_time_ns()
        store.put(slot, vector, timestamp=NOW)
        times.append(time.thread_time_ns() - begin)
    return {"kind": "put one", "records": n, "us": round(statistics.median(times) / 1000, 1)}


def measure(store: RecordStore, n: int, storage: str, rounds: int) -> list[Record]:
    rng = np.random.default_rng(7)
    size = store.memory_usage()["vector_bytes"]
    words = rng.integers(0, 2**63, size // 8, np.uint64)
    some = np.sort(rng.choice(n, n // 100, replace=False)).astype(np.uint32)
    everything = ScoringOptions(NOW)
    filtered = ScoringOptions(NOW, allow=some)
    headers = ScoringOptions(NOW, min_importance=10, min_valence=127)
    read = 0  # bytes of vectors

    def ask(method: str, options: ScoringOptions) -> Callable[[], int]:
        def run() -> int:
            answer = getattr(store, method)(queries[turn], options, K)
            return int(answer.counts["vectors"]) * (size // n)

        return run

    def plain() -> int:
        words.sum()
        return size

    kinds: dict[str, Callable[[], int]] = {
        "read": plain,
        "similar": ask("similar", everything),
        "search": ask("search", everything),
        "similar, 1%": ask("similar", filtered),
        "search, 1%": ask("search", filtered),
        "headers only": ask("search", headers),
    }
    queries = rng.standard_normal((rounds + 1, DIMENSIONS), np.float32)
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    sizes: dict[str, int] = {}
    for turn in range(rounds + 1):  # the first is not counted
        for kind, run in kinds.items():
            begin = time.thread_time_ns()
            read = run()
            spent = (time.thread_time_ns() - begin) / 1e6
            if turn:
                times[kind].append(spent)
                sizes[kind] = read
    plainly = statistics.median(times["read"])
    return [
        {
            "kind": kind,
            "records": n,
            "storage": storage,
            "ms": round(statistics.median(spent), 4),
            "gb_per_s": round(sizes[kind] / statistics.median(spent) / 1e6, 2),
            "to_reading": round(statistics.median(spent) / plainly, 3),
        }
        for kind, spent in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.records", description=__doc__)
    parser.add_argument("--sizes", default="2000,100000,1000000", help="numbers of records")
    parser.add_argument("--storages", default="int8,f32")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    records: list[Record] = []

    def emit(record: Record) -> None:
        records.append(record)
        print(json.dumps(record), flush=True)

    emit(machine(dimensions=DIMENSIONS, k=K))
    for n in map(int, options.sizes.split(",")):
        for storage in options.storages.split(","):
            store, filled = fill(n, storage)
            emit(filled)
            for record in measure(store, n, storage, options.rounds):
                emit(record)
            emit(single_puts(store, n))
    print(f"\n{'':14}{'records':>10}{'storage':>9}{'ms':>10}{'GB/s':>8}{'x reading':>11}")
    for record in records:
        if "ms" in record:
            print(
                f"{record['kind']:14}{record['records']:>10,}{record['storage']:>9}"
                f"{record['ms']:>10.3f}{record['gb_per_s']:>8.2f}{record['to_reading']:>11.2f}"
            )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
