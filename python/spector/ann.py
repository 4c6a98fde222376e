"""HNSW over the vectors of memories (DEN-2); extra ``ann``."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spector import arguments
from spector.errors import ConfigurationError

__all__ = ["HnswIndex"]

_METRICS: Final = {"cosine": "cos", "dot": "ip", "euclidean": "l2sq"}


def require_usearch() -> Any:
    """The class that the extra brings.

    Raises
    ------
    ConfigurationError
        It is not installed.
    """
    # Once usearch is loaded, loading onnxruntime ends the process; the other order works.
    with contextlib.suppress(ImportError):
        import onnxruntime  # noqa: F401
    try:
        from usearch.index import Index
    except ImportError as error:
        raise ConfigurationError(
            "ann needs the extra of that name: pip install 'spector[ann]'"
        ) from error
    return Index


class HnswIndex:
    """Which slots have vectors near a query's, approximately.

    It gives candidates: whoever needs exact distances measures them with a `RecordStore`. Any
    thread may use it; calls wait for one another.

    Parameters
    ----------
    dimensions : int
        Of the vectors, in [1, 65536].
    similarity : {"cosine", "dot", "euclidean"}
    m : int
        Neighbours of a vector in each layer but the lowest, in [4, 64].
    ef_construction, ef_search : int
        How many candidates are kept while a vector is added, in [16, 800], and while one is looked
        for, in [10, 500].

    Raises
    ------
    ConfigurationError
        The package of the extra ``ann`` is not installed.

    References
    ----------
    Malkov and Yashunin, Efficient and robust approximate nearest neighbor search using
    hierarchical navigable small world graphs, TPAMI 2020.
    """

    def __init__(
        self,
        dimensions: int,
        *,
        similarity: str = "cosine",
        m: int = 16,
        ef_construction: int = 200,
        ef_search: int = 50,
    ) -> None:
        self.dimensions = arguments.whole("dimensions", dimensions, 1, 65_536)
        if similarity not in _METRICS:
            raise ValueError(
                f"similarity must be one of {', '.join(map(repr, _METRICS))}, got {similarity!r}"
            )
        self.ef_search = arguments.whole("ef_search", ef_search, 10, 500)
        self._lock = threading.Lock()
        self._index = require_usearch()(
            ndim=self.dimensions,
            metric=_METRICS[similarity],
            dtype="f16",
            connectivity=arguments.whole("m", m, 4, 64),
            expansion_add=arguments.whole("ef_construction", ef_construction, 16, 800),
            expansion_search=self.ef_search,
        )

    def put(self, slots: ArrayLike, vectors: ArrayLike) -> None:
        """Add vectors, or put them in the place of those that the slots have.

        Parameters
        ----------
        slots : array_like of int, shape (n,)
        vectors : array_like of float, shape (n, dimensions)
            Finite; of equal slots the last counts.
        """
        keys = arguments.slots("slots", slots)
        rows = np.asarray(vectors, np.float32)
        if rows.shape != (len(keys), self.dimensions):
            raise ValueError(
                f"vectors must have the shape ({len(keys)}, {self.dimensions}), not {rows.shape}"
            )
        if not np.isfinite(rows).all():
            raise ValueError("vectors must be finite")
        last = {slot: place for place, slot in enumerate(keys.tolist())}
        if not last:
            return
        unique = np.fromiter(last, np.uint64, len(last))
        chosen = rows[np.fromiter(last.values(), np.int64, len(last))]
        with self._lock:
            self._remove(unique)
            self._index.add(unique, chosen, threads=1)

    def remove(self, slots: ArrayLike) -> int:
        """Remove the vectors of slots; return how many there were."""
        keys = np.unique(arguments.slots("slots", slots)).astype(np.uint64)
        with self._lock:
            return self._remove(keys)

    def _remove(self, keys: NDArray[np.uint64]) -> int:
        if not len(keys) or not len(self._index):
            return 0
        there = keys[self._index.contains(keys)]
        if len(there):
            self._index.remove(there, threads=1)
        return len(there)

    def search(
        self, query: ArrayLike, k: int = 10, *, ef_search: int | None = None
    ) -> NDArray[np.int64]:
        """At most `k` slots, the nearest first.

        Parameters
        ----------
        query : array_like of float, shape (dimensions,)
        k : int
            At least 1.
        ef_search : int, optional
            In [10, 500]; by default the index's own or 3 * k, whichever is more.
        """
        vector = arguments.reals("query", query, -1e18, 1e18)
        if len(vector) != self.dimensions:
            raise ValueError(f"query must have {self.dimensions} dimensions, not {len(vector)}")
        count = arguments.whole("k", k, 1, 2**32)
        if ef_search is None:
            wanted = max(self.ef_search, 3 * count)
        else:
            wanted = max(arguments.whole("ef_search", ef_search, 10, 500), count)
        with self._lock:
            if not len(self._index):
                return np.empty(0, np.int64)
            self._index.expansion_search = wanted
            found = self._index.search(vector, min(count, len(self._index)), threads=1)
        keys: NDArray[np.int64] = np.asarray(found.keys).astype(np.int64)
        return keys

    def memory_usage(self) -> int:
        """Bytes of vectors and links."""
        with self._lock:
            return int(self._index.memory_usage)

    def __len__(self) -> int:
        with self._lock:
            return len(self._index)

    def __contains__(self, slot: object) -> bool:
        if isinstance(slot, (bool, np.bool_)) or not isinstance(slot, (int, np.integer)):
            return False
        with self._lock:
            return 0 <= int(slot) <= arguments.MAX_SLOT and bool(self._index.contains(int(slot)))
