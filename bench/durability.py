"""What a durable write costs beside a bare SQLite commit on the same disk.

    python -m bench.durability [--dir DIR] [--json]

Single: one row, one commit (WAL, synchronous=FULL), against one `remember` with all layers fed: a
session, tags, an author, a subject. Batches: 1,000 rows a commit against `remember_many`. The two
take turns in one process, in rounds of 50 single writes or one batch. Each of our rounds ends with
a question, so that all that a recall would wait for is counted. What is given are the medians of
the rounds, and of the ratios of the two halves of each.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.import_rate import make_rows
from spector import SpectorMemory

_ROUND = 50

_TABLE = "CREATE TABLE memories (id TEXT PRIMARY KEY, text TEXT, tag TEXT, session TEXT)"


def timed(work: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--single", type=int, default=2000, help="single writes")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--dir", type=Path, help="where to work; default: the temporary folder")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    rows = make_rows(options.single + 1000 * options.batches)
    items: list[dict[str, Any]] = [
        {
            "id": id,
            "text": text,
            "tags": [tag],
            "session": session,
            "author": f"author {tag}",
            "about": f"subject {session}",
        }
        for id, text, tag, session in rows
    ]
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        bare = sqlite3.connect(Path(name) / "bare.db", isolation_level=None)
        bare.execute("PRAGMA journal_mode=WAL")
        bare.execute("PRAGMA synchronous=FULL")
        bare.execute(_TABLE)

        def insert(first: int, last: int) -> None:
            bare.execute("BEGIN IMMEDIATE")
            bare.executemany("INSERT INTO memories VALUES (?, ?, ?, ?)", rows[first:last])
            bare.execute("COMMIT")

        def one_by_one(first: int, last: int) -> None:
            for place in range(first, last):
                insert(place, place + 1)

        rounds: dict[str, list[tuple[float, float]]] = {"single": [], "batch": []}
        with SpectorMemory.open(Path(name) / "space") as memory:

            def remember(first: int, last: int) -> None:
                for item in items[first:last]:
                    memory.remember(**item)
                memory.explain(items[last - 1]["id"], "which")

            def remember_many(first: int, last: int) -> None:
                memory.remember_many(items[first:last])
                memory.explain(items[last - 1]["id"], "which")

            for first in range(0, options.single, _ROUND):
                part = first, min(first + _ROUND, options.single)
                times = timed(lambda p=part: one_by_one(*p)), timed(lambda p=part: remember(*p))
                rounds["single"].append((times[0] / _ROUND, times[1] / _ROUND))
            for first in range(options.single, len(items), 1000):
                part = first, first + 1000
                times = timed(lambda p=part: insert(*p)), timed(lambda p=part: remember_many(*p))
                rounds["batch"].append(times)
        bare.close()
    result: dict[str, Any] = {}
    for kind, found in rounds.items():
        sqlite, ours = (statistics.median(column) for column in zip(*found, strict=True))
        result[kind] = {
            "sqlite_milliseconds": round(1000 * sqlite, 3),
            "spector_milliseconds": round(1000 * ours, 3),
            "rate_ratio": round(statistics.median(a / b for a, b in found), 3),
        }
    if options.json:
        print(json.dumps(result))
        return
    for kind, found in result.items():
        print(
            f"{kind:8} sqlite3 {found['sqlite_milliseconds']:>8.3f} ms, spector"
            f" {found['spector_milliseconds']:>8.3f} ms: {found['rate_ratio']:.2f} of its rate"
        )


if __name__ == "__main__":
    main()
