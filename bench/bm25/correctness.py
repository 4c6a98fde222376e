"""What the results should be: BM25 in float64, over all documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import corpora
from bench.corpora import Corpus
from bench.peers import K1, B, Engine

TOLERANCE = 1e-6  # relative, of a float32 score (GEN-3)


class Reference:
    """Float64 scores of every live document, from the corpus alone (BM25-1, BM25-2)."""

    def __init__(self, corpus: Corpus, live: NDArray[np.bool_] | None = None) -> None:
        self.n_docs = corpus.n_docs
        self.live = np.ones(self.n_docs, bool) if live is None else live
        lengths = np.diff(corpus.indptr).astype(np.float64)
        self.n_live = int(self.live.sum())
        self.norm = K1 * (1 - B + B * lengths / lengths[self.live].mean())
        self.terms = np.unique(np.concatenate(corpus.queries))
        self.postings = corpora.invert(corpus, self.terms)

    def scores(self, query: NDArray[np.uint32]) -> NDArray[np.float64]:
        scores = np.zeros(self.n_docs)
        for place in np.searchsorted(self.terms, query):
            ends = slice(*self.postings.indptr[place : place + 2])
            docs, f = self.postings.docs[ends], self.postings.freqs[ends]
            alive = self.live[docs]
            docs, f = docs[alive], f[alive].astype(np.float64)
            idf = np.log((self.n_live - len(docs) + 0.5) / (len(docs) + 0.5) + 1)
            scores[docs] += idf * f * (K1 + 1) / (f + self.norm[docs])
        return scores


def best(scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Rows of the k highest scores above 0; equal ones by lower row (GEN-4)."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > k:
        bar = np.partition(scores[rows], -k)[-k]
        rows = rows[scores[rows] >= bar]
    return rows[np.lexsort((rows, -scores[rows]))][:k]


def check(reference: Reference, engine: Engine, asked: Sequence[Any], k: int) -> dict[str, Any]:
    """Compare the engine's k best with the reference.

    `recall`: share of the right documents found; any document that ties with the last right one
    is right. `wrong`: queries whose list differs from the reference by more than rounding: another
    number of hits, a document at a rank that its score does not earn, equal scores in another
    order than by row. `max_error`: relative, after one factor per query for peers.
    """
    recall, errors, wrong, same = [], [], 0, 0
    for query in asked:
        scores = reference.scores(query)
        right = best(scores, k)
        rows, given = engine.hits(engine.search(engine.prepare(query), k))
        if len(right) == 0:
            wrong += len(rows) > 0
            continue
        bar = scores[right[-1]] * (1 - TOLERANCE)
        recall.append(min(1.0, np.count_nonzero(scores[rows] >= bar) / len(right)))
        true = scores[rows]
        if len(rows) and not (true.all() and given.all()):
            errors.append(1.0)  # a document that does not match
        elif len(rows):
            factor = 1.0 if engine.exact else float(np.median(true / given))
            errors.append(float(np.max(np.abs(factor * given / true - 1))))
        same += np.array_equal(rows, right)
        wrong += not _same_list(rows, given, true, scores[right])
    record = {
        "queries": len(asked),
        "recall": round(float(np.mean(recall)), 6),
        "max_error": float(f"{max(errors, default=0):.3g}"),
    }
    if engine.exact:
        record |= {
            "exact": wrong == 0 and record["max_error"] <= TOLERANCE,
            "wrong": int(wrong),
            "same_ids_in_order": int(same),
        }
    return record


def _same_list(
    rows: NDArray[np.int64],
    given: NDArray[np.float64],
    true: NDArray[np.float64],
    right: NDArray[np.float64],
) -> bool:
    if len(rows) != len(right) or len(np.unique(rows)) != len(rows):
        return False
    ordered = (given[:-1] > given[1:]) | ((given[:-1] == given[1:]) & (rows[:-1] < rows[1:]))
    return bool(np.all(ordered) and np.allclose(true, right, rtol=2 * TOLERANCE, atol=0))
