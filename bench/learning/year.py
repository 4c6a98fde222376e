"""A year of use: whether memory, latency and files stay bounded."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.learning.worlds import START, Clock
from spector import SpectorMemory

DAY = 86_400_000
DAYS = 365


def live(folder: Path, memories: int, recalls: int) -> Iterator[dict[str, Any]]:
    """One row for each month: an agent remembers, recalls, reports outcomes, reflects daily.

    Once a month it compacts, which is what keeps the journal from growing with every recall.
    """
    rng = random.Random(0)
    clock = Clock()
    words = [f"word{number}" for number in range(3000)]
    weights = [1 / (place + 3) for place in range(len(words))]
    with SpectorMemory.open(folder, clock=clock, seed=1) as memory:
        told = 0
        month: list[float] = []
        reflecting: list[float] = []
        for day in range(DAYS):
            clock.now = START + day * DAY
            count = (day + 1) * memories // DAYS - told
            memory.remember_many(
                {
                    "text": " ".join(rng.choices(words, weights, k=20)),
                    "session": f"day{day}",
                    "type": rng.choice(("episodic", "episodic", "semantic")),
                    "tags": [f"tag{rng.randrange(200)}", f"tag{rng.randrange(20)}"],
                    "importance": rng.uniform(0.05, 5),
                }
                for _ in range(count)
            )
            told += count
            for _ in range(recalls // DAYS):
                clock.now += DAY // 400
                query = " ".join(rng.choices(words, weights, k=3))
                start = time.perf_counter()
                found = memory.recall(query, profile="auto", session=f"day{day}")
                month.append(time.perf_counter() - start)
                if found and rng.random() < 0.1:
                    memory.reinforce(found[0].id, rng.random() < 0.6)
            start = time.perf_counter()
            memory.reflect()
            reflecting.append(time.perf_counter() - start)
            if day % 30 == 29 or day == DAYS - 1:
                memory.compact()
                status = memory.status()
                sizes = {
                    path.name.split("-")[0]: sum(
                        part.stat().st_size
                        for part in (path.rglob("*") if path.is_dir() else [path])
                        if part.is_file()
                    )
                    for path in folder.iterdir()
                }
                yield {
                    "day": day + 1,
                    "memories": status.documents,
                    "events": status.events,
                    "journal_mb": status.journal_bytes / 1e6,
                    "snapshot_mb": sizes.get("snapshot", 0) / 1e6,
                    "replica_mb": sum(memory._space.replica.bytes().values()) / 1e6,
                    "recall_ms": 1000 * statistics.median(month),
                    "recall_p99_ms": 1000 * sorted(month)[int(0.99 * len(month))],
                    "reflect_ms": 1000 * statistics.median(reflecting),
                }
                month, reflecting = [], []
