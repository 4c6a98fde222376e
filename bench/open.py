"""How long opening a space takes, from a snapshot and from the journal alone.

    python -m bench.open [--n 100000] [--json]

The texts are those of `bench.import_rate`, with tags and sessions. Each opening is a process of its
own, timed inside without starting up; the files are in the page cache. What is opened from a
snapshot is loaded when it is first used, and the tables of the journal are looked at as a whole by
the first that depends on it, here the filter. Without snapshots all texts are read, checked and
analysed again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.import_rate import make_rows
from spector import SpectorMemory

OPEN = """
import sys, time
from spector import SpectorMemory
from spector.lexical import TextIndex

with SpectorMemory.ephemeral() as memory:  # what is imported when it is first used
    memory.remember("x")
    memory.recall("x")
start = time.perf_counter()
memory = SpectorMemory.open(sys.argv[1], snapshot_every=None)
opened = time.perf_counter()
assert memory.recall(sys.argv[2])
recalled = time.perf_counter()
memory.recall(sys.argv[2], tags=["t1"])
filtered = time.perf_counter()
memory.remember("one more", id="one more")
written = time.perf_counter()
memory.forget("one more")
memory.close()
print(opened - start, recalled - opened, filtered - recalled, written - filtered)
"""
STEPS = ("open", "first_recall", "first_filtered_recall", "first_write")


def seconds(space: Path, query: str) -> list[float]:
    """What each step took in a process of its own."""
    command = [sys.executable, "-c", OPEN, str(space), query]
    done = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    return [float(each) for each in done.stdout.split()]


def size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--n", type=int, default=100_000, help="number of memories")
    parser.add_argument("--rounds", type=int, default=3, help="the medians are reported")
    parser.add_argument("--dir", type=Path, help="where to work; default: the temporary folder")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    rows = make_rows(options.n)
    result: dict[str, Any] = {"memories": options.n, "rounds": options.rounds}
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        space = Path(name) / "space"
        with SpectorMemory.open(space, snapshot_every=None) as memory:
            memory.remember_many(
                {"id": id, "text": text, "tags": [tag], "session": session}
                for id, text, tag, session in rows
            )
            memory.snapshot()
        made = sorted(space.glob("snapshot-*"))  # a reflection makes one as well; named by age
        result["snapshot_bytes"] = size(made[-1])
        result["journal_bytes"] = (space / "journal.db").stat().st_size
        query = rows[0][1]
        with_it = [seconds(space, query) for _ in range(options.rounds)]
        for snapshot in made:
            shutil.rmtree(snapshot)
        without = [seconds(space, query) for _ in range(options.rounds)]
    for kind, found in (("snapshot", with_it), ("journal", without)):
        for step, values in zip(STEPS, zip(*found, strict=True), strict=True):
            result[f"{kind}_{step}_seconds"] = round(statistics.median(values), 4)
    speed = result["journal_open_seconds"] / result["snapshot_open_seconds"]
    result["ratio"] = round(speed, 1)
    result["bytes_per_second"] = round(result["snapshot_bytes"] / result["snapshot_open_seconds"])
    if options.json:
        print(json.dumps(result))
        return
    print(
        f"{options.n:,} memories, median of {options.rounds}; snapshot"
        f" {result['snapshot_bytes']:,} bytes, journal {result['journal_bytes']:,}"
    )
    print(f"{'seconds':24}{'snapshot':>12}{'journal alone':>16}")
    for step in STEPS:
        values = [result[f"{kind}_{step}_seconds"] for kind in ("snapshot", "journal")]
        print(f"{step.replace('_', ' '):24}{values[0]:>12.3f}{values[1]:>16.3f}")
    print(f"{speed:.1f} times faster, {result['bytes_per_second'] / 1e6:,.0f} MB/s of the snapshot")


if __name__ == "__main__":
    main()
