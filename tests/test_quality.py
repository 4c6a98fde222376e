"""Ranking quality on public collections, where they are at hand (nDCG@10, linear gains)."""

import gzip
import json
import math

import pytest

from bench.quality.measures import MEASURES, cross_fit
from spector.lexical import BM25Index


def ndcg(ranked, relevant, depth=10):
    gains = [relevant.get(id, 0.0) for id in ranked[:depth]]
    ideal = sorted(relevant.values(), reverse=True)[:depth]
    dcg, best = (sum(g / math.log2(i + 2) for i, g in enumerate(x)) for x in (gains, ideal))
    return dcg / best


@pytest.mark.parametrize(
    ("name", "judgements", "bar"),
    [("scifact", "qrels.test.tsv", 0.675), ("cranfield", "qrels.tsv", 0.355)],
)
def test_ndcg_of_keyword_search(evaluation_set, name, judgements, bar):
    folder = evaluation_set(name)
    index = BM25Index(k1=1.2, b=0.75)
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    index.add_batch(
        [document["_id"] for document in documents],
        [f"{document['title']} {document['text']}" for document in documents],
    )
    relevant: dict[str, dict[str, float]] = {}
    for line in (folder / judgements).read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        assert document in index, f"a judgement for {document!r}, which is not in the corpus"
        if float(grade) > 0:
            relevant.setdefault(query, {})[document] = float(grade)
    queries = {}
    for line in (folder / "queries.jsonl").read_text("utf-8").splitlines():
        query = json.loads(line)
        queries[query["_id"]] = query["text"]
    scores = [
        ndcg([id for id, _ in index.search(queries[query], 10)], grades)
        for query, grades in relevant.items()
    ]
    mean = sum(scores) / len(scores)
    print(f"{name}: nDCG@10 {mean:.4f} over {len(scores)} queries")
    assert mean >= bar


def test_cross_fitting_reports_no_query_by_a_setting_that_saw_it() -> None:
    """AM-23: a setting that is better on one query only never wins that query's fold by it."""
    n = 50
    plain = {key: [0.5] * n for key in MEASURES}
    lucky = {key: [0.5] * n for key in MEASURES}
    for key in MEASURES:
        lucky[key][7] = 1.0  # no other query says that it is better
    fitted, taken = cross_fit({"plain": plain, "lucky": lucky})
    assert fitted["mrr"][7] == 0.5
    assert sum(taken.values()) == 5
    better = {key: [0.9] * n for key in MEASURES}
    fitted, taken = cross_fit({"plain": plain, "better": better})
    assert taken == {"better": 5}
    assert fitted["r@10"] == [0.9] * n
