"""Copies of a space: backup, export and import (PER-1, AM-17, AM-20)."""

from __future__ import annotations

import errno
import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from children import finish, start
from fakes import Dense, Sparse, Tokens
from shell import spector
from spector import (
    ConfigurationError,
    CorruptionError,
    DuplicateMemoryError,
    SpectorMemory,
    StorageError,
    VersionError,
)
from spector.store import check
from spector.store.model import MEMORY_COLUMNS, Entity, Relation, encode_entities, memory_crc

COLUMNS = [name for name in MEMORY_COLUMNS if name not in ("slot", "crc")]


def rows(memory: SpectorMemory) -> list[tuple[Any, ...]]:
    """All that is primary, without slots, in the order of slots."""
    with memory._space.journal.reader() as reader:
        found = []
        for row in reader.every_row():
            vectors = [each[1:5] for each in reader.vectors([row[0]]).get(row[0], [])]
            found.append((*row[1:-1], vectors))
        return found


def change_row(memory: SpectorMemory, memory_id: str, **columns: Any) -> None:
    """Give a memory what no method stores yet."""
    with memory._space.journal.transaction() as transaction:
        row = dict(zip(MEMORY_COLUMNS, transaction.find(memory_id), strict=True))
        old = row.pop("crc")
        row.update(columns)
        crc = memory_crc(*row.values())
        names = ", ".join(columns)
        transaction._connection.execute(
            f"UPDATE memories SET ({names}, crc) = ({'?, ' * len(columns)}?) WHERE slot = ?",
            (*columns.values(), crc, row["slot"]),
        )
        transaction._count("memories", 0, crc - old)


def models() -> dict[str, Any]:
    return {
        "embedding_provider": Dense(8),
        "sparse_encoder": Sparse({"fox": ["animal"]}),
        "token_encoder": Tokens(4),
    }


def fill(memory: SpectorMemory) -> None:
    """Memories that have something in every column."""
    memory.remember("gone", id="gone")
    memory.remember(
        "red fox in the snow\n\u2028\x00",
        id="a",
        tags=["animal", "Winter"],
        author="ann",
        session="s1",
        context="a film",
        metadata={"n": [1, None, 2.5e-7], "é": {"x": True}},
        about=["Red Fox", "Snow"],
        importance=7.25,
        valence=-100,
        arousal=250,
        unresolved=True,
        pinned=True,
        timestamp="1999-12-31T23:59:59.999Z",
    )
    memory.remember("blue owl at night", id="b", session="s1", type="episodic", source="seen")
    memory.remember("", id="empty", type="working")
    memory.remember("grey fox", id="c", tags=["animal"], type="procedural")
    memory.forget("gone")
    memory.remember("blue owl at noon", id="b", session="s2", type="episodic")
    entities = encode_entities(
        [Entity("Ann", "PERSON", "AGENT"), Entity("X")], [Relation("Ann", "MANAGES", "X")]
    )
    change_row(
        memory,
        "b",
        flags=63,
        entities=entities,
        recalls=3,
        strength=1.25,
        passive=9,
        last_passive=1_900_000_000_123,
    )
    change_row(memory, "c", surprise=0.1 + 0.2)
    memory.suppress("b", "wrong")
    memory.suppress("c")


def answers(memory: SpectorMemory) -> list[Any]:
    """What follows from the memories; the order in which they were told is not in an export."""
    return [
        [
            (hit.id, hit.score)
            for hit in memory.recall(query, k=10, graph_expansion=False, recall_mode="observe")
        ]
        for query in ("fox", "owl noon", "red fox film", "night")
    ]


# --- export and import --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["space.jsonl", "space.jsonl.gz"])
def test_a_round_trip_is_exact(tmp_path: Path, name: str) -> None:  # PER-1
    file = tmp_path / name
    with SpectorMemory.open(tmp_path / "one", **models()) as one:
        fill(one)
        assert one.export(file) == 4
        with SpectorMemory.open(tmp_path / "two", **models()) as two:
            assert two.import_(file) == 4
            assert rows(two) == rows(one)
            assert answers(two) == answers(one)
            assert two.export(tmp_path / "again.jsonl") == 4
        assert check(tmp_path / "two").ok
    exported = file.read_bytes()
    if name.endswith(".gz"):
        exported = gzip.decompress(exported)
    assert exported == (tmp_path / "again.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["again.jsonl", "one", "two", name]
    )
    with (  # from disk
        SpectorMemory.open(tmp_path / "two", **models()) as two,
        SpectorMemory.open(tmp_path / "one", **models()) as one,
    ):
        assert rows(two) == rows(one)
        assert answers(two) == answers(one)


def test_every_column_is_exported(tmp_path: Path) -> None:
    with SpectorMemory.ephemeral() as memory:
        fill(memory)
        memory.export(tmp_path / "e.jsonl")
    keys = set()
    for line in (tmp_path / "e.jsonl").read_text("utf-8").split("\n")[1:-1]:
        keys |= json.loads(line).keys()
    assert keys == {*COLUMNS, "relations"}


def test_vectors_can_be_left_out(tmp_path: Path) -> None:
    with SpectorMemory.ephemeral(**models()) as memory:
        fill(memory)
        memory.export(tmp_path / "e.jsonl", vectors=False)
        with SpectorMemory.ephemeral(embedding_provider=Dense(5, name="other")) as other:
            other.import_(tmp_path / "e.jsonl")
            assert [row[:-1] for row in rows(other)] == [row[:-1] for row in rows(memory)]
            assert other.status().without_vectors == 4
            assert other.encode_missing() == 4


def test_vectors_of_another_model_are_refused(tmp_path: Path) -> None:
    with SpectorMemory.ephemeral(**models()) as memory:
        fill(memory)
        memory.export(tmp_path / "e.jsonl")
    for other in (Dense(8, name="other"), Dense(9)):
        with SpectorMemory.ephemeral(embedding_provider=other) as memory:
            memory.remember("owl")
            with pytest.raises(ConfigurationError, match="the export has dense vectors of"):
                memory.import_(tmp_path / "e.jsonl")
            assert len(memory) == 1
    with SpectorMemory.ephemeral(embedding_provider=Dense(8, name="other")) as memory:
        with pytest.raises(ConfigurationError, match="model 'fake-dense'"):  # it would never open
            memory.import_(tmp_path / "e.jsonl")
        assert len(memory) == 0


def test_vectors_by_hand_are_taken_along(tmp_path: Path) -> None:
    with SpectorMemory.ephemeral() as memory:
        memory.remember("x", id="x", vector=[1, 2, 3])
        memory.export(tmp_path / "e.jsonl")
    with SpectorMemory.ephemeral() as memory:
        memory.import_(tmp_path / "e.jsonl")
        assert [hit.id for hit in memory.recall(np.asarray([1, 2, 3.0]))] == ["x"]


def test_conflicts(tmp_path: Path) -> None:
    with SpectorMemory.ephemeral() as memory:
        memory.remember("new fox", id="a", tags=["new"])
        memory.remember("new owl", id="b")
        memory.export(tmp_path / "e.jsonl")
    for mode, expected in (("update", "new fox"), ("ignore", "old fox")):
        with SpectorMemory.ephemeral() as memory:
            memory.remember("old fox", id="a", tags=["old"], vector=[1.0])
            stored = memory.import_(tmp_path / "e.jsonl", on_conflict=mode)
            assert stored == 1 + (mode == "update")
            assert memory.inspect("a").text == expected
            assert memory.inspect("b").text == "new owl"
            assert [hit.text for hit in memory.recall("fox")] == [expected]
            assert len(memory.recall("fox", tags=["old"])) == (mode == "ignore")
    with SpectorMemory.ephemeral() as memory:
        memory.remember("old fox", id="a")
        with pytest.raises(DuplicateMemoryError, match="'a'"):
            memory.import_(tmp_path / "e.jsonl", on_conflict="error")
        assert len(memory) == 1
    with SpectorMemory.ephemeral() as memory:  # twice is once
        memory.import_(tmp_path / "e.jsonl")
        before = rows(memory)
        seen: list[int] = []
        memory.import_(tmp_path / "e.jsonl", batch_size=1, progress=seen.append)
        assert (rows(memory), seen) == (before, [1, 2])


def _line(**changes: Any) -> dict[str, Any]:
    item: dict[str, Any] = {
        "id": "a",
        "text": "x",
        "type": "semantic",
        "source": "s",
        "timestamp": 1,
        "created": 1,
        "updated": 1,
        "tags": [],
        "metadata": {},
        "about": [],
        "importance": 1,
        "surprise": 0,
        "valence": 0,
        "arousal": 0,
        "flags": 0,
        "entities": [],
        "relations": [],
        "recalls": 0,
        "strength": 1,
        "passive": 0,
        "last_passive": 0,
    }
    item |= changes
    return {key: value for key, value in item.items() if value is not ...}


