"""Several ranked lists as one: reciprocal ranks (RRF-1) or relative scores (AM-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spector import _core, arguments

__all__ = ["FUSIONS", "Candidates", "fuse", "rrf"]

FUSIONS = ("relative", "rrf")

Slots = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]


class Candidates(NamedTuple):
    """Memories with scores, best first."""

    slots: Slots
    scores: Scores


NONE = Candidates(np.empty(0, np.int64), np.empty(0, np.float32))


def fuse(
    lists: Mapping[str, Candidates], weights: Mapping[str, float], fusion: str, rrf_k: int
) -> Candidates:
    """One ranking of all memories of the lists, scaled so that the best has score 1.

    Parameters
    ----------
    lists : mapping
        From a name to the list of that name; a memory occurs once in a list.
    weights : mapping
        From the name of a list to its weight; 1 where there is none.
    fusion : {"relative", "rrf"}
        "rrf": the sum over lists of weight / (rrf_k + rank) (RRF-1). "relative": the scores of each
        list are stretched to [0, 1] over its memories, and their weighted sum counts.
    rrf_k : int
        K of RRF-1.

    Returns
    -------
    Candidates
        Ties: in more lists, then the better best rank, then the lower slot (RRF-3).
    """
    slots, scores = _core.fuse(
        [found.slots for found in lists.values()],
        [found.scores for found in lists.values()],
        [weights.get(name, 1.0) for name in lists],
        rrf_k if fusion == "rrf" else 0,
    )
    return Candidates(slots, scores)


def rrf(
    lists: Sequence[Sequence[Any]], k: int = 60, weights: Sequence[float] | None = None
) -> list[tuple[Any, float]]:
    """Fuse rankings of any hashable items by reciprocal ranks (RRF-1).

    Parameters
    ----------
    lists : sequence of sequences
        Rankings, best first; an item counts once in each, at its best rank.
    k : int
        The constant K, in [1, 1000].
    weights : sequence of float, optional
        One for each list, not negative; 1 each by default.

    Returns
    -------
    list of (item, score)
        By score; ties: in more lists, then the better best rank, then the order of appearance.

    References
    ----------
    Cormack, Clarke and Buettcher, Reciprocal rank fusion outperforms Condorcet and individual rank
    learning methods, SIGIR 2009.
    """
    constant = arguments.whole("k", k, 1, 1000)
    if weights is None:
        weights = [1.0] * len(lists)
    if len(weights) != len(lists):
        raise ValueError(f"weights must be one for each of {len(lists)} lists, not {len(weights)}")
    scores: dict[Any, list[float]] = {}  # score, lists, best rank
    for ranking, weight in zip(lists, weights, strict=True):
        share = arguments.real("each of weights", weight, 0, 1e9)
        seen = set()
        for rank, item in enumerate(ranking, 1):
            if item in seen:
                continue
            seen.add(item)
            entry = scores.setdefault(item, [0.0, 0, rank])
            entry[0] += share / (constant + rank)
            entry[1] += 1
            entry[2] = min(entry[2], rank)
    ordered = sorted(scores.items(), key=lambda pair: (-pair[1][0], -pair[1][1], pair[1][2]))
    return [(item, entry[0]) for item, entry in ordered]
