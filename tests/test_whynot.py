"""Why a memory was not found (API-4, IMP-4's neighbours in REC-1), and what is known of a topic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spector import SpectorMemory, UnknownMemoryError

START = 1_900_000_000_000


@pytest.fixture
def memory() -> Any:
    with SpectorMemory.ephemeral(clock=lambda: START) as opened:
        opened.remember("apple pie", id="a", tags=["red", "big"], author="ann", valence=5)
        for place in range(20):
            opened.remember(f"apple apple {place}", id=f"n{place}", type="episodic")
        opened.remember("something else", id="other")
        yield opened


@pytest.mark.parametrize(
    ("id", "options", "step", "reason"),
    [
        ("a", {"tags": ["green"]}, "filter", "its tags are red, big, the query wants green (all)"),
        ("a", {"type": "episodic"}, "filter", "it is semantic, the query wants episodic"),
        ("a", {"author": "bob"}, "filter", "its author is 'ann', the query wants 'bob'"),
        ("a", {"since": START + 1}, "filter", f"its timestamp {START} is before {START + 1}"),
        ("a", {"as_of": START - 1}, "filter", f"its timestamp {START} is after {START - 1}"),
        ("a", {"min_valence": 6}, "filter", "its valence 5 is below 6"),
        ("a", {"profile": "debugging"}, "filter", "its valence 5 is above -10"),
        ("a", {"min_importance": 9}, "filter", "is below 9"),
        ("other", {}, "lists", "keyword: it has no term of the query; the graph does not lead"),
    ],
)
def test_the_first_step_that_excluded_it(
    memory: SpectorMemory, id: str, options: dict[str, Any], step: str, reason: str
) -> None:
    found = memory.why_not(id, "apple", **options)
    assert (found.found, found.step) == (False, step)
    assert reason in found.reason
    assert id not in [hit.id for hit in memory.recall("apple", k=100, **options)]
    assert str(found) == f"{id}: not found ({step}): {found.reason}"
    assert found.as_dict()["step"] == step


def test_what_it_would_have_needed(memory: SpectorMemory) -> None:
    hits = memory.recall("apple", k=30, recall_mode="observe")
    places = {hit.id: place for place, hit in enumerate(hits, 1)}
    for k in (1, 5, 30):
        for hit in hits:
            found = memory.why_not(hit.id, "apple", k=k)
            assert found.rank == places[hit.id]
            assert found.score == pytest.approx(hit.score)
            assert found.found == (places[hit.id] <= k)
            if not found.found:
                assert found.step == "cut"
                assert found.needed == pytest.approx(hits[k - 1].score - hit.score, abs=1e-6)


def test_states_keep_it_out(memory: SpectorMemory) -> None:  # SUP-1, SCO-2
    memory.hyperfocus.activate(["blue"])
    assert memory.why_not("a", "apple").step == "hyperfocus"
    memory.hyperfocus.deactivate()
    memory.suppress("a", "not true")
    found = memory.why_not("a", "apple")
    assert (found.step, found.reason) == ("suppressed", "it is suppressed: not true")


def test_other_lists(memory: SpectorMemory) -> None:
    vector = np.eye(4, dtype=np.float32)
    memory.remember("near", id="near", vector=vector[0])
    found = memory.why_not("other", "apple", vector=vector[0])
    assert "dense: it has no vector" in found.reason
    assert memory.why_not("near", "x", vector=vector[0]).lists == {"dense": 1}


def test_it_changes_nothing(memory: SpectorMemory) -> None:  # REC-3
    memory.flush()
    events = memory.status().events
    memory.why_not("a", "apple")
    memory.introspect("apple")
    memory.flush()
    assert memory.status().events == events


def test_bad_calls(memory: SpectorMemory) -> None:  # GEN-5
    with pytest.raises(UnknownMemoryError, match="no memory has the id 'x'"):
        memory.why_not("x", "apple")
    with pytest.raises(TypeError, match="why_not has the unknown key 'tag'; did you mean 'tags'"):
        memory.why_not("a", "apple", tag=["x"])
    with pytest.raises(TypeError, match="topic"):
        memory.introspect(3)  # type: ignore[arg-type]


def test_a_topic(memory: SpectorMemory) -> None:
    memory.remember("red kite", id="kite", tags=["red", "sky"], entities=["Kite"], unresolved=True)
    known = memory.introspect("apple kite")
    assert known.memories == 22
    assert known.types == {"episodic": 20, "semantic": 2}
    assert known.tags == {"red": 2, "big": 1, "sky": 1}
    assert known.entities == {"Kite": 1}
    assert (known.unresolved, known.profile) == (("kite",), "balanced")
    assert known.as_dict()["oldest"] == START
    assert memory.introspect("nothing of that").memories == 0
