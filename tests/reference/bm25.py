"""BM25 as the specification states it, in plain Python and double: the oracle of the index.

Documents are lists of positions, each position a set of terms (a plain text has one term per
position). Nothing is kept between searches, so there is no history to get wrong.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

Document = Sequence[Iterable[str]]


def search(
    documents: Mapping[str, Document],
    query: Sequence[tuple[str, float]],
    k1: float = 1.2,
    b: float = 0.75,
) -> list[tuple[str, float]]:
    """All documents with a score above 0, best first, equal scores in the order of `documents`."""
    if not documents:
        return []
    counts = {id: count(document) for id, document in documents.items()}
    average = sum(len(document) for document in documents.values()) / len(documents)
    scores = {}
    for id, document in documents.items():
        score = 0.0
        for term, weight in query:
            f = counts[id].get(term, 0)
            if f == 0:
                continue
            n = sum(term in other for other in counts.values())
            idf = math.log((len(documents) - n + 0.5) / (n + 0.5) + 1)  # BM25-2
            score += weight * idf * f * (k1 + 1) / (f + k1 * (1 - b + b * len(document) / average))
        if score > 0:
            scores[id] = score
    return sorted(scores.items(), key=lambda item: -item[1])  # stable: insertion order in ties


def count(document: Document) -> dict[str, int]:
    """Occurrences of each term, at most one per position (TOK-9)."""
    counts: dict[str, int] = {}
    for position in document:
        for term in set(position):
            counts[term] = counts.get(term, 0) + 1
    return counts
