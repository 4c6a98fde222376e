"""How calls are timed: CPU time of the thread, medians, sides that are compared in turn."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Input = TypeVar("Input")


def once_s(call: Callable[[], Any]) -> float:
    """CPU seconds of this thread for one call."""
    gc.collect()
    begin = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - begin) / 1e9


def median_s(call: Callable[[], Any], repeats: int) -> float:
    """Median CPU seconds of a call."""
    return statistics.median(once_s(call) for _ in range(repeats))


def each_us(
    calls: Mapping[str, Callable[[Input], Any]], inputs: Sequence[Input], rounds: int
) -> dict[str, NDArray[np.float64]]:
    """CPU microseconds of each side for each input: the median of the rounds, without the clock's.

    The sides take turns input by input. A first round that is not counted warms them up.
    """
    seen = np.empty((len(calls), rounds, len(inputs)))
    used = time.thread_time_ns
    clock_ns = statistics.median(-(used() - used()) for _ in range(1001))
    sides = list(calls.values())
    gc.collect()
    gc.disable()
    try:
        for round in range(-1, rounds):
            for place, value in enumerate(inputs):
                for side, call in enumerate(sides):
                    begin = used()
                    call(value)
                    spent = used() - begin
                    if round >= 0:
                        seen[side, round, place] = spent
    finally:
        gc.enable()
    medians = (np.median(seen, axis=1) - clock_ns) / 1000
    return dict(zip(calls, medians, strict=True))


def loop_ns(call: Callable[[Input], Any], inputs: Sequence[Input], rounds: int) -> float:
    """CPU nanoseconds of a short call, without those of the loop: the median of the rounds."""

    def nothing(_: Input) -> None:
        pass

    def run(function: Callable[[Input], Any]) -> int:
        begin = time.thread_time_ns()
        for value in inputs:
            function(value)
        return time.thread_time_ns() - begin

    spent = [run(call) - run(nothing) for _ in range(rounds)]
    return statistics.median(spent) / len(inputs)


def one_read_s(n_bytes: int, rounds: int = 5) -> float:
    """CPU seconds that reading so many bytes of memory once takes: the least any sweep can."""
    words = np.ones(max(1, n_bytes // 8), np.uint64)
    return median_s(words.sum, rounds)


def disk_s(n_bytes: int, folder: Path) -> tuple[float, float]:
    """Wall seconds of writing so many bytes (made durable), and of reading them from the cache."""
    path = folder / "plain"
    data = os.urandom(min(n_bytes, 1 << 20))
    begin = time.perf_counter()
    with path.open("wb") as out:
        for first in range(0, n_bytes, 1 << 20):
            out.write(data[: n_bytes - first])
        out.flush()
        os.fsync(out.fileno())
    middle = time.perf_counter()
    path.read_bytes()
    end = time.perf_counter()
    path.unlink()
    return middle - begin, end - middle


def wall_s(call: Callable[[], Any], repeats: int) -> float:
    """Median wall seconds, for calls that wait for the disk."""

    def timed() -> float:
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    return statistics.median(timed() for _ in range(repeats))
