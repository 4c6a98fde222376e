"""BM25 side by side with its peers: `python -m bench.bm25 --quick`, under a minute.

    python -m bench.bm25 [--corpus zipf:1000000] [--engines spector,tantivy] [--k 10,1000]
                         [--queries 1000] [--rounds 3] [--parts queries,updates] [--json FILE]

One process and one thread ask all engines in turn, slice by slice, in rotating order. A query
counts as the median of the rounds, by CPU time of the thread and by wall time, the Python call
included. Ratios are over the queries that both engines answered. Peers that are not installed
are named and left out (`pip install "spector[bench]"` brings them).

One JSON line per result goes to stdout and a table to stderr; with --json the lines go to the
file and the table to stdout.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from bench import corpora
from bench.bm25.changes import Updates, mixed_records
from bench.bm25.correctness import Reference, check
from bench.bm25.table import table
from bench.bm25.timing import (
    ask_all,
    batch_record,
    build_record,
    clock_us,
    disk_record,
    floor_record,
    query_records,
    text_record,
)
from bench.peers import ENGINES, Engine, Spector, Updatable

PARTS = ("correctness", "queries", "batch", "disk", "texts", "updates", "mixed")

Record = dict[str, Any]


def run(options: argparse.Namespace, emit: Callable[[Record], None], folder: Path) -> None:
    chosen: list[type[Engine]] = []
    for name in options.engines:
        missing = ENGINES[name].missing()
        if missing:
            emit({"kind": "missing", "engine": name, "module": missing})
        else:
            chosen.append(ENGINES[name])
    if not chosen:
        return
    corpus = corpora.load(options.corpus, options.queries, cache=options.cache, limit=options.limit)
    emit({"kind": "corpus", **corpus.describe()})
    emit(
        {
            "kind": "machine",
            "cpus": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "load_average": round(os.getloadavg()[0], 2),
            "clock_us": clock_us(),
            "versions": {engine.name: engine.version() for engine in chosen}
            | {"numpy": np.__version__},
        }
    )
    engines: list[Engine] = []
    for kind in chosen:
        engines.append(kind(corpus, folder / kind.name))
        emit(build_record(engines[-1]))
    if "correctness" in options.parts:
        reference = Reference(corpus)
        for k in options.k:
            for engine in engines:
                checked = check(reference, engine, corpus.queries[: options.checked], k)
                emit({"kind": "correctness", "engine": engine.name, "k": k, **checked})
        del reference
    if "queries" in options.parts:
        for k in options.k:
            times = ask_all(engines, corpus.queries, k, options.rounds, options.budget)
            for record in query_records(times, k):
                emit(record)
        if options.floor and isinstance(engines[0], Spector):
            emit(floor_record(options.floor, corpus.describe()))
    if "batch" in options.parts:
        for engine in engines:
            if isinstance(engine, Spector):
                emit(batch_record(engine, corpus.queries, min(options.k), options.rounds))
    if "disk" in options.parts:
        for engine in engines:
            if isinstance(engine, Spector) and engine.saved.exists():
                emit(disk_record(engine, corpus.queries, options.repeats))
    if "texts" in options.parts:
        for engine in engines:
            if isinstance(engine, Updatable):
                emit(text_record(engine))
    if "updates" in options.parts:
        for engine in engines:
            if isinstance(engine, Updatable):
                emit(Updates(engine, options.repeats).record())
    ours = any(isinstance(engine, Spector) for engine in engines)
    del engines
    gc.collect()
    if "mixed" in options.parts and ours:
        for record in mixed_records(corpus, folder / "mixed", options):
            emit(record)
    emit({"kind": "end", "load_average": round(os.getloadavg()[0], 2)})


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    def words(known: Sequence[str]) -> Callable[[str], list[str]]:
        def split(text: str) -> list[str]:
            unknown = set(text.split(",")) - set(known)
            if unknown:
                raise argparse.ArgumentTypeError(
                    f"{', '.join(sorted(unknown))}: choose from {', '.join(known)}"
                )
            return [word for word in known if word in text.split(",")]

        return split

    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(",")]

    parser = argparse.ArgumentParser(
        prog="python -m bench.bm25",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="zipf:64000, 200 queries")
    parser.add_argument("--corpus", help="zipf:N, texts:FILE.jsonl or docs:FOLDER")
    parser.add_argument("--limit", type=int, help="so many of the texts")
    parser.add_argument("--engines", type=words(list(ENGINES)), default=list(ENGINES))
    parser.add_argument("--parts", type=words(PARTS), default=list(PARTS))
    parser.add_argument("--k", type=numbers, default=[10, 1000])
    parser.add_argument("--queries", type=int, help="default 1000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--checked", type=int, default=60, help="queries compared with float64")
    parser.add_argument("--repeats", type=int, help="of each single change; default 21")
    parser.add_argument(
        "--budget", type=float, default=120.0, help="CPU seconds an engine may answer for, per k"
    )
    parser.add_argument("--cache", type=Path, help="where drawn corpora are kept")
    parser.add_argument("--dir", type=Path, help="where indexes are made, for the time of the run")
    parser.add_argument(
        "--floor",
        type=Path,
        help="what `spector_bench --benchmark_filter=floor --benchmark_format=json` printed: "
        "the least a query that reads all its postings can take is shown beside ours",
    )
    parser.add_argument("--json", type=Path, help="write the lines there")
    options = parser.parse_args(argv)
    options.corpus = options.corpus or ("zipf:64000" if options.quick else "zipf:1000000")
    options.repeats = options.repeats or (9 if options.quick else 21)
    options.queries = options.queries or (200 if options.quick else 1000)
    return options


def main() -> None:
    options = parse()
    records: list[Record] = []
    begin = time.perf_counter()

    def emit(record: Record, out: TextIO) -> None:
        records.append(record)
        print(json.dumps(record), file=out, flush=True)

    # Stopped or not, nothing is left behind and what is known is told.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    folder = Path(tempfile.mkdtemp(prefix="spector-bench-", dir=options.dir))
    try:
        if options.json:
            with options.json.open("w", encoding="utf-8") as out:
                run(options, lambda record: emit(record, out), folder)
        else:
            run(options, lambda record: emit(record, sys.stdout), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        people = sys.stdout if options.json else sys.stderr
        print(table(records), file=people)
        print(f"\n{time.perf_counter() - begin:.0f} s", file=people)


if __name__ == "__main__":
    main()
