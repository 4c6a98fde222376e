"""One cycle of reflection: RFL-1 to RFL-9."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spector import SpectorMemory
from spector.reflection import Reflection, ReflectionReport
from spector.store.space import Space

START = 1_900_000_000_000
DAY = 86_400_000


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def opened(path: Path, clock: Clock, **options: Any) -> SpectorMemory:
    return SpectorMemory.open(path, clock=clock, seed=1, **options)


def ids(found: Any) -> set[str]:
    return {hit.id for hit in found}


def test_what_faded_is_forgotten(tmp_path: Path, clock: Clock) -> None:
    """RFL-1: only episodic, unpinned and resolved ones of hardly any importance left."""
    with opened(tmp_path, clock) as memory:
        for name, options in {
            "faded": {},
            "semantic": {"type": "semantic"},
            "pinned": {"pinned": True},
            "open": {"unresolved": True},
            "important": {"importance": 0.6},
        }.items():
            memory.remember("apple", id=name, **{"type": "episodic", "importance": 0.1, **options})
        assert memory.reflect()["prune"].counts == {"pruned": 0}  # all is fresh
        clock.now += 400 * DAY
        memory.remember("apple", id="new", type="episodic", importance=0.1)
        report = memory.reflect()
        assert report.ok
        assert report["prune"].counts == {"pruned": 1}
        assert ids(memory.recall("apple")) == {"semantic", "pinned", "open", "important", "new"}
        assert memory.reflect()["prune"].counts == {"pruned": 0}
    with opened(tmp_path, clock) as memory:
        assert "faded" not in memory
        assert len(memory) == 5


def episodes(memory: SpectorMemory, n: int, tag: str, vector: Any = None) -> None:
    for place in range(n):
        memory.remember(
            f"standup {tag} {place}: the build was red again",
            id=f"{tag}{place}",
            type="episodic",
            tags=[tag, "standup"],
            importance=1 + place,
            valence=-10 * place,
            vector=vector,
        )


def test_clusters_become_one_memory(tmp_path: Path, clock: Clock) -> None:
    """RFL-2: on request, from five on; tags, importance and valence as specified, once."""
    with opened(tmp_path, clock) as memory:
        episodes(memory, 6, "build")
        episodes(memory, 4, "deploy")
        assert memory.reflect().as_dict()["steps"][1]["name"] == "extract"
        report = memory.reflect(consolidate=True)
        assert report["consolidate"].counts == {"made": 1, "sources": 6}
        (made,) = (found for found in memory.browse() if found.source == "consolidated")
        assert made.type == "semantic"
        assert set(made.tags) == {"build", "standup"}
        assert made.importance == pytest.approx(3.5)
        assert made.valence == -50
        assert made.metadata == {"sources": [f"build{n}" for n in range(6)]}
        assert made.text in {memory.inspect(f"build{n}").text for n in range(6)}
        assert memory.reflect(consolidate=True)["consolidate"].counts["made"] == 0
        assert len(memory) == 11
    with opened(tmp_path, clock) as memory:
        assert memory.reflect(consolidate=True)["consolidate"].counts["made"] == 0


def test_the_text_of_a_cluster_may_be_made(clock: Clock) -> None:
    """RFL-2: by a callable; one that fails leaves all as it was and the other steps go on."""
    with SpectorMemory.ephemeral(clock=clock) as memory:
        episodes(memory, 5, "build")

        def fails(texts: Any) -> str:
            raise RuntimeError("no model")

        report = memory.reflect(consolidate=True, summarise=fails)
        assert report["consolidate"].error == "RuntimeError: no model"
        assert not report.ok
        assert report["checkpoint"].error is None
        assert len(memory) == 5
        memory.reflect(
            consolidate=True, summarise=lambda texts: f"{len(texts)} builds", profile="systematizer"
        )
        assert "5 builds" in [found.text for found in memory.browse()]
        assert all(memory.inspect(f"build{n}").pinned for n in range(5))


def test_what_was_made_of_an_erased_memory_is_erased(tmp_path: Path, clock: Clock) -> None:
    """AM-20, R16: a summary holds the text of its sources."""
    with opened(tmp_path, clock) as memory:
        for place in range(6):
            tags = ["pump"]
            memory.remember(
                f"pump seal worn w{place}zq", id=f"s{place}", type="episodic", tags=tags
            )
        memory.reflect(consolidate=True)
        (made,) = (found for found in memory.browse() if found.source == "consolidated")
        marker = made.text.split()[-1]
        memory.forget(f"s{marker[1]}", erase=True)
        assert made.id not in memory
        assert len(memory) == 5
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path.name for path in files if marker.encode() in path.read_bytes()]


def test_two_that_consolidate_at_once_make_each_summary_once(tmp_path: Path, clock: Clock) -> None:
    """RFL-2: whoever marks the sources first makes it."""
    with opened(tmp_path, clock) as one, opened(tmp_path, clock) as two:
        episodes(one, 6, "build")

        def meanwhile(texts: Any) -> str:
            two.reflect(consolidate=True)
            return "late"

        assert one.reflect(consolidate=True, summarise=meanwhile)["consolidate"].counts["made"] == 0
        assert [found.source for found in two.browse()].count("consolidated") == 1


def test_a_summary_without_text_uses_no_source_up(clock: Clock) -> None:  # RFL-2
    with SpectorMemory.ephemeral(clock=clock) as memory:
        episodes(memory, 5, "build")
        report = memory.reflect(consolidate=True, summarise=lambda texts: " ")
        assert report["consolidate"].error == "ValueError: summarise must give a text, got ' '"
        assert memory.reflect(consolidate=True)["consolidate"].counts["made"] == 1


def test_reflecting_inside_a_reflection_is_refused(clock: Clock) -> None:  # RFL-9
    with SpectorMemory.ephemeral(clock=clock) as memory:
        episodes(memory, 5, "build")
        report = memory.reflect(consolidate=True, summarise=lambda texts: str(memory.reflect()))
        assert "must not be called by what it calls" in str(report["consolidate"].error)


def test_vectors_keep_clusters_apart(clock: Clock) -> None:  # RFL-2
    vectors = np.eye(4, dtype=np.float32)
    with SpectorMemory.ephemeral(clock=clock) as memory:
        for place in range(4):
            episodes(memory, 2, f"x{place}", vectors[place])
        for found in memory.browse():
            memory.remember(
                found.text,
                id=found.id,
                type="episodic",
                tags=["all"],
                vector=vectors[int(found.id[1])],
            )
        assert memory.reflect(consolidate=True)["consolidate"].counts["made"] == 0


def test_associations_fade(tmp_path: Path, clock: Clock) -> None:
    """RFL-4, HEB-8: by a tenth a cycle, the same after opening again, also from a snapshot."""
    with opened(tmp_path, clock) as memory:
        memory.remember("one", id="a", session="s")
        memory.remember("two", id="b", session="s")
        memory.remember("three", id="c", session="s")
        graph = memory._space.replica.graphs.hebbian
        before = graph.edge(1, 2).weight  # type: ignore[union-attr]
        report = memory.reflect()
        assert report["hebbian"].counts["edges"] == 3
        after = graph.edge(1, 2)
        assert after is not None
        assert after.weight == pytest.approx(0.9 * before)
        memory.reflect()
        expected = graph.edges()
        assert graph.cycle == 2
    for _ in range(2):
        with opened(tmp_path, clock) as memory:
            edges = memory._space.replica.graphs.hebbian.edges()
            assert np.array_equal(edges.weight, expected.weight)
            assert np.array_equal(edges.bridge_score, expected.bridge_score)
            hashes = memory.state_hash()
        for folder in tmp_path.glob("snapshot-*"):
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
    with opened(tmp_path, clock) as memory:
        assert memory.state_hash() == hashes


def test_old_unimportant_chains_are_cut(tmp_path: Path, clock: Clock) -> None:
    """RFL-5, TMP-5."""
    with opened(tmp_path, clock) as memory:
        for name, importance in (("a", 5), ("b", 0.5), ("c", 5)):
            memory.remember(name, id=name, session="s", importance=importance)
        chain = memory._space.replica.graphs.temporal
        assert chain.next(1) == 2
        assert memory.reflect()["temporal"].counts == {"unlinked": 0}
        clock.now += 31 * DAY
        assert memory.reflect()["temporal"].counts == {"unlinked": 1}
        assert (chain.next(1), chain.prev(3), chain.next(2)) == (3, 1, -1)
    with opened(tmp_path, clock) as memory:
        chain = memory._space.replica.graphs.temporal
        assert (chain.next(1), chain.prev(3), chain.next(2)) == (3, 1, -1)


def test_strong_associations_become_relations(tmp_path: Path, clock: Clock) -> None:
    """RFL-6: from 0.65 on, between memories that name different entities."""
    with opened(tmp_path, clock) as memory:
        for _ in range(4):
            memory.remember("met Ann", id="a", session="s", entities=[("Ann", "PERSON")])
            memory.remember("the lab", id="b", session="s", entities=[("Lab", "LOCATION")])
        memory.remember("far away", id="c", session="s", entities=[("Moon", "LOCATION")])
        report = memory.reflect()
        assert report["entities"].counts["promoted"] == 1
        directory = memory._space.replica.graphs.entities
        ann, lab = directory.find_entity("Ann"), directory.find_entity("Lab")
        related = {
            int(other)
            for one, incoming in ((ann, False), (ann, True))
            for other in directory.relations(one, incoming).entities
        }
        assert related == {lab}


def test_entities_are_merged_and_fade(tmp_path: Path, clock: Clock) -> None:
    """RFL-7, ENT-7, ENT-9: similar names become one; the same state when opened again."""
    with opened(tmp_path, clock) as memory:
        memory.remember("one", id="a", entities=[("Kubernetes", "TOOL")])
        memory.remember("two", id="b", entities=[("Kubernetis", "TOOL")], about="Kubernetis")
        memory.remember("three", id="c", entities=[("Kubernetes", "TOOL"), ("X1", "TOOL")])
        counts = memory.reflect()["entities"].counts
        assert counts["merged"] == 1
        directory = memory._space.replica.graphs.entities
        survivor = directory.find_entity("kubernetis")
        assert survivor == directory.find_entity("Kubernetes")
        assert directory.memories_for_entity(survivor).tolist() == [1, 3, 2]
        weights = directory.links(survivor).weights
        assert weights.max() == pytest.approx(0.95)
        assert "b" in ids(memory.recall("tell me about Kubernetis"))
        assert "b" in ids(memory.recall("what does Kubernetes do", k=20))
        for _ in range(40):  # nobody tells of it again
            memory.reflect()
        directory = memory._space.replica.graphs.entities
        assert directory.memories_for_entity(survivor).tolist() == []
        memory.remember("four", id="d", entities=[("Kubernetes", "TOOL")])
        assert memory.status().documents == 4  # and the graph has followed
        assert directory.memories_for_entity(survivor).tolist() == [4]
        expected = memory.state_hash()
        assert list(tmp_path.glob("snapshot-*"))
    with opened(tmp_path, clock) as memory:  # from a snapshot
        assert memory.state_hash() == expected
    original = Space._load_snapshot
    try:
        Space._load_snapshot = lambda self, reader: False  # type: ignore[method-assign]
        with opened(tmp_path, clock) as memory:  # from the journal alone
            assert memory.state_hash() == expected
    finally:
        Space._load_snapshot = original  # type: ignore[method-assign]


def test_pending_extractions_are_tried_again(tmp_path: Path, clock: Clock) -> None:
    """RFL-3, EXT-7."""
    answers: list[Any] = [RuntimeError("down")] * 3 + [[("Ann", "PERSON")]] * 3

    def extract(id: str, text: str) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer, []

    class Extractor:
        def extract(self, id: str, text: str) -> Any:
            return extract(id, text)

    with opened(
        tmp_path, clock, entity_extraction_mode="custom", entity_extractor=Extractor()
    ) as memory:
        memory.remember("met Ann", id="a")
        memory.extraction.drain(30)
        if memory.status().pending_extractions:
            assert memory.reflect()["extract"].counts == {"retried": 1}
            memory.extraction.drain(30)
        assert [one.name for one in memory.inspect("a").entities] == ["Ann"]


def test_a_checkpoint_ends_it(tmp_path: Path, clock: Clock) -> None:  # RFL-8
    with opened(tmp_path, clock) as memory:
        memory.remember("one", id="a")
        assert not list(tmp_path.glob("snapshot-*"))
        memory.reflect()
        assert len(list(tmp_path.glob("snapshot-*"))) == 1


def test_a_step_that_fails_does_not_stop_the_others(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFL-9: it is reported."""
    from spector.reflection import Reflection

    def fails(self: Reflection) -> dict[str, int]:
        raise OSError("broken")

    monkeypatch.setattr(Reflection, "_temporal", fails)
    with SpectorMemory.ephemeral(clock=clock) as memory:
        memory.remember("one", session="s")
        memory.remember("two", session="s")
        report = memory.reflect()
        assert report["temporal"].error == "OSError: broken"
        assert report["hebbian"].counts["edges"] == 1
        assert "temporal: OSError: broken" in str(report)


