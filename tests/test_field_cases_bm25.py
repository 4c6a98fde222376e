"""Faults that users of other engines reported: area bm25 (docs/field-cases.md)."""

import math
import random

import pytest

from reference import bm25
from spector.lexical import BM25Index


def index_of(texts, **options):
    index = BM25Index(analyzer=options.pop("analyzer", "whitespace"), **options)
    index.add_batch([str(i + 1) for i in range(len(texts))], texts)
    return index


def test_f001_an_empty_index_answers_and_then_works():
    index = BM25Index()
    assert index.search("anything", 5) == []
    stats = index.stats()
    assert stats["documents"] == 0
    assert stats["average_length"] == 0.0
    index.add("a", "anything")
    assert [id for id, _ in index.search("anything", 5)] == ["a"]


@pytest.mark.parametrize(
    "query", ["zzzq wwwv", "", "   ", "?!", "\x00", "NOT", "*", '"', "a:b", "("]
)
def test_f002_unknown_words_and_any_punctuation_give_an_empty_list(query):
    assert index_of(["red fox", "blue owl"], analyzer="code").search(query, 5) == []


@pytest.mark.parametrize("k", [3, 10, 10**9, 10**30])
def test_f003_k_beyond_the_corpus(k):
    assert len(index_of(["red fox", "red owl"]).search("red", k)) == 2


def test_f004_a_word_in_half_of_the_documents_counts():
    hits = index_of(["kiwi lime", "kiwi plum", "pear plum", "fig lime"]).search("kiwi")
    assert [id for id, _ in hits] == ["1", "2"]
    assert [score for _, score in hits] == pytest.approx([math.log(2)] * 2, rel=1e-6)


def test_f005_an_unrelated_document_does_not_erase_a_match():
    texts = ["hello man", "windy in oslo", "what now"]
    for corpus, score in ((texts, 1.756369), (texts[:2], 1.281449)):
        ((id, found),) = index_of(corpus).search("windy oslo")
        assert id == "2"
        assert found == pytest.approx(score, abs=1e-6)


def test_f006_equal_documents_score_equally():
    hits = index_of(["foo", "dog", "baz", "swift owl", "swift elk"]).search("swift", 5)
    assert [id for id, _ in hits] == ["4", "5"]
    assert hits[0][1] == hits[1][1] == pytest.approx(0.744874, abs=1e-6)


def test_f007_updates_do_not_drift():
    texts = ["alpha beta", "beta gamma gamma", "delta", "alpha alpha", "epsilon beta"]
    index, fresh = index_of(texts), index_of(texts)
    for _ in range(10):
        index.add("1", texts[0])
    for query in ("alpha", "beta gamma", "delta epsilon"):
        assert index.search(query) == fresh.search(query)
    for key in ("documents", "total_length", "terms", "postings"):
        assert index.stats()[key] == fresh.stats()[key]


def test_f008_removed_documents_leave_the_statistics():
    index = index_of(["delta one", "delta two", "delta three"])
    for id in "123":
        assert index.remove(id)
    assert index.search("delta", 10) == []
    index.add("4", "delta")
    ((id, score),) = index.search("delta", 10)
    assert id == "4"
    assert score == pytest.approx(math.log(4 / 3), rel=1e-6)


def test_f009_each_list_is_a_prefix_of_the_longer_one():
    index = index_of(["the same text"] * 100)
    everything = index.search("same", 100)
    assert [id for id, _ in everything] == [str(i + 1) for i in range(100)]
    for k in (1, 10, 20, 50):
        assert index.search("same", k) == everything[:k]


@pytest.mark.parametrize("seed", range(20))
def test_f010_top_k_is_that_of_scoring_everything(seed):
    rng = random.Random(seed)
    vocabulary = [f"w{i}" for i in range(200)]
    weights = [1 / (i + 1) for i in range(200)]
    texts = [
        " ".join(rng.choices(vocabulary, weights, k=rng.randint(1, 40)))
        for _ in range(rng.randint(50, 300))
    ]
    index = index_of(texts)
    documents = {str(i + 1): [{w} for w in text.split()] for i, text in enumerate(texts)}
    for _ in range(10):
        query = rng.choices(vocabulary, weights, k=rng.randint(1, 6))
        expected = bm25.search(documents, [(word, 1.0) for word in query])
        for k in (1, 10, 100, len(texts)):
            hits = index.search(" ".join(query), k)
            assert [score for _, score in hits] == pytest.approx(
                [score for _, score in expected[:k]], rel=1e-6
            )
            scores = dict(expected)
            assert all(scores[id] == pytest.approx(score, rel=1e-6) for id, score in hits)


def test_f012_a_very_long_token():
    index = BM25Index()
    index.add("a", "x" * 70000 + " needle")
    assert [id for id, _ in index.search("needle", 1)] == ["a"]
    assert [id for id, _ in index.search("x" * 70000, 1)] == ["a"]


def test_f013_a_very_long_document():
    index = BM25Index()
    index.add("short", "a needle")
    index.add("long", " ".join(f"word{i % 5000}" for i in range(1_500_000)) + " needle")
    hits = index.search("needle")
    assert [id for id, _ in hits] == ["short", "long"]
    assert all(0 < score < math.inf for _, score in hits)
    # Memory grows by postings: one per distinct term, not per word.
    assert index.stats()["postings"] < 20_000
    assert index.stats()["bytes"] < 20_000_000


def test_f016_an_unknown_word_changes_nothing():
    index = index_of(["alpha beta", "gamma"])
    assert index.search("alpha zzzunknown") == index.search("alpha") != []
