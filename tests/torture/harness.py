"""What the checks have in common: a model of a space, processes to kill, and how they report."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import random
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spector import SpectorMemory, SpectorWarning
from spector.store import check

TIMEOUT = 30.0


class Skipped(Exception):
    """The check cannot run here; the message says why."""


class Failed(AssertionError):
    """A promise does not hold; the message says how to see it again."""


@dataclass
class Outcome:
    """What a check found.

    Attributes
    ----------
    rounds : int
        How often something was tried.
    problems : list of str
        Where the promise did not hold, each with what is needed to see it again.
    note : str
        What else should be known: counts that show that the check looked at something.
    control : str
        How the negative control ended: how often the same check failed with a planted fault.
    """

    rounds: int = 0
    problems: list[str] = field(default_factory=list)
    note: str = ""
    control: str = ""


Check = Callable[[Path, int, int], Outcome]  # folder, rounds, seed


@dataclass(frozen=True)
class Model:
    """Texts by id, as somebody who keeps count from outside expects them."""

    texts: dict[str, str] = field(default_factory=dict)

    def after(self, operation: tuple[Any, ...]) -> Model:
        """The model after an operation."""
        texts = dict(self.texts)
        kind, *what = operation
        if kind == "remember":
            texts.update(dict(what[0]))
        elif kind in ("forget", "erase"):
            texts.pop(what[0], None)
        return Model(texts)


def perform(memory: SpectorMemory, operation: tuple[Any, ...]) -> None:
    """Do to a memory what `Model.after` does to a model."""
    kind, *what = operation
    if kind == "remember":
        memory.remember_many(
            {"text": text, "id": id, "tags": ["t", text[:3]], "session": "s", "about": text[:6]}
            for id, text in what[0]
        )
    elif kind == "forget":
        memory.forget(what[0])
    elif kind == "erase":
        memory.forget(what[0], erase=True)
    elif kind == "prune":
        memory._space.prune(always=True)
    elif kind == "reflect":  # the step that writes most; of `reflect` no error gets out
        memory._space.reflect_entities(0, 0.5, 100)
    elif kind == "look":
        contents(memory)
    else:
        getattr(memory, kind)()


def contents(memory: SpectorMemory) -> dict[str, str]:
    """All texts by id; what recalls and lists say must agree with it."""
    stored = {found.id: found.text for found in memory.browse(limit=10**6)}
    if len(memory) != len(stored):
        raise Failed(f"{len(stored)} memories are listed, {len(memory)} are counted")
    recalled = {hit.id: hit.text for hit in memory.recall("text", k=10**6, recall_mode="observe")}
    if recalled != stored:
        raise Failed(f"recalls find {len(recalled)} of {len(stored)} memories")
    hits = memory.recall("text", k=10**6, tags=["t"], recall_mode="observe")
    tagged = {hit.id for hit in hits}
    if tagged != stored.keys():
        raise Failed(f"a filter finds {len(tagged)} of {len(stored)} memories")
    return stored


def reopened(path: Path, **options: Any) -> dict[str, str]:
    """The contents of a space that is opened now; a damaged snapshot is no failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpectorWarning)
        with SpectorMemory.open(path, snapshot_every=None, **options) as memory:
            found = contents(memory)
    report = check(path)
    if not report.ok:
        raise Failed(f"doctor: {report.problems[0]}")
    return found


def random_operations(rng: random.Random, count: int, first: int = 0) -> list[tuple[Any, ...]]:
    """Operations that each make sense after the ones before."""
    known: list[str] = []
    operations: list[tuple[Any, ...]] = []
    for number in range(first, first + count):
        choice = rng.random()
        if choice < 0.15 and known:
            operations.append(("forget", known.pop(rng.randrange(len(known)))))
        elif choice < 0.3 and known:
            again = rng.choice(known)
            operations.append(("remember", [(again, f"text {again} told again at {number}")]))
        else:
            size = rng.choice([1, 1, 1, 3, 20])
            ids = [f"{number}-{part}" for part in range(size)]
            known += ids
            operations.append(("remember", [(id, f"text {id}") for id in ids]))
        if rng.random() < 0.08:
            operations.append((rng.choice(["snapshot", "compact", "prune", "reflect"]),))
    return operations


