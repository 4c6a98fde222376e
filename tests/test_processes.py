"""Several processes on one space, and processes that die (PER-9, PER-10)."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from children import TIMEOUT, finish, run, start
from spector import CorruptionError, LockedError, SpectorMemory
from spector.store import check
from spector.store.upkeep import check_erased

WRITE = """
    import sys
    from spector import SpectorMemory

    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with SpectorMemory.open(path) as memory:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(count):
            memory.remember(f"text {number} of {name}", id=f"{name}-{number}", tags=[name])
            memory.remember(f"shared {number} by {name}", id="shared")
"""


def query_all(memory: SpectorMemory) -> list[object]:
    return [
        [
            (hit.id, hit.score, hit.text)
            for hit in memory.recall(query, k=1000, recall_mode="observe")
        ]
        for query in ("text", "text 7", "shared", "of w0")
    ]


@pytest.mark.parametrize("processes", [2, 4])
def test_every_write_of_every_process_is_kept(tmp_path: Path, processes: int) -> None:
    writers = [start(WRITE, tmp_path, f"w{number}", 60) for number in range(processes)]
    with SpectorMemory.open(tmp_path) as watcher:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        while any(writer.poll() is None for writer in writers):
            for hit in watcher.recall(
                "text of", k=1000, recall_mode="observe"
            ):  # a reader is never in the way
                assert hit.text.endswith(hit.id.split("-")[0])
        for writer in writers:
            finish(writer)
        expected = {f"w{p}-{number}" for p in range(processes) for number in range(60)}
        assert {memory.id for memory in watcher.browse(limit=1000)} == expected | {"shared"}
        with SpectorMemory.open(tmp_path) as fresh:
            assert query_all(fresh) == query_all(watcher)
            assert fresh.browse(limit=1000) == watcher.browse(limit=1000)
            assert fresh.status().events == processes * 120
    assert check(tmp_path).ok


def test_another_process_sees_it_at_once(tmp_path: Path) -> None:  # F-015, F-060
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("a rare heliotrope", id="here")
        assert memory.recall("heliotrope", recall_mode="observe")
        look = """
            import sys
            from spector import SpectorMemory
            with SpectorMemory.open(sys.argv[1]) as memory:
                print([hit.id for hit in memory.recall("heliotrope")])
                memory.remember("another heliotrope", id="there")
                memory.forget("here")
        """
        assert run(look, tmp_path) == "['here']\n"
        assert [hit.id for hit in memory.recall("heliotrope")] == ["there"]
        assert "here" not in memory


def test_one_space_made_by_many_at_once(tmp_path: Path) -> None:  # R8
    """Also by a relative path and through a link."""
    folder = tmp_path / "new" / "space"
    link = tmp_path / "link"
    link.symlink_to(folder)
    code = """
        import sys, os
        from spector import SpectorMemory
        sys.stdin.readline()
        os.chdir(sys.argv[2])
        with SpectorMemory.open(sys.argv[1]) as memory:
            memory.remember("text", id=sys.argv[3])
    """
    paths = [folder, "new/space", folder, "new/../new/space"]
    children = [start(code, path, tmp_path, number) for number, path in enumerate(paths)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        finish(child)
    run(code, link, tmp_path, "link")
    with SpectorMemory.open(folder) as memory:
        assert sorted(found.id for found in memory.browse()) == ["0", "1", "2", "3", "link"]
    assert check(folder).ok
    assert sorted(p.name for p in folder.iterdir()) == ["journal.db", "lock"]


# --- locks --------------------------------------------------------------------------------------

HOLD = """
    import sqlite3, sys
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    print("held", flush=True)
    sys.stdin.readline()
    connection.execute("ROLLBACK")
    connection.close()
"""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another process holds the write lock."""
    holder = start(HOLD, path / "journal.db")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    yield
    finish(holder)


