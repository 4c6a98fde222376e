"""The graph stores measured, and beside their peers: `python -m bench.graph --quick`.

    python -m bench.graph [--nodes 1000000] [--parts hebbian,tags] [--rounds 3] [--json FILE]

Graphs are drawn by bench/graph/generators.py. Times are CPU time of the thread, Python call
included, medians of the rounds; where two sides are compared they take turns in this process.
Peers that are not installed are named and left out (`pip install "spector[bench]"` brings them).
Every figure's answers are compared with a plain computation where the table says `checked`.

One JSON line per result goes to stdout and a table to stderr; with --json the lines go to the
file and the table to stdout.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
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
from typing import TextIO

import numpy as np

from bench.graph.peers import PEERS
from bench.graph.records import Record, table

# Each is a module with `run(options) -> Iterator[Record]`. Of `options` it uses `nodes` (memories;
# `entities` and `hyperedges` follow from it), `full` (the size that the targets are for), `rounds`,
# and `folder`, where files may be made.
PARTS = ("hebbian", "entities", "hyper", "temporal", "tags", "budgets")

FULL = 1_000_000
QUICK = 20_000


def run(options: argparse.Namespace, emit: Callable[[Record], None]) -> None:
    versions = {"numpy": np.__version__}
    for peer in PEERS:
        try:
            versions[peer.name] = importlib.metadata.version(peer.name)
        except importlib.metadata.PackageNotFoundError:
            continue
    emit(
        {
            "kind": "machine",
            "nodes": options.nodes,
            "cpus": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "load_average": round(os.getloadavg()[0], 2),
            "versions": versions,
        }
    )
    for part in options.parts:
        begin = time.perf_counter()
        for record in importlib.import_module(f"bench.graph.{part}").run(options):
            emit(record)
        emit({"kind": "part", "part": part, "wall_s": round(time.perf_counter() - begin, 1)})
    emit({"kind": "end", "load_average": round(os.getloadavg()[0], 2)})


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    def parts(text: str) -> list[str]:
        unknown = set(text.split(",")) - set(PARTS)
        if unknown:
            raise argparse.ArgumentTypeError(
                f"{', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}"
            )
        return [part for part in PARTS if part in text.split(",")]

    parser = argparse.ArgumentParser(
        prog="python -m bench.graph",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} nodes")
    parser.add_argument("--nodes", type=int, help=f"default {FULL:,}")
    parser.add_argument("--parts", type=parts, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where files are made, for the time of the run")
    parser.add_argument("--json", type=Path, help="write the lines there")
    options = parser.parse_args(argv)
    options.nodes = options.nodes or (QUICK if options.quick else FULL)
    if options.nodes < 1000:
        parser.error(f"--nodes must be at least 1000, not {options.nodes}")
    options.full = options.nodes == FULL
    options.entities = options.nodes // 10
    options.hyperedges = 3 * options.entities
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
    options.folder = Path(tempfile.mkdtemp(prefix="spector-bench-", dir=options.dir))
    try:
        if options.json:
            with options.json.open("w", encoding="utf-8") as out:
                run(options, lambda record: emit(record, out))
        else:
            run(options, lambda record: emit(record, sys.stdout))
    finally:
        shutil.rmtree(options.folder, ignore_errors=True)
        people = sys.stdout if options.json else sys.stderr
        print(table(records), file=people)
        print(f"\n{time.perf_counter() - begin:.0f} s", file=people)


if __name__ == "__main__":
    main()
