"""Equal events, equal state: in every process and after every crash (PER-10, R1, R8)."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from children import TIMEOUT, start
from shell import spector
from spector import DuplicateMemoryError, SpectorMemory
from spector.store import check
from spector.store.space import _LATER

WORK = """
    import random, sys
    from spector import LockedError, SpectorMemory, UnknownMemoryError

    path, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    words = ["fox", "owl", "snow", "night", "Ann", "Bob", "lab"]
    NAMES = ["Ann", "Kubernetes", "Kubernetis", "Project Alpha", "Project Alfa", "Lab"]
    memory = SpectorMemory.open(path, snapshot_every=rng.choice([None, 7, 40]), busy_timeout=60)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        choice = rng.random()
        text = " ".join(rng.choices(words, k=5))
        if choice < 0.55:
            memory.remember(
                f"{text} {number}",
                id=f"{seed}-{number}" if choice < 0.4 else f"shared-{rng.randrange(8)}",
                tags=rng.sample(["a", "b", "c"], rng.randrange(3)),
                session=rng.choice([None, "s", "t", str(seed)]),
                author=rng.choice([None, "Ann", "Bob"]),
                about=rng.sample(["Snow", "Lab"], rng.randrange(2)),
                entities=rng.sample(NAMES, rng.randrange(4)),
                relations=[(NAMES[0], rng.choice(["KNOWS", "TRUSTS"]), rng.choice(NAMES[1:]))]
                * rng.randrange(2),
            )
            if choice < 0.4:
                print(f"+{seed}-{number}", flush=True)
        elif choice < 0.65:
            ids = [f"{seed}-{number}-{n}" for n in range(rng.randrange(1, 12))]
            memory.remember_many({"text": text, "id": id, "session": "s"} for id in ids)
            print(*(f"+{id}" for id in ids), flush=True)
        elif choice < 0.75:
            id = f"{seed}-{rng.randrange(number + 1)}"
            print(f"?{id}", flush=True)
            try:
                memory.forget(id)
            except UnknownMemoryError:
                pass
        elif choice < 0.93:
            memory.recall(text, recall_mode="observe")
        elif choice < 0.96:
            hits = memory.recall(text)
            if hits and choice < 0.945:
                try:
                    memory.reinforce(rng.choice(hits).id, rng.random() < 0.7)
                except UnknownMemoryError:
                    pass
        elif choice < 0.98:
            assert all(step.error is None for step in memory.reflect().steps)
        else:
            try:
                memory.compact() if choice < 0.985 else memory.snapshot()
            except LockedError:
                pass
    memory.flush()
    print("done", flush=True)
    sys.stdin.readline()
    print(sorted(memory.state_hash().items()), flush=True)