def test_one_cycle_at_a_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """RFL-9: a second call waits and has the same report."""
    from spector.reflection import Reflection

    inside, go = threading.Event(), threading.Event()
    original = Reflection.run

    def slow(self: Reflection) -> Any:
        inside.set()
        go.wait(10)
        return original(self)

    monkeypatch.setattr(Reflection, "run", slow)
    with SpectorMemory.ephemeral(clock=clock) as memory:
        memory.remember("one")
        reports: list[Any] = []
        threads = [
            threading.Thread(target=lambda: reports.append(memory.reflect())) for _ in range(3)
        ]
        threads[0].start()
        inside.wait(10)
        for thread in threads[1:]:
            thread.start()
        time.sleep(0.05)
        go.set()
        for thread in threads:
            thread.join(10)
        assert len(reports) == 3
        assert reports[0] is reports[1] is reports[2]


def test_recalls_do_not_wait_for_it(tmp_path: Path, clock: Clock) -> None:
    """RFL-9: while a step changes weights in one thread, others find what they found before."""
    with opened(tmp_path, clock) as memory:
        for place in range(300):
            memory.remember(f"apple {place}", id=f"m{place}", session=f"s{place % 20}")
        graph = memory._space.replica.graphs.hebbian
        inside, go = threading.Event(), threading.Event()

        class Slow:
            def __getattr__(self, name: str) -> Any:
                return getattr(graph, name)

            def __len__(self) -> int:
                return len(graph)

            def decay(self) -> Any:
                inside.set()
                assert go.wait(30)
                return graph.decay()

        memory._space.replica.graphs.hebbian = Slow()  # type: ignore[assignment]
        thread = threading.Thread(target=memory.reflect)
        thread.start()
        assert inside.wait(30)
        # The event is in the journal, the change of the weights is not done.
        found = memory.recall("apple 7", recall_mode="observe")
        assert found[0].id == "m7"
        go.set()
        thread.join(30)
        assert not thread.is_alive()
        memory._space.replica.graphs.hebbian = graph
        assert graph.cycle == 1
        assert memory.recall("apple 7", recall_mode="observe")[0].id == "m7"


