"""BM25Index: scores, order, live updates, arguments (BM25-1 to BM25-8, IDX-1 to IDX-6)."""

import ctypes
import gc
import math
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reference import bm25
from spector import CapacityError, SpectorError, UnknownMemoryError, _core
from spector.lexical import BM25Index, TextIndex, analyze

WORDS = ["kiwi", "lime", "plum", "fig", "pear", "oslo", "a", "b", "c"]
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
ids = st.sampled_from([f"d{i}" for i in range(12)])


def assert_same(hits, expected, k=None):
    """Equal ids in equal order and scores within 1e-6 (GEN-3), for the first `k`.

    Scores that differ by less than float32 can show may swap; none here do, as equal documents
    give equal bits.
    """
    expected = expected[:k]
    assert [score for _, score in hits] == pytest.approx([s for _, s in expected], rel=1e-6)
    for (id, score), (expected_id, expected_score) in zip(hits, expected, strict=True):
        if id != expected_id:  # a tie in double that float32 rounds apart, or the reverse
            twin = dict(hits).get(expected_id)
            assert twin == pytest.approx(score, rel=1e-6), (id, expected_id)
            assert score == pytest.approx(expected_score, rel=1e-6)


class Histories(RuleBasedStateMachine):
    """Any mix of add, update, remove, batch and compact scores as a fresh index would (IDX-2)."""

    @initialize(k1=st.sampled_from([1.2, 0.0, 3.0]), b=st.sampled_from([0.75, 0.0, 1.0]))
    def start(self, k1, b):
        self.parameters = (k1, b)
        self.index = BM25Index(k1, b, analyzer="whitespace")
        self.model = {}

    @rule(id=ids, text=texts, context=st.none() | texts)
    def add(self, id, text, context):
        self.index.add(id, text, context)
        self.model[id] = f"{context or ''} {text}"

    @rule(batch=st.lists(st.tuples(ids, texts), max_size=6))
    def add_batch(self, batch):
        self.index.add_batch([id for id, _ in batch], [text for _, text in batch])
        self.model |= dict(batch)

    @rule(id=ids)
    def remove(self, id):
        assert self.index.remove(id) is (self.model.pop(id, None) is not None)

    @rule()
    def compact(self):
        self.index.compact()

    @rule(query=texts, k=st.none() | st.integers(1, 15), allow=st.none() | st.sets(ids | texts))
    def search(self, query, k, allow):
        documents = {id: [{word} for word in text.split()] for id, text in self.model.items()}
        expected = bm25.search(documents, [(w, 1.0) for w in query.split()], *self.parameters)
        if allow is not None:
            expected = [(id, score) for id, score in expected if id in allow]
        hits = self.index.search(query, k, allow=allow)
        assert self.index.search_batch([query, query], k, allow=allow) == [hits, hits]
        assert_same(hits, expected, k)
        for id, score in hits:
            terms = self.index.explain(id, query)
            total = np.float32(0)
            for term in terms:
                total += np.float32(term.contribution)
            assert total == np.float32(score) == np.float32(self.index.score(id, query))

    @invariant()
    def counts(self):
        if not hasattr(self, "index"):
            return
        stats = self.index.stats()
        lengths = [len(text.split()) for text in self.model.values()]
        assert len(self.index) == stats["documents"] == len(self.model)
        assert stats["total_length"] == sum(lengths)
        assert stats["postings"] == sum(len(set(text.split())) for text in self.model.values())
        # IDX-2: never more than a quarter of dead postings.
        assert stats["dead_postings"] * 4 <= stats["postings"] + stats["dead_postings"]
        for id in ["d0", "d11"]:
            assert (id in self.index) is (id in self.model)


Histories.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_idx2_any_history_scores_as_a_fresh_index = Histories.TestCase


@settings(max_examples=150)
@given(st.data())
def test_bm25_1_code_analyzer_scores_are_the_formula_over_its_tokens(data):
    """BM25-1 with TOK-9 lengths and stems, through the default analyzer."""
    pool = [*WORDS, "getUserName", "user", "names", "ERR_CONN_42", "err", "conn", "東京駅", "café"]
    make = st.lists(st.sampled_from(pool), min_size=1, max_size=8).map(" ".join)
    documents = {f"d{i}": data.draw(make) for i in range(data.draw(st.integers(1, 8)))}
    index = BM25Index()
    index.add_batch(list(documents), list(documents.values()))
    positions = {
        id: [{token.text for token in compound.tokens} for compound in analyze(text)]
        for id, text in documents.items()
    }
    # Plain words only, so that each query term has weight 1.
    query = data.draw(st.lists(st.sampled_from([*WORDS[:6], "user", "names"]), max_size=4))
    weights = [(t.text, 1.0) for c in analyze(" ".join(query)) for t in c.tokens]
    assert_same(index.search(" ".join(query), 20), bm25.search(positions, weights))