DENSE = {"kind": "dense", "model": "m", "content": 0, "data": "AACAPwAAgD8="}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": ...}, "no 'text'"),
        ({"new": 1}, "the unknown key 'new'"),
        ({"text": 1}, "text must be a str"),
        ({"id": ""}, "id must be a non-empty str"),
        ({"type": "x"}, "type must be one of"),
        ({"importance": 11}, "importance"),
        ({"importance": "1"}, "importance"),
        ({"valence": 128}, "valence"),
        ({"flags": -1}, "flags"),
        ({"flags": True}, "flags"),
        ({"recalls": 2**32}, "recalls"),
        ({"strength": 0}, "strength"),
        ({"tags": ["", "x"]}, "tags"),
        ({"timestamp": 10**18}, "timestamp"),
        ({"entities": [["a"]]}, "values to unpack"),
        ({"entities": [["", "PERSON", None]]}, "name of an entity"),
        ({"relations": [["a", "b"]]}, "argument"),
        ({"vectors": [{**DENSE, "model": "other"}]}, "which the first line does not name"),
        ({"vectors": [{**DENSE, "kind": "x"}]}, "kind of a vector"),
        ({"vectors": [{**DENSE, "data": "AAA"}]}, "not base64"),
        ({"vectors": [{**DENSE, "data": "AACAPw=="}]}, "damaged"),
        ({"vectors": [{**DENSE, "data": "AAAAAAAAAAA="}]}, "damaged"),
        ({"vectors": [{**DENSE, "data": "AADAfwAAgD8="}]}, "damaged"),
        ({"vectors": [{"kind": "dense"}]}, "a vector must have"),
        ({"vectors": [{**DENSE, "kind": "sparse", "data": "////fw=="}]}, "damaged"),
        ({"vectors": [{**DENSE, "kind": "tokens", "data": "AADAfwEB"}]}, "damaged"),
    ],
)
def test_a_bad_line_is_refused_by_its_number(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    shape = {
        "dense": "m",
        "dimensions": 2,
        "sparse": "m",
        "tokens": "m",
        "token_dimensions": 2,
    }
    settings = {"k1": 1.2, "b": 0.75, "analyzer": "code", "language": "english"}
    header = {"spector": {"export": 1, "settings": settings, "vectors": shape}}
    lines = [header, _line(id="sound", vectors=[DENSE]), _line(**changes)]
    file = tmp_path / "e.jsonl"
    file.write_text("\n".join(json.dumps(line, separators=(",", ":")) for line in lines))
    with SpectorMemory.ephemeral() as memory:
        with pytest.raises(ValueError, match=f"line 3: .*{message}"):
            memory.import_(file, batch_size=1)
        assert [found.id for found in memory.browse()] == ["sound"]


def test_what_is_no_export(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    with SpectorMemory.ephemeral() as memory:
        file.write_text('{"text": "x"}\n')
        with pytest.raises(CorruptionError, match=r"e\.jsonl is not an export"):
            memory.import_(file)
        file.write_text('{"spector":{"export":2}}\n')
        with pytest.raises(VersionError, match="an export of version 2"):
            memory.import_(file)
        file.write_text('{"spector":{"export":1}}\n')
        with pytest.raises(CorruptionError, match="the first line of the export is damaged"):
            memory.import_(file)
        with pytest.raises(StorageError, match="absent") as raised:
            memory.import_(tmp_path / "absent")
        assert raised.value.errno == errno.ENOENT
        with pytest.raises(StorageError, match="absent"):
            memory.export(tmp_path / "absent" / "e.jsonl")
        assert len(memory) == 0


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ITEMS = st.fixed_dictionaries(
    {"text": TEXTS},
    optional={
        "id": st.sampled_from("abc"),
        "context": TEXTS,
        "tags": st.lists(st.sampled_from(["t", "U", "ß"]), max_size=2),
        "session": st.sampled_from(["s", "\u00e9"]),
        "author": st.sampled_from(["Ann", "ann"]),
        "metadata": st.dictionaries(TEXTS, st.floats(allow_nan=False, allow_infinity=False)),
        "about": st.lists(st.sampled_from(["X", " y "]), max_size=2),
        "timestamp": st.integers(-(10**12), 10**12),
        "importance": st.floats(0.05, 10),
        "valence": st.integers(-128, 127),
        "pinned": st.booleans(),
    },
)


@given(st.lists(ITEMS, max_size=6))
@settings(max_examples=50)
def test_any_memory_comes_back(tmp_path_factory: pytest.TempPathFactory, items: list[Any]) -> None:
    file = tmp_path_factory.mktemp("export") / "e.jsonl"
    with SpectorMemory.ephemeral() as one, SpectorMemory.ephemeral() as two:
        one.remember_many(items)
        one.export(file)
        two.import_(file)
        assert rows(two) == rows(one)


# --- backup -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ephemeral", [False, True])
def test_a_backup_is_a_space(tmp_path: Path, ephemeral: bool) -> None:
    made = SpectorMemory.ephemeral if ephemeral else SpectorMemory.open
    arguments = [] if ephemeral else [tmp_path / "space"]
    with made(*arguments, **models()) as memory:
        fill(memory)
        report = memory.backup(tmp_path / "new" / "copy")
        assert (report.ok, report.memories, report.events) == (True, 4, 9)
        assert report.path == str(tmp_path / "new" / "copy" / "journal.db")
        memory.remember("later", id="later")
        (tmp_path / "empty").mkdir()
        memory.backup(tmp_path / "empty")
        with SpectorMemory.open(tmp_path / "empty", **models()) as copy:
            assert rows(copy) == rows(memory)
            assert answers(copy) == answers(memory)
            copy.remember("of the copy", id="own")
            assert "own" not in memory
    assert sorted(p.name for p in (tmp_path / "new" / "copy").iterdir()) == ["journal.db"]
    with SpectorMemory.open(tmp_path / "new" / "copy", **models()) as copy:
        assert len(copy) == 4


def test_a_backup_overwrites_nothing(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path / "space") as memory:
        memory.remember("x", id="x")
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "file").write_text("mine")
        (tmp_path / "file").write_text("mine")
        for dest, code in (
            ("full", errno.ENOTEMPTY),
            ("space", errno.ENOTEMPTY),
            ("file", errno.ENOTDIR),
        ):
            with pytest.raises(StorageError) as raised:
                memory.backup(tmp_path / dest)
            assert raised.value.errno == code
        # What a killed backup leaves is no obstacle.
        (tmp_path / "left").mkdir()
        (tmp_path / "left" / "journal.db.new").write_text("half")
        assert memory.backup(tmp_path / "left").memories == 1
    assert (tmp_path / "full" / "file").read_text() == "mine"


def test_a_damaged_space_makes_no_backup(tmp_path: Path) -> None:  # AM-18
    with SpectorMemory.open(tmp_path / "space") as memory:
        memory.remember("red fox", id="a")
        with closing(sqlite3.connect(tmp_path / "space" / "journal.db")) as connection:
            connection.execute("UPDATE memories SET text = 'red cat'")
            connection.commit()
        with pytest.raises(CorruptionError, match=r"the copy of .* is damaged"):
            memory.backup(tmp_path / "copy")
        assert not (tmp_path / "copy").exists()


WRITE = """
    import sys
    from spector import SpectorMemory

    with SpectorMemory.open(sys.argv[1]) as memory:
        print("ready", flush=True)
        number = 0
        while True:
            memory.remember_many({"text": "pair", "id": f"{number}{end}"} for end in "ab")
            number += 1
"""


def test_a_backup_while_another_process_writes(tmp_path: Path) -> None:  # R8
    with SpectorMemory.open(tmp_path / "space") as memory:
        writer = start(WRITE, tmp_path / "space")
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        while len(memory) < 20:
            pass
        for number in range(5):
            report = memory.backup(tmp_path / f"copy{number}")
            assert report.memories % 2 == 0  # whole transactions only
            with SpectorMemory.open(tmp_path / f"copy{number}") as copy:
                assert len(copy.recall("pair", k=10**6)) == report.memories
        writer.kill()
        writer.communicate()


def test_import_while_another_process_writes(tmp_path: Path) -> None:
    with SpectorMemory.ephemeral() as memory:
        memory.remember_many({"text": "fox", "id": f"x{number}"} for number in range(50))
        memory.export(tmp_path / "e.jsonl")
    code = """
        import sys
        from spector import SpectorMemory
        with SpectorMemory.open(sys.argv[1]) as memory:
            for number in range(50):
                memory.remember("owl", id=str(number))
    """
    with SpectorMemory.open(tmp_path / "space") as memory:
        writer = start(code, tmp_path / "space")
        assert memory.import_(tmp_path / "e.jsonl", batch_size=3) == 50
        finish(writer)
        assert len(memory) == len(memory.recall("fox owl", k=1000)) == 100
    assert check(tmp_path / "space").ok


# --- the commands -------------------------------------------------------------------------------


def test_commands_that_copy(tmp_path: Path) -> None:
    space = tmp_path / "space"
    with SpectorMemory.open(space, k1=0.9) as memory:
        fill(memory)
        expected = rows(memory)
    file = tmp_path / "e.jsonl.gz"
    done = spector("export", file, "--path", space, "--json")
    assert done.json == {"file": str(file), "memories": 4}
    done = spector("import", file, "--path", tmp_path / "two", "--json")
    assert done.json == {"stored": 4, "files": 1}
    done = spector("backup", tmp_path / "three", "--path", space)
    assert "4 memories and 9 events, nothing wrong" in done.err
    for name in ("two", "three"):
        with SpectorMemory.open(tmp_path / name) as memory:
            assert rows(memory) == expected
            assert memory.status().k1 == 0.9
    done = spector("backup", tmp_path / "three", "--path", space, fails=True)
    assert "is not empty" in done.err
    (tmp_path / "notes.txt").write_text("a note")
    done = spector("import", file, tmp_path / "notes.txt", "--path", space, fails=True)
    assert done.code == 2
    assert "an export must be imported by itself" in done.err
