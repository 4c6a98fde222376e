"""Hyperfocus of an open memory: SCO-2, SCO-12, SCO-14."""

from __future__ import annotations

import pytest

from spector import SpectorMemory

MINUTE = 60_000
START = 1_900_000_000_000


class Clock:
    now = START

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def memory(clock):
    with SpectorMemory.ephemeral(clock=clock) as memory:
        old = START - 400 * 24 * 60 * MINUTE
        for id, tags in (("a", ["x", "y"]), ("b", ["x"]), ("c", []), ("d", ["y", "x", "z"])):
            memory.remember(f"alpha {id}", id=id, tags=tags, vector=[1.0, 0.2], timestamp=old)
        yield memory


def found(memory, **options):
    return [hit.id for hit in memory.recall("alpha", vector=[1.0, 0.0], **options)]


def test_sco_14_activates_extends_and_ends_by_itself(memory, clock):
    focus = memory.hyperfocus
    assert not focus.is_active and focus.remaining_ms == 0 and focus.extend() == 0
    focus.activate(["X", "y"])
    assert focus.is_active and focus.remaining_ms == 30 * MINUTE
    clock.now += 29 * MINUTE
    assert focus.remaining_ms == MINUTE
    assert focus.extend() == 31 * MINUTE and focus.extend(5) == 36 * MINUTE
    clock.now += 36 * MINUTE
    assert not focus.is_active and focus.remaining_ms == 0
    assert len(found(memory)) == 4
    focus.activate(["x"], minutes=1)
    focus.activate(["y"], minutes=2)
    assert focus.current().tags == ("y",) and focus.remaining_ms == 2 * MINUTE
    focus.deactivate()
    assert not focus.is_active


@pytest.mark.parametrize("mode", ["hybrid", "keyword_only", "vector_only"])
def test_sco_2_all_mask_tags_are_required_beside_the_filter(memory, mode):
    memory.hyperfocus.activate(["x", "y"])
    assert set(found(memory, text_search_mode=mode)) == {"a", "d"}
    assert found(memory, text_search_mode=mode, tags=["z"]) == ["d"]
    assert found(memory, text_search_mode=mode, tags=["nobody"]) == []
    if mode == "keyword_only":
        assert {hit.id for hit in memory.recall_many(["alpha"])[0]} == {"a", "d"}
    memory.hyperfocus.deactivate()
    assert len(found(memory, text_search_mode=mode)) == 4


def test_sco_12_and_sco_14_what_has_the_focus_does_not_fade_and_is_boosted(memory):
    options = {"text_search_mode": "vector_only", "k": 1}
    before = memory.recall([1.0, 0.0], **options)[0]
    memory.hyperfocus.activate(["x", "y"], boost=2.0)
    focused = memory.recall([1.0, 0.0], **options)[0]
    records = memory._space.replica.records
    similarity = 1 / (1 + float(records.nearest([1.0, 0.0])[1]))
    importance = focused.memory.importance / 10
    assert focused.score == pytest.approx(2 * similarity * (0.6 + 0.4 * importance), rel=1e-4)
    assert focused.score > 2 * before.score  # no decay


def test_sco_14_bad_arguments(memory):
    focus = memory.hyperfocus
    with pytest.raises(ValueError, match="tags"):
        focus.activate([])
    with pytest.raises(ValueError, match="minutes"):
        focus.activate(["x"], minutes=0)
    with pytest.raises(ValueError, match="boost"):
        focus.activate(["x"], boost=11)
    with pytest.raises(ValueError, match="minutes"):
        focus.extend(-1)
    assert not focus.is_active