@settings(max_examples=50)
@given(st.data())
def test_token_index_agrees_with_the_text_index(data):
    numbers = st.lists(st.sampled_from([0, 1, 7, 2**31, 2**32 - 1]), max_size=9)
    documents = data.draw(st.lists(numbers, min_size=1, max_size=9))
    queries = data.draw(st.lists(numbers, min_size=1, max_size=4))
    names = [f"d{i}" for i in range(len(documents))]
    tokens, words = BM25Index(), BM25Index(analyzer="whitespace")
    tokens.add_tokens(names, *csr(documents))
    words.add_batch(names, [" ".join(map(str, document)) for document in documents])
    k = data.draw(st.integers(1, 12))
    batch_rows, batch_scores = tokens.search_tokens_batch(*csr(queries), k, threads=2)
    assert batch_rows.shape == batch_scores.shape == (len(queries), k)
    assert batch_rows.dtype == np.int64
    assert batch_scores.dtype == np.float32
    for query, row, score in zip(queries, batch_rows, batch_scores, strict=True):
        expected = words.search(" ".join(map(str, query)), k)
        rows, scores = tokens.search_tokens(query, k)
        assert [f"d{row}" for row in rows] == [id for id, _ in expected]
        assert scores.tolist() == [score for _, score in expected]
        assert row.tolist() == rows.tolist() + [-1] * (k - len(rows))
        assert score.tolist() == scores.tolist() + [0.0] * (k - len(rows))


def csr(lists):
    indptr = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return indptr, np.array([token for tokens in lists for token in tokens], np.uint32)


def test_add_tokens_rows_are_the_order_of_insertion_and_stay():
    index = BM25Index()
    index.add_tokens(["a", "b", "c"], [0, 1, 2, 3], [5, 5, 5])
    index.add_tokens(["b"], [0, 1], [6])  # an update keeps its row (GEN-4)
    assert index.remove("a")
    index.add_tokens(["a"], [0, 1], [5])  # a new document: a new row
    index.compact()
    assert index.search_tokens([6], 5)[0].tolist() == [1]
    assert index.search_tokens([5], 5)[0].tolist() == [2, 3]


def test_gen4_ties_are_in_order_of_first_insertion_whatever_happened_since():
    index = BM25Index(analyzer="whitespace")
    for id in "abcd":
        index.add(id, "same words")
    index.add("a", "same words")  # an update
    index.remove("b")
    index.add("b", "same words")  # comes back as the youngest
    assert [id for id, _ in index.search("same")] == ["a", "c", "d", "b"]
    index.compact()
    assert [id for id, _ in index.search("same")] == ["a", "c", "d", "b"]


