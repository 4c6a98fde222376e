"""Events that no replay needs are taken out, and nothing is lost by it (PER-9, AM-19, R15)."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from children import finish, start
from spector import CorruptionError, SpectorMemory, SpectorWarning
from spector.store import EventType, check
from spector.store.replica import Replica
from spector.store.space import Space
from spector.store.transaction import Transaction

WORDS = ("fox", "owl", "snow", "night", "film", "lab")
NAMES = ("Jon Smith", "John Smith", "Ann", "Lab", "Snow Film", "Snow Films")


class Clock:
    """The time of day that a test has."""

    now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


def step(memory: SpectorMemory, rng: random.Random, clock: Clock, number: int) -> None:
    """Something of everything that makes an event."""
    clock.now += rng.randrange(1, 40_000_000)
    known = [found.id for found in memory.browse(limit=100)]
    choice = rng.random()
    if choice < 0.45 or not known:
        memory.remember(
            " ".join(rng.choices(WORDS, k=4)),
            id=rng.choice([f"m{number}", f"shared{rng.randrange(6)}"]),
            tags=rng.sample(["a", "b", "c"], rng.randrange(3)),
            session=rng.choice([None, "s", "t"]),
            author=rng.choice([None, "Ann", "Bob"]),
            about=rng.sample(["Snow", "Lab"], rng.randrange(2)),
            entities=[(name, "PERSON") for name in rng.sample(NAMES, rng.randrange(4))],
            **({"vector": [rng.random() + 0.1, rng.random(), 1.0]} if rng.random() < 0.4 else {}),
        )
    elif choice < 0.52:
        memory.remember_many(
            {"text": rng.choice(WORDS), "id": f"m{number}-{n}", "session": "s"} for n in range(12)
        )
    elif choice < 0.62:
        memory.forget(rng.choice(known))
    elif choice < 0.72:
        hits = memory.recall(rng.choice(WORDS), session=rng.choice(["s", "t"]), tags=["a"])
        memory.flush()
        for hit in list(hits)[:2]:
            memory.reinforce(hit.id, positive=rng.random() < 0.6)
    elif choice < 0.80:
        memory.recall(rng.choice(WORDS), session="s")
        memory.flush()
    elif choice < 0.86:
        chosen = rng.choice(known)
        memory.suppress(chosen, "why") if rng.random() < 0.6 else memory.unsuppress(chosen)
    elif choice < 0.92:
        rng.choice([memory.pin, memory.unpin, memory.mark_unresolved])(rng.choice(known))
    elif choice < 0.95:
        memory.schedule_reminder(rng.choice(known), clock.now + 1000)
    elif choice < 0.97:
        memory.snapshot()
    else:
        memory.forget(rng.choice(known), erase=True)


@contextlib.contextmanager
def handles(path: Path, clock: Clock, count: int) -> Iterator[list[SpectorMemory]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(SpectorMemory.open(path, clock=clock, seed=1, snapshot_every=None))
            for _ in range(count)
        ]


def history(path: Path, seed: int, length: int = 120) -> None:
    """Whoever has seen some of it, all of it or nothing has the same state in the end."""
    rng = random.Random(seed)
    clock = Clock()
    gone = 0
    with handles(path, clock, 4) as (one, other, seldom, never):
        for number in range(length):
            step(other if rng.random() < 0.2 else one, rng, clock, number)
            if rng.random() < 0.06:
                gone += (other if rng.random() < 0.3 else one)._space.prune(always=True)
            if rng.random() < 0.05:
                assert seldom.state_hash() == one.state_hash()
        assert gone > 20
        outcomes = [estimate.profile for estimate in one.bandit_report()]
        expected = one.state_hash()
        for memory in (other, seldom, never):
            assert memory.state_hash() == expected
    assert check(path).ok, check(path).problems
    for _ in range(2):  # from a snapshot, if there is one, and from the journal alone
        with handles(path, clock, 1) as (memory,):
            assert memory.state_hash() == expected
            assert [estimate.profile for estimate in memory.bandit_report()] == outcomes
            assert memory._space.prune(always=True) >= 0
            assert memory.state_hash() == expected
        for snapshot in path.glob("snapshot-*"):
            shutil.rmtree(snapshot)
    with handles(path, clock, 1) as (memory,):
        assert not memory._space._saved
        memory.repair()
        assert memory.state_hash() == expected


@pytest.mark.parametrize("seed", range(6))
def test_pruning_changes_no_state(tmp_path: Path, seed: int) -> None:
    """PER-9, PER-10, AM-19: whether a replica was far behind, a little, or is a new one."""
    history(tmp_path, seed)


@pytest.mark.parametrize("fault", ["no checkpoint", "forgotten stays", "too much", "not the rows"])
def test_what_pruning_must_not_lose_is_noticed(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative controls of the test above."""
    if fault == "no checkpoint":
        monkeypatch.setattr(Replica, "take_checkpoint", lambda self, parts: None)
    elif fault == "forgotten stays":
        original = Space._apply

        def apply(self: Space, last: Any, rows: Any, *rest: Any) -> None:
            if rows:
                original(self, last, rows, *rest)

        monkeypatch.setattr(Space, "_apply", apply)
    elif fault == "too much":
        prune = Transaction.prune
        wrong = SimpleNamespace(**{**EventType.__members__, "REINFORCE": 99})

        def no_log(self: Transaction, *rest: Any, **more: Any) -> int:
            with monkeypatch.context() as patch:
                patch.setattr("spector.store.transaction.EventType", wrong)
                return prune(self, *rest, **more)

        monkeypatch.setattr(Transaction, "prune", no_log)
    else:
        begin = Space._begin_pruned
        monkeypatch.setattr(Space, "_begin_pruned", lambda self, *rest: begin(self, *rest) and {})
    with pytest.raises((AssertionError, CorruptionError, IndexError)):
        for seed in range(4):
            history(tmp_path / str(seed), seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_pruned_journal_says_what_a_whole_one_says(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFL-6, RFL-7: the steps of reflections find the memories that they found."""
    rng = random.Random(seed)
    clock = Clock()
    with handles(tmp_path / "whole", clock, 1) as (memory,), monkeypatch.context() as patch:
        patch.setattr(Space, "prune", lambda self, **_: 0)  # erasing does
        for number in range(100):
            step(memory, rng, clock, number)
            if number % 20 == 19:
                memory.reflect()
    said = []
    for place in ("whole", "pruned"):
        if place == "pruned":
            shutil.copytree(tmp_path / "whole", tmp_path / "pruned")
            with handles(tmp_path / place, clock, 1) as (memory,):
                before = events(tmp_path / place)
                assert memory._space.prune(always=True) > 20
                assert memory._space.prune(always=True) == 0
            assert len(events(tmp_path / place)) < 0.8 * len(before)
        for snapshot in (tmp_path / place).glob("snapshot-*"):
            shutil.rmtree(snapshot)
        with handles(tmp_path / place, clock, 1) as (memory,):
            said.append(memory.state_hash())
        assert check(tmp_path / place).ok
    assert said[0] == said[1]


def events(path: Path) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(path / "journal.db")) as connection:
        return connection.execute("SELECT seq, type, slot FROM events ORDER BY seq").fetchall()


def test_updates_do_not_grow_a_journal(tmp_path: Path) -> None:
    """R15, F-051: by itself while the space is written to, and more when it is compacted."""
    items = [{"text": f"text {n} of a fox " * 8, "id": str(n), "session": "s"} for n in range(200)]
    with SpectorMemory.open(tmp_path / "fresh", snapshot_every=500) as memory:
        memory.remember_many(items)
        fresh = events(tmp_path / "fresh")
    with SpectorMemory.open(tmp_path / "often", snapshot_every=500) as memory:
        for _ in range(40):
            memory.remember_many(items)
        assert len(events(tmp_path / "often")) < 6 * len(fresh)
        expected = memory.state_hash()
        memory.compact()
        assert len(events(tmp_path / "often")) == len(fresh)
        assert memory.state_hash() == expected
    with SpectorMemory.open(tmp_path / "never", snapshot_every=None) as memory:  # the control
        for _ in range(40):
            memory.remember_many(items)
        assert len(events(tmp_path / "never")) == 40 * len(fresh)


def test_nothing_is_pruned_that_would_take_more_than_it_frees(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember_many({"text": "a fox", "id": str(n), "session": "s"} for n in range(100))
        memory.forget("1")
        before = events(tmp_path)
        memory.compact()
        assert events(tmp_path) == before
        memory.forget("2", erase=True)
        assert len(events(tmp_path)) == len(before) + 1


def test_an_older_snapshot_is_of_use_after_pruning(tmp_path: Path) -> None:
    """AM-19: the newest is damaged, and the one before it is of events that are gone."""
    with SpectorMemory.open(tmp_path, snapshot_every=None) as memory:
        for turn in range(4):
            memory.remember_many({"text": f"fox {n}", "id": f"{n}"} for n in range(turn, 20))
            memory.forget(str(turn))
            memory.snapshot()
        assert memory._space.prune(always=True)
        memory.remember("owl", id="last")
        expected = memory.state_hash()
    newest, older = sorted(tmp_path.glob("snapshot-*"), reverse=True)
    (newest / "bm25.idx").write_bytes(b"")
    with pytest.warns(SpectorWarning, match="set aside"):
        memory = SpectorMemory.open(tmp_path, snapshot_every=None)
    with memory:
        assert memory._space._saved == int(older.name.partition("-")[2])
        assert memory.state_hash() == expected


def test_a_snapshot_of_another_history_is_of_no_use(tmp_path: Path) -> None:
    """Of a journal that was put back to an earlier state and then written to and pruned."""
    with SpectorMemory.open(tmp_path / "space", snapshot_every=None) as memory:
        memory.remember("fox", id="a")
        memory.backup(tmp_path / "copy")
        memory.remember("owl", id="b")
        memory.snapshot()
    snapshot = next((tmp_path / "space").glob("snapshot-*"))
    for pruned in (False, True):
        with SpectorMemory.open(tmp_path / "copy", snapshot_every=None) as memory:
            memory.remember("snow", id="b")
            memory.remember("night", id="b")
            if pruned:
                memory._space.prune(always=True)
        shutil.copytree(snapshot, tmp_path / "copy" / snapshot.name)
        with pytest.warns(SpectorWarning, match="other events"):
            memory = SpectorMemory.open(tmp_path / "copy", snapshot_every=None)
        with memory:
            assert [hit.id for hit in memory.recall("night")] == ["b"]
            assert not memory.recall("owl")
            memory.compact()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("DELETE FROM events WHERE seq = 3", "the rows of events do not add up"),
        ("UPDATE events SET slot = 9 WHERE seq = 21", "does not match its checksum"),
        ("UPDATE checkpoint SET data = x'00' WHERE place = 0", "checkpoint does not match"),
        ("DELETE FROM checkpoint WHERE part = 'hebbian.graph'", "checkpoint"),
        ("DELETE FROM meta WHERE key = 'pruned'", "setting"),
    ],
)
def test_damage_to_what_is_left_is_noticed(tmp_path: Path, change: str, problem: str) -> None:
    """AM-18: of the events that stayed, and of the checkpoint."""
    with SpectorMemory.open(tmp_path, snapshot_every=None) as memory:
        for _ in range(2):
            memory.remember_many({"text": "fox", "id": str(n), "session": "s"} for n in range(20))
        memory._space.prune(always=True)
        assert [row[0] for row in events(tmp_path)] == list(range(21, 41))
    for snapshot in tmp_path.glob("snapshot-*"):
        shutil.rmtree(snapshot)
    change = change.replace("seq = 3", "seq = 23")
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as connection, connection:
        connection.execute(change)
    assert not check(tmp_path).ok
    with pytest.raises(CorruptionError, match=problem):
        SpectorMemory.open(tmp_path)


def test_outcomes_stay_a_log(tmp_path: Path) -> None:
    """BAN: what each profile would have earned, before and after."""
    with SpectorMemory.open(tmp_path, seed=1, snapshot_every=None) as memory:
        memory.remember_many({"text": f"fox {n}", "id": str(n)} for n in range(5))
        for turn in range(20):
            hit = memory.recall("fox", session="s")[0]
            memory.flush()
            memory.reinforce(hit.id, positive=turn % 3 > 0)
        before = memory.bandit_report()
        began = memory._space.read(lambda reader, replica: reader.first_event_time())
        memory._space.prune(always=True)
        assert memory.bandit_report() == before
        assert memory._space.read(lambda reader, replica: reader.first_event_time()) == began
    assert [kind for _, kind, _ in events(tmp_path)].count(EventType.RECALL) == 0


BESIDE = """
    import sys
    from spector import SpectorMemory
    path, count = sys.argv[1], int(sys.argv[2])
    with SpectorMemory.open(path, busy_timeout=60, snapshot_every=None) as memory:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(count):
            memory.remember(f"fox {number}", id=f"{number % 7}", session="s", tags=["t"])
            found = {hit.id for hit in memory.recall("fox", tags=["t"], recall_mode="observe")}
            assert f"{number % 7}" in found or len(found) == 10, found
        print(sorted(memory.state_hash().items())[:1], flush=True)
"""


def test_others_read_and_write_while_it_is_pruned(tmp_path: Path) -> None:
    """PER-10: nobody is blocked, and nobody misses anything."""
    with SpectorMemory.open(tmp_path, busy_timeout=60, snapshot_every=None) as memory:
        children = [start(BESIDE, tmp_path, 60) for _ in range(2)]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        pruned = 0
        while any(child.poll() is None for child in children):
            pruned += memory._space.prune(always=True) > 0
            memory.recall("fox", recall_mode="observe")
        for child in children:
            finish(child)
        assert pruned > 2
        assert len(memory) == 7
        expected = memory.state_hash()
    with SpectorMemory.open(tmp_path, snapshot_every=None) as memory:
        assert memory.state_hash() == expected
    assert check(tmp_path).ok
