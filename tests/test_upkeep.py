"""Compacting and erasing (AM-20, R16)."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from children import finish, start
from fakes import Sparse
from shell import spector
from spector import LockedError, SpectorMemory, StorageError, UnknownMemoryError
from spector.store import check
from spector.store.upkeep import check_erased, files_with

MARK = "xyzzyplughmark"


def secret(memory: SpectorMemory) -> None:
    """A memory that has the mark wherever a text can be, told twice, among others."""
    memory.remember_many({"text": f"red fox number {number}"} for number in range(50))
    for version in range(2):
        memory.remember(
            f"the password is {MARK} {version} {'long ' * 3000}",
            id=f"id-{MARK}",
            tags=[f"tag {MARK}"],
            about=[f"about {MARK}"],
            author=f"author {MARK}",
            session=f"session {MARK}",
            context=f"context {MARK}",
            source=f"source {MARK}",
            metadata={"k": MARK},
        )
    memory.remember_many({"text": f"blue owl number {number}"} for number in range(50))


def holding(path: Path) -> list[str]:
    return [file.name for file in files_with(path, MARK.encode())]


def answers(memory: SpectorMemory) -> list[Any]:
    return [
        [(hit.id, hit.score) for hit in memory.recall(query, k=200)]
        for query in ("fox", "number 7", "owl")
    ]


def test_erased_is_gone(tmp_path: Path) -> None:  # R16, AM-20
    with SpectorMemory.open(tmp_path, sparse_encoder=Sparse()) as memory:
        secret(memory)
        with SpectorMemory.open(tmp_path, sparse_encoder=Sparse()) as other:
            other.recall(MARK)
            assert holding(tmp_path)
            memory.forget(f"id-{MARK}", erase=True)
            assert holding(tmp_path) == []
            assert check_erased(tmp_path, f"id-{MARK}", MARK).ok
            assert not other.recall(MARK)
            before = answers(memory)
            assert answers(other) == before
    assert holding(tmp_path) == []
    report = check(tmp_path)
    assert (report.ok, report.memories) == (True, 100)
    with SpectorMemory.open(tmp_path, sparse_encoder=Sparse()) as memory:
        assert answers(memory) == before
        assert not memory.recall(MARK)
    assert holding(tmp_path) == []


def test_forgotten_is_not_erased(tmp_path: Path) -> None:
    """Negative control of the above."""
    with SpectorMemory.open(tmp_path) as memory:
        secret(memory)
        memory.forget(f"id-{MARK}")
        assert holding(tmp_path)
        report = check_erased(tmp_path, f"id-{MARK}", MARK)
        assert not report.ok
        assert any("holds the text" in found for found in report.found)
        memory.compact()
        assert holding(tmp_path) == []
        assert check_erased(tmp_path, f"id-{MARK}", MARK).ok


def test_erasing_what_is_not_there(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        with pytest.raises(UnknownMemoryError, match="'x'"):
            memory.forget("x", erase=True)
        with pytest.raises(TypeError, match="erase must be True or False"):
            memory.forget("x", erase=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 8 bytes"):
        check_erased(tmp_path, "x", "short")


def test_what_is_there_is_not_erased(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("text", id="x")
        assert check_erased(tmp_path, "x").found[0] == "the memory 'x' is there"
        (tmp_path / "journal.db-wal.orphan-1").write_bytes(b"?")
        assert "log of a lost journal" in check_erased(tmp_path, "x").found[-1]


READ = """
    import sqlite3, sys
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM memories").fetchone()
    print("reading", flush=True)
    sys.stdin.readline()