@pytest.mark.parametrize("sealed", [True, False])
def test_bm25_4_a_filter_of_any_width_gives_the_allowed_part_of_all_hits(sealed):
    """Few lengths and terms, so that ties abound; removed documents in the filter, and unknown ids.

    All hits are compared with the formula in float64, the filtered ones with them.
    """
    rng = np.random.default_rng(4)
    n, n_terms = 9000, 40
    tokens = np.minimum(rng.zipf(1.3, (n, 4)) - 1, n_terms - 1)
    names = [f"d{i}" for i in range(n)]
    index = BM25Index(analyzer="whitespace")
    index.add_batch(names, [" ".join(f"w{t}" for t in row) for row in tokens.tolist()])
    gone = rng.choice(n, n // 6, replace=False)
    for i in gone.tolist():
        index.remove(names[i])
    if sealed:
        index.compact()
    live = np.ones(n, bool)
    live[gone] = False
    counts = (
        np.stack([(tokens == term).sum(axis=1) for term in range(n_terms)], axis=1) * live[:, None]
    )
    n_live, df = live.sum(), (counts > 0).sum(axis=0)
    impact = np.log((n_live - df + 0.5) / (df + 0.5) + 1) * counts * 2.2 / (counts + 1.2)
    for query in ([0, 3], [1], [39, 2, 2, 17], [20, 30]):
        text = " ".join(f"w{term}" for term in query)
        scores = impact[:, query].sum(axis=1)
        everything = index.search(text, None)
        assert len(everything) == np.count_nonzero(scores)
        for id, score in everything:
            assert score == pytest.approx(scores[int(id[1:])], rel=1e-6)
        ranks = [(-score, int(id[1:])) for id, score in everything]
        assert ranks == sorted(ranks)
        for width in (0, 1, 3, 10, 100, 1000, n // 2, n - 10, n):
            allow = {names[i] for i in rng.choice(n, width, replace=False)} | {"nobody", ""}
            expected = [hit for hit in everything if hit[0] in allow]
            for k in (1, 10, 201, 1000, 5000, None):
                assert index.search(text, k, allow=allow) == expected[:k]
            assert index.search_batch([text, "w1"], 7, 2, allow=iter(allow))[0] == expected[:7]


def test_a_filter_and_all_matches_of_an_index_of_token_ids():
    index = BM25Index()
    index.add_tokens(["a", "b", "c", "d"], [0, 1, 3, 4, 5], [5, 5, 6, 5, 6])
    assert index.search_tokens([5], None)[0].tolist() == [0, 2, 1]
    assert index.search_tokens([5], 1, allow={"b", "d", "z"})[0].tolist() == [1]
    rows, scores = index.search_tokens_batch([0, 1, 2, 3], [5, 6, 9], None, allow=["a", "b"])
    assert rows.tolist() == [[0, 1], [1, -1], [-1, -1]]
    assert (scores > 0).tolist() == (rows >= 0).tolist()
    assert index.search_tokens_batch([0, 1], [9], None)[0].shape == (1, 0)
    assert index.search_tokens_batch([0, 1], [9], 3)[0].tolist() == [[-1, -1, -1]]


def test_bm25_1_a_term_twice_in_the_query_counts_twice():
    index = BM25Index(analyzer="whitespace")
    index.add_batch(["a", "b"], ["x y", "z z"])
    once, twice = (index.search(query)[0][1] for query in ("x", "x x"))
    assert twice == pytest.approx(2 * once, rel=1e-6)


def test_bm25_8_no_synonyms():
    index = BM25Index()
    index.add("a", "car")
    assert index.score("a", "automobile") == 0.0
    assert index.search("automobile") == []


def test_tok12_weights_are_shown():
    index = BM25Index()
    index.add("a", "getUserName failed")
    assert [(t.term, t.weight) for t in index.explain("a", "getUserName")] == [
        ("getusername", 1.0),
        ("getusernam", 0.001),
    ]
    assert [(t.term, t.weight) for t in index.explain("a", "why getUserName failed")] == [
        ("getusernam", 1.0),
        ("get", 0.25),
        ("user", 0.25),
        ("name", 0.25),
        ("fail", 1.0),
    ]


def test_tok12_any_spelling_of_a_name_finds_the_others():
    index = BM25Index()
    index.add("camel", "a YouTube channel")
    index.add("lower", "a youtube channel")
    assert {id for id, _ in index.search("youtube")} == {"camel", "lower"}
    assert [id for id, _ in index.search("YouTube")] == ["camel", "lower"]
    assert {id for id, _ in index.search("best YouTube videos")} == {"camel", "lower"}


def test_bm25_7_a_long_text_with_the_name_beats_a_short_one_with_another_spelling():
    index = BM25Index()
    index.add("lower", "youtube " * 8)
    index.add("camel", "padding " * 3000 + "YouTube")
    index.add_batch([str(i) for i in range(20)], ["other words"] * 20)
    assert [id for id, _ in index.search("YouTube")] == ["camel", "lower"]


def test_tok8_stop_words_belong_to_english():
    german = BM25Index(language="german")
    german.add_batch(["a", "b"], ["was ist das", "anderes"])
    assert [id for id, _ in german.search("was anderes")] == ["b", "a"]
    english = BM25Index()
    english.add_batch(["a", "b"], ["was ist das", "anderes"])
    assert [id for id, _ in english.search("was anderes")] == ["b"]


def test_tok10_a_callable_analyzer():
    index = BM25Index(analyzer=lambda text: text.split("|"))
    index.add("a", "one two|three")
    assert [id for id, _ in index.search("one two")] == ["a"]
    assert index.search("one") == []


def test_idx6_a_failing_document_leaves_those_before_it_and_is_named():
    def analyzer(text):
        if text == "bad":
            raise RuntimeError("no tokens today")
        return text.split()

    index = BM25Index(analyzer=analyzer)
    with pytest.raises(SpectorError, match=r"document 2: the analyzer raised RuntimeError"):
        index.add_batch(["a", "b", "c", "d"], ["x", "x y", "bad", "x"])
    assert [id for id, _ in index.search("x")] == ["a", "b"]
    with pytest.raises(TypeError, match="document 1: text must be str, not int"):
        index.add_batch(["e", "f"], ["x", 5])
    with pytest.raises(TypeError, match="document 1: id must be str, not NoneType"):
        index.add_batch(["g", None], ["x", "x"])
    assert "e" in index and "g" in index and "f" not in index


def test_idx6_a_batch_that_is_analysed_in_parts_is_what_single_additions_are():
    """Five mebibytes, so several parts; a repeated id, contexts, a refused text near the end."""
    rng = np.random.default_rng(6)
    words = [f"word{i} getName{i}" for i in range(400)]
    texts = [" ".join(rng.choice(words, 900)) for _ in range(340)]
    texts[7] = texts[7] * 120  # more than a part of its own
    names = [f"d{i}" for i in range(len(texts))]
    names[300] = names[3]
    contexts = [None if i % 3 else f"speaker{i % 5}" for i in range(len(texts))]
    batch, single = BM25Index(), BM25Index()
    with pytest.raises(TypeError, match="document 340: text must be str, not NoneType"):
        batch.add_batch([*names, "x"], [*texts, None], [*contexts, None])
    for document in zip(names, texts, contexts, strict=True):
        single.add(*document)
    for name in ("documents", "terms", "postings", "total_length"):
        assert batch.stats()[name] == single.stats()[name]
    for query in ("word7 speaker3", "getName12", "name12 word300", "word1 word2 word3"):
        assert batch.search(query, None) == single.search(query, None) != []


def test_idx6_what_an_analyzer_raises_is_kept_and_ctrl_c_is_not_about_a_document():
    def analyzer(text):
        if text == "interrupt":
            raise KeyboardInterrupt
        if text == "bad":
            raise UnicodeDecodeError("utf-8", b"x", 0, 1, "nonsense")
        return text.split()

    index = BM25Index(analyzer=analyzer)
    with pytest.raises(SpectorError, match=r"document 1: the analyzer raised UnicodeDecodeError"):
        index.add_batch(["a", "b"], ["x", "bad"])
    with pytest.raises(SpectorError, match=r"^the analyzer raised UnicodeDecodeError"):
        index.add("b", "bad")
    with pytest.raises(KeyboardInterrupt):
        index.add("c", "interrupt")
    assert len(index) == 1


def test_a_refused_or_empty_addition_does_not_decide_what_an_index_holds():
    index = BM25Index()
    with pytest.raises(ValueError, match="id must be a non-empty str"):
        index.add("", "x")
    index.add_batch([], [])
    index.add_tokens(["a"], [0, 1], [5])
    assert index.remove("a")
    index.add_tokens([], [0], [])
    index.add("b", "text")  # empty again: it may hold texts now
    assert [id for id, _ in index.search("text")] == ["b"]


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_any_sequence_of_str_will_do(kind):
    """Also one whose items exist only while they are looked at, such as a numpy array."""
    names = [f"document-{i}" for i in range(2000)]
    texts = [f"text number{i} of many" for i in range(2000)]
    index = BM25Index()
    index.add_batch(kind(names), kind(texts), kind(texts))
    assert [id for id, _ in index.search("number1234", 1)] == ["document-1234"]
    assert sorted(id for id, _ in index.search("many", 5000)) == sorted(names)
    tokens = BM25Index()
    tokens.add_tokens(kind(names), np.arange(2001), np.arange(2000))
    assert all(name in tokens for name in names)
    assert [len(hits) for hits in index.search_batch(kind(["number7", "many"]), 3)] == [1, 3]


def test_tok12_a_name_is_not_the_stem_of_another():
    index = BM25Index()
    index.add("name", "the ServerApi is broken in this long text of many words")
    index.add("other", "ServerApy")
    assert [id for id, _ in index.search("ServerApi")] == ["name", "other"]


def test_idx1_a_replaced_document_leaves_nothing():
    index = BM25Index()
    index.add("a", "first words", context="title")
    index.add("a", "second")
    assert index.search("first") == index.search("title") == []
    assert index.stats()["total_length"] == 1


def test_am3_context_is_searched_and_counts():
    index = BM25Index()
    index.add_batch(["a", "b"], ["I moved to Oslo", "I moved to Oslo"], ["Caroline", None])
    assert [id for id, _ in index.search("Where did Caroline move?")] == ["a", "b"]
    assert index.stats()["total_length"] == 9


def test_search_batch_is_search():
    index = BM25Index()
    index.add_batch([f"d{i}" for i in range(50)], [f"word{i % 7} text {i}" for i in range(50)])
    queries = [f"word{i} text" for i in range(9)] + ["", "???"]
    assert index.search_batch(queries, 5, threads=3) == [index.search(q, 5) for q in queries]


def test_simd_levels_give_the_same_bits():
    """GEN-3, F-087: equal ids, order and bits at every level, scalar included."""
    rng = np.random.default_rng(0)
    index = BM25Index()
    lengths = rng.integers(0, 40, 20_000)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.minimum(rng.zipf(1.4, indptr[-1]), 5000).astype(np.uint32)
    index.add_tokens([str(i) for i in range(len(lengths))], indptr, tokens)
    queries = [rng.integers(1, 300, 6) for _ in range(40)]
    before = _core.simd_level()
    results = {}
    try:
        for level in _core.available_simd_levels():
            _core.set_simd_level(level)
            found = [index.search_tokens(query, 100) for query in queries]
            results[level] = [(rows.tobytes(), scores.tobytes()) for rows, scores in found]
    finally:
        _core.set_simd_level(before)
    assert "scalar" in results
    assert len(results) > 1, "only the scalar level can run here: nothing was compared"
    assert all(result == results["scalar"] for result in results.values())
    with pytest.raises(ValueError, match="'mmx': this machine has"):
        _core.set_simd_level("mmx")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda i: BM25Index(k1=-1), ValueError, r"k1 must be in \[0, 3\]"),
        (lambda i: BM25Index(b=2), ValueError, r"b must be in \[0, 1\]"),
        (lambda i: BM25Index(k1=math.nan), ValueError, "k1 must be in"),
        (lambda i: BM25Index(k1="1"), TypeError, "k1 must be a number, not str"),
        (lambda i: BM25Index(analyzer="codes"), ValueError, "'codes' is not known: code, standard"),
        (lambda i: BM25Index(analyzer=3), TypeError, "analyzer must be .* not int"),
        (lambda i: BM25Index(language="klingon"), ValueError, "'klingon' is not known: None or"),
        (lambda i: i.add("", "x"), ValueError, "id must be a non-empty str"),
        (lambda i: i.add(7, "x"), TypeError, "id must be str, not int"),
        (lambda i: i.add("\ud800", "x"), ValueError, "lone surrogates"),
        (lambda i: i.add("z", None), TypeError, "text must be str, not NoneType"),
        (lambda i: i.add("z", "x", 5), TypeError, "context must be str, not int"),
        (lambda i: i.add_batch("ab", ["x", "y"]), TypeError, "ids must be a sequence, not str"),
        (lambda i: i.add_batch(["z"], "x"), TypeError, "texts must be a sequence, not str"),
        (lambda i: i.add_batch(["z"], []), ValueError, "ids has 1 entries for 0 texts"),
        (lambda i: i.add_batch(["z"], ["x"], []), ValueError, "contexts has 0 entries"),
        (lambda i: i.add_batch(["z"], ["x"], 5), TypeError, r"contexts must be .* int \(5\)"),
        (
            lambda i: i.add_batch(["z"], ["x"], "c"),
            TypeError,
            "contexts must be a sequence, not str",
        ),
        (lambda i: BM25Index(k1=10**400), ValueError, "k1 is out of the range of a float"),
        (lambda i: analyze("x", None), TypeError, r"analyzer must be str, not NoneType"),
        (lambda i: analyze(b"x"), TypeError, r"text must be str, not bytes \(b'x'\)"),
        (lambda i: TextIndex().explain(-1, "x"), ValueError, "slot must be between 0 and"),
        (lambda i: i.search("x", 0), ValueError, "k must be at least 1, not 0"),
        (lambda i: i.search("x", -1), ValueError, "k must be at least 1, not -1"),
        (lambda i: i.search("x", 1.5), TypeError, "k must be int or None, not float"),
        (lambda i: i.search("x", True), TypeError, "k must be int or None, not bool"),
        (
            lambda i: i.search("x", allow="a"),
            TypeError,
            "allow must be an iterable of ids, not str",
        ),
        (lambda i: i.search("x", allow=3), TypeError, r"allow must be an iterable .* int \(3\)"),
        (lambda i: i.search("x", allow=[1]), TypeError, r"an id of allow must be str, not int \(1"),
        (lambda i: i.search_batch(["x"], allow="a"), TypeError, "allow must be an iterable of ids"),
        (lambda i: i.search(5), TypeError, "query must be str, not int"),
        (lambda i: i.search_batch("xy"), TypeError, "queries must be a sequence, not str"),
        (lambda i: i.search_batch(["x"], threads=0), ValueError, "threads must be at least 1"),
        (lambda i: i.search_tokens([1]), ValueError, "this index holds texts: use search"),
        (lambda i: i.add_tokens(["z"], [0, 1], [1]), ValueError, "this index holds texts"),
        (lambda i: i.score("no", "x"), UnknownMemoryError, "no document has the id 'no'"),
        (lambda i: i.explain("no", "x"), KeyError, "no document has the id 'no'"),
    ],
)
def test_bad_arguments_name_themselves_and_change_nothing(call, error, message):
    index = BM25Index()
    index.add("a", "x")
    before = index.stats()
    with pytest.raises(error, match=message):
        call(index)
    assert index.stats() == before
    assert [id for id, _ in index.search("x")] == ["a"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((["a"], [0, 1], [1.5]), TypeError, "token_ids must hold integers, not float64"),
        ((["a"], [0, 1], [-1]), ValueError, "token_ids must be between 0 and 4294967295"),
        ((["a"], [0, 1], [2**32]), ValueError, "token_ids must be between 0 and 4294967295"),
        ((["a"], [0, 2], [1]), ValueError, "indptr must begin with 0, not descend and end with 1"),
        ((["a"], [1, 1], [1]), ValueError, "indptr must begin with 0"),
        ((["a", "b"], [0, 2, 1], [1]), ValueError, "not descend"),
        ((["a"], [0], []), ValueError, "indptr must have 2 entries for 1 ids, not 1"),
        ((["a"], [[0, 1]], [1]), ValueError, "indptr must have 1 dimension, not 2"),
        (([3], [0, 1], [1]), TypeError, "document 0: id must be str, not int"),
    ],
)
def test_bad_token_arrays_name_themselves_and_change_nothing(arguments, error, message):
    index = BM25Index()
    index.add_tokens(["x"], [0, 1], [1])
    with pytest.raises(error, match=message):
        index.add_tokens(*arguments)
    assert len(index) == 1
    with pytest.raises(ValueError, match="this index holds token ids: use search_tokens"):
        index.search("x")
    with pytest.raises(ValueError, match="this index holds token ids; texts need"):
        index.add("y", "text")


