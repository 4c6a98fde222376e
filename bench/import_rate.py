"""How fast `spector import` stores short texts, against sqlite3 inserting the same rows.

    python -m bench.import_rate [--n 100000] [--json]

sqlite3: one process, `executemany` in batches of 1,000 rows with a commit each, WAL,
synchronous=FULL, on the same disk. spector: the command line as a process of its own, from a JSONL
file, with the keyword index built.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from spector.cli.docstrings import docstrings, standard_library

BATCH = 1000
SEED = 20

Row = tuple[str, str, str, str]


def make_rows(n: int) -> list[Row]:
    """Make short texts out of the words of the standard library's docstrings, as often as there."""
    modules = standard_library(["asyncio", "email", "http", "logging", "multiprocessing", "xml"])
    counts: Counter[str] = Counter()
    for item in docstrings(modules, failed=lambda *_: None, done=lambda _: None):
        counts.update(re.findall(r"[\w.]*\w", item["text"]))
    words, weights = list(counts), list(counts.values())
    draw = random.Random(SEED)
    rows = []
    for number in range(n):
        text = " ".join(draw.choices(words, weights, k=draw.randint(6, 20)))
        rows.append((f"m{number:07}", text, f"t{draw.randrange(50)}", f"s{number // 40}"))
    return rows


def sqlite_seconds(rows: list[Row], folder: Path) -> float:
    """Insert the rows into a fresh table."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE memories (id TEXT PRIMARY KEY, text TEXT, tag TEXT, session TEXT)"
    )
    start = time.perf_counter()
    for first in range(0, len(rows), BATCH):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO memories VALUES (?, ?, ?, ?)", rows[first : first + BATCH]
        )
        connection.execute("COMMIT")
    seconds = time.perf_counter() - start
    connection.close()
    return seconds


def spector_seconds(file: Path, folder: Path) -> tuple[float, float, int]:
    """Import the file; return seconds with and without starting up, and how many were stored."""
    command = [
        sys.executable,
        "-m",
        "spector",
        "import",
        str(file),
        "--path",
        str(folder),
        "--json",
    ]
    start = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True)
    seconds = time.perf_counter() - start
    report = json.loads(done.stdout)
    return seconds, report["seconds"], report["stored"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--n", type=int, default=100_000, help="number of texts")
    parser.add_argument("--rounds", type=int, default=3, help="the medians are reported")
    parser.add_argument("--dir", type=Path, help="where to work; default: the temporary folder")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    rows = make_rows(options.n)
    bare, whole, inner = [], [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(dir=options.dir) as name:
            folder = Path(name)
            file = folder / "rows.jsonl"
            with file.open("w", encoding="utf-8") as out:
                for id, text, tag, session in rows:
                    item = {"id": id, "text": text, "tags": [tag], "session": session}
                    out.write(json.dumps(item, ensure_ascii=False) + "\n")
            bare.append(sqlite_seconds(rows, folder))
            seconds, load, stored = spector_seconds(file, folder / "space")
            if stored != len(rows):
                raise SystemExit(f"stored {stored} of {len(rows)}")
            whole.append(seconds)
            inner.append(load)

    result = {
        "texts": options.n,
        "rounds": options.rounds,
        "sqlite_per_second": round(options.n / statistics.median(bare)),
        "import_per_second": round(options.n / statistics.median(whole)),
        "import_without_start_per_second": round(options.n / statistics.median(inner)),
        "ratio": round(statistics.median(whole) / statistics.median(bare), 2),
        "ratio_without_start": round(statistics.median(inner) / statistics.median(bare), 2),
    }
    if options.json:
        print(json.dumps(result))
    else:
        print(
            f"{options.n:,} short texts, median of {options.rounds}\n"
            f"sqlite3 alone                {result['sqlite_per_second']:>10,} rows/s\n"
            f"spector import               {result['import_per_second']:>10,} memories/s, "
            f"1/{result['ratio']} of it\n"
            f"  without process start      {result['import_without_start_per_second']:>10,} "
            f"memories/s, 1/{result['ratio_without_start']} of it"
        )


if __name__ == "__main__":
    main()
