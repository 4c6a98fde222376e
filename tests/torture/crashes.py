"""Processes that die (R1, R4, R8, R10), and what they leave open (R15)."""

from __future__ import annotations

import gc
import os
import random
import resource
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from children import run
from spector import LockedError, SpectorMemory
from spector.store import check, snapshots
from torture.harness import (
    Failed,
    Model,
    Outcome,
    agrees,
    attempt,
    contents,
    fork,
    perform,
    random_operations,
    reopened,
)

_PER_SPACE = 20  # rounds on one space, so that it stays small


def _acknowledges_early(
    path: Path, operations: list[tuple[Any, ...]], write: Callable[[str], object]
) -> None:
    """The planted fault of R1: it says that something is stored, and then stores it."""
    memory = SpectorMemory.open(path, snapshot_every=None)
    for number, operation in enumerate(operations):
        write(f"{number} begun\n{number} done\n")
        perform(memory, operation)


def _kill_rounds(
    folder: Path, rounds: int, seed: int, attempt: Callable[..., None]
) -> tuple[int, list[str]]:
    problems: list[str] = []
    acknowledged = 0
    rng = random.Random(seed)
    model = Model()
    for number in range(rounds):
        path = folder / f"space{number // _PER_SPACE}"
        if number % _PER_SPACE == 0:
            model = Model()
            shutil.rmtree(folder / f"space{number // _PER_SPACE - 1}", ignore_errors=True)
        operations = random_operations(rng, 60, first=number * 1000)
        child = fork(lambda write, p=path, o=operations: attempt(p, o, write))
        child.wait_for(rng.randrange(1, 12))
        time.sleep(rng.random() * 0.02)
        child.kill()
        child.finish()
        try:
            found = reopened(path)
            wrong = agrees(found, model, operations, child.output)
        except Exception as error:
            found, wrong = {}, f"{type(error).__name__}: {error}"
        if wrong:
            problems.append(f"seed {seed}, round {number}: {wrong}")
            shutil.rmtree(path)
            found = {}
        acknowledged += child.output.count("done")
        model = Model(found)
    return acknowledged, problems


def kills(folder: Path, rounds: int, seed: int) -> Outcome:
    """R1: kill -9 at random times loses nothing acknowledged and leaves nothing half."""
    acknowledged, problems = _kill_rounds(folder / "r1", rounds, seed, attempt)
    if not acknowledged:
        problems.append("nothing was ever acknowledged: the check looked at nothing")
    tries = max(10, rounds // 10)
    _, planted = _kill_rounds(folder / "control", tries, seed, _acknowledges_early)
    return Outcome(
        rounds,
        problems,
        f"{acknowledged} operations acknowledged",
        f"acknowledged before the commit: {len(planted)} of {tries} noticed",
    )


def double_faults(folder: Path, rounds: int, seed: int) -> Outcome:
    """R4: crashes while recovering from crashes, and logs with torn ends."""
    rng = random.Random(seed)
    problems: list[str] = []
    size = 0
    for number in range(rounds):
        path = folder / f"r4-{number}"
        operations = random_operations(rng, 40)
        child = fork(lambda write, p=path, o=operations: attempt(p, o, write))
        child.wait_for(30)
        child.kill()
        child.finish()
        try:
            log = path / "journal.db-wal"
            if rng.random() < 0.5 and log.exists():  # as if the end had never reached the disk
                with log.open("r+b") as file:
                    file.truncate(rng.randrange(log.stat().st_size + 1))
            for again in range(20):  # each opening is killed, somewhere
                child = fork(lambda write, p=path: _open_and_recall(p, write))
                child.wait_for(0)
                time.sleep(0.002 * again)
                child.kill()
                child.finish()
            found = reopened(path)
            models = [Model()]
            for operation in operations:
                models.append(models[-1].after(operation))
            if not any(found == model.texts for model in models):
                problems.append(f"seed {seed}, round {number}: not the state after any operation")
            fresh = sum(f.stat().st_size for f in path.glob("journal.db*"))
            with SpectorMemory.open(path, snapshot_every=None) as memory:
                memory.compact()
            size = max(size, fresh - 2 * (path / "journal.db").stat().st_size)
        except Exception as error:
            problems.append(f"seed {seed}, round {number}: {type(error).__name__}: {error}")
        shutil.rmtree(path, ignore_errors=True)
    if size > 256 * 1024:
        problems.append(f"a journal was {size} bytes larger than twice what it holds")
    return Outcome(rounds, problems, f"{20 * rounds} openings killed", "that of R1")


def _open_and_recall(path: Path, write: Callable[[str], object]) -> None:
    with SpectorMemory.open(path, snapshot_every=None) as memory:
        write("open\n")
        memory.recall("text")
        memory.snapshot()
        time.sleep(1)


def many_openings(folder: Path, rounds: int, seed: int) -> Outcome:
    """R8: simultaneous openings, one holder of the lock, and holders that die."""
    path = folder / "r8"
    path.mkdir()
    link = folder / "r8-link"
    link.symlink_to(path)
    problems: list[str] = []

    def work(write: Callable[[str], object], number: int) -> None:
        place = link if number % 2 else path
        while time.time() < start:
            pass
        with SpectorMemory.open(place, busy_timeout=60) as memory:
            memory.remember("text of one of many", id=str(number), tags=["t"])
            if number % 10 == 0:
                memory.snapshot()

    start = time.time() + 0.3
    children = [fork(lambda write, n=number: work(write, n)) for number in range(rounds)]
    for number, child in enumerate(children):
        if child.finish(120) != 0:
            problems.append(f"opening {number}: {child.output.strip()}")
    if len(reopened(path)) != rounds:
        problems.append(f"{len(reopened(path))} of {rounds} wrote")

    def hold(write: Callable[[str], object]) -> None:
        with snapshots.exclusive(path, 5):
            write("held\n")
            time.sleep(60)

    killed = 0
    with SpectorMemory.open(path, busy_timeout=0.2, snapshot_every=None) as memory:
        for number in range(max(2, rounds // 10)):
            holder = fork(hold)
            holder.wait_for(1)
            try:
                memory.snapshot()
                problems.append(f"round {number}: two held the lock")
            except LockedError:
                pass
            holder.kill()
            holder.finish()
            memory.remember("text after the holder died", id=f"after {number}", tags=["t"])
            memory.snapshot()
            killed += 1
    control = "without the lock file: "
    original = snapshots.locked

    def unlocked(path: Path, timeout: float, doing: str) -> Any:
        return original(path.with_name(f"lock{os.getpid()}"), timeout, doing)

    snapshots.locked = unlocked  # type: ignore[assignment]
    try:
        holder = fork(hold)
        holder.wait_for(1)
        with SpectorMemory.open(path, busy_timeout=0.2, snapshot_every=None) as memory:
            memory.remember("text", tags=["t"])
            try:
                memory.snapshot()
                control += "two held it, noticed"
            except LockedError:
                control += "NOT noticed"
        holder.kill()
        holder.finish()
    finally:
        snapshots.locked = original
    return Outcome(rounds, problems, f"{killed} holders killed", control)


_LEFT_OPEN = """
    import sys, threading
    from spector import SpectorMemory
    memory = SpectorMemory.open(sys.argv[1], snapshot_every=2)
    memory.remember("text", id="process " + sys.argv[2], tags=["t"])
    def recalling():
        while True:
            try:
                memory.recall("text")
            except Exception:
                return
    for _ in range(2):
        threading.Thread(target=recalling, daemon=True).start()
"""


def exits(folder: Path, rounds: int, seed: int) -> Outcome:
    """R10: forks with threads, exits without close, objects dropped."""
    path = folder / "r10"
    problems: list[str] = []
    expected = 0

    def recalling(memory: SpectorMemory) -> None:
        while True:
            try:
                memory.recall("text")
            except Exception:
                return

    def leave_open(write: Callable[[str], object], number: int) -> None:
        memory = SpectorMemory.open(path, snapshot_every=3)
        memory.remember("text", id=str(number), tags=["t"])
        for _ in range(2):
            threading.Thread(target=recalling, args=[memory], daemon=True).start()

    def drop(write: Callable[[str], object], number: int) -> None:
        memory = SpectorMemory.open(path, snapshot_every=None)
        memory.remember("text", id=str(number), tags=["t"])
        circle: list[Any] = [memory]
        circle.append(circle)
        del memory, circle
        gc.collect()

    def fork_within(write: Callable[[str], object], number: int) -> None:
        memory = SpectorMemory.open(path, snapshot_every=None)
        threading.Thread(target=recalling, args=[memory], daemon=True).start()
        child = fork(lambda write: _refused(memory))
        if child.finish(5) != 0:
            raise Failed(child.output)
        memory.remember("text", id=str(number), tags=["t"])
        memory.close()

    for number in range(max(2, rounds // 20)):  # with the end of a real interpreter
        try:
            run(_LEFT_OPEN, path, number)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            problems.append(f"a process, round {number}: {error}")
        expected += 1
    for number in range(rounds):
        work = (leave_open, drop, fork_within)[number % 3]
        child = fork(lambda write, w=work, n=number: w(write, n), handlers=number % 3 != 2)
        try:
            if child.finish(5) != 0:
                problems.append(f"{work.__name__}, round {number}: {child.output or child.status}")
        except Failed:
            problems.append(f"{work.__name__}, round {number}: hung")
        expected += 1
    if len(reopened(path)) != expected:
        problems.append(f"{len(reopened(path))} of {expected} were stored")
    return Outcome(rounds, problems, "a third each: not closed, dropped, forked", "exit codes")


def _refused(memory: SpectorMemory) -> None:
    try:
        memory.recall("text")
    except Exception as error:
        if "open the space again here" in str(error):
            return
        raise
    raise Failed("a fork used its parent's memory")


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def growth(folder: Path, rounds: int, seed: int) -> Outcome:
    """R15: descriptors, memory and disk stay bounded."""
    problems: list[str] = []
    path = folder / "r15"
    with SpectorMemory.open(path) as memory:
        memory.remember_many({"text": f"text {n}", "id": str(n), "tags": ["t"]} for n in range(50))
        memory.snapshot()

    def once() -> None:
        with SpectorMemory.open(path) as memory:
            memory.recall("text 7")

    for _ in range(rounds // 4):
        once()
    gc.collect()
    descriptors, resident = _descriptors(), _resident()
    for _ in range(rounds):
        once()
    gc.collect()
    if _descriptors() != descriptors:
        problems.append(f"{_descriptors() - descriptors} descriptors were not given back")
    if _resident() - resident > 5 << 20:
        problems.append(f"{_resident() - resident} bytes more after {rounds} openings")
    fresh = folder / "fresh"
    items: list[dict[str, Any]] = [
        {"text": f"text {n} " * 20, "id": str(n), "tags": ["t"]} for n in range(1000)
    ]
    updates = 100 if rounds >= 100 else 5
    updated, never = folder / "updated", folder / "never pruned"
    sizes = {}
    for place, times in ((fresh, 1), (updated, updates), (never, 6 * updates // 10)):
        with SpectorMemory.open(place, snapshot_every=None if place == never else 10_000) as memory:
            for _ in range(times):
                memory.remember_many(items)
            if place == fresh:  # and two snapshots, as the others have in the end
                memory.snapshot()
                memory.remember(**items[0])
                memory.snapshot()
        sizes[place] = _size(place)
    ratio = sizes[updated] / sizes[fresh]
    if ratio > 3:
        problems.append(f"disk {ratio:.1f} times fresh after {updates} updates")
    with SpectorMemory.open(updated, snapshot_every=None) as memory:
        memory.compact()
        memory.snapshot()
        contents(memory)
    compacted = _size(updated) / sizes[fresh]
    if compacted > 1.2:
        problems.append(f"disk {compacted:.1f} times fresh after compaction")
    if not check(updated).ok:
        problems.append("doctor finds damage")
    note = (
        f"after {updates} updates of 1,000 memories disk {ratio:.2f} times fresh, compacted"
        f" {compacted:.2f}; after {6 * updates // 10} without pruning"
        f" {sizes[never] / sizes[fresh]:.2f}"
    )
    if updates == 100 and sizes[never] <= 1.5 * sizes[updated]:
        problems.append("without pruning the disk does not grow: the check is blind")
    leaked = _descriptors()
    kept = [SpectorMemory.open(path) for _ in range(3)]
    control = f"3 left open: {_descriptors() - leaked} descriptors noticed"
    for memory in kept:
        memory.close()
    return Outcome(rounds, problems, note, control)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