def test_token_arrays_of_other_layouts_are_taken():
    index = BM25Index()
    index.add_tokens(["a", "b"], np.array([0, 1, 2], np.int32), np.array([3, 9, 4, 9])[::2])
    assert index.search_tokens(np.array([4], np.uint8))[0].tolist() == [1]
    plain = np.array([4], np.uint32)
    spaced = np.array([4, 0, 3, 0], np.uint32)[::2]
    assert index.search_tokens(plain, 1)[0].tolist() == [1]
    assert index.search_tokens(spaced, np.int64(2))[0].tolist() == [0, 1]
    for many in (None, 2**32, 2**70):
        assert index.search_tokens(plain, many)[0].tolist() == [1]
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        index.search_tokens(plain, 0)
    with pytest.raises(TypeError, match="k must be int or None, not bool"):
        index.search_tokens(plain, True)
    with pytest.raises(ValueError, match="token_ids must have 1 dimension, not 2"):
        index.search_tokens(plain[None])
    index.add_tokens([], [0], [])
    assert len(index) == 2


def test_text_index_is_keyed_by_slots_and_filters():
    index = TextIndex()
    index.put([10, 3, 7], ["red fox", "red owl", "red red elk"])
    slots, scores = index.search("red", 5)
    assert slots.dtype == np.int64
    assert scores.dtype == np.float32
    assert set(slots.tolist()) == {3, 7, 10}
    allowed, filtered = index.search("red", 5, allow=np.array([10, 7, 99], np.uint32))
    assert set(allowed.tolist()) == {7, 10}
    full = dict(zip(slots.tolist(), scores.tolist(), strict=True))
    assert filtered.tolist() == [full[slot] for slot in allowed.tolist()]  # BM25-4
    assert index.search("red", 5, allow=[])[0].size == 0
    assert index.erase([3, 4]) == 1
    assert 3 not in index and 7 in index and len(index) == 2
    with pytest.raises(ValueError, match="slots must be between 0 and 4294967295"):
        index.put([-1], ["x"])
    with pytest.raises(ValueError, match="slots must be at most 4294967294"):
        index.put([2**32 - 1], ["x"])
    with pytest.raises(ValueError, match="2 slots for 1 texts"):
        index.put([1, 2], ["x"])
    assert issubclass(CapacityError, SpectorError)