def attempt(path: Path, operations: list[tuple[Any, ...]], write: Callable[[str], object]) -> None:
    """In a child: do all operations and say of each that it began, and that it was acknowledged."""
    memory = SpectorMemory.open(path, snapshot_every=None)
    for number, operation in enumerate(operations):
        write(f"{number} begun\n")
        perform(memory, operation)
        write(f"{number} done\n")
    memory.close()
    write("closed\n")


def told(output: str) -> tuple[set[int], set[int]]:
    """The numbers of operations that were begun and acknowledged; half a line counts as nothing."""
    begun: set[int] = set()
    done: set[int] = set()
    for line in output.split("\n")[:-1]:
        number, _, what = line.partition(" ")
        if what == "begun":
            begun.add(int(number))
        elif what == "done":
            done.add(int(number))
    return begun, done


def agrees(
    found: dict[str, str], before: Model, operations: list[tuple[Any, ...]], output: str
) -> str | None:
    """What is wrong with a space after a child that said `output` did some of the operations."""
    begun, done = told(output)
    model = before
    for number, operation in enumerate(operations):
        if number in done:
            model = model.after(operation)
    allowed = [model]
    open_ones = sorted(begun - done)
    if open_ones:  # the one in flight is there as a whole, or not at all
        allowed.append(model.after(operations[open_ones[-1]]))
    if any(found == each.texts for each in allowed):
        return None
    expected = allowed[0].texts
    lost = sorted(expected.keys() - found.keys())
    more = sorted(found.keys() - expected.keys())
    return f"{len(done)} acknowledged; lost {lost[:3]}, not expected {more[:3]}"


# Processes. The harness has imported the library, so a fork costs milliseconds and no import.


@dataclass
class Child:
    """A forked process, what it wrote so far, and how it ended."""

    pid: int
    descriptor: int
    output: str = ""
    status: int | None = None
    _ended: bool = False

    def wait_for(self, lines: int) -> None:
        """Until it has written so many lines, or ended, or for too long."""
        end = time.monotonic() + TIMEOUT
        while self.output.count("\n") < lines and self._read(end):
            pass

    def stop(self) -> None:
        """Let it do nothing any more; what it had begun in the kernel is finished."""
        os.kill(self.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """End it as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def finish(self, timeout: float = TIMEOUT) -> int:
        """Read the rest and return the exit status; one that hangs is killed and fails."""
        end = time.monotonic() + timeout
        while self._read(end):
            pass
        hung = not self._ended
        if hung:
            self.kill()
        os.close(self.descriptor)
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        if hung:
            raise Failed("a process hung")
        return self.status

    def read(self) -> bool:
        """Read what it writes next; False if it has ended."""
        return self._read(time.monotonic() + TIMEOUT) or not self._ended

    def _read(self, end: float) -> bool:
        """Read what there is; False at the end of the output, and when it is too late."""
        ready, _, _ = select.select([self.descriptor], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        part = os.read(self.descriptor, 1 << 16)
        self.output += part.decode()
        self._ended = not part
        return bool(part)


def fork(work: Callable[[Callable[[str], object]], object], *, handlers: bool = False) -> Child:
    """Run `work(write)` in a child; exit 0 when it returns, 3 when it raises.

    With `handlers` the child runs those for its exit, as a Python process that ends does.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return Child(pid, reader)
    code = 3
    try:
        os.close(reader)
        warnings.simplefilter("ignore")
        work(lambda text: os.write(writer, text.encode()))
        code = 0
    except BaseException as error:
        os.write(writer, f"error {type(error).__name__} {str(error)[:200]!r}\n".encode())
    try:
        if handlers:
            atexit._run_exitfuncs()
    finally:
        os._exit(code)


@contextlib.contextmanager
def patched(owner: object, name: str, value: object) -> Iterator[None]:
    """Plant a fault for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def shown(operations: list[tuple[Any, ...]]) -> str:
    """Operations for a report."""
    return json.dumps(operations)[:200]