def test_a_lock_held_too_long(tmp_path: Path) -> None:  # F-079, F-081
    with SpectorMemory.open(tmp_path, busy_timeout=0.2) as memory:
        memory.remember("before", id="a")
        with held(tmp_path):
            start_of_call = time.monotonic()
            with pytest.raises(LockedError, match=r"locked by another process for the \d\.\d s"):
                memory.remember("during", id="b")
            assert time.monotonic() - start_of_call >= 0.2
            with pytest.raises(LockedError) as raised:
                memory.forget("a")
            assert str(tmp_path / "journal.db") in str(raised.value)
            # Reading and opening need no lock.
            assert [hit.id for hit in memory.recall("before")] == ["a"]
            with SpectorMemory.open(tmp_path) as other:
                assert [hit.id for hit in other.recall("before")] == ["a"]
        assert len(memory) == 1
        memory.remember("after", id="b")
        assert len(memory) == 2


def test_a_lock_held_shortly_is_waited_for(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        holder = start(HOLD, tmp_path / "journal.db")
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        holder.stdin.write("release\n")
        holder.stdin.flush()
        memory.remember("waited", id="a")
        finish(holder)
        assert "a" in memory


def test_a_space_that_another_process_is_making(tmp_path: Path) -> None:
    import fcntl

    with (tmp_path / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LockedError, match=r"which is making the space, for the \d\.\d s"):
            SpectorMemory.open(tmp_path, busy_timeout=0.1)
    SpectorMemory.open(tmp_path).close()


def test_a_writer_killed_inside_its_transaction_blocks_nobody(tmp_path: Path) -> None:  # R8
    with SpectorMemory.open(tmp_path, busy_timeout=TIMEOUT) as memory:
        code = """
            import sqlite3, sys, time
            connection = sqlite3.connect(sys.argv[1], isolation_level=None)
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM events")
            print("held", flush=True)
            time.sleep(60)
        """
        memory.remember("kept", id="a")
        child = start(code, tmp_path / "journal.db")
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        child.kill()
        child.communicate()
        memory.remember("and more", id="b")
        assert len(memory) == 2
    assert check(tmp_path).ok


# --- death --------------------------------------------------------------------------------------

SCRIBBLE = """
    import random, sys
    from spector import SpectorMemory

    path, seed = sys.argv[1], int(sys.argv[2])
    rng = random.Random(seed)
    with SpectorMemory.open(path) as memory:
        number = len(memory)
        while True:
            if rng.random() < 0.5:
                name = memory.remember(f"text {number}", id=f"{seed}-{number}", tags=["t"])
                print(name, flush=True)
                number += 1
            else:
                names = memory.remember_many(
                    {"text": f"text {n}", "id": f"{seed}-{n}"} for n in range(number, number + 40)
                )
                print(*names, flush=True)
                number += 40
"""


def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:  # F-033, F-039, R1
    rng = random.Random(11)
    acknowledged: set[str] = set()
    for seed in range(12):
        child = start(SCRIBBLE, tmp_path, seed)
        assert child.stdout is not None
        printed = child.stdout.readline()
        time.sleep(rng.random() * 0.15)
        child.send_signal(signal.SIGKILL)
        rest, _ = child.communicate(timeout=TIMEOUT)
        lines = (printed + rest).split("\n")
        acknowledged.update(name for line in lines[:-1] for name in line.split())
        with SpectorMemory.open(tmp_path) as memory:
            stored = {found.id: found.text for found in memory.browse(limit=10**6)}
            assert acknowledged <= stored.keys()
            assert len(memory.recall("text", k=10**6)) == len(stored)
            for name, text in stored.items():
                assert text == f"text {name.split('-')[1]}"
    assert len(acknowledged) > 100
    assert check(tmp_path).ok


def test_a_killed_batch_is_whole_or_absent(tmp_path: Path) -> None:  # R1
    code = """
        import sys
        from spector import SpectorMemory
        with SpectorMemory.open(sys.argv[1]) as memory:
            items = ({"text": f"text {n}", "id": str(n)} for n in range(10**6))
            memory.remember_many(items, batch_size=50, progress=lambda n: print(n, flush=True))
    """
    for number in range(4):
        path = tmp_path / str(number)
        child = start(code, path)
        assert child.stdout is not None
        for _ in range(5):
            child.stdout.readline()
        time.sleep(0.007 * number)
        child.kill()
        rest, _ = child.communicate(timeout=TIMEOUT)
        printed = 250 if "\n" not in rest else int(rest.split("\n")[-2])
        with SpectorMemory.open(path) as memory:
            assert len(memory) % 50 == 0
            assert len(memory) >= printed >= 250
            assert len(memory.recall("text", k=10**6)) == len(memory)


def test_exit_without_close(tmp_path: Path) -> None:  # R10
    code = """
        import sys, threading
        from spector import SpectorMemory
        memory = SpectorMemory.open(sys.argv[1])
        memory.remember("kept", id="a")
        def write():
            while True:
                try:
                    memory.recall("kept")
                except Exception:
                    return
        threading.Thread(target=write, daemon=True).start()
    """
    run(code, tmp_path)
    with SpectorMemory.open(tmp_path) as memory:
        assert "a" in memory


# --- forks --------------------------------------------------------------------------------------

FORK = """
    import os, sys, warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks beside threads
    from spector import SpectorError, SpectorMemory

    memory = SpectorMemory.open(sys.argv[1])
    memory.remember("from the parent", id="a")
    assert len(memory.recall("parent")) == 1
    child = os.fork()
    if child == 0:
        calls = (lambda: memory.recall("parent"), lambda: memory.remember("x"), memory.status)
        for call in calls:
            try:
                call()
            except SpectorError as error:
                assert "open the space again here" in str(error), error
            else:
                raise AssertionError
        memory.close()
        with SpectorMemory.open(sys.argv[1]) as own:
            own.remember("from the child", id="b")
            found = {hit.id for hit in own.recall("from")}
            assert found - {"d"} == {"a", "b"}  # the parent may have been quick
            print("child waits", flush=True)
            sys.stdin.readline()
            own.remember("from the child, after the parent closed", id="c")
        sys.exit(0)
    import time
    while "b" not in memory:
        time.sleep(0.01)
    memory.remember("from the parent again", id="d")
    assert {hit.id for hit in memory.recall("from")} == {"a", "b", "d"}
    memory.close()
    print("parent closed", flush=True)
    assert os.waitpid(child, 0)[1] == 0
    with SpectorMemory.open(sys.argv[1]) as memory:
        assert {hit.id for hit in memory.recall("from")} == {"a", "b", "c", "d"}
"""


def test_a_forked_child_opens_the_space_again(tmp_path: Path) -> None:  # F-078
    """SQLite takes no lock that it believes to have: the parent's close must not lose a write."""
    process = start(FORK, tmp_path)
    assert process.stdout is not None
    assert process.stdin is not None
    lines = {process.stdout.readline(), process.stdout.readline()}
    assert lines == {"child waits\n", "parent closed\n"}
    process.stdin.write("go\n")
    process.stdin.flush()
    finish(process)
    assert check(tmp_path).ok


def test_a_fork_during_a_write_cannot_open_the_space(tmp_path: Path) -> None:
    code = """
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from spector import SpectorError, SpectorMemory

        memory = SpectorMemory.open(sys.argv[1])
        journal = memory._space.journal
        with journal.transaction():
            child = os.fork()
            if child == 0:
                try:
                    SpectorMemory.open(sys.argv[1])
                except SpectorError as error:
                    assert "in use by another thread when this process was forked" in str(error)
                    os._exit(0)
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        memory.remember("works", id="a")
        memory.close()
    """
    run(code, tmp_path)


def _opens_again(path: Path) -> None:
    SpectorMemory.open(path).close()


def _leaves_it_open(path: Path) -> None:
    left = SpectorMemory.open(path)
    left.forget(left.remember("a second object of this process"))


def _backs_up(path: Path) -> None:
    with SpectorMemory.open(path) as memory:
        memory.backup(path.parent / uuid.uuid4().hex)


@pytest.mark.parametrize(
    "look",
    [
        _opens_again,
        _leaves_it_open,
        _backs_up,
        check,
        lambda path: check_erased(path, "never there", "no such text"),
    ],
    ids=["opened", "twice", "backup", "doctor", "erased"],
)
def test_what_looks_at_the_file_takes_no_lock_away(
    tmp_path: Path, look: Callable[[Path], object]
) -> None:
    """A process that closes a descriptor of a file loses SQLite's locks on it, and another one
    that closes the space would then remove the log that this one writes to (R1, R8)."""
    path = tmp_path / "space"
    write = """
        import sys
        from spector import SpectorMemory
        with SpectorMemory.open(sys.argv[1]) as memory:
            memory.remember("text", id=sys.argv[2])
            print(len(memory))
    """
    with SpectorMemory.open(path) as memory:
        memory.remember("text", id="first")
        look(path)
        assert run(write, path, "second") == "2\n"
        memory.remember("text", id="third")
        assert run(write, path, "fourth") == "4\n"
        look(path)
        memory.remember("text", id="fifth")
    with SpectorMemory.open(path) as memory:
        assert len(memory) == 5
    assert check(path).ok


def test_looking_at_a_file_leaves_no_descriptor(tmp_path: Path) -> None:
    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    with SpectorMemory.open(tmp_path / "other"):
        gc.collect()
        check(tmp_path / "other")  # closes what was left of earlier spaces
        before = descriptors()
        with SpectorMemory.open(tmp_path / "space") as memory:
            memory.remember("text")
            check(tmp_path / "space")
            once = descriptors()
            for _ in range(20):
                check(tmp_path / "space")
                check_erased(tmp_path / "space", "never there", "no such text")
            assert descriptors() == once
        del memory
        gc.collect()
        check(tmp_path / "space")  # the next look at any journal closes what is not needed
        assert descriptors() == before


def _recall_in_child(path: str) -> list[str]:
    with SpectorMemory.open(path) as memory:
        return [hit.id for hit in memory.recall("text")]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start_a_process(tmp_path: Path, method: str) -> None:  # F-078
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("text", id="a")
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.apply_async(_recall_in_child, (str(tmp_path),)).get(TIMEOUT) == ["a"]


# --- files that move under an open handle -------------------------------------------------------


def test_a_journal_removed_while_open(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("text", id="a")
        for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
            (tmp_path / name).unlink()
        for call in (lambda: memory.remember("lost?"), lambda: memory.recall("text")):
            with pytest.raises(CorruptionError, match="was removed or replaced while it was open"):
                call()
        with SpectorMemory.open(tmp_path) as fresh:
            fresh.remember("new", id="b")
            with pytest.raises(CorruptionError, match="open the space again"):
                memory.remember("lost?")
            assert [found.id for found in fresh.browse()] == ["b"]


def test_a_journal_that_went_back_in_time(tmp_path: Path) -> None:
    """Its content was restored in place, from a copy taken earlier."""
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("old", id="a")
        with closing(sqlite3.connect(":memory:")) as copy:
            with closing(sqlite3.connect(tmp_path / "journal.db")) as journal:
                journal.backup(copy)
            memory.remember("new", id="b")
            with closing(sqlite3.connect(tmp_path / "journal.db")) as journal:
                copy.backup(journal)
        for call in (lambda: memory.remember("x"), lambda: memory.recall("new")):
            with pytest.raises(CorruptionError, match="ends at event 1, but event 2 was seen"):
                call()
    with SpectorMemory.open(tmp_path) as memory:
        assert [found.id for found in memory.browse()] == ["a"]


def test_descriptors_are_given_back(tmp_path: Path) -> None:  # R15
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    SpectorMemory.open(tmp_path).close()
    before = open_files()
    for _ in range(50):
        with SpectorMemory.open(tmp_path) as memory:
            memory.remember("text", id="a")
            memory.recall("text")
    assert open_files() == before