def test_f084_searches_and_additions_give_up_the_gil():
    """Two threads make progress while a third is inside the core."""
    index = BM25Index(analyzer="whitespace")
    text = " ".join(f"w{i}" for i in range(200_000))
    progress = threading.Event()
    stop = threading.Event()

    def count():
        while not stop.is_set():
            progress.set()

    thread = threading.Thread(target=count)
    thread.start()
    try:
        seen = 0
        for _ in range(20):
            progress.clear()
            index.add("a", text)
            seen += progress.is_set()
    finally:
        stop.set()
        thread.join()
    assert seen > 0


def test_f076_readers_beside_a_writer():
    """A search that starts after a removal returned never sees the document (F-077)."""
    index = BM25Index(analyzer="whitespace")
    index.add_batch([f"d{i}" for i in range(100)], ["common rare"] * 100)
    removed = set()
    failures = []
    stop = threading.Event()

    def read():
        while not stop.is_set():
            gone = set(removed)
            found = [id for id, _ in index.search("common", 500)]
            if gone.intersection(found) or len(found) != len(set(found)):
                failures.append(found)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for i in range(100):
        index.add(f"new{i}", "common fresh")
        index.remove(f"d{i}")
        removed.add(f"d{i}")
    stop.set()
    for reader in readers:
        reader.join()
    assert failures == []
    assert len(index) == 100


