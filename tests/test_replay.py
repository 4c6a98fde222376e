"""One state for one event, whoever has it: who saw every change, who reads the latest rows of many,
and who has nothing but the journal (PER-10, AM-21, RFL-6, RFL-7)."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from spector import SpectorMemory
from spector.store.graphs import Graphs
from spector.store.mentions import Mentions

DAY = 86_400_000
NAMES = [
    "Ann Lee",
    "Ann Leee",
    "Robert",
    "Project Alpha",
    "Project Alpa",
    "Carol Smith",
    "Caro Smith",
]
KINDS = ["PERSON", "OTHER", "STARSHIP"]
RELATIONS = ["KNOWS", "RELATED_TO", "TRUSTS"]


class Clock:
    """A clock that stands still until it is set."""

    now = 1_900_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def from_the_journal(memory: SpectorMemory, folder: Path, clock: Clock) -> SpectorMemory:
    """What there is of a space without its snapshots."""
    memory.backup(folder)
    for path in folder.glob("snapshot-*"):
        shutil.rmtree(path)
    return SpectorMemory.open(folder, clock=clock)


class History:
    """Random changes. A name has one type, as the first that was told counts (ENT-3)."""

    def __init__(self, seed: int, clock: Clock) -> None:
        self.random = random.Random(seed)
        self.clock = clock

    def change(self, memory: SpectorMemory) -> None:
        draw = self.random
        chance = draw.random()
        ids = [str(number) for number in range(8)]
        there = [id for id in ids if id in memory]
        if chance < 0.55 or not there:
            told = draw.sample(NAMES, draw.randint(0, 5))
            relations = [
                (a, draw.choice(RELATIONS), b)
                for a, b in itertools.pairwise(told)
                if draw.random() < 0.5
            ]
            memory.remember(
                f"text {draw.random()}",
                id=draw.choice(ids),
                entities=[(name, KINDS[NAMES.index(name) % 3]) for name in told],
                relations=relations,
                about=draw.choice([None, "Robert", "Ann Lee"]),
                session=draw.choice([None, "s"]),
                tags=draw.sample(["x", "y", "z"], draw.randint(0, 2)),
            )
        elif chance < 0.75:
            self.clock.now += DAY
            assert memory.reflect().ok
        elif chance < 0.87:
            memory.forget(draw.choice(there), erase=chance > 0.85)
        elif chance < 0.9:
            memory.suppress(draw.choice(there))
        elif chance < 0.93:
            memory._space.prune(always=True)
        elif chance < 0.96:
            memory.compact()
        else:
            memory.recall("text")
            memory.flush()


def differences(one: SpectorMemory, other: SpectorMemory) -> set[str]:
    mine, theirs = one.state_hash(), other.state_hash()
    return {name for name in mine if mine[name] != theirs[name]}


def histories(seed: int, folder: Path, clock: Clock, steps: int) -> Iterator[set[str]]:
    """How others differ after each of some changes."""
    history = History(seed, clock)
    with (
        SpectorMemory.open(folder / "space", clock=clock) as writer,
        SpectorMemory.open(folder / "space", clock=clock) as second,
    ):
        for step in range(steps):
            history.change(writer if history.random.random() < 0.7 else second)
            if history.random.random() < 0.25:
                yield differences(writer, second)
                with from_the_journal(writer, folder / f"copy-{step}", clock) as third:
                    yield differences(writer, third)


@pytest.mark.parametrize("seed", range(10))
def test_all_have_one_state(tmp_path: Path, clock: Clock, seed: int) -> None:
    assert not set().union(*histories(seed, tmp_path, clock, 40))


@pytest.mark.parametrize("fault", ["all rows", "gone stays"])
def test_what_would_make_them_differ_is_noticed(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Negative controls of the test above."""
    if fault == "all rows":
        put = Graphs.put
        monkeypatch.setattr(Graphs, "put", lambda self, rows, told=False: put(self, rows))
    else:
        told = Graphs.told
        monkeypatch.setattr(
            Graphs,
            "told",
            lambda self, parts, rows, living, size: told(self, parts, rows, range(size), size),
        )
    found: set[str] = set()
    for seed in range(8):
        (tmp_path / str(seed)).mkdir()
        for differing in histories(seed, tmp_path / str(seed), clock, 40):
            found |= differing
        if found:
            break
    assert found == {"entities"}


