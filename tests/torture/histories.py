"""What many see of one space while it changes (R9), and whether they agree (PER-10)."""

from __future__ import annotations

import bisect
import random
import threading
import time
from pathlib import Path
from typing import Any

import test_state
from spector import SpectorMemory
from spector.store import Space
from torture.harness import Outcome, patched

_READERS = 3


def _violations(folder: Path, rounds: int, seed: int) -> tuple[int, list[str]]:
    """Rounds that were judged, and recalls that missed what was acknowledged before they began."""
    path = folder / "space"
    rng = random.Random(seed)
    # When a write of the memory began and ended; a recall between the two may see either.
    told: list[tuple[float, float, bool]] = []
    seen: list[tuple[float, float, bool]] = []
    stop = threading.Event()
    errors: list[BaseException] = []

    def write() -> None:
        try:
            with SpectorMemory.open(path, snapshot_every=50) as memory:
                for number in range(rounds):
                    begun = time.monotonic()
                    if number % 2 == 0:
                        memory.remember("text that comes and goes", id="x", tags=["t"])
                    else:
                        memory.forget("x")
                    told.append((begun, time.monotonic(), number % 2 == 0))
                    if rng.random() < 0.01:
                        memory.compact()
        except BaseException as error:
            errors.append(error)
        finally:
            stop.set()

    def read(memory: SpectorMemory) -> None:
        try:
            while not stop.is_set():
                begun = time.monotonic()
                found = len(memory.recall("comes and goes", recall_mode="observe")) == 1
                seen.append((begun, time.monotonic(), found))
        except BaseException as error:
            errors.append(error)
            stop.set()

    with SpectorMemory.open(path, snapshot_every=None) as memory:
        memory.remember("something else", id="else", tags=["t"])
        threads = [threading.Thread(target=write)]
        threads += [threading.Thread(target=read, args=[memory]) for _ in range(_READERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    problems = [f"{type(error).__name__}: {error}" for error in errors]
    judged = 0
    ends = [done for _, done, _ in told]
    for begun, ended, found in seen:
        first = bisect.bisect_left(ends, begun)
        last = told[first - 1][2] if first else False
        during = {state for start, _, state in told[first : first + 100] if start <= ended}
        judged += 1
        if found != last and found not in during:
            problems.append(f"seed {seed}: a recall saw {found}, but {last} was acknowledged")
    return judged, problems


def recorded(folder: Path, rounds: int, seed: int) -> Outcome:
    """R9: a recall that begins after a call returned sees what it did."""
    judged, problems = _violations(folder / "history", rounds, seed)
    original = Space.read

    def stale(self: Space, work: Any) -> Any:  # looks for others' events one time in a hundred
        if self._applied and random.random() < 0.99:
            with self.journal.reader() as reader:
                return work(reader, self._replica)
        return original(self, work)

    with patched(Space, "read", stale):
        _, planted = _violations(folder / "control", max(400, rounds // 10), seed)
    if not planted:
        problems.append("a reader that does not catch up is not noticed: the check is blind")
    return Outcome(
        judged,
        problems,
        f"{rounds} writes, {_READERS} readers",
        f"a reader that seldom catches up: {len(planted)} recalls noticed",
    )


def processes(folder: Path, rounds: int, seed: int) -> Outcome:
    """PER-10: four processes, some of them killed, and all that is left agrees."""
    problems: list[str] = []
    note = ""
    try:
        counts = test_state.processes(folder / "four", seed, rounds, kills=2)
        note = f"4 processes, 2 killed, {counts['acknowledged']} acknowledged memories kept"
    except AssertionError as error:
        problems.append(f"seed {seed}: {str(error)[:300]}")
    return Outcome(4 * rounds, problems, note, "hashes tell states apart: tests/test_state.py")
