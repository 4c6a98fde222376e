"""Learned sparse search: documents and queries are maps from term to weight (SPL-1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spector import _core, arguments

__all__ = ["SparseIndex"]


class SparseIndex:
    """Inner products of sparse maps, exact, over live documents.

    Slots are small integers of the caller. Equal scores are ordered by lower slot (GEN-4). All
    methods may be called from any thread; searches take no lock.

    Examples
    --------
    >>> index = SparseIndex()
    >>> index.put([1, 2], [{"car": 1.5, "automobile": 0.5}, {"bread": 1.0}])
    >>> index.search({"automobile": 2.0})[0].tolist()
    [1]
    """

    def __init__(self) -> None:
        self._core = _core.SparseIndex()

    def put(self, slots: ArrayLike, documents: Sequence[Mapping[str, float]]) -> None:
        """Store documents, each instead of what its slot held; an empty map never matches.

        Parameters
        ----------
        slots : array_like of int, shape (n,)
        documents : sequence of n mappings
            From term to a finite weight above 0.

        Raises
        ------
        ValueError
            A weight that is not allowed; nothing has changed.
        """
        numbers = arguments.slots("slots", np.atleast_1d(np.asarray(slots)))
        if len(documents) != len(numbers):
            raise ValueError(
                f"documents must be one for each of {len(numbers)} slots, not {len(documents)}"
            )
        maps = [
            _weights(f"documents[{place}]", document) for place, document in enumerate(documents)
        ]
        self._core.put(numbers, maps)

    def erase(self, slots: ArrayLike) -> int:
        """Remove slots; return how many of them had a document."""
        return self._core.erase(arguments.slots("slots", np.atleast_1d(np.asarray(slots))))

    def search(
        self, query: Mapping[str, float], k: int = 10, allow: ArrayLike | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The `k` best documents that share a term with the query.

        Parameters
        ----------
        query : mapping
            From term to a finite weight above 0; terms that no document has count nothing.
        k : int
            At least 1.
        allow : array_like of int, optional
            Only these slots.

        Returns
        -------
        slots : int64 of shape (n,)
        scores : float32 of shape (n,)
            Sums over shared terms of the product of both weights, best first.
        """
        slots = None if allow is None else arguments.slots("allow", allow)
        return self._core.search(_weights("query", query), arguments.whole("k", k, 1, 2**32), slots)

    def score(self, query: Mapping[str, float], slot: int) -> float:
        """The score of one document, 0.0 where there is none."""
        return self._core.score(
            _weights("query", query), arguments.whole("slot", slot, 0, arguments.MAX_SLOT)
        )

    def compact(self) -> None:
        """Free what removed and replaced documents still hold; scores do not change."""
        self._core.compact()

    def memory_usage(self) -> int:
        """Bytes held."""
        return self._core.memory_usage()

    def __len__(self) -> int:
        return len(self._core)

    def __contains__(self, slot: object) -> bool:
        return (
            isinstance(slot, int) and 0 <= slot <= arguments.MAX_SLOT and self._core.contains(slot)
        )


def _weights(name: str, value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, not {arguments.kind(value)}")
    weights: dict[str, float] = {}
    for term, weight in value.items():
        if not isinstance(term, str):
            raise TypeError(f"each term of {name} must be str, not {arguments.kind(term)}")
        number = arguments.number(f"{name}[{term!r}]", weight)
        if not math.isfinite(number) or number <= 0 or number > 1e30:
            raise ValueError(f"{name}[{term!r}] must be finite and above 0, not {number}")
        weights[term] = number
    return weights