def test_two_processes_reflect(tmp_path: Path, clock: Clock) -> None:
    """Two replicas agree after cycles of either (AM-16)."""
    with opened(tmp_path, clock) as one, opened(tmp_path, clock) as two:
        for place in range(40):
            memory = (one, two)[place % 2]
            memory.remember(
                f"apple {place}",
                session=f"s{place % 3}",
                entities=[(f"Tool {place % 4}x", "TOOL"), ("Ann", "PERSON")],
            )
            if place % 10 == 9:
                memory.reflect()
        one.recall("apple", recall_mode="observe")
        two.recall("apple", recall_mode="observe")
        assert one.state_hash() == two.state_hash()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"consolidate": 1}, TypeError),
        ({"summarise": "x"}, TypeError),
        ({"profile": "nobody"}, ValueError),
    ],
)
def test_bad_calls(clock: Clock, options: dict[str, Any], error: type[Exception]) -> None:
    with SpectorMemory.ephemeral(clock=clock) as memory, pytest.raises(error):
        memory.reflect(**options)


def with_something_faded(memory: SpectorMemory, clock: Clock, days: int = 400) -> None:
    memory.remember("apple", id="faded", type="episodic", importance=0.1)
    clock.now += days * DAY


def test_it_runs_by_itself_once_a_day(tmp_path: Path, clock: Clock) -> None:
    """Section H: after 24 hours, in the background of what happens then; close waits for it."""
    with opened(tmp_path, clock, reflect_every=24) as memory:
        with_something_faded(memory, clock)
        memory.recall("apple")
    with opened(tmp_path, clock) as memory:
        assert "faded" not in memory
        memory.remember("apple", id="soon", importance=0.1, timestamp=START)
    clock.now += DAY // 2
    with opened(tmp_path, clock, reflect_every=24) as memory:
        memory.recall("apple")  # the time of the last cycle is kept with the space
    with opened(tmp_path, clock) as memory:
        assert "soon" in memory


def test_it_runs_after_many_new_memories(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Section H: and then after as many as there were, so that an import stays linear."""
    monkeypatch.setattr("spector.reflection._MANY", 10)
    cycles = []
    monkeypatch.setattr(Reflection, "run", lambda self: cycles.append(1) or ReflectionReport(()))
    with SpectorMemory.ephemeral(clock=clock, reflect_every=24) as memory:
        for _ in range(160):
            memory.remember("a word")
            if (thread := memory._cycles._thread) is not None:
                thread.join()
    assert len(cycles) == 5  # at 10, 20, 40, 80 and 160


@pytest.mark.parametrize(
    "options", [{"reflect_every": None}, {}], ids=["off", "a clock of one's own"]
)
def test_it_does_not_run_by_itself(clock: Clock, options: dict[str, Any]) -> None:
    with SpectorMemory.ephemeral(clock=clock, **options) as memory:
        with_something_faded(memory, clock)
        memory.recall("apple")
        memory.remember("pear")
        assert memory._cycles._thread is None
        assert "faded" in memory


def test_a_day_is_one_of_all_processes(tmp_path: Path, clock: Clock) -> None:
    with (
        opened(tmp_path, clock, reflect_every=24) as one,
        opened(tmp_path, clock, reflect_every=24) as other,
    ):
        with_something_faded(one, clock)
        one.recall("apple")
        one._cycles.close()
        assert "faded" not in one
        other.remember("apple", id="not yet", importance=0.1, timestamp=START, type="episodic")
        other._cycles.close()
        assert "not yet" in other


def test_a_cycle_that_fails_in_the_background_is_counted(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Reflection) -> ReflectionReport:
        raise OSError("no room")

    monkeypatch.setattr(Reflection, "run", fail)
    with SpectorMemory.ephemeral(clock=clock, reflect_every=24) as memory:
        with_something_faded(memory, clock)
        assert ids(memory.recall("apple")) == {"faded"}
        memory._cycles._thread.join()
        assert memory.status().background_failures == 1
        assert "no room" in caplog.text
        memory.recall("apple")  # not again at once
        assert memory.status().background_failures == 1


@pytest.mark.parametrize("hours", [0, -1, float("nan"), True, "24"])
def test_bad_hours(hours: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="reflect_every"):
        SpectorMemory.ephemeral(reflect_every=hours)


def test_opening_writes_nothing_for_it(tmp_path: Path, clock: Clock) -> None:
    """A space that had no cycle counts from its first event: opening it needs no room on disk."""
    with opened(tmp_path, clock) as memory:
        with_something_faded(memory, clock, days=400)
        before = memory.state_hash()
    with opened(tmp_path, clock, reflect_every=24) as memory:
        assert memory.state_hash() == before
        memory.recall("apple")
    with opened(tmp_path, clock) as memory:
        assert "faded" not in memory


def test_a_clock_that_gives_no_time_leaves_no_file_open(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="clock"):
        SpectorMemory.open(tmp_path, clock=lambda: "noon", reflect_every=24)  # type: ignore[arg-type,return-value]
    held = [path.resolve() for path in Path("/proc/self/fd").glob("*") if path.exists()]
    assert not [path for path in held if tmp_path in path.parents]