"""
WRITE = READ.replace('"BEGIN"', '"BEGIN IMMEDIATE"')


@contextmanager
def held(path: Path, code: str) -> Iterator[None]:
    process = start(code, path / "journal.db")
    assert process.stdout is not None
    assert process.stdout.readline() == "reading\n"
    yield
    finish(process)


def test_an_old_reader_keeps_the_log(tmp_path: Path) -> None:
    """What was forgotten stays forgotten, and the error says that more is to be done."""
    with SpectorMemory.open(tmp_path, busy_timeout=0.1) as memory:
        secret(memory)
        with held(tmp_path, READ):
            with pytest.raises(LockedError, match="may still be in it; compact again"):
                memory.forget(f"id-{MARK}", erase=True)
            assert f"id-{MARK}" not in memory
            assert not check_erased(tmp_path, f"id-{MARK}", MARK).ok
        memory.compact()
        assert holding(tmp_path) == []


def test_compacting_beside_a_writer(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path, busy_timeout=0.1) as memory:
        memory.remember("fox", id="a")
        with held(tmp_path, WRITE):
            with pytest.raises(LockedError, match="locked by another process for the 0"):
                memory.compact()
            with pytest.raises(LockedError):
                memory.forget("a", erase=True)
            assert "a" in memory
            assert [hit.id for hit in memory.recall("fox")] == ["a"]
        memory.compact()
        memory.remember("owl", id="b")
        assert len(memory) == 2


def test_compacting_gives_space_back(tmp_path: Path) -> None:  # R15
    with SpectorMemory.open(tmp_path / "fresh") as memory:
        memory.remember_many({"text": f"text {n} " * 40, "id": str(n)} for n in range(200))
        memory.compact()
        fresh = memory.status().journal_bytes
    with SpectorMemory.open(tmp_path / "used") as memory:
        for _ in range(20):
            memory.remember_many({"text": f"text {n} " * 40, "id": str(n)} for n in range(200))
        memory.remember_many({"text": "gone " * 200, "id": f"x{n}"} for n in range(500))
        for n in range(500):
            memory.forget(f"x{n}")
        before = answers(memory)
        done = memory.compact()
        assert done.bytes_after < done.bytes_before
        # Events of what is gone stay: they are 5,000 rows of some 25 bytes.
        assert done.bytes_after <= 1.2 * fresh + 40 * 5000
        assert answers(memory) == before
    assert check(tmp_path / "used").ok


def test_compacting_beside_readers_and_writers(tmp_path: Path) -> None:  # R9
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember_many({"text": f"red fox {n}", "id": f"k{n}"} for n in range(100))
        stop = threading.Event()
        failures: list[BaseException] = []

        def work(write: bool) -> None:
            try:
                number = 0
                while not stop.is_set():
                    if write:
                        memory.remember("blue owl", id=f"w{number}")
                        memory.forget(f"w{number}")
                        number += 1
                    else:
                        assert len(memory.recall("fox", k=1000)) == 100
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=[write]) for write in (True, False)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            memory.compact()
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []
    assert check(tmp_path).ok


def test_ephemeral_memories_are_compacted(tmp_path: Path) -> None:
    with SpectorMemory.ephemeral() as memory:
        secret(memory)
        memory.forget(f"id-{MARK}", erase=True)
        done = memory.compact()
        assert (done.bytes_before, done.bytes_after) == (0, 0)
        assert len(memory) == 100


def test_a_read_only_space_is_not_compacted(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("x", id="x")
        memory._space.journal._access = "mode=ro"
        with pytest.raises(StorageError, match="open for reading only"):
            memory.compact()
        memory._space.journal._access = ""


def test_nothing_is_left_in_free_pages(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        secret(memory)
        memory.forget(f"id-{MARK}", erase=True)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)


def test_commands_that_erase(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        secret(memory)
    done = spector("doctor", "--erased", f"id-{MARK}", "--path", tmp_path, fails=True)
    assert (done.code, "is there" in done.out) == (1, True)
    spector("forget", "--erase", f"id-{MARK}", "--path", tmp_path)
    done = spector("doctor", "--erased", f"id-{MARK}", "--text", MARK, "--path", tmp_path, "--json")
    assert done.json == {"id": f"id-{MARK}", "ok": True, "found": []}
    done = spector("compact", "--path", tmp_path, "--json")
    assert done.json["bytes_after"] <= done.json["bytes_before"]
    assert spector("doctor", "--text", "something", "--path", tmp_path, fails=True).code == 2