"""


def processes(path: Path, seed: int, operations: int, kills: int) -> Counter[str]:
    """Four processes write, some are killed, all that is left must agree."""
    rng = random.Random(seed)
    children = [start(WORK, path, seed * 10 + n, operations) for n in range(4)]
    counts: Counter[str] = Counter()
    for child in children:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "ready\n"
        child.stdin.write("go\n")
        child.stdin.flush()
    said = []
    for child in children[:kills]:
        time.sleep(rng.random())
        child.kill()
        output, _ = child.communicate(timeout=TIMEOUT)
        said.append(output.rpartition("\n")[0])
        counts["killed"] += 1
    hashes = set()
    for child in children[kills:]:
        assert child.stdout is not None
        lines = []
        while (line := child.stdout.readline()) != "done\n":
            assert line, child.communicate()
            lines.append(line)
        said.append("".join(lines))
    for child in children[kills:]:
        output, errors = child.communicate("go\n", timeout=TIMEOUT)
        assert (child.returncode, errors) == (0, "")
        hashes.add(output)
    words = " ".join(said).split()
    kept = {word[1:] for word in words if word[0] == "+"}
    kept -= {word[1:] for word in words if word[0] == "?"}
    for opening in range(2):
        with SpectorMemory.open(path, snapshot_every=None) as memory:
            hashes.add(f"{sorted(memory.state_hash().items())}\n")
            stored = {found.id for found in memory.browse(limit=10**6)}
            counts["snapshot" if memory._space._saved else "journal"] += 1
            if opening == 0:
                memory.repair()
                hashes.add(f"{sorted(memory.state_hash().items())}\n")
    assert kept <= stored, sorted(kept - stored)[:5]
    assert len(hashes) == 1, hashes
    assert check(path).ok
    counts["acknowledged"] += len(kept)
    return counts


@pytest.mark.parametrize("seed", range(2))
def test_processes_agree(tmp_path: Path, seed: int) -> None:
    counts = processes(tmp_path, seed, 40, kills=2)
    assert counts["acknowledged"] > 40


@pytest.mark.parametrize("seed", range(6))
def test_what_follows_later_follows_the_same_way(tmp_path: Path, seed: int) -> None:
    """PER-10: memories wait for the next question, own ones among those of another writer."""
    rng = random.Random(seed)

    def item() -> dict[str, Any]:
        chosen: dict[str, Any] = {
            "text": " ".join(rng.choices(["fox", "owl", "snow"], k=3)),
            "id": f"m{rng.randrange(12)}",
            "tags": rng.sample(["a", "b", "c"], rng.randrange(3)),
            "session": rng.choice([None, "s", "t"]),
            "author": rng.choice([None, "Ann"]),
            "about": rng.sample(["Snow", "Lab"], rng.randrange(2)),
            "entities": [("Ann", "PERSON"), ("Lab", "PLACE")][: rng.randrange(3)],
        }
        if rng.random() < 0.4:
            chosen["vector"] = [rng.random() + 0.1, rng.random(), 1.0]
        return chosen

    with SpectorMemory.open(tmp_path) as one, SpectorMemory.open(tmp_path) as other:
        for number in range(160):
            memory = other if rng.random() < 0.1 * (seed % 3) else one
            choice = rng.random()
            if choice < 0.9:
                memory.remember(**item())
            elif choice < 0.94:
                memory.remember_many(item() for _ in range(rng.randrange(1, 90)))
            elif choice < 0.96 and memory.browse(limit=1):
                memory.forget(memory.browse(limit=1)[0].id)
            elif choice < 0.98:
                with pytest.raises(DuplicateMemoryError):
                    memory.remember("t", id="n", on_conflict="ignore")
                    memory.remember("t", id="n", on_conflict="error")
            elif number % 2:
                assert memory.state_hash() == (one if memory is other else other).state_hash()
        waiting = one._space._own
        assert sum(len(own.events) for own in waiting) < _LATER
        expected = one.state_hash()
        assert not waiting
        assert other.state_hash() == expected
    for name in tmp_path.glob("snapshot-*"):
        shutil.rmtree(name)
    with SpectorMemory.open(tmp_path) as memory:
        assert memory.state_hash() == expected
    assert check(tmp_path).ok


def test_long_texts_do_not_wait(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("short")
        assert len(memory._space._own) == 1
        memory.remember("long " * 10_000)
        assert not memory._space._own
        assert len(memory.recall("long short")) == 2


def test_a_writer_knows_the_end_of_the_journal(tmp_path: Path) -> None:
    """What it committed last counts as long as nobody else committed and nothing was undone."""
    with SpectorMemory.open(tmp_path) as one, SpectorMemory.open(tmp_path) as other:
        one.remember("a", id="a")
        other.remember("b", id="b")
        one.remember("c", id="c")
        with pytest.raises(DuplicateMemoryError):
            one.remember_many(
                [{"text": "d", "id": "d"}, {"text": "c", "id": "c"}], on_conflict="error"
            )
        one.forget("a")
        one.remember("e", id="e")
        one.compact()
        one.remember_many({"text": id, "id": id} for id in "fc")
        other.remember("g", id="g")
        one.remember("h", id="h")
        with one._space.journal.reader() as reader:
            assert {row[1]: row[0] for row in reader.every_row()} == {
                "b": 2,
                "c": 3,
                "e": 4,
                "f": 5,
                "g": 6,
                "h": 7,
            }
            assert reader.newest_event() == 9
            assert not list(reader.quick_problems())
    assert check(tmp_path).ok


def test_a_hash_tells_states_apart(tmp_path: Path) -> None:
    """Negative control."""
    item = {"text": "red fox", "tags": ["a", "b"], "session": "s", "about": "Snow", "id": "1"}
    other = {"text": "blue owl", "id": "2", "session": "s"}

    def hashes(*items: dict[str, object]) -> dict[str, str]:
        with SpectorMemory.ephemeral(clock=lambda: 10**12) as memory:
            for each in items:
                memory.remember(**each)  # type: ignore[arg-type]
            return memory.state_hash()

    same = hashes(item, other)
    assert hashes(item, other) == same
    for changes, differs in (
        ({"text": "red fox red"}, {"keyword"}),
        ({"tags": ["a"]}, {"coactivation", "capture"}),
        ({"session": "t"}, {"hebbian", "temporal", "sessions"}),
        ({"about": "Rain"}, {"entities"}),
        ({"importance": 5.0}, {"records"}),
    ):
        found = hashes({**item, **changes}, other)
        assert {name for name in same if found[name] != same[name]} == {*differs, "journal"}


def test_the_command(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("red fox")
        expected = memory.state_hash()
    assert spector("doctor", "--hash", "--path", tmp_path, "--json").json == expected
