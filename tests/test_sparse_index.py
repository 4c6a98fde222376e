"""The sparse index against plain dictionaries: SPL-1, IDX-1, IDX-2."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spector.sparse import SparseIndex


def reference(documents, query, k, allow=None):
    scores = {}
    for slot, document in documents.items():
        if allow is not None and slot not in allow:
            continue
        score = np.float32(0)
        for term, weight in query.items():
            if term in document:
                score += np.float32(weight) * np.float32(document[term])
        if score > 0:
            scores[slot] = score
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


def check(index, documents, query, k, allow=None):
    slots, scores = index.search(query, k, allow)
    expected = reference(documents, query, k, allow)
    assert [float(score) for _, score in expected] == pytest.approx(scores.tolist(), rel=1e-6)
    # Sums in another order may swap nearly equal documents.
    for slot, score in zip(slots.tolist(), scores.tolist(), strict=True):
        assert index.score(query, slot) == pytest.approx(score, rel=1e-6)
        assert allow is None or slot in allow
    assert set(slots.tolist()) <= set(documents)


weights = st.floats(0.25, 4, width=32)
maps = st.dictionaries(st.sampled_from("abcdefghijk"), weights, max_size=6)
changes = st.one_of(
    st.tuples(st.just("put"), st.lists(st.tuples(st.integers(0, 40), maps), max_size=8)),
    st.tuples(st.just("erase"), st.lists(st.integers(0, 50), max_size=5)),
    st.tuples(st.just("compact"), st.none()),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(changes, max_size=25), maps, st.integers(1, 60))
def test_spl_1_any_history_gives_the_plain_scores(history, query, k):
    index = SparseIndex()
    documents = {}
    for kind, value in history:
        if kind == "put":
            index.put([slot for slot, _ in value], [document for _, document in value])
            for slot, document in value:
                documents.pop(slot, None)
                if document:
                    documents[slot] = document
        elif kind == "erase":
            known = len({slot for slot in value if slot in documents})
            assert index.erase(value) == known
            for slot in value:
                documents.pop(slot, None)
        else:
            index.compact()
        assert len(index) == len(documents)
        if query:
            check(index, documents, query, k)
    if query:
        check(index, documents, query, k, allow=[1, 3, 5, 7, 40])


def test_many_windows_and_a_compaction():
    random = np.random.default_rng(7)
    index = SparseIndex()
    terms = [f"t{number}" for number in range(200)]
    documents = {}
    for first in range(0, 20_000, 2_500):
        batch = {}
        for slot in range(first, first + 2_500):
            chosen = random.choice(terms, 5, replace=False)
            batch[slot] = dict(zip(chosen.tolist(), random.random(5).round(3) + 0.5, strict=True))
        index.put(list(batch), list(batch.values()))
        documents |= batch
    query = {"t1": 1.0, "t2": 2.0, "t77": 0.5}
    check(index, documents, query, 50)
    before = index.memory_usage()
    gone = random.permutation(20_000)[:12_000].tolist()
    assert index.erase(gone) == 12_000
    for slot in gone:
        del documents[slot]
    check(index, documents, query, 500)
    assert index.memory_usage() < before


def test_bm25_8_expansion_is_what_lets_automobile_meet_car():
    index = SparseIndex()
    index.put([0, 1], [{"car": 2.0, "automobile": 1.0}, {"train": 1.0}])
    assert index.search({"automobile": 1.5})[0].tolist() == [0]
    assert index.search({"bicycle": 1.0})[0].tolist() == []
    assert index.search({})[0].tolist() == []
    index.put([0], [{}])
    assert len(index) == 1
    assert index.search({"automobile": 1.5})[0].tolist() == []


def test_gen_4_ties_go_to_the_lower_slot():
    index = SparseIndex()
    index.put([9, 3, 5], [{"x": 1.0}] * 3)
    assert index.search({"x": 1.0}, k=2)[0].tolist() == [3, 5]


@pytest.mark.parametrize(
    ("document", "error", "message"),
    [
        ({"a": 0.0}, ValueError, r"documents\[1\]\['a'\] must be finite and above 0, not 0.0"),
        ({"a": -1}, ValueError, "must be finite and above 0"),
        ({"a": float("nan")}, ValueError, "must be finite and above 0"),
        ({"a": float("inf")}, ValueError, "must be finite and above 0"),
        ({"a": "1"}, TypeError, r"documents\[1\]\['a'\] must be a number"),
        ({1: 1.0}, TypeError, r"each term of documents\[1\] must be str"),
        ([("a", 1.0)], TypeError, r"documents\[1\] must be a mapping"),
    ],
)
def test_bad_weights_change_nothing(document, error, message):
    index = SparseIndex()
    index.put([0], [{"a": 1.0}])
    with pytest.raises(error, match=message):
        index.put([0, 1], [{"b": 1.0}, document])
    assert index.search({"a": 1.0})[0].tolist() == [0]
    with pytest.raises(error):
        index.search(document)


def test_bad_arguments():
    index = SparseIndex()
    with pytest.raises(ValueError, match="documents must be one for each of 2 slots, not 1"):
        index.put([0, 1], [{}])
    with pytest.raises(ValueError, match="k must be in"):
        index.search({"a": 1.0}, k=0)


def test_readers_beside_a_writer_see_whole_documents():
    index = SparseIndex()
    stop = threading.Event()
    wrong = []

    def read():
        while not stop.is_set():
            slots, scores = index.search({"a": 1.0, "b": 1.0}, k=100)
            # Each document has both terms with weight 1 or none.
            if not (scores == 2.0).all() or len(set(slots.tolist())) != len(slots):
                wrong.append((slots, scores))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    random = np.random.default_rng(0)
    for _ in range(1_000):
        slot = int(random.integers(60))
        if random.random() < 0.3:
            index.erase([slot])
        else:
            index.put([slot], [{"a": 1.0, "b": 1.0}])
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong
