"""What a suggestion and an outcome cost."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spector import ProfileAdaptor, SpectorMemory


def _median(work: Callable[[int], object], times: int) -> float:
    spent = []
    for number in range(times):
        start = time.perf_counter()
        work(number)
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


def measure(rounds: int = 5) -> list[dict[str, Any]]:
    """Microseconds of `suggest`, and `reinforce` in durable commits of bare SQLite."""
    bandit = ProfileAdaptor(seed=1)
    known = ("database", "sql")
    for number in range(10_000):
        bandit.record((f"topic{number}", *known), "debugging", True)
    for _ in range(20):
        bandit.record(known, "debugging", True)
    fresh = [(f"topic{number % 997}", f"part{number % 89}", *known) for number in range(5000)]
    found: list[dict[str, Any]] = [
        {"name": "suggest, seen", "us": 1e6 * _median(lambda _: bandit.suggest(known), 20_000)},
        {"name": "suggest, new", "us": 1e6 * _median(lambda n: bandit.suggest(fresh[n]), 5000)},
    ]
    with tempfile.TemporaryDirectory() as folder, SpectorMemory.open(f"{folder}/space") as memory:
        plain = sqlite3.connect(Path(folder) / "plain.db", isolation_level=None)
        plain.execute("PRAGMA journal_mode = WAL")
        plain.execute("PRAGMA synchronous = FULL")
        plain.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
        memory.remember_many({"text": f"text {n}", "id": str(n)} for n in range(1000))
        memory.recall("text", k=100)
        memory.flush()
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(_median(lambda n: memory.reinforce(str(n), n % 3 > 0), 200))
            theirs.append(_median(lambda n: plain.execute("INSERT INTO t(b) VALUES ('x')"), 200))
        plain.close()
        ratio = statistics.median(ours) / statistics.median(theirs)
        found.append({"name": "reinforce, in durable commits of SQLite", "ratio": ratio})
        learn, observe = [], []
        for number in range(4000):
            mode, spent = (("learn", learn), ("observe", observe))[number % 2]
            start = time.perf_counter()
            memory.recall(f"text {number // 2 % 1000}", recall_mode=mode)
            spent.append(time.perf_counter() - start)
        ratio = statistics.median(learn) / statistics.median(observe)
        found.append({"name": "recall that counts, in recalls that do not", "ratio": ratio})
    return found
