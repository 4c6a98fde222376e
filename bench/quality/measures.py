"""Measures of a ranking, and whether two runs differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

MEASURES = ("ndcg@10", "r@5", "r@10", "all@5", "mrr", "p@1")


def measure(ranked: Sequence[str], relevant: Mapping[str, float]) -> dict[str, float]:
    """All measures of one query; gains are linear with a log2 discount, as in trec_eval."""
    gains = [relevant.get(id, 0.0) for id in ranked]
    ideal = sorted(relevant.values(), reverse=True)[:10]
    dcg, best = (
        sum(gain / math.log2(rank + 2) for rank, gain in enumerate(values))
        for values in (gains[:10], ideal)
    )
    found = {depth: sum(gain > 0 for gain in gains[:depth]) for depth in (1, 5, 10)}
    first = next((rank for rank, gain in enumerate(gains, 1) if gain > 0), 0)
    return {
        "ndcg@10": dcg / best,
        "r@5": found[5] / len(relevant),
        "r@10": found[10] / len(relevant),
        "all@5": float(found[5] == len(relevant)),
        "mrr": 1 / first if first else 0.0,
        "p@1": float(found[1]),
    }


def interval(
    differences: NDArray[np.float64], samples: int = 2000, seed: int = 0
) -> tuple[float, float, float]:
    """Mean of paired differences with a bootstrap 95% interval over queries."""
    random = np.random.default_rng(seed)
    n = len(differences)
    means = differences[random.integers(0, n, (samples, n))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(differences.mean()), float(low), float(high)


def cross_fit(
    values: Mapping[str, Mapping[str, Sequence[float]]], folds: int = 5, seed: int = 0
) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Figures of all queries, each by the configuration that was best on the other folds (AM-23).

    Parameters
    ----------
    values : mapping
        By configuration and measure, one value for each query.

    Returns
    -------
    values : dict
        By measure, one value for each query.
    taken : dict
        For how many folds each configuration was the best, by R@10 and nDCG@10.
    """
    n = len(next(iter(values.values()))["mrr"])
    fold = np.random.default_rng(seed).permutation(n) % folds
    fitted: dict[str, list[float]] = {key: [0.0] * n for key in MEASURES}
    taken: dict[str, int] = {}
    for number in range(folds):
        others = np.flatnonzero(fold != number)

        def worth(config: str, others: NDArray[np.intp] = others) -> float:
            figures = values[config]
            pair = (np.asarray(figures["r@10"])[others], np.asarray(figures["ndcg@10"])[others])
            return float(np.mean(pair))

        best = max(values, key=worth)
        taken[best] = taken.get(best, 0) + 1
        for query in np.flatnonzero(fold == number).tolist():
            for key in MEASURES:
                fitted[key][query] = values[best][key][query]
    return fitted, taken
