"""The BM25 benchmark: that it measures what it says. No time is asserted."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bench import corpora
from bench.bm25.correctness import Reference, best, check
from bench.bm25.table import table
from bench.bm25.timing import floor_record
from reference import bm25 as oracle
from spector.lexical import BM25Index

ROOT = Path(__file__).parents[1]
SMALL = ["--quick", "--corpus", "zipf:2000", "--queries", "20", "--rounds", "1", "--repeats", "3"]


def run(folder, *arguments, code="from bench.bm25.__main__ import main; main()"):
    command = [sys.executable, "-c", code, *arguments]
    command += ["--cache", str(folder / "cache"), "--dir", str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)


def test_quick_run_gives_exact_results_as_json_lines(tmp_path):
    done = run(tmp_path, *SMALL, "--engines", "spector")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    once = dict.fromkeys(["corpus", "machine", "build", "batch", "texts", "updates", "end"], 1)
    once |= {"disk": 1} if hasattr(BM25Index, "save") else {}
    # k = 10 and 1,000; the index as built, changed, and compacted.
    several = {"correctness": 6, "queries": 6, "ratio": 2}
    assert Counter(record["kind"] for record in records) == once | several
    for record in records:
        if record["kind"] == "correctness":
            assert record["exact"], record
            assert record["wrong"] == 0
            assert record["recall"] == 1
        if record["kind"] == "queries":
            assert record["queries"] == 20
            assert 0 < record["cpu_us"]["p50"] <= record["cpu_us"]["p99"]
        if record["kind"] == "updates":
            assert record["same_document_again"]["same_statistics"]
    assert "spector-mixed / spector-compacted" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["cache"]


def test_missing_peers_are_named_and_left_out(tmp_path):
    code = "import sys; sys.modules['tantivy'] = None; from bench.bm25.__main__ import main; main()"
    file = tmp_path / "lines.jsonl"
    done = run(tmp_path, *SMALL, "--engines", "tantivy", "--json", str(file), code=code)
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {"kind": "missing", "engine": "tantivy", "module": "tantivy"}
    ]
    assert "tantivy left out" in done.stdout


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpora.load("zipf:3000", 30, cache=tmp_path_factory.mktemp("cache"))


def test_drawn_corpora_depend_on_their_arguments_only(corpus, tmp_path):
    again = corpora.load("zipf:3000", 30, cache=tmp_path)
    assert np.array_equal(again.indptr, corpus.indptr)
    assert np.array_equal(again.tokens, corpus.tokens)
    assert [query.tolist() for query in again.queries] == [q.tolist() for q in corpus.queries]

    longer = corpora.load("zipf:20000", 1, cache=tmp_path)  # more than one block
    assert np.array_equal(longer.indptr[:3001], corpus.indptr)
    assert np.array_equal(longer.tokens[: len(corpus.tokens)], corpus.tokens)

    other = corpora.load("zipf:3000", 1, cache=tmp_path, seed=8)
    assert not np.array_equal(other.indptr, corpus.indptr)


def test_inverted_lists_hold_what_the_documents_hold(corpus):
    terms = np.unique(np.concatenate(corpus.queries))
    postings = corpora.invert(corpus, terms)
    expected = {int(term): [] for term in terms}
    df = Counter()
    for number in range(corpus.n_docs):
        counts = Counter(corpus.document(number).tolist())
        df.update(counts.keys())
        for term in counts.keys() & expected.keys():
            expected[term].append((number, counts[term]))
    assert {term: int(n) for term, n in enumerate(corpus.df) if n} == df
    for place, term in enumerate(terms.tolist()):
        ends = slice(*postings.indptr[place : place + 2])
        found = zip(postings.docs[ends].tolist(), postings.freqs[ends].tolist(), strict=True)
        assert list(found) == expected[term]
    whole = corpora.invert(corpus)
    at = whole.indptr[terms[0]]
    assert whole.docs[at : whole.indptr[terms[0] + 1]].tolist() == [
        number for number, _ in expected[int(terms[0])]
    ]


def test_queries_are_distinct_terms_of_one_document(corpus):
    documents = [set(corpus.document(number).tolist()) for number in range(corpus.n_docs)]
    for query in corpus.queries:
        terms = set(query.tolist())
        assert 2 <= len(terms) == len(query) <= 8
        assert any(terms <= document for document in documents)
        assert corpus.df[query].max() <= corpora.DF_CAP * corpus.n_docs


def test_texts_become_words_in_byte_order(tmp_path):
    texts = ["The deploy failed, twice", "the DEPLOY was über fast", "", "fast"]
    file = tmp_path / "texts.jsonl"
    rows = [json.dumps({"text": text, "title": "note" if text else ""}) for text in texts]
    file.write_text("\n".join(rows))
    corpus = corpora.load(f"texts:{file}", 0, cache=tmp_path / "cache")
    assert corpus.words == sorted(corpus.words, key=str.encode)
    assert [
        " ".join(corpus.word(token) for token in corpus.document(number))
        for number in range(corpus.n_docs)
    ] == ["note the deploy failed twice", "note the deploy was über fast", "note fast"]
    raw = [text for _, texts in corpus.raw_texts(2) for text in texts]
    assert raw == [f"note {text}" for text in texts if text]
    assert corpus.word(len(corpus.words)).encode() > corpus.words[-1].encode()


def test_reference_is_the_specification(corpus):
    live = np.ones(corpus.n_docs, bool)
    live[::7] = False
    reference = Reference(corpus, live)
    documents = {
        number: [[token] for token in corpus.document(number).tolist()]
        for number in np.flatnonzero(live).tolist()
    }
    for query in corpus.queries[:3]:
        expected = oracle.search(documents, [(term, 1.0) for term in query.tolist()])
        scores = reference.scores(query)
        rows = best(scores, 50)
        assert rows.tolist() == [number for number, _ in expected[:50]]
        assert scores[rows] == pytest.approx([score for _, score in expected[:50]], rel=1e-12)


class Altered:
    """An engine that is right but for one change to its results."""

    exact = True

    def __init__(self, reference, change):
        self.reference, self.change = reference, change

    def prepare(self, query):
        return query

    def search(self, query, k):
        scores = self.reference.scores(query)
        rows = best(scores, k)
        return self.change(rows, scores[rows].astype(np.float32).astype(np.float64))

    def hits(self, result):
        return result


def swapped(rows, scores):
    return np.concatenate([rows[1::-1], rows[2:]]), scores


def swapped_with_scores(rows, scores):
    return np.concatenate([rows[1::-1], rows[2:]]), np.concatenate([scores[1::-1], scores[2:]])


@pytest.mark.parametrize(
    ("change", "exact"),
    [
        (lambda rows, scores: (rows, scores), True),
        (lambda rows, scores: (rows, scores * (1 + 5e-6)), False),
        (lambda rows, scores: (rows[:-1], scores[:-1]), False),
        (lambda rows, scores: (np.append(rows[:-1], rows[0]), scores), False),
        (lambda rows, scores: (np.append(rows[:-1], 0), scores), False),
        (swapped, False),
        (swapped_with_scores, False),
    ],
)
def test_check_finds_what_is_wrong(corpus, change, exact):
    reference = Reference(corpus)
    record = check(reference, Altered(reference, change), corpus.queries, 10)
    assert record["exact"] == exact


def test_check_finds_ties_in_another_order(corpus):
    """Two documents with the same tokens, exchanged (GEN-4)."""
    terms = np.unique(corpus.document(0))
    twice = corpora.Corpus(
        "twice",
        np.append(corpus.indptr, corpus.indptr[-1] + corpus.indptr[1]),
        np.concatenate([corpus.tokens, corpus.document(0)]),
        corpus.df + np.bincount(terms, minlength=len(corpus.df)),
        [terms[np.argsort(corpus.df[terms])][:5]],
    )
    reference = Reference(twice)
    right = Altered(reference, lambda rows, scores: (rows, scores))
    assert right.search(twice.queries[0], 2)[0].tolist() == [0, 3000]
    assert check(reference, right, twice.queries, 2)["exact"]
    exchanged = Altered(reference, lambda rows, scores: (rows[::-1], scores))
    assert not check(reference, exchanged, twice.queries, 2)["exact"]


def test_floor_is_the_postings_and_documents_at_the_speed_measured(tmp_path):
    measured = {
        "benchmarks": [
            {"name": "floor_scatter_add", "items_per_second": 2e9},
            {"name": "floor_scan", "items_per_second": 5e10},
        ]
    }
    (tmp_path / "floor.json").write_text(json.dumps(measured))
    corpus = {"documents": 1_000_000, "postings_per_query": {"mean": 60_000.0}}
    record = floor_record(tmp_path / "floor.json", corpus)
    assert record["mean_us"] == 30 + 20
    assert (record["ns_per_posting"], record["ns_per_document"]) == (0.5, 0.02)
    cpu = {"mean": 75.0, "p50": 0.0, "p95": 0.0, "p99": 0.0}
    query = {"kind": "queries", "engine": "spector", "k": 10, "cpu_us": cpu, "qps": 0}
    lines = table([query | {"wall_us": cpu}, record]).splitlines()
    assert [line.split()[-1] for line in lines if "/ floor, k = 10" in line] == ["1.50"]


def test_recall_measures_every_mode_and_den_4_keeps_the_nearest(capsys):
    from bench import recall

    recall.main(["--sizes", "300", "--rounds", "2"])
    out = capsys.readouterr().out
    records = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    modes = {record["kind"] for record in records if record.get("path") == "python"}
    assert modes >= {"hybrid", "hybrid, 1% tag", "keyword_only", "vector_only", "splade"}
    times = {(record["path"], record["kind"]): record["ms"] for record in records if "ms" in record}
    differences = {("graph", "the graph alone"), ("graph", "all but the scan")}
    assert differences < times.keys()
    assert all(times[kind] > 0 for kind in times.keys() - differences)
    (int8,) = (record for record in records if record["kind"] == "int8")
    assert int8["recall@10"] >= 0.98
