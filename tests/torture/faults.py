"""Disks that refuse, at every step (R2, R17), that are full (R6), and power that fails (R3)."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import spector.store.journal as journal_module
from spector import SpectorMemory, StorageError, UnknownMemoryError
from torture.harness import (
    Failed,
    Model,
    Outcome,
    Skipped,
    attempt,
    contents,
    fork,
    patched,
    perform,
    reopened,
)

_LANES = 2

SOURCE = Path(__file__).with_name("faults.c")
MEMORY = Path(__file__).with_name("memory.cpp")
MODES = ("no space", "input/output error", "half a write", "exit before", "exit after half")
NO_MEMORY = 1  # of the other library, which has one mode
#: What R2 does at every step: something of everything that writes, and looks at what is there then.
SCRIPT: list[tuple[Any, ...]] = [
    ("remember", [("a", "text a")]),
    ("remember", [(f"b{n}", f"text b{n} " * 30) for n in range(12)]),
    ("snapshot",),
    ("remember", [("a", "text a told again")]),
    ("forget", "b3"),
    ("remember", [("c", "text c " * 700)]),
    ("reflect",),
    ("prune",),
    ("compact",),
    ("remember", [("d", "text d")]),
    ("look",),
    ("snapshot",),
    ("erase", "c"),
    ("remember", [(f"e{n}", f"text e{n}") for n in range(3)]),
    ("forget", "d"),
    ("look",),
]


def library(folder: Path, source: Path = SOURCE) -> Path:
    """A compiled library.

    Raises
    ------
    Skipped
        There is no C compiler, or this is not Linux.
    """
    kinds = ("c++", "g++", "clang++") if source.suffix == ".cpp" else ("cc", "gcc", "clang")
    compiler = next((found for kind in kinds if (found := shutil.which(kind))), None)
    if compiler is None or sys.platform != "linux":
        raise Skipped(f"needs Linux and a compiler for {source.name}, which injects faults")
    made = folder / f"lib{source.stem}.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return made


# The runner: a process with the library loaded that forks one child for each step.


def runner() -> None:
    """Read tasks from stdin, one JSON document a line; answer each on stdout."""
    warnings.simplefilter("ignore")
    faults = ctypes.CDLL(os.environ["SPECTOR_FAULTS"])
    for line in sys.stdin:
        task = json.loads(line)
        path = Path(task["path"])
        operations = [tuple(operation) for operation in task["operations"]]

        def work(
            write: Callable[[str], object],
            task: dict[str, Any] = task,
            path: Path = path,
            operations: list[tuple[Any, ...]] = operations,
        ) -> None:
            faults.fault_arm(os.fsencode(task["path"]), task["step"], task["mode"])
            try:
                _every_operation(path, operations, write, task["early"])
            finally:
                write(f"seen {faults.fault_seen()}\n")
                faults.fault_arm(b"", 0, 0)

        child = fork(work)
        try:
            status: int | str = child.finish()
        except Failed as error:
            status = str(error)
        print(json.dumps({"status": status, "output": child.output}), flush=True)


def _every_operation(
    path: Path,
    operations: list[tuple[Any, ...]],
    write: Callable[[str], object],
    early: bool,
) -> None:
    """As `attempt`, but an operation that fails is told and the next one tried, in the same object;
    only one that says that the space must be opened again is."""
    memory: SpectorMemory | None = None
    for number, operation in enumerate(operations):
        write(f"{number} begun\n")
        try:
            if memory is None:
                memory = SpectorMemory.open(path, snapshot_every=None)
            if early:
                write(f"{number} done\n")
            perform(memory, operation)
        except MemoryError:
            write(f"{number} failed MemoryError\n")
        except OSError as error:  # StorageError is one
            write(f"{number} failed {type(error).__name__} {error.errno}\n")
            if "open the space again" in str(error) and memory is not None:
                memory.close()
                memory = None
        except UnknownMemoryError:  # what it is about was refused before
            write(f"{number} failed\n")
        else:
            write(f"{number} done\n")
    if memory is not None:
        with contextlib.suppress(OSError, MemoryError):
            memory.close()


@contextlib.contextmanager
def _running(made: Path) -> Iterator[Callable[..., dict[str, Any]]]:
    environment = {
        **os.environ,
        "LD_PRELOAD": str(made),
        "SPECTOR_FAULTS": str(made),
        "PYTHONPATH": os.pathsep.join([str(SOURCE.parents[1]), *sys.path[1:]]),
    }
    code = (
        "import warnings; warnings.simplefilter('ignore'); import torture.faults as f; f.runner()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        encoding="utf-8",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def ask(path: Path, step: int, mode: int, early: bool = False) -> dict[str, Any]:
        task = {"path": str(path), "step": step, "mode": mode, "early": early}
        stdin.write(json.dumps({**task, "operations": SCRIPT}) + "\n")
        stdin.flush()
        answer: dict[str, Any] = json.loads(stdout.readline())
        return answer

    try:
        yield ask
    finally:
        stdin.close()
        process.wait(10)


def _judge(path: Path, answer: dict[str, Any]) -> str | None:
    """What is wrong after a run of the script with a fault in it."""
    output: str = answer["output"]
    if answer["status"] not in (0, 77):
        return f"ended with {answer['status']}: {output[-200:]}"
    done, uncertain = set(), []
    for line in output.split("\n")[:-1]:
        number, _, what = line.partition(" ")
        if what == "begun":
            uncertain.append(int(number))
        elif what == "done":
            done.add(int(number))
    # What failed or was in flight may be there as a whole, and nothing else.
    found = reopened(path) if (path / "journal.db").exists() else {}
    models = [Model()]
    for number in uncertain:
        after = [model.after(SCRIPT[number]) for model in models]
        models = after if number in done else [*models, *after]
    if any(found == model.texts for model in models):
        return None
    expected = models[0].texts
    lost, more = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    return f"lost {lost[:3]}, not expected {more[:3]}: {output[-200:]!r}"


def _tried(
    folder: Path, made: Path, tries: list[tuple[int, int]], early: bool = False
) -> tuple[int, list[str]]:
    """How many runs with a fault had nothing to tell the caller, and after which something was
    wrong."""

    def lane(number: int, write: Callable[[str], object]) -> None:
        path = folder / f"space{number}"
        with _running(made) as ask:
            for step, mode in tries[number::_LANES]:
                shutil.rmtree(path, ignore_errors=True)
                answer = ask(path, step, mode, early)
                missed = "seen" in answer["output"] and "failed" not in answer["output"]
                try:
                    wrong = _judge(path, answer)
                except Exception as error:
                    wrong = f"{type(error).__name__}: {error}"
                write(json.dumps([step, mode, missed, wrong]) + "\n")

    children = [fork(lambda write, n=n: lane(n, write)) for n in range(_LANES)]
    for child in children:
        if child.finish(7200) != 0:
            raise Failed(f"a process ended with {child.status}: {child.output[-200:]!r}")
    found = sorted(json.loads(line) for child in children for line in child.output.splitlines())
    if len(found) != len(tries):
        raise Failed(f"{len(tries)} runs, but {len(found)} answers")
    problems = [
        f"step {step}, {MODES[mode - 1]}: {wrong}" for step, mode, _, wrong in found if wrong
    ]
    return sum(missed for _, _, missed, _ in found), problems


def every_step(folder: Path, rounds: int, seed: int) -> Outcome:
    """R2, R17: each call that changes a file fails once, in five ways."""
    made = library(folder)
    with _running(made) as ask:
        steps = int(ask(folder / "clean", 0, 0)["output"].split("seen ")[1])
    if steps < 100:
        raise Failed(f"only {steps} calls were counted: the library does not see them")
    # Every step in every way, or each step in one and as many more as there may be.
    tries = {(step, 1 + (step + seed) % 5) for step in range(1, steps + 1)}
    others = [(step, mode) for step in range(1, steps + 1) for mode in range(1, 6)]
    random.Random(seed).shuffle(others)
    if rounds < steps:
        tries = set()
    tries.update(others[: max(0, rounds - len(tries))])
    missed, problems = _tried(folder, made, sorted(tries))
    chosen = sorted(tries)[:: max(1, len(tries) // 60)]
    _, noticed = _tried(folder, made, chosen, early=True)
    each = "each at least once" if rounds >= steps else "not all of them"
    return Outcome(
        len(tries),
        problems,
        f"{steps} steps, {each}, {len(MODES)} faults; {missed} runs had nothing to tell the caller",
        f"acknowledged before the commit: {len(noticed)} of {len(chosen)} noticed",
    )


def no_memory(folder: Path, rounds: int, seed: int) -> Outcome:
    """R7: any allocation of the core fails once; the call raises MemoryError, nothing is lost."""
    made = library(folder, MEMORY)
    with _running(made) as ask:
        steps = int(ask(folder / "clean", 2**31 - 1, NO_MEMORY)["output"].split("seen ")[1])
    if steps < 100:
        raise Failed(f"only {steps} allocations were counted: the library does not see them")
    chosen = random.Random(seed).sample(range(1, steps + 1), min(rounds, steps))
    missed, problems = _tried(folder, made, [(step, NO_MEMORY) for step in sorted(chosen)])
    problems = [problem.replace(MODES[0], "no memory") for problem in problems]
    note = f"{steps} allocations; {missed} runs had nothing to tell the caller"
    return Outcome(len(chosen), problems, note, "that of R2")


# Power


@contextlib.contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    """An ext4 image at a place.

    Raises
    ------
    Skipped
        This process may not mount.
    """
    place.mkdir(exist_ok=True)
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        raise Skipped("needs root and mkfs.ext4 to mount images")
    done = subprocess.run(
        ["mount", "-o", "loop", str(image), str(place)], capture_output=True, encoding="utf-8"
    )
    if done.returncode:
        raise Skipped(f"mount -o loop failed: {done.stderr.strip()}")
    try:
        yield place
    finally:
        for _ in range(50):
            if subprocess.run(["umount", str(place)], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)


def _cuts(folder: Path, rounds: int, seed: int, synchronous: str) -> tuple[int, list[str]]:
    """How many operations were acknowledged, and what was lost in which cut."""
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(48 << 20)
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        raise Skipped("needs root and mkfs.ext4 to mount images")
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)
    rng = random.Random(seed)
    problems: list[str] = []
    acknowledged = 0
    with mounted(image, folder / "live") as live:
        for number in range(rounds):
            path = live / f"space{number}"
            operations = [
                ("remember", [(f"{number}-{n}", f"text {n}")]) if n % 9 else ("snapshot",)
                for n in range(1, 3000)
            ]

            def work(
                write: Callable[[str], object],
                path: Path = path,
                operations: list[tuple[Any, ...]] = operations,
            ) -> None:
                original = journal_module._connect

                def connect(*arguments: Any) -> Any:
                    connection = original(*arguments)
                    connection.execute(f"PRAGMA synchronous = {synchronous}")
                    return connection

                with patched(journal_module, "_connect", connect):
                    attempt(path, operations, write)

            child = fork(work)
            child.wait_for(rng.randrange(20, 60))
            said = child.output  # before the copy, or it would be blamed for what came after
            child.stop()
            # A name for each: a loop device may hold the last one for a while after the unmount.
            copy = folder / f"copy{number}"
            _copy_at_rest(image, copy)
            child.kill()
            child.finish()
            try:
                with mounted(copy, folder / "after") as after:
                    wrong = _lost(after / f"space{number}", said, operations)
            except Skipped:
                raise
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                problems.append(f"seed {seed}, cut {number}: {wrong}")
            acknowledged += said.count("done")
            copy.unlink()
            shutil.rmtree(path, ignore_errors=True)
    return acknowledged, problems


def _copy_at_rest(image: Path, copy: Path) -> None:
    """Copy an image as it was at one moment.

    Nobody makes changes, but the kernel may still be writing what was synchronised: a copy that is
    older at its start than at its end is of a disk that there never was. What was not synchronised
    stays in memory for seconds.
    """
    for _ in range(200):
        before = image.stat().st_mtime_ns
        shutil.copyfile(image, copy)
        if image.stat().st_mtime_ns == before:
            return
    raise Failed("the image was never at rest")


def _lost(path: Path, said: str, operations: list[tuple[Any, ...]]) -> str | None:
    found = reopened(path)
    done = said.count("done")
    expected = Model()
    for operation in operations[:done]:
        expected = expected.after(operation)
    missing = expected.texts.keys() - found.keys()
    return f"{len(missing)} of {len(expected.texts)} acknowledged are lost" if missing else None


def power_cuts(folder: Path, rounds: int, seed: int) -> Outcome:
    """R3: a copy of the disk taken while a process writes holds all that was acknowledged."""
    acknowledged, problems = _cuts(folder, rounds, seed, "FULL")
    if not acknowledged:
        problems.append("nothing was acknowledged before a cut")
    tries = max(2, rounds // 5)
    _, planted = _cuts(folder, tries, seed, "OFF")
    if not planted:
        problems.append("without syncs nothing is lost: the check is blind")
    return Outcome(
        rounds,
        problems,
        f"{acknowledged} operations acknowledged before the cuts",
        f"without syncs {len(planted)} of {tries} cuts lost something",
    )


# Space


@contextlib.contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of so many KiB."""
    place.mkdir()
    if os.geteuid() != 0:
        raise Skipped("needs root to mount a small tmpfs")
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True).returncode:
        raise Skipped("mounting a tmpfs failed")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
        place.rmdir()


