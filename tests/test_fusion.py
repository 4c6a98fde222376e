"""Fusing lists: RRF-1 to RRF-5, AM-4."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spector
from spector import _core
from spector.recall.fusion import Candidates, fuse


def ranked(pairs):
    return Candidates(
        np.asarray([slot for slot, _ in pairs], np.int64),
        np.asarray([score for _, score in pairs], np.float32),
    )


def plain_rrf(lists, weights, k):
    scores = {}
    for name, found in lists.items():
        for rank, slot in enumerate(found.slots.tolist(), 1):
            scores[slot] = scores.get(slot, 0) + weights.get(name, 1) / (k + rank)
    return scores


def plain_relative(lists, weights):
    scores = {}
    for name, found in lists.items():
        values = found.scores.tolist()
        low, high = min(values), max(values)
        for slot, value in zip(found.slots.tolist(), values, strict=True):
            part = 1.0 if high == low else (value - low) / (high - low)
            scores[slot] = scores.get(slot, 0) + weights.get(name, 1) * part
    return scores


rankings = st.lists(
    st.tuples(st.integers(0, 30), st.floats(0.125, 8, width=32)),
    min_size=1,
    max_size=20,
    unique_by=lambda pair: pair[0],
).map(lambda pairs: ranked(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))))


@given(st.dictionaries(st.sampled_from("abcd"), rankings, min_size=1), st.integers(1, 100))
def test_rrf_1_is_the_plain_formula(lists, k):
    weights = {"a": 2.0}
    expected = plain_rrf(lists, weights, k)
    found = fuse(lists, weights, "rrf", k)
    assert set(found.slots.tolist()) == set(expected)
    best = max(expected.values())
    for slot, score in zip(found.slots.tolist(), found.scores.tolist(), strict=True):
        assert score == pytest.approx(expected[slot] / best, rel=1e-6)
    assert found.scores[0] == 1
    assert (np.diff(found.scores) <= 0).all()


@given(st.dictionaries(st.sampled_from("abcd"), rankings, min_size=1))
def test_am_4_relative_scores_are_stretched_over_each_list(lists):
    weights = {"b": 0.5}
    expected = plain_relative(lists, weights)
    found = fuse(lists, weights, "relative", 60)
    best = max(expected.values())
    for slot, score in zip(found.slots.tolist(), found.scores.tolist(), strict=True):
        assert score == pytest.approx(expected[slot] / (best or 1), rel=1e-5, abs=1e-6)


@given(st.dictionaries(st.sampled_from("abcd"), rankings, min_size=2), st.randoms())
def test_rrf_4_the_order_of_the_lists_does_not_matter(lists, random):
    names = list(lists)
    random.shuffle(names)
    shuffled = {name: lists[name] for name in names}
    for fusion in ("rrf", "relative"):
        one, other = fuse(lists, {}, fusion, 60), fuse(shuffled, {}, fusion, 60)
        assert one.scores == pytest.approx(other.scores, abs=1e-6)


def test_rrf_3_ties_more_lists_then_better_rank_then_lower_slot():
    # 7 and 8 are first in a list each; 5 and 6 second in both swapped: all pairs tie.
    lists = {"a": ranked([(8, 3), (5, 2)]), "b": ranked([(7, 3), (6, 2)])}
    assert fuse(lists, {}, "rrf", 60).slots.tolist() == [7, 8, 5, 6]
    # One list at rank 1 with weight 1 against two lists at weights that sum to the same.
    lists = {"a": ranked([(1, 1)]), "b": ranked([(2, 1)]), "c": ranked([(2, 1)])}
    assert fuse(lists, {"b": 0.5, "c": 0.5}, "rrf", 60).slots.tolist() == [2, 1]


def test_rrf_2_weight_0_leaves_a_list_out():
    lists = {"a": ranked([(1, 1)]), "b": ranked([(2, 1)])}
    assert fuse(lists, {"a": 0.0}, "rrf", 60).slots.tolist() == [2]
    assert fuse({}, {}, "rrf", 60).slots.tolist() == []


def test_rrf_as_a_function_of_its_own():
    assert spector.rrf([["a", "b"], ["b", "c"]]) == [
        ("b", pytest.approx(1 / 62 + 1 / 61)),
        ("a", pytest.approx(1 / 61)),
        ("c", pytest.approx(1 / 62)),
    ]
    assert spector.rrf([["a", "a", "b"]], k=1) == [("a", 1 / 2), ("b", 1 / 4)]
    assert spector.rrf([]) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lists": [["a"]], "k": 0}, r"k must be in \[1, 1000\], not 0"),
        ({"lists": [["a"]], "weights": [1, 2]}, "weights must be one for each of 1 lists, not 2"),
        ({"lists": [["a"]], "weights": [float("nan")]}, "each of weights must be in"),
        ({"lists": [["a"]], "weights": [-1]}, "each of weights must be in"),
    ],
)
def test_rrf_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        spector.rrf(**arguments)


def test_am_5_adding_layers_is_the_sum_of_the_strongest_of_each():
    rng = np.random.default_rng(5)
    for _ in range(50):
        slots = rng.permutation(60)[: int(rng.integers(1, 40))].astype(np.int64)
        scores = -np.sort(-rng.random(len(slots)).astype(np.float32))
        parts = [int(rng.integers(0, 30)) for _ in range(4)]
        reached = [rng.integers(0, 60, n).astype(np.uint32) for n in parts]
        activations = [rng.random(n) for n in parts]
        layers = ([0, 0, 1, 2], [0.5, 0.5, 0.25, 2.0])
        sums = dict(zip(slots.tolist(), scores.tolist(), strict=True))
        for layer in range(3):
            strongest = {}
            for part, number in enumerate(layers[0]):
                if number == layer:
                    for slot, value in zip(reached[part].tolist(), activations[part], strict=True):
                        strongest[slot] = max(strongest.get(slot, 0.0), value)
            scale = layers[1][layers[0].index(layer)]
            for slot, value in strongest.items():
                sums[slot] = sums.get(slot, 0.0) + scale * value
        found, added = _core.add_to(slots, scores, reached, activations, *layers)
        assert dict(zip(found.tolist(), added.tolist(), strict=True)) == pytest.approx(sums)
        gains = _core.add_layers(reached, activations, *layers)
        again = _core.accumulate(slots, scores, *gains)
        assert (again[0] == found).all()
        assert (again[1] == added).all()


def test_exp_1_nothing_passes_the_seed_that_leads_to_it():
    rng = np.random.default_rng(6)
    for _ in range(50):
        slots = rng.permutation(60)[: int(rng.integers(1, 40))].astype(np.int64)
        scores = -np.sort(-rng.random(len(slots)).astype(np.float32))
        seeds = slots[: int(rng.integers(1, 6))].astype(np.uint32)
        strengths = scores[: len(seeds)].astype(np.float64) / float(scores[0])
        n = int(rng.integers(0, 80))
        places = rng.integers(0, len(seeds), n).astype(np.uint32)
        reached = rng.integers(0, 60, n).astype(np.uint32)
        activations = rng.random(n)
        own = dict(zip(slots.tolist(), scores.astype(np.float64) / float(scores[0]), strict=True))
        expected = []
        for i, (place, slot) in enumerate(zip(places.tolist(), reached.tolist(), strict=True)):
            room = (0.8 * strengths[place] - own.get(slot, 0.0)) / 0.5
            value = min(activations[i], room)
            if value >= 0.02 and slot != seeds[place]:
                expected.append((i, value))
        kept, bounded = _core.bound_by_seeds(
            places, reached, activations, seeds, strengths, slots, scores, 0.8, 0.5, 0.02
        )
        assert list(zip(kept.tolist(), bounded.tolist(), strict=True)) == expected