def test_f083_dropping_an_index_with_python_callbacks_is_safe():
    for _ in range(50):
        index = BM25Index(analyzer=str.split)
        index.self = index  # a cycle, so that the collector drops it
        index.add("a", "x y")
        threads = [threading.Thread(target=index.search, args=("x",)) for _ in range(2)]
        for thread in threads:
            thread.start()
        del index
        gc.collect()
        for thread in threads:
            thread.join(timeout=5)
            assert not thread.is_alive()


def test_r10_daemon_threads_inside_the_core_do_not_disturb_the_exit():
    """The interpreter ends while threads are searching without the GIL."""
    code = (
        "import threading, time\n"
        "from spector.lexical import BM25Index\n"
        "index = BM25Index()\n"
        "index.add_batch([str(i) for i in range(2000)], ['some text'] * 2000)\n"
        "def search():\n"
        "    while True: index.search('some text')\n"
        "for _ in range(3): threading.Thread(target=search, daemon=True).start()\n"
        "time.sleep(0.05)"
    )
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


class _MallInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost",
    )]  # fmt: skip


def heap_bytes():
    """What the C library's heap has handed out: everything of the core, nothing of Python's own."""
    gc.collect()
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (AttributeError, TypeError, OSError):
        pytest.skip("the C library has no mallinfo2 (glibc 2.33 has)")
    mallinfo2.restype = _MallInfo
    info = mallinfo2()
    return info.uordblks + info.hblkhd