def full_disks(folder: Path, rounds: int, seed: int) -> Outcome:
    """R6: a full disk is an error, and no damage; when there is space again, writing goes on."""
    problems: list[str] = []
    refused = 0
    sizes = [(256, 512, 1024, 4096)[number % 4] for number in range(rounds)]
    for number, size in enumerate(sizes):
        with small_disk(folder / f"disk{number}", size) as disk:
            child = fork(lambda write, d=disk, n=number: _fill(d, write, seed + n))
            if child.finish(60) != 0:
                problems.append(f"{size} KiB: {child.output.strip()[-300:]}")
            refused += child.output.count("refused")
    child = fork(lambda write: _limited(folder / "limited", write))
    if child.finish(60) != 0:
        problems.append(f"file size limit: {child.output.strip()[-300:]}")
    if not refused:
        problems.append("no disk was ever full")
    return Outcome(len(sizes) + 1, problems, f"{refused} writes were refused", "by the errors seen")


def _fill(disk: Path, write: Callable[[str], object], seed: int) -> None:
    rng = random.Random(seed)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(40 << 10))
    expected: dict[str, str] = {}
    try:
        memory = SpectorMemory.open(disk / "space", snapshot_every=20)
    except StorageError as error:
        write(f"refused at opening {error.errno}\n")
        return
    full = 0
    for number in range(100_000):
        id, text = str(number), f"text {number} " * rng.randrange(1, 60)
        try:
            memory.remember(text, id=id, tags=["t"])
            expected[id] = text
        except StorageError as error:
            write(f"refused {error.errno}\n")
            full += 1
            if contents(memory) != expected:
                raise Failed("after a refusal something is lost or there too much") from None
            if full == 1:
                ballast.unlink()
            if full == 3:
                break
    memory.close()
    if reopened(disk / "space") != expected:
        raise Failed("after reopening something is lost")


def _limited(path: Path, write: Callable[[str], object]) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    memory = SpectorMemory.open(path, snapshot_every=None)
    memory.remember("text before", id="before", tags=["t"])
    size = sum(file.stat().st_size for file in path.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        memory.remember("text " * 200_000, id="large", tags=["t"])
    except StorageError as error:
        write(f"refused {error.errno}\n")
    else:
        raise Failed("nothing was refused")
    if contents(memory).keys() != {"before"}:
        raise Failed("something is lost")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    memory.close()
    with SpectorMemory.open(path) as memory:
        memory.remember("text after", id="after", tags=["t"])
    if reopened(path).keys() != {"before", "after"}:
        raise Failed("something is lost after reopening")