def test_a_reflection_and_an_erasure(tmp_path: Path, clock: Clock) -> None:
    """AM-17, AM-20: what a reflection made has no text, and nothing of what was erased."""
    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        memory.remember("one", id="a", entities=[("Zebulon", "STARSHIP"), "Ann"])
        memory.remember("two", id="b", entities=["Ann"], relations=[("Ann", "TRUSTS", "Zebulon")])
        memory.reflect()
        with memory._space.journal.reader() as reader:
            made = b"".join(reader.told_parts().values())
        assert made
        assert not [word for word in (b"ebulon", b"ann", b"STARSHIP", b"TRUSTS") if word in made]
        memory.remember("two", id="b")
        memory.forget("a", erase=True)
        with memory._space.journal.reader() as reader:
            assert b"".join(reader.told_parts().values()) != made
        left = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert not [word for word in (b"ebulon", b"STARSHIP", b"TRUSTS") if word in left]
        assert memory.state_hash()["entities"]
        with from_the_journal(memory, tmp_path / "copy", clock) as other:
            assert not differences(memory, other)


def test_nobody_waits_for_a_reflection(tmp_path: Path, clock: Clock) -> None:
    """RFL-9: it works on a copy, so others read and write meanwhile."""
    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        memory.remember("one", id="a", entities=["Kubernetes"])
        memory.remember("two", id="b", entities=["Kubernetis"])
        reflect, seen = Mentions.reflect, []

        def meanwhile(self: Mentions, pairs: Any) -> dict[str, int]:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(memory.remember, "three", id="c", entities=["Ann"]).result(timeout=20)
                seen.extend(hit.id for hit in pool.submit(memory.recall, "three").result(20))
            return reflect(self, pairs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Mentions, "reflect", meanwhile)
            assert memory.reflect()["entities"].counts["merged"] == 1
        assert "c" in seen
        directory = memory._space.replica.graphs.entities
        assert directory.find_entity("Kubernetis") == directory.find_entity("Kubernetes")
        assert directory.memories_for_entity(directory.find_entity("Ann")).tolist() == [3]
        with from_the_journal(memory, tmp_path / "copy", clock) as other:
            assert not differences(memory, other)


def test_of_two_reflections_at_once_one_counts(tmp_path: Path, clock: Clock) -> None:
    """PER-10: they began with one state, so the second of them changes nothing."""
    with (
        SpectorMemory.open(tmp_path, clock=clock) as one,
        SpectorMemory.open(tmp_path, clock=clock) as other,
    ):
        one.remember("one", id="a", entities=["Kubernetes"])
        reflect, counts = Mentions.reflect, []

        def meanwhile(self: Mentions, pairs: Any) -> dict[str, int]:
            if not counts:
                counts.append({})
                counts.append(other.reflect()["entities"].counts)
            return reflect(self, pairs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Mentions, "reflect", meanwhile)
            assert one.reflect()["entities"].counts == {}
        assert counts[1]
        assert not differences(one, other)
        assert one._space.replica.graphs.entities.cycle == 1


def test_the_first_vector_loses_no_reflection(tmp_path: Path, clock: Clock) -> None:
    """The first vector has the replica made anew, with what was reflected before."""
    with SpectorMemory.open(tmp_path / "space", clock=clock) as memory:
        memory.remember("one", id="a", entities=["Kubernetes"])
        memory.remember("two", id="b", entities=["Kubernetis"])
        assert memory.reflect()["entities"].counts["merged"] == 1
        memory.remember("two", id="b")
        memory.remember("three", id="c", vector=[1.0, 0.0])
        found = memory.state_hash()
        assert memory._space.replica.graphs.entities.cycle == 1
        with from_the_journal(memory, tmp_path / "copy", clock) as other:
            assert other.state_hash() == found
