"""Late interaction against numpy: RRK-1, AM-6."""

import numpy as np
import pytest

from spector import _core
from spector.store.vectors import pack_sparse, pack_tokens, unpack_sparse, unpack_tokens

DIMENSIONS = 24


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def put(store, documents):
    parts = [
        unpack_tokens(pack_tokens(rows, DIMENSIONS), DIMENSIONS) for rows in documents.values()
    ]
    ends = np.cumsum([0, *(len(scales) for _, scales in parts)]).astype(np.uint64)
    store.put(
        np.asarray(list(documents), np.uint32),
        ends,
        np.concatenate([codes for codes, _ in parts]),
        np.concatenate([scales for _, scales in parts]),
    )


def max_sim(query, document):
    return float((query @ document.T).max(axis=1).sum())


@pytest.fixture
def documents():
    random = np.random.default_rng(3)
    return {
        slot: unit(random.standard_normal((int(random.integers(1, 40)), DIMENSIONS)))
        for slot in range(0, 200, 2)
    }


def test_rrk_1_scores_are_those_of_the_formula(documents):
    store = _core.TokenVectors(DIMENSIONS)
    put(store, documents)
    query = unit(np.random.default_rng(4).standard_normal((9, DIMENSIONS)))
    expected = {slot: max_sim(query, rows) for slot, rows in documents.items()}
    slots, scores = store.search(query.reshape(-1), 1000)
    assert sorted(slots.tolist()) == sorted(documents)
    assert (np.diff(scores) <= 0).all()
    for slot, score in zip(slots.tolist(), scores.tolist(), strict=True):
        # Two int8 roundings: at most half a step of each vector's largest element.
        assert score == pytest.approx(expected[slot], abs=0.1)
    best = max(expected, key=expected.get)
    assert best in slots[:3].tolist()
    some = np.asarray([2, 4, 6, 7], np.uint32)
    assert set(store.search(query.reshape(-1), 10, some)[0].tolist()) == {2, 4, 6}
    assert store.search(query.reshape(-1), 5)[0].tolist() == slots[:5].tolist()


def test_equal_on_every_instruction_set(documents):
    store = _core.TokenVectors(DIMENSIONS)
    put(store, documents)
    query = unit(np.random.default_rng(5).standard_normal((5, DIMENSIONS))).reshape(-1)
    level = _core.simd_level()
    try:
        answers = []
        for name in _core.available_simd_levels():
            _core.set_simd_level(name)
            slots, scores = store.search(query, 1000)
            answers.append((slots.tobytes(), scores.tobytes()))
    finally:
        _core.set_simd_level(level)
    assert len(set(answers)) == 1


def test_rrk_1_updates_and_forgets(documents):
    store = _core.TokenVectors(DIMENSIONS)
    put(store, documents)
    put(store, {0: documents[2], 2: documents[0]})
    query = documents[0].reshape(-1)
    assert store.search(query, 1)[0].tolist() == [2]
    assert store.erase(np.asarray([2, 3], np.uint32)) == 1
    assert len(store) == len(documents) - 1
    assert 2 not in store.search(query, 1000)[0].tolist()
    assert store.search(np.empty(0, np.float32), 5)[0].tolist() == []


def test_bad_shapes():
    store = _core.TokenVectors(DIMENSIONS)
    one = np.asarray([1], np.uint32)
    ends = np.asarray([0, 1], np.uint64)
    codes = np.zeros(DIMENSIONS, np.int8)
    scales = np.ones(1, np.float32)
    with pytest.raises(ValueError, match="do not fit each other"):
        store.put(one, ends, codes[:-1], scales)
    with pytest.raises(ValueError, match="do not fit each other"):
        store.put(one, np.asarray([0, 2], np.uint64), codes, scales)
    with pytest.raises(ValueError, match="a scale must be finite"):
        store.put(one, ends, codes, np.asarray([np.nan], np.float32))
    with pytest.raises(ValueError, match="dimensions must be in"):
        _core.TokenVectors(0)
    assert len(store) == 0


def test_packing_gives_back_what_was_packed(documents):
    rows = documents[0]
    codes, scales = unpack_tokens(pack_tokens(rows, DIMENSIONS), DIMENSIONS)
    back = codes.reshape(len(rows), -1) * scales[:, None]
    steps = np.abs(rows).max(axis=1, keepdims=True) / 127
    assert (np.abs(back - rows) <= steps * 0.501).all()
    nothing = pack_tokens(np.zeros((2, DIMENSIONS)), DIMENSIONS)
    assert not unpack_tokens(nothing, DIMENSIONS)[0].any()
    weights = {"ä": 1.5, "b": 0.25, "zero": 0.0}
    assert unpack_sparse(pack_sparse(weights)) == {"ä": 1.5, "b": 0.25}
    assert unpack_sparse(pack_sparse({})) == {}
    assert unpack_sparse(None) == {}
