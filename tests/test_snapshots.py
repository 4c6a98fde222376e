"""Snapshots: opening gives what it would give without them, whatever happened to them (PER-1 to
PER-9, AM-18 to AM-21)."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from children import TIMEOUT, finish, run, start
from fakes import Dense, Sparse, Tokens
from shell import spector
from spector import (
    ConfigurationError,
    CorruptionError,
    LockedError,
    SpectorMemory,
    SpectorWarning,
    StorageError,
)
from spector.store import Space, check, snapshots
from spector.store.upkeep import files_with
from test_upkeep import MARK, secret

QUERIES = ("fox", "owl night", "red fox film", "Ann", "snow", "text 3")


def models() -> dict[str, Any]:
    return {
        "embedding_provider": Dense(8),
        "sparse_encoder": Sparse({"fox": ["animal"]}),
        "token_encoder": Tokens(4),
    }


def fill(memory: SpectorMemory, first: int = 0) -> None:
    """Memories of every kind, some of them changed and some gone."""
    for number in range(first, first + 12):
        memory.remember(
            f"{'red fox' if number % 3 else 'blue owl'} text {number} in the snow",
            id=f"m{number}",
            session=f"s{number % 2}" if number % 5 else None,
            tags=[f"t{number % 4}", "all"] if number % 3 else [],
            about=["Snow", f"Film {number % 3}"] if number % 4 == 0 else [],
            author=["Ann", "Bob", None][number % 3],
            entities=[("Ann", "PERSON"), ("Lab", "PLACE"), (f"Tool {number % 2}", "TOOL")],
            relations=[("Ann", "USES", f"Tool {number % 2}")],
            type="episodic" if number % 2 else "semantic",
            importance=1 + number % 7,
            valence=number,
        )
    memory.forget(f"m{first + 3}")
    memory.remember("blue owl at night", id=f"m{first + 1}", tags=["t9"], session="s0")
    memory.reinforce(f"m{first}", True)
    memory.suppress(f"m{first + 4}", "wrong")
    memory.pin(f"m{first + 5}")
    memory.schedule_reminder("call Ann", at=2 * 10**12)
    for query in ("fox", "snow"):
        memory.recall(query, session="s0")
    memory.flush()


def state(memory: SpectorMemory) -> list[Any]:
    """What recalls give, and what the stores hold."""
    answers = [
        [(hit.id, hit.score, hit.text) for hit in memory.recall(query, recall_mode="observe", k=50)]
        for query in QUERIES
    ]
    answers += [[hit.id for hit in memory.recall("fox", recall_mode="observe", k=50, tags=["all"])]]
    answers += [
        [hit.id for hit in memory.recall("fox", recall_mode="observe", k=50, min_valence=3)]
    ]
    return [*answers, *stores(memory)]


def stores(memory: SpectorMemory) -> list[Any]:
    replica = memory._space.replica
    graphs = replica.graphs
    stats = replica.index.stats()
    edges = graphs.hebbian.edges()
    chain = graphs.temporal.records()
    slots = replica.records.slots().tolist()
    return [
        [stats[name] for name in ("documents", "terms", "postings", "total_length")],
        [column.tolist() for column in (edges.a, edges.b, edges.weight, edges.last_cycle)],
        [column.tolist() for column in (chain.prev, chain.next, chain.session, chain.time)],
        sorted(graphs.coactivation.pairs()),
        [graphs.capture.tags(slot) for slot in range(graphs.size)],
        [(slot, replica.records.headers([slot]).tobytes()) for slot in slots],
        [None if (v := replica.records.vector(slot)) is None else v.tolist() for slot in slots],
        (len(replica.sparse), len(replica.tokens), len(graphs.entities), len(graphs.names)),
        json.dumps([replica.learning.as_dict(), replica.learning.bandit.stats()]),
        sorted(replica.learning.sequence.edges()),
        [sorted(replica.suppressed), sorted(replica.reminders.items())],
        sorted(graphs._sessions.items()),
        sorted(graphs._recent.items()),
        sorted(graphs._newest.items()),
        sorted(graphs._newest_in.items()),
        sorted((slot, sorted(of)) for slot, of in graphs._recent_in.items()),
    ]


@contextlib.contextmanager
def built_anew() -> Iterator[None]:
    """Spaces open without looking at their snapshots."""
    original = Space._load_snapshot
    Space._load_snapshot = lambda self, reader: False  # type: ignore[method-assign]
    try:
        yield
    finally:
        Space._load_snapshot = original  # type: ignore[method-assign]


def opened(path: Path, **options: Any) -> tuple[list[Any], int]:
    """The state of a space, and the event of the snapshot that it was opened from."""
    with SpectorMemory.open(path, snapshot_every=None, **options) as memory:
        used = memory._space._saved
        return state(memory), used


def expected(path: Path, **options: Any) -> list[Any]:
    with built_anew():
        return opened(path, **options)[0]


def names(path: Path) -> list[str]:
    return sorted(p.name for p in path.iterdir() if "snapshot" in p.name)


# --- making and opening -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [dict, models], ids=["keywords", "models"])
def test_opening_from_a_snapshot(tmp_path: Path, make: Callable[[], dict[str, Any]]) -> None:
    """PER-9."""
    with SpectorMemory.open(tmp_path, **make()) as memory:
        fill(memory)
        assert memory.snapshot() == 20
        assert memory.snapshot() == 20
        assert names(tmp_path) == ["snapshot-20"]
        live = state(memory)
    assert opened(tmp_path, **make()) == (live, 20)
    assert expected(tmp_path, **make()) == live
    with SpectorMemory.open(tmp_path, **make()) as memory:  # and the events since
        fill(memory, 9)
        live = state(memory)
    assert opened(tmp_path, **make()) == (live, 20)
    assert expected(tmp_path, **make()) == live
    with SpectorMemory.open(tmp_path, **make()) as memory:  # a replica that was loaded is saved
        assert memory.snapshot() == 40
        fill(memory, 20)
        assert memory.snapshot() == 60
        live = state(memory)
    assert names(tmp_path) == ["snapshot-40", "snapshot-60"]  # the newest two
    assert opened(tmp_path, **make()) == (live, 60)
    assert check(tmp_path).ok


def test_a_space_goes_on_after_opening_from_a_snapshot(tmp_path: Path) -> None:
    """What changes what a snapshot held is as if it had been there all along."""

    def at(name: str) -> SpectorMemory:
        return SpectorMemory.open(tmp_path / name, clock=lambda: 10**12)

    with at("one") as one, at("two") as two:
        for memory in (one, two):
            fill(memory)
        one.snapshot()
        one.close()
        with at("one") as one:
            for memory in (one, two):
                fill(memory, 5)
                memory.forget("m0")
                memory.encode_missing()
            found, expected = (re.sub("'0X[0-9A-Z]{11}'", "id", repr(state(m))) for m in (one, two))
            assert found == expected  # but for the ids that were made up


def test_snapshots_by_themselves(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path, snapshot_every=10) as memory:
        for number in range(9):
            memory.remember("fox", id=str(number))
        assert names(tmp_path) == []
        memory.remember("fox")
        assert names(tmp_path) == ["snapshot-10"]
        for _ in range(10):
            memory.remember("fox")
        assert names(tmp_path) == ["snapshot-10", "snapshot-20"]
        for _ in range(19):
            memory.remember("fox")
        assert names(tmp_path) == ["snapshot-10", "snapshot-20"]  # when it doubled
    assert names(tmp_path) == ["snapshot-20", "snapshot-39"]  # at close
    with SpectorMemory.open(tmp_path, snapshot_every=10) as memory:
        memory.remember_many([{"text": "owl"}] * 9)
    assert names(tmp_path) == ["snapshot-20", "snapshot-39"]
    with SpectorMemory.open(tmp_path, snapshot_every=None) as memory:
        memory.remember_many([{"text": "owl"}] * 500)
    assert names(tmp_path) == ["snapshot-20", "snapshot-39"]
    assert opened(tmp_path)[1] == 39


@pytest.mark.parametrize("every", [0, -1, 1.5, "x"])
def test_bad_intervals(tmp_path: Path, every: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="snapshot_every must be an int of at least"):
        SpectorMemory.open(tmp_path, snapshot_every=every)


def test_an_empty_space(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        assert memory.snapshot() == 0
        assert names(tmp_path) == []
        memory.remember("gone", id="x")
        memory.forget("x")
        assert memory.snapshot() == 2
    with SpectorMemory.open(tmp_path) as memory:
        assert len(memory) == 0
        assert memory._space._saved == 2
        memory.remember("gone", id="x")
        assert len(memory.recall("gone")) == 1


def test_what_has_no_snapshots(tmp_path: Path) -> None:
    with SpectorMemory.ephemeral() as memory:
        memory.remember("x")
        with pytest.raises(ConfigurationError, match="cannot have snapshots"):
            memory.snapshot()
        assert memory.repair
    with SpectorMemory.open(tmp_path) as memory:
        fill(memory)
        memory.snapshot()
    with SpectorMemory.open(tmp_path, bm25_enabled=False, snapshot_every=1, **models()) as memory:
        assert memory._space._saved == 20
        memory.remember("dense only", id="x")
        assert [hit.id for hit in memory.recall("dense only", k=1)] == ["x"]
    assert names(tmp_path) == ["snapshot-20"]
    with SpectorMemory.open(tmp_path) as memory:
        memory._space.journal._access = "mode=ro"
        with pytest.raises(StorageError, match="reading only"):
            memory.snapshot()
        memory._space.journal._access = ""


def test_vectors_that_came_after_the_snapshot(tmp_path: Path) -> None:
    """A replica for other vectors is another one: it is built anew, without a word."""
    with SpectorMemory.open(tmp_path) as memory:
        fill(memory)
        memory.snapshot()
    with SpectorMemory.open(tmp_path, **models()) as memory:
        memory.encode_missing()
        live = state(memory)
    assert opened(tmp_path, **models()) == (live, 0)
    with SpectorMemory.open(tmp_path, **models()) as memory:
        memory.snapshot()
    found, used = opened(tmp_path, **models())
    assert (found, used > 20) == (live, True)


# --- damage -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("snapshots") / "space"
    with SpectorMemory.open(path, **models()) as memory:
        fill(memory)
        memory.snapshot()
        fill(memory, 9)
        memory.snapshot()
        memory.remember("a last red fox", id="last", session="s0", tags=["t1"])
    return path


FILES = (
    "authors.npy",
    "bm25.idx",
    "coactivation.dat",
    "coactivation.tracker",
    "entity-directory.graph",
    "entity-types.reg",
    "hebbian.graph",
    "hyper-entity.graph",
    "learning.json",
    "manifest.json",
    "facts.json",
    "mentions.json",
    "names.json",
    "records.seg",
    "relation-types.reg",
    "roles.reg",
    "sequences.dat",
    "sessions.json",
    "tag-ends.npy",
    "tagged.npy",
    "tags.npy",
    "temporal.chain",
)


def test_the_files_of_a_snapshot(two_snapshots: Path) -> None:
    for event in (20, 40):
        found = {path.name for path in (two_snapshots / f"snapshot-{event}").iterdir()}
        assert found == set(FILES)


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("name", "damage"),
    [(name, (_flip, _cut, _empty, Path.unlink)[place % 4]) for place, name in enumerate(FILES)],
)
def test_a_damaged_snapshot_is_set_aside(
    two_snapshots: Path, tmp_path: Path, name: str, damage: Callable[[Path], object]
) -> None:  # PER-4, PER-5, AM-19
    space = tmp_path / "space"
    shutil.copytree(two_snapshots, space)
    live = expected(space, **models())
    damage(space / "snapshot-40" / name)
    with pytest.warns(SpectorWarning, match="a snapshot could not be used and was set aside as"):
        found = opened(space, **models())
    assert found == (live, 20)  # the one before it
    assert len(names(space)) == 2
    assert names(space)[0] == "snapshot-20"
    assert names(space)[1].startswith("snapshot-40.corrupt-")
    damage(space / "snapshot-20" / name)
    with pytest.warns(SpectorWarning, match="nothing is lost"):
        found = opened(space, **models())
    assert found == (live, 0)  # the journal
    assert check(space).ok
    with SpectorMemory.open(space, **models()) as memory:
        assert memory.status().snapshot is None
        assert len(memory.status().set_aside) == 2
        memory.snapshot()
        assert memory.status().snapshot == memory.status().events
        assert state(memory) == live
        memory.compact()
    assert names(space) == ["snapshot-41"]  # what was set aside is gone


def test_a_snapshot_that_cannot_be_set_aside_is_left(two_snapshots: Path, tmp_path: Path) -> None:
    space = tmp_path / "space"
    shutil.copytree(two_snapshots, space)
    live = expected(space)
    _flip(space / "snapshot-40" / "bm25.idx")
    with snapshots.exclusive(space, 0), pytest.warns(SpectorWarning, match="left where it is"):
        assert opened(space) == (live, 20)
    with pytest.warns(SpectorWarning, match="set aside as"):
        assert opened(space) == (live, 20)


def _resign(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest and let its checksum hold."""
    file = path / "manifest.json"
    content = json.loads(file.read_text().split("\n")[0])
    change(content)
    text = json.dumps(content)
    file.write_text(f"{text}\n{snapshots.crc32c(text.encode()):08x}\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format=3), "of another release"),
        (lambda m: m.update(event=27), "is the snapshot of event 27"),
        (lambda m: m.update(events_crc=1), "of other events"),
        (lambda m: m["origin"].update(fingerprint="x"), "other settings or another analyzer"),
        (lambda m: m["origin"].update(store_id="x"), "other settings or another analyzer"),
        (lambda m: m["origin"]["settings"].update(k1=2), "other settings or another analyzer"),
        (lambda m: m["files"].pop("bm25.idx"), "must hold"),
        (lambda m: m["files"].update(more=[1, 1]), "must hold"),
        (lambda m: m.pop("files"), "missing or damaged"),
        (lambda m: m.pop("built"), "missing or damaged"),
        (lambda m: m.update(more=1), "missing or damaged"),
    ],
)
def test_a_snapshot_of_something_else_is_set_aside(
    two_snapshots: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    space = tmp_path / "space"
    shutil.copytree(two_snapshots, space)
    live = expected(space)
    _resign(space / "snapshot-40", change)
    with pytest.warns(SpectorWarning, match=message):
        assert opened(space) == (live, 20)


def test_files_of_two_snapshots_mixed(two_snapshots: Path, tmp_path: Path) -> None:
    space = tmp_path / "space"
    for name in FILES[:-1]:
        shutil.rmtree(space, ignore_errors=True)
        shutil.copytree(two_snapshots, space)
        live = expected(space)
        one, two = (space / f"snapshot-{event}" / name for event in (20, 40))
        shutil.copy(one, two)
        # A header is 64 bytes and ends with their checksum: files that differ in their dates alone
        # have equal ones, and may well be taken for one another.
        if one.read_bytes()[64:] != (two_snapshots / "snapshot-40" / name).read_bytes()[64:]:
            with pytest.warns(SpectorWarning, match="set aside"):
                assert opened(space) == (live, 20)


def test_a_journal_that_went_back(two_snapshots: Path, tmp_path: Path) -> None:
    """Restored from a backup beside newer snapshots, and then written to."""
    space = tmp_path / "space"
    with SpectorMemory.open(space) as memory:
        memory.remember("one", id="1")
        memory.backup(tmp_path / "copy")
        memory.remember_many([{"text": "two"}] * 3)
        memory.snapshot()
    shutil.copy(tmp_path / "copy" / "journal.db", space / "journal.db")
    with pytest.warns(SpectorWarning, match="of other events than those of the journal"):
        assert opened(space)[1] == 0
    shutil.move(next(space.glob("snapshot-4.corrupt-*")), space / "snapshot-4")
    with built_anew(), SpectorMemory.open(space) as memory:
        memory.remember_many([{"text": "three"}] * 3)
    with pytest.warns(SpectorWarning, match="of other events than those of the journal"):
        found = opened(space)
    assert found == (expected(space), 0)


def test_a_row_that_is_gone_is_noticed(two_snapshots: Path, tmp_path: Path) -> None:  # AM-18
    for table in ("memories", "vectors", "events"):
        space = tmp_path / table
        shutil.copytree(two_snapshots, space)
        with closing(sqlite3.connect(space / "journal.db")) as connection:
            connection.execute(f"DELETE FROM {table} WHERE rowid = 2")
            connection.commit()
        with warnings.catch_warnings(), pytest.raises(CorruptionError, match=r"add up|is missing"):
            warnings.simplefilter("ignore", SpectorWarning)
            SpectorMemory.open(space)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space without models that make its rows be read on opening, and a snapshot of all of it."""
    path = tmp_path_factory.mktemp("plain") / "space"
    with SpectorMemory.open(path, snapshot_every=None) as memory:
        fill(memory)
        memory.snapshot()
    return path


def test_what_depends_on_all_rows_looks_at_them_first(plain: Path, tmp_path: Path) -> None:  # AM-18
    """Opening from a snapshot reads no rows: a lost one is noticed by whoever would miss it."""
    space = tmp_path / "space"
    shutil.copytree(plain, space)
    with SpectorMemory.open(space, snapshot_every=None) as memory:
        slot = memory._space.journal._writer.execute(
            "SELECT slot FROM memories WHERE id = 'm1'"
        ).fetchone()[0]
        quiet: dict[str, Any] = {"recall_mode": "observe", "graph_expansion": False}
        right = [hit.id for hit in memory.recall("fox", **quiet)]
        assert "m1" not in right
        assert not memory._space.journal.sound
    with closing(sqlite3.connect(space / "journal.db")) as connection:
        connection.execute("DELETE FROM memories WHERE slot = ?", (slot,))
        connection.commit()
    asks: list[Callable[[SpectorMemory], object]] = [
        lambda memory: memory.remember("one more", id="m1"),
        lambda memory: memory.remember_many([{"text": "one more"}]),
        lambda memory: memory.inspect("m1"),
        lambda memory: "m1" in memory,
        len,
        lambda memory: memory.browse(),
        lambda memory: memory.recall("fox", author="Ann"),
        lambda memory: memory.recall("owl night", k=50),
        lambda memory: memory.forget("m2"),
        lambda memory: memory.snapshot(),
        lambda memory: memory.export(tmp_path / "export.jsonl"),
        lambda memory: memory.status(),
    ]
    for ask in asks:
        with SpectorMemory.open(space, snapshot_every=None) as memory:
            assert [hit.id for hit in memory.recall("fox", **quiet)] == right
            for _ in range(2):
                with pytest.raises(CorruptionError, match=r"add up|missing"):
                    ask(memory)


def test_opening_from_a_snapshot_loads_what_is_used(plain: Path, tmp_path: Path) -> None:
    space = tmp_path / "space"
    shutil.copytree(plain, space)
    with built_anew(), SpectorMemory.open(space, snapshot_every=None) as memory:
        live = [(hit.id, hit.score) for hit in memory.recall("fox", recall_mode="observe", k=50)]
        whole = stores(memory)
    memory = SpectorMemory.open(space, snapshot_every=None)
    try:
        space_ = memory._space
        replica = space_._replica
        assert replica.absent
        assert {"hebbian", "temporal", "mentions", "capture"} <= replica.graphs.absent.keys()
        memory.recall("fox", recall_mode="observe", graph_expansion=False)
        assert "hebbian" in replica.graphs.absent
        found = memory.recall("fox", k=50)
        assert [(hit.id, hit.score) for hit in found] == live
        assert not space_.journal.sound  # nothing so far depends on it
        newest = space_._applied
        assert "_sessions" in replica.graphs.absent
    finally:
        memory.close()  # commits that there was a recall
    with SpectorMemory.open(space, snapshot_every=None) as memory:
        assert memory._space._replica.graphs.absent
        assert memory._space.read(lambda reader, _: reader.newest_event(), whole=False) > newest
    shutil.rmtree(space)
    shutil.copytree(plain, space)
    with SpectorMemory.open(space, snapshot_every=None) as memory:
        assert stores(memory) == whole


def test_a_part_that_fails_once(plain: Path, tmp_path: Path) -> None:
    """And that another thread has loaded meanwhile: readers go on without a lock."""
    space = tmp_path / "space"
    shutil.copytree(plain, space)
    with SpectorMemory.open(space, snapshot_every=None) as memory:
        right = [hit.id for hit in memory.recall("fox", recall_mode="observe")]
        replica = memory._space.replica
        assert not replica.partial
        replica.graphs.failed = OSError("too many open files")
        assert [hit.id for hit in memory.recall("fox", recall_mode="observe")] == right
        assert memory._space._replica is replica
        assert replica.broken is None


def test_threads_that_need_the_same_part(plain: Path, tmp_path: Path) -> None:
    space = tmp_path / "space"
    shutil.copytree(plain, space)
    for _ in range(10):
        with SpectorMemory.open(space, snapshot_every=None) as memory:
            with ThreadPoolExecutor(8) as pool:
                found = list(
                    pool.map(
                        lambda query: [
                            (hit.id, hit.score)
                            for hit in memory.recall(query, recall_mode="observe")
                        ],
                        ["fox snow Ann"] * 8,
                    )
                )
            assert all(each == found[0] for each in found)
            assert found[0]


@pytest.mark.parametrize("first", ["recall", "remember", "later", "tags", "reflect", "snapshot"])
def test_a_snapshot_that_is_gone_when_it_is_used(plain: Path, tmp_path: Path, first: str) -> None:
    """Others may delete it, after an erasure for instance: the replica is made anew."""
    space, same = tmp_path / "space", tmp_path / "same"
    for path in (space, same):
        shutil.copytree(plain, path)

    def use(memory: SpectorMemory) -> list[Any]:
        if first == "remember":
            memory.remember("blue owl", id="new", session="s0", tags=["t1"])
        elif first == "later":
            memory.remember_many([{"text": "blue owl", "id": "new", "session": "s0"}])
            memory.forget("m2")
        elif first == "tags":
            assert memory._space.tags_in("the t9 of all") == ("t9", "all")
        elif first == "reflect":
            memory.reflect()
        elif first == "snapshot":
            memory.remember("blue owl", id="new", session="s0", tags=["t1"])
            memory.snapshot()
        return state(memory)

    clock = lambda: 10**13  # noqa: E731
    with SpectorMemory.open(same, snapshot_every=None, clock=clock, seed=1) as memory:
        expected_ = use(memory)
    with SpectorMemory.open(space, snapshot_every=None, clock=clock, seed=1) as memory:
        assert memory._space._replica.partial
        for path in space.glob("snapshot-*"):
            shutil.rmtree(path)
        assert use(memory) == expected_
    assert check(space).ok


@pytest.mark.parametrize(
    ("change", "looks"),
    [
        ("memories SET valence = 100", ["valence", "importance"]),
        ("memories SET importance = 9", ["importance"]),
        ("memory_tags SET tag = 't0'", ["tags", "importance"]),
        ("memories SET text = 'red fox'", ["all", "type", "importance"]),
        ("memories SET type = 'semantic', timestamp = 1", ["all", "type", "importance"]),
    ],
)
def test_damage_that_filters_would_not_see(
    two_snapshots: Path, tmp_path: Path, change: str, looks: list[str]
) -> None:  # AM-18
    """Rows are not read when a space is opened from a snapshot: what a filter reads is checked."""
    space = tmp_path / "space"
    shutil.copytree(two_snapshots, space)
    filters: dict[str, dict[str, Any]] = {
        "valence": {"max_valence": 50},
        "importance": {"min_importance": 9.5},
        "tags": {"tags": ["t9"]},
        "all": {},
        "type": {"type": "semantic"},
    }
    with SpectorMemory.open(space, snapshot_every=None) as memory:
        slot = 2
        assert memory.inspect("m1").tags == ("t9",)
        for look in filters.values():
            memory.recall("owl", recall_mode="observe", **look)
    with closing(sqlite3.connect(space / "journal.db")) as connection:
        connection.execute(f"UPDATE {change} WHERE slot = {slot}")
        connection.commit()
    for name in looks:
        with SpectorMemory.open(space, snapshot_every=None) as memory:
            assert memory._space._saved == 40
            for _ in range(2):
                with pytest.raises(CorruptionError, match=r"checksum|not those of|differs"):
                    memory.recall("owl", k=50, recall_mode="observe", **filters[name])
    listed = {"tags": ["t9"]} if "tags" in looks else {}
    with (
        SpectorMemory.open(space, snapshot_every=None) as memory,
        pytest.raises(CorruptionError, match=r"checksum|not those of|differs"),
    ):
        memory.browse(**listed, limit=1000)


# --- others -------------------------------------------------------------------------------------


def test_readers_and_writers_go_on(tmp_path: Path) -> None:  # R9
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember_many({"text": f"red fox {n}", "tags": ["t"]} for n in range(300))
        stop = threading.Event()
        failures: list[BaseException] = []

        def work(write: bool) -> None:
            try:
                while not stop.is_set():
                    if write:
                        memory.remember("blue owl", id="owl", session="s")
                    else:
                        assert len(memory.recall("fox", k=1000)) == 300
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=[n == 0]) for n in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(8):
            memory.remember("grey wolf", id="wolf")
            memory.snapshot()
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []
        memory.flush()
        live = state(memory)
    assert len(names(tmp_path)) == 2
    assert opened(tmp_path)[0] == live == expected(tmp_path)


def test_two_processes_make_snapshots(tmp_path: Path) -> None:  # R8
    code = """
        import sys
        from spector import LockedError, SpectorMemory
        with SpectorMemory.open(sys.argv[1], snapshot_every=5) as memory:
            sys.stdin.readline()
            for number in range(60):
                memory.remember(f"fox {number}", id=f"{sys.argv[2]}-{number}", session="s")
    """
    children = [start(code, tmp_path, number) for number in range(3)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        finish(child)
    assert len([name for name in names(tmp_path) if name.startswith("snapshot-")]) <= 2
    found, used = opened(tmp_path)
    assert used > 0
    assert found == expected(tmp_path)


def test_a_snapshot_waits_for_another(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path, busy_timeout=0.1, snapshot_every=1) as memory:
        with snapshots.exclusive(tmp_path, 0):
            memory.remember("is stored all the same", id="x")
            for call in (memory.snapshot, memory.compact, memory.repair):
                with pytest.raises(LockedError, match="making a snapshot of the space or compact"):
                    call()
        assert names(tmp_path) == []
        memory.remember("y")
        assert names(tmp_path) == ["snapshot-2"]


def test_a_snapshot_that_fails_is_no_failure_of_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # R6
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with SpectorMemory.open(tmp_path, snapshot_every=2) as memory:
        monkeypatch.setattr(snapshots, "sync", full)
        memory.remember("x", id="x")
        with pytest.warns(SpectorWarning, match=r"no snapshot was made: .*No space left"):
            memory.remember("y", id="y")
        assert names(tmp_path) == []
        monkeypatch.undo()
        memory.remember_many([{"text": "z"}] * 2)
        assert names(tmp_path) == ["snapshot-4"]


KILLED = """
    import sys
    from spector import SpectorMemory
    with SpectorMemory.open(sys.argv[1]) as memory:
        print("ready", flush=True)
        while True:
            memory.remember("red fox in the snow", session="s", tags=["t"])
            memory.snapshot()
"""


def test_killed_while_it_makes_snapshots(tmp_path: Path) -> None:  # PER-3, R1
    rng = random.Random(3)
    with SpectorMemory.open(tmp_path) as memory:
        fill(memory)
        memory.snapshot()
    for _ in range(8):
        child = start(KILLED, tmp_path)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(rng.random() * 0.2)
        child.kill()
        child.communicate(timeout=TIMEOUT)
        found, used = opened(tmp_path)  # a warning would be an error
        assert used > 0
        assert found == expected(tmp_path)
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("another")
        memory.snapshot()
    assert len(names(tmp_path)) == 2  # nothing unfinished is left


def test_erased_is_in_no_snapshot(tmp_path: Path) -> None:  # R16, AM-20
    def holding() -> list[str]:
        return [path.name for path in files_with(tmp_path, MARK.encode())]

    with SpectorMemory.open(tmp_path) as memory, SpectorMemory.open(tmp_path) as other:
        secret(memory)
        memory.snapshot()
        memory.remember("more", id="more")
        memory.snapshot()
        _flip(tmp_path / names(tmp_path)[0] / "records.seg")
        shutil.copytree(tmp_path / names(tmp_path)[1], tmp_path / "snapshot-9.corrupt-1")
        (tmp_path / ".snapshot-00.tmp").mkdir()
        (tmp_path / ".snapshot-00.tmp" / "half").write_text(MARK)
        assert "bm25.idx" in holding()
        other.recall("fox", recall_mode="observe")
        memory.forget(f"id-{MARK}", erase=True)
        assert holding() == []
        assert len(names(tmp_path)) == 1
        # A replica that once knew it must not write it again.
        other.remember("and more", id="and more")
        other.snapshot()
        assert holding() == []
        live = state(other)
        assert state(memory) == live
    assert opened(tmp_path) == (live, 105)
    assert holding() == []


def test_a_snapshot_from_before_an_erasure_is_not_used(tmp_path: Path) -> None:  # AM-20
    with SpectorMemory.open(tmp_path) as memory:
        secret(memory)
        memory.snapshot()
        (old,) = names(tmp_path)
        shutil.copytree(tmp_path / old, tmp_path / "copy")
        memory.forget(f"id-{MARK}", erase=True)
    shutil.rmtree(tmp_path / names(tmp_path)[-1])
    shutil.move(tmp_path / "copy", tmp_path / old)
    assert opened(tmp_path)[1] == 0


def test_commands(two_snapshots: Path, tmp_path: Path) -> None:
    space = tmp_path / "space"
    shutil.copytree(two_snapshots, space)
    assert spector("snapshot", "--path", space, "--json").json == {"event": 41}
    _flip(space / "snapshot-41" / "bm25.idx")
    done = spector("doctor", "--path", space)
    assert "snapshot-41/bm25.idx does not match its checksum" in done.err
    assert "nothing wrong" in done.err  # the journal has it all
    assert spector("repair", "--path", space, "--json").json == {"event": 41}
    assert names(space) == ["snapshot-41"]
    assert "snapshot" not in spector("doctor", "--path", space).err


def test_opening_in_another_process(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        fill(memory)
        memory.snapshot()
        code = """
            import sys
            from spector import SpectorMemory
            with SpectorMemory.open(sys.argv[1]) as memory:
                assert memory._space._saved == 20
                print([hit.id for hit in memory.recall("owl", k=3)])
        """
        found = [hit.id for hit in memory.recall("owl", k=3)]
        assert run(code, tmp_path) == f"{found}\n"


# --- random histories ---------------------------------------------------------------------------

IDS = st.sampled_from([f"m{n}" for n in range(6)])
TEXT = st.sampled_from(["red fox", "blue owl", "snow at night", "Ann met Bob", ""])


class Histories(RuleBasedStateMachine):
    """Any history gives the same with and without snapshots (AM-19)."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "space"
        self.memory: SpectorMemory | None = None

    @initialize()
    def first(self) -> None:
        self.memory = SpectorMemory.open(self.path, snapshot_every=None, clock=lambda: 10**12)

    @rule(
        id=IDS,
        text=TEXT,
        tags=st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        session=st.sampled_from([None, "s", "t"]),
        about=st.sampled_from([(), ("Ann",), ("Snow", "Ann")]),
        author=st.sampled_from([None, "Ann", "Bob"]),
        vector=st.sampled_from([None, [1.0, 2.0], [3.0, -1.0]]),
    )
    def remember(self, text: str, **more: Any) -> None:
        assert self.memory is not None
        self.memory.remember(text, **more)

    @rule(id=IDS, what=st.sampled_from(["reinforce", "suppress", "unsuppress", "pin"]))
    def change(self, id: str, what: str) -> None:
        assert self.memory is not None
        if id in self.memory and (what != "unsuppress" or id in self.memory.suppressed()):
            more = [True] if what == "reinforce" else []
            getattr(self.memory, what)(id, *more)

    @rule(text=TEXT, session=st.sampled_from(["s", "t"]))
    def recall(self, text: str, session: str) -> None:
        assert self.memory is not None
        self.memory.recall(text, session=session)
        self.memory.flush()

    @rule(id=IDS)
    def forget(self, id: str) -> None:
        assert self.memory is not None
        if id in self.memory:
            self.memory.forget(id)

    @rule()
    def snapshot(self) -> None:
        assert self.memory is not None
        self.memory.snapshot()

    @rule()
    def reopen(self) -> None:
        assert self.memory is not None
        before = self._state(self.memory)
        self.memory.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpectorWarning)
            self.memory = SpectorMemory.open(self.path, snapshot_every=None, clock=lambda: 10**12)
        assert self._state(self.memory) == before

    @precondition(lambda self: any(self.path.glob("snapshot-*/*")))
    @rule(data=st.data())
    def damage(self, data: st.DataObject) -> None:
        files = sorted(path for path in self.path.glob("snapshot-*/*") if path.stat().st_size)
        path = data.draw(st.sampled_from(files), label="file")
        content = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(content) - 1), label="byte")
        content[place] ^= data.draw(st.integers(1, 255), label="bits")
        path.unlink()  # a mapped one stays what it is
        path.write_bytes(content)

    def _state(self, memory: SpectorMemory) -> list[Any]:
        # How many names were ever seen is history, not state.
        found = state(memory)
        return [part for part in found if not isinstance(part, tuple)]

    @invariant()
    def same_as_built_anew(self) -> None:
        if self.memory is None:
            return
        open_again = {"snapshot_every": None, "clock": lambda: 10**12}
        with built_anew(), SpectorMemory.open(self.path, **open_again) as fresh:
            assert self._state(fresh) == self._state(self.memory)

    def teardown(self) -> None:
        if self.memory is not None:
            self.memory.close()
        self._folder.cleanup()


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=15, stateful_step_count=20)


@pytest.mark.parametrize("n", [0, 1, 999, 1000, 1001, 2000, 2001])
def test_long_lists_are_encoded_in_parts(tmp_path: Path, n: int) -> None:
    value = {
        "flat": list(range(n)),
        "pairs": [[number, f"é{number}", None] for number in range(n)],
        "nested": {"empty": {}, "list": [], "sets": [1.5, True]},
    }
    snapshots.save_json(tmp_path / "value.json", value)
    assert snapshots.load_json(tmp_path / "value.json") == value
    assert (tmp_path / "value.json").read_text("ascii") == json.dumps(value, separators=(",", ":"))
