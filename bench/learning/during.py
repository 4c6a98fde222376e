"""What recalls take while a cycle of reflection runs (RFL-9)."""

from __future__ import annotations

import itertools
import random
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.learning.worlds import START, Clock
from spector import SpectorMemory

_BEFORE = 5.0  # seconds of recalls without reflection


def measure(folder: Path, memories: int) -> list[dict[str, Any]]:
    """Recalls in one thread, before and while another one reflects: latencies in milliseconds.

    A reader that waited for the cycle would have its whole length as its maximum.
    """
    rng = random.Random(0)
    clock = Clock()
    words = [f"word{number}" for number in range(20_000)]
    shares = list(itertools.accumulate(1 / (place + 3) for place in range(len(words))))
    with SpectorMemory.open(folder, clock=clock, seed=1) as memory:
        memory.remember_many(
            {
                "text": " ".join(rng.choices(words, cum_weights=shares, k=12)),
                "session": f"session{number // 20}",
                "type": "episodic",
                "tags": [f"tag{rng.randrange(500)}"],
                "importance": rng.uniform(0.1, 9),
                "timestamp": START,
            }
            for number in range(memories)
        )
        clock.now += 40 * 86_400_000
        questions = [" ".join(rng.choices(words, cum_weights=shares, k=3)) for _ in range(512)]
        done = threading.Event()
        taken: list[tuple[float, float]] = []

        def ask() -> None:
            number = 0
            while not done.is_set():
                begin = time.perf_counter()
                memory.recall(questions[number % len(questions)], recall_mode="observe")
                taken.append((begin, time.perf_counter()))
                number += 1

        reader = threading.Thread(target=ask)
        reader.start()
        time.sleep(_BEFORE)
        begin = time.perf_counter()
        report = memory.reflect()
        end = time.perf_counter()
        done.set()
        reader.join()
    rows = []
    for name, chosen in (
        ("before", [b - a for a, b in taken if b < begin]),
        ("during", [b - a for a, b in taken if b >= begin]),
    ):
        milliseconds = 1000 * np.asarray(chosen)
        rows.append(
            {
                "memories": memories,
                "recalls": name,
                "n": len(chosen),
                "p50": float(np.median(milliseconds)),
                "p99": float(np.quantile(milliseconds, 0.99)),
                "max": float(milliseconds.max()),
                "reflect_seconds": end - begin,
                "slowest_step": max(report.steps, key=lambda step: step.seconds).name,
            }
        )
    return rows
