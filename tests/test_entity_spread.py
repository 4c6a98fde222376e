"""From entities to memories: `EntityDirectory.spread` against plain Python (EXP-1, step 5e)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spector.graph import EntityDirectory, HyperGraph

NONE = 2**32 - 1
entity = st.integers(0, 9)


def plain(
    directory: EntityDirectory,
    hyper: HyperGraph | None,
    starts: dict[int, float],
    steps: int,
    share: float,
    most: int,
    least: float = 0.0,
) -> dict[int, tuple[float, set[tuple[int, ...]]]]:
    """For each memory its activation, and the ways of that strength."""
    met: dict[int, tuple[float, set[tuple[int, ...]]]] = {}
    level = {
        start: (strength, {(start,)}) for start, strength in starts.items() if strength >= least
    }
    for step in range(steps + 1):
        met = level | met
        if step == steps:
            break
        following: dict[int, tuple[float, set[tuple[int, ...]]]] = {}
        for one, (strength, ways) in level.items():
            around: list[tuple[int, float]] = []
            for incoming in (False, True):
                relations = directory.relations(one, incoming)
                around += zip(relations.entities.tolist(), relations.weights.tolist(), strict=True)
            if hyper is not None:
                for edge in hyper.edges(hyper.hyperedges_for(one)).tolist():
                    around += [(other, edge.weight) for other in edge.entities]
            for other, weight in around:
                passed = strength * share * min(1.0, weight)
                best, there = following.get(other, (-1.0, set()))
                if other in met or passed < least:  # who is met too weakly may be met later
                    continue
                if passed > best:
                    best, there = passed, set()
                if passed == best:
                    there = there | {(*way, other) for way in ways}
                following[other] = (best, there)
        level = following
    found: dict[int, tuple[float, set[tuple[int, ...]]]] = {}
    for one, (strength, ways) in met.items():
        links = directory.links(one)
        if len(links) > most:
            continue
        for memory, weight in zip(links.memories.tolist(), links.weights.tolist(), strict=True):
            activation = strength * min(1.0, weight) / math.sqrt(len(links))
            best, there = found.get(memory, (-1.0, set()))
            if activation > best + 1e-12:
                found[memory] = (activation, set(ways))
            elif activation > best - 1e-12:
                found[memory] = (best, there | ways)
    return found


@settings(max_examples=150, deadline=None)
@given(
    links=st.lists(st.tuples(entity, st.integers(0, 12)), max_size=30),
    relations=st.lists(st.tuples(entity, entity, st.integers(0, 2)), max_size=12),
    events=st.lists(st.lists(entity, min_size=3, max_size=5, unique=True), max_size=4),
    starts=st.dictionaries(entity, st.sampled_from([1.0, 0.5, 0.0]), max_size=3),
    steps=st.integers(0, 2),
    share=st.sampled_from([1.0, 0.25, 0.0]),
    most=st.sampled_from([1, 3, 1000]),
    hyper=st.booleans(),
    decays=st.integers(0, 2),
)
def test_it_activates_what_a_plain_walk_activates(
    links: Any,
    relations: Any,
    events: Any,
    starts: dict[int, float],
    steps: int,
    share: float,
    most: int,
    hyper: bool,
    decays: int,
) -> None:
    directory, graph = EntityDirectory(), HyperGraph()
    for number in range(10):
        directory.intern(f"e{number}", 21)
    for one, memory in links:
        directory.link(one, memory)
    for source, target, kind in relations:
        if source != target:
            directory.add_relation(source, target, kind)
    for members in events:
        graph.add(1, members)
    for _ in range(decays):
        directory.decay_adjacency_weights()
        directory.decay_relations()
    edges = graph if hyper else None
    memories, activations, paths = directory.spread(
        list(starts), list(starts.values()), steps, share, most, edges
    )
    expected = plain(directory, edges, starts, steps, share, most)
    for least, limit in ((0.2, 100), (0.0, 2), (0.3, 1)):
        arguments = (list(starts), list(starts.values()), steps, share, most, edges, least)
        strong = directory.spread(*arguments)
        if not least or all(abs(found - least) > 1e-9 for found in strong[1].tolist()):
            some = plain(directory, edges, starts, steps, share, most, least)
            assert strong[0].tolist() == sorted(
                memory for memory, (activation, _) in some.items() if activation >= least
            )
        best = sorted(zip(-strong[1], strong[0].tolist(), strict=True))[:limit]
        assert directory.spread(*arguments, limit)[0].tolist() == sorted(slot for _, slot in best)
    assert memories.tolist() == sorted(expected)
    for memory, activation, path in zip(memories.tolist(), activations, paths, strict=True):
        best, ways = expected[memory]
        assert activation == pytest.approx(best, rel=1e-12)
        assert tuple(path[path != NONE].tolist()) in ways or best == 0


def test_arguments_of_spread() -> None:
    """GEN-5."""
    directory = EntityDirectory()
    directory.intern("a", 0)
    for wrong, kind, says in [
        ({"start": 1}, IndexError, "not known"),
        ({"strength": 2.0}, ValueError, "strength must be in"),
        ({"strength": float("nan")}, ValueError, "strength must be in"),
        ({"strength": [0.5, 0.5]}, ValueError, "one for each of 1 entities"),
        ({"steps": 3}, ValueError, "steps must be in"),
        ({"share": 1.5}, ValueError, "share must be in"),
        ({"hyper": 5}, TypeError, "hyper must be a HyperGraph"),
    ]:
        with pytest.raises(kind, match=says):
            directory.spread(**{"start": 0, **wrong})
    memories, activations, paths = directory.spread([])
    assert len(memories) == len(activations) == 0
    assert paths.size == 0
    assert isinstance(memories, np.ndarray)


@given(
    st.lists(st.tuples(entity, st.integers(0, 15)), max_size=60),
    st.lists(st.tuples(st.integers(0, 20), st.floats(0, 1)), max_size=5),
    st.sampled_from([0.5, 3.0]),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.3]),
    st.integers(1, 20),
)
@settings(max_examples=200, deadline=None)
def test_each_memory_leads_where_its_entities_lead(
    links: list[tuple[int, int]],
    seeds: list[tuple[int, float]],
    few: float,
    most: int,
    least: float,
    limit: int,
) -> None:
    """EXP-1 (5e): `spread_each` is `spread` from the entities of each memory."""
    directory = EntityDirectory()
    directory.intern([f"e{number}" for number in range(10)], "OTHER")
    for one, memory in links:
        directory.link(one, memory)
    expected = []
    for place, (memory, strength) in enumerate(seeds):
        own = directory.entities_for_memory(memory)
        if not len(own):
            continue
        each = strength * min(1.0, few / len(own)) ** 0.25
        slots, activations, ways = directory.spread(own, each, 0, 0, most, None, least, limit)
        expected += [
            (place, slot, activation, way[0])
            for slot, activation, way in zip(
                slots.tolist(), activations.tolist(), ways.tolist(), strict=True
            )
        ]
    memories = np.asarray([memory for memory, _ in seeds], np.uint32)
    strengths = np.asarray([strength for _, strength in seeds])
    found = directory.spread_each(memories, strengths, few, most, least, limit)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected


def test_arguments_of_spread_each() -> None:
    directory = EntityDirectory()
    with pytest.raises(ValueError, match="strengths must be one for each of 2 memories, not 1"):
        directory.spread_each([0, 1], [1.0])
    with pytest.raises(ValueError, match=r"strengths must be in \[0, 1\]"):
        directory.spread_each([0], [1.5])
    with pytest.raises(ValueError, match=r"few must be in \[1e-06, 1e\+06\], not 0"):
        directory.spread_each([0], [1.0], few=0)
    assert [len(column) for column in directory.spread_each([7], [1.0])] == [0, 0, 0, 0]