@pytest.mark.parametrize("others", [0, 400, 6000])
def test_idx2_a_document_written_1000_times_costs_what_it_costs_once(others):
    """Statistics are equal; the memory of all versions but the last comes back.

    At most 32 versions of it may lie about, and words that no document has any more up to a quarter
    of those in use or a 64th of the postings: under 100 KB here, of the index's own account and of
    the heap.
    """
    rng = np.random.default_rng(others)

    def text(n):
        return " ".join(f"w{i}" for i in np.minimum(rng.zipf(1.3, n), 20_000))

    texts = [text(60) for _ in range(others + 1)]
    versions = [text(60) + f" new{i} other{i}" for i in range(999)] + [texts[others // 2]]
    indexes = [BM25Index(), BM25Index()]
    measured = []
    for index in indexes:
        before = heap_bytes()
        for i, one in enumerate(texts):
            index.add(f"d{i}", one)
        if index is indexes[1]:
            for version in versions:
                index.add(f"d{others // 2}", version)
        index._texts._core.settle()
        measured.append((index.stats(), heap_bytes() - before))
    (once, once_heap), (again, again_heap) = measured
    for name in ("documents", "terms", "postings", "total_length", "average_length"):
        assert again[name] == once[name]
    assert again["bytes"] < once["bytes"] + 100_000
    assert again_heap < once_heap + 100_000
    assert indexes[0].search("w5 w9") == indexes[1].search("w5 w9")


def test_idx2_token_ids_that_no_document_has_any_more_are_forgotten():
    index = BM25Index()
    index.add_tokens(["a"], [0, 20], np.arange(20))
    once = index.stats()["bytes"]
    for i in range(3000):
        index.add_tokens(["a"], [0, 20], np.arange(20 * i, 20 * i + 20))
    assert index.stats()["bytes"] < once + 50_000
    assert index.search_tokens([20 * 2999])[0].tolist() == [0]


def test_a_sealed_index_takes_at_most_8_bytes_a_posting_and_16_a_document():
    # Short texts, most of whose words are in no other one: there a posting costs the most.
    rng = np.random.default_rng(5)
    n, words = 60_000, 10
    frequent = rng.zipf(1.3, n * words) % 40_000
    tokens = np.where(
        rng.random(n * words) < 0.95, frequent, rng.integers(40_000, 80_000, n * words)
    )
    index = BM25Index()
    ends = np.arange(n + 1) * words
    index.add_tokens([str(i) for i in range(n)], ends, tokens.astype(np.uint32))
    index.compact()
    stats = index.stats()
    assert stats["bytes"] - stats["id_bytes"] <= 8 * stats["postings"] + 16 * n
    # Deletions that are undone by a compaction leave nothing behind.
    for i in range(0, n, 2):
        index.remove(str(i))
    index.add_tokens(
        [str(i) for i in range(0, n, 2)],
        np.arange(n // 2 + 1) * words,
        tokens.reshape(n, words)[::2].ravel().astype(np.uint32),
    )
    index.compact()
    again = index.stats()
    assert again["postings"] == stats["postings"]
    assert again["bytes"] - again["id_bytes"] <= 1.01 * (stats["bytes"] - stats["id_bytes"])


LARGE = (
    "import numpy as np\n"
    "from spector.lexical import BM25Index\n"
    "index = BM25Index()\n"
    "def fill(first, n=20_000):\n"
    "    rng = np.random.default_rng(first)\n"
    "    tokens = rng.integers(0, 5000, 30 * n).astype(np.uint32)\n"
    "    names = [str(i) for i in range(first, first + n)]\n"
    "    index.add_tokens(names, np.arange(0, 30 * n + 1, 30), tokens)\n"
    "for first in range(0, 80_000, 20_000): fill(first)\n"  # the last one starts a merge
)


def test_an_index_forked_while_it_merges_works_in_both_processes():
    """The child has no merging thread: it neither waits for one nor is anything merged twice."""
    code = (
        "import os, signal, sys\n" + LARGE + "def check():\n"
        "    global index\n"
        "    signal.alarm(60)\n"  # ends a process that hangs
        "    assert index.remove('7') and len(index) == 79_999\n"
        "    fill(80_000)\n"
        "    index._tokens.settle()\n"
        "    assert len(index) == index.stats()['documents'] == 99_999\n"
        "    assert index.stats()['total_length'] == 30 * 99_999\n"
        "    rows, scores = index.search_tokens([5, 77, 4321], None)\n"
        "    index.compact()\n"
        "    again = index.search_tokens([5, 77, 4321], None)\n"
        "    assert (rows == again[0]).all() and (scores == again[1]).all() and len(rows) > 1000\n"
        "    for first in range(100_000, 160_000, 20_000): fill(first)\n"  # merging at the end, too
        "    index = None\n"
        "child = os.fork()\n"
        "check()\n"
        "if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_the_interpreter_ends_while_an_index_merges():
    for end in ("", "del index", "import os; os._exit(0)", "import sys; sys.keep = index"):
        done = subprocess.run(
            [sys.executable, "-c", LARGE + end], capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")
