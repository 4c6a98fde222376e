"""Files that change under the library (R5), and what must be gone from them (R16)."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import spector.store.reader as reader_module
from spector import CorruptionError, SpectorMemory, StorageError, VersionError
from spector.store import snapshots
from spector.store.upkeep import check_erased, files_with
from torture.harness import Failed, Model, Outcome, fork, patched, perform

check_module = sys.modules["spector.store.check"]  # its name in the package is the function's

_REFUSALS = (CorruptionError, VersionError, StorageError)
_LANES = 2
_HANG = 20  # seconds

#: A change of a file: its name, and what is done to its bytes.
Change = tuple[str, Callable[[bytearray], object]]


def small_space(path: Path) -> None:
    """A space of pages of 512 bytes with everything in it, and a snapshot of most of it."""
    with SpectorMemory.open(path, snapshot_every=None, clock=lambda: 10**12, seed=1) as memory:
        for number in range(6):
            memory.remember(
                f"text {number} of a red fox in the snow",
                id=f"m{number}",
                tags=["t", f"t{number % 2}"],
                session="s",
                author=["Ann", None][number % 2],
                about=["Snow"] if number == 2 else [],
                metadata={"n": number},
                valence=10 * number,
                vector=[1.0, number],
            )
        memory.forget("m1")
        memory.remember("text 4 told again", id="m4", tags=["t"], vector=[2.0, 1.0])
        memory.snapshot()
        memory.remember("text after the snapshot", id="after", tags=["t"], vector=[0.5, 1.0])
    with closing(sqlite3.connect(path / "journal.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA page_size = 512")
        connection.execute("VACUUM")
        connection.execute("PRAGMA journal_mode = WAL")


def answers(path: Path) -> Iterator[Any]:
    """All that can be asked of the small space, one after the other: one that is refused must not
    hide that those before it were wrong."""
    with SpectorMemory.open(path, snapshot_every=None, clock=lambda: 10**12) as memory:

        def recall(query: Any, **more: Any) -> list[Any]:
            hits = memory.recall(query, k=50, recall_mode="observe", **more)
            return [(hit.id, round(hit.score, 6), hit.text) for hit in hits]

        yield recall("fox text")  # before anything that looks at the tables as a whole
        yield recall("snow")
        yield recall([1.0, 2.0])
        yield recall("text", tags=["t0"])
        yield recall("text", min_valence=25)
        yield recall("text", author="Ann")
        yield recall("text", type="semantic", since=0)
        yield recall("text", min_importance=0.2)
        yield memory.browse(limit=100)
        yield ["m1" in memory, "m2" in memory, len(memory)]
        yield [edge.tolist() for edge in memory._space.replica.graphs.hebbian.edges()[:3]]


def _changes(path: Path, names: Iterable[str], share: float, seed: int) -> list[Change]:
    """A flip of one bit in each byte, and blocks that are zero, swapped or cut off."""
    rng = random.Random(seed)
    changes: list[Change] = []

    def flip(place: int, bit: int) -> Callable[[bytearray], object]:
        return lambda data: data.__setitem__(place, data[place] ^ (1 << bit))

    def zero(start: int, size: int) -> Callable[[bytearray], object]:
        return lambda data: data.__setitem__(slice(start, start + size), bytes(size))

    def swap(a: int, b: int) -> Callable[[bytearray], object]:
        def work(data: bytearray) -> None:
            data[a : a + 512], data[b : b + 512] = data[b : b + 512], data[a : a + 512]

        return work

    def cut(size: int) -> Callable[[bytearray], object]:
        return lambda data: data.__delitem__(slice(size, None))

    for name in names:
        size = (path / name).stat().st_size
        for place in range(size):
            if rng.random() < share:
                changes.append((name, flip(place, rng.randrange(8))))
        for start in range(0, size - 512, 512):
            changes.append((name, zero(start, 512)))
            changes.append((name, swap(start, rng.randrange(0, size // 512) * 512)))
            changes.append((name, cut(start + rng.randrange(512))))
    rng.shuffle(changes)
    return changes


def _in_lanes(
    folder: Path,
    original: Path,
    changes: list[Change],
    judge: Callable[[Path], str],
    *,
    only_reads: bool = False,
) -> tuple[dict[str, int], list[str]]:
    """What `judge` says of the space after each change, counted, and all that is wrong."""

    def lane(number: int, write: Callable[[str], object]) -> None:
        def late(*_: object) -> None:
            raise Failed("hangs")

        signal.signal(signal.SIGALRM, late)
        path = folder / f"lane{number}"
        for place in range(number, len(changes), _LANES):
            name, change = changes[place]
            if not only_reads or not path.exists():
                shutil.rmtree(path, ignore_errors=True)
                shutil.copytree(original, path)
            data = bytearray((path / name).read_bytes())
            change(data)
            (path / name).write_bytes(data)
            write(f"at {place}\n")
            signal.alarm(_HANG)
            try:
                verdict = judge(path)
            except _REFUSALS:
                verdict = "refused"
            except BaseException as error:
                verdict = f"WRONG {type(error).__name__}: {str(error)[:100]!r}"
            signal.alarm(0)
            if only_reads:
                shutil.copyfile(original / name, path / name)
            if data == (original / name).read_bytes():
                verdict = "unchanged"
            write(f"{verdict} \x00{name} change {place}\n")

    children = [fork(lambda write, n=n: lane(n, write)) for n in range(_LANES)]
    counts: dict[str, int] = {}
    problems: list[str] = []
    for child in children:
        if child.finish(3600) != 0:
            problems.append(f"a process ended with {child.status}: {child.output[-200:]!r}")
        for line in child.output.split("\n"):
            verdict, found, where = line.partition(" \x00")
            if found:
                kind = verdict.split(" ")[0]
                counts[kind] = counts.get(kind, 0) + 1
                if kind == "WRONG":
                    problems.append(f"{where}: {verdict}")
    return counts, problems


def every_byte(folder: Path, rounds: int, seed: int) -> Outcome:
    """R5: whatever changes in a file, answers are right or refused."""
    original = folder / "original"
    small_space(original)
    right = list(answers(original))
    snapshot = next(original.glob("snapshot-*")).name
    files = [f"{snapshot}/{path.name}" for path in sorted((original / snapshot).iterdir())]

    def judge(path: Path) -> str:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for place, (found, expected) in enumerate(zip(answers(path), right, strict=True)):
                if found != expected:
                    return f"WRONG answer {place}"
        return "set-aside" if seen else "right"

    def recognised(path: Path) -> str:
        snapshots.read(path / snapshot)
        return "WRONG: not noticed"

    size = sum((original / name).stat().st_size for name in ("journal.db", *files))
    share = min(1.0, rounds / size)
    # Files of snapshots: each byte against the checksums, some of them through an opening.
    counts, problems = _in_lanes(
        folder,
        original,
        _changes(original, files, 4 * share, seed),
        recognised,
        only_reads=True,
    )
    through, more = _in_lanes(
        folder, original, _changes(original, files, share / 8, seed + 1), judge
    )
    journal, worse = _in_lanes(
        folder, original, _changes(original, ["journal.db"], share, seed + 2), judge
    )
    problems += [*more, *worse]
    total = sum(sum(each.values()) for each in (counts, through, journal))
    with (
        patched(reader_module, "row_problem", lambda row: None),
        patched(check_module, "row_problem", lambda row: None),
        patched(check_module.Audit, "problems", lambda self, reader: iter(())),
        patched(reader_module.Reader, "quick_problems", lambda self: iter(())),
    ):
        some = _changes(original, ["journal.db"], share / 8, seed + 3)
        planted, _ = _in_lanes(folder, original, some, judge)
    wrong = planted.get("WRONG", 0)
    if not wrong:
        problems.append("without checksums no answer was wrong: the check is blind")
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(journal.items()))
    each = "each" if share == 1 else f"{share:.0%}"
    return Outcome(
        total,
        problems,
        f"{each} of {size:,} bytes: {counts.get('refused', 0)} changes of snapshots noticed,"
        f" {through.get('set-aside', 0)} openings did without one; journal: {told}",
        f"without checksums of rows {wrong} of {sum(planted.values())} answers wrong",
    )


def torn_logs(folder: Path, rounds: int, seed: int) -> Outcome:
    """R5 for the log: what is damaged in it takes with it what came later, never a part of it."""
    rng = random.Random(seed)
    original = folder / "original"
    operations: list[tuple[Any, ...]] = [
        ("remember", [(f"m{n}", f"text {n}")]) if n % 4 else ("forget", f"m{n - 1}")
        for n in range(1, 16)
    ]
    child = fork(lambda write: _left_behind(original, operations, write))
    child.wait_for(1)
    child.kill()
    child.finish()
    models = [Model()]
    for operation in operations:
        models.append(models[-1].after(operation))
    size = (original / "journal.db-wal").stat().st_size

    def change(number: int) -> Callable[[bytearray], object]:
        place = rng.randrange(size)
        if number % 3 == 0:
            return lambda data: data.__delitem__(slice(place, None))
        return lambda data: data.__setitem__(place, data[place] ^ (1 << number % 8))

    def judge(path: Path) -> str:
        for left in path.glob("*-shm"):
            left.unlink()
        with SpectorMemory.open(path, snapshot_every=None) as memory:
            found = {each.id: each.text for each in memory.browse(limit=1000)}
        if found == models[-1].texts:
            return "right"
        return "earlier" if any(found == each.texts for each in models) else "WRONG state"

    changes = [("journal.db-wal", change(number)) for number in range(rounds)]
    counts, problems = _in_lanes(folder, original, changes, judge)
    if counts.get("earlier", 0) == 0:
        problems.append("no change of the log had any effect: the check is blind")
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return Outcome(rounds, problems, told, "by the states found to be earlier ones")


def _left_behind(
    path: Path, operations: list[tuple[Any, ...]], write: Callable[[str], object]
) -> None:
    memory = SpectorMemory.open(path, snapshot_every=None)
    for operation in operations:
        perform(memory, operation)
    write("written\n")
    signal.pause()


def erased(folder: Path, rounds: int, seed: int) -> Outcome:
    """R16: no byte of what was erased is in any file."""
    rng = random.Random(seed)
    problems: list[str] = []
    noticed = 0
    for number in range(rounds):
        path = folder / f"r16-{number % 5}"
        mark = "".join(rng.choices("bcdfghjklmnpqrstvwxz", k=14))
        with (
            SpectorMemory.open(path, snapshot_every=rng.choice([None, 5])) as memory,
            SpectorMemory.open(path, snapshot_every=rng.choice([None, 5])) as other,
        ):
            for version in range(rng.randrange(1, 4)):
                memory.remember(
                    f"text {mark} {'x ' * rng.randrange(4000)}{version}",
                    id=f"id {mark}",
                    tags=[mark],
                    about=[mark],
                    author=mark,
                    context=mark,
                )
                other.remember(f"text {number} {version}", tags=["t"], session="s")
            if rng.random() < 0.7:
                rng.choice([memory, other]).snapshot()
            who = rng.choice([memory, other])
            if number % 5 == 4:  # the control
                who.forget(f"id {mark}")
                noticed += bool(list(files_with(path, mark.encode())))
                who.compact()
                continue
            who.forget(f"id {mark}", erase=True)
            rng.choice([memory, other]).snapshot()
            left = [file.name for file in files_with(path, mark.encode())]
            if left or not check_erased(path, f"id {mark}", mark).ok:
                problems.append(f"seed {seed}, round {number}: {left}")
    return Outcome(
        rounds,
        problems,
        "two handles, with and without snapshots",
        f"forgotten only: {noticed} found",
    )
