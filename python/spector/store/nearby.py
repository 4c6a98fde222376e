"""The semantic memories of a large space by HNSW (DEN-2, DEN-3)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from spector.ann import HnswIndex
from spector.records import RecordStore

#: Up to so many live semantic memories a scan of all vectors is what is used.
EXACT_UP_TO: Final = 20_000
#: A filter that keeps less is answered by a scan of what it keeps (DEN-3).
LEAST_KEPT: Final = 0.05

Slots = npt.NDArray[np.uint32]


class Nearby:
    """Candidates among the semantic memories, once there are enough of them.

    One thread at a time changes it, any may search. It follows from the records: nothing is stored.
    """

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._semantic: set[int] = set()
        self._others: set[int] = set()
        self._changes = 0
        self._sorted: tuple[int, Slots] = (0, np.empty(0, np.uint32))  # the others after so many
        self._index: HnswIndex | None = None

    def put(
        self,
        slots: Slots,
        vectors: npt.NDArray[np.float32],
        semantic: npt.NDArray[np.bool_],
        records: RecordStore,
    ) -> None:
        """Vectors of memories, new or instead of those they had; `records` has them already."""
        self.remove(slots)
        chosen = slots[semantic]
        self._semantic.update(chosen.tolist())
        self._others.update(slots[~semantic].tolist())
        self._changes += 1
        if self._index is not None:
            self._index.put(chosen, vectors[semantic])
        elif len(self._semantic) > EXACT_UP_TO:
            index = HnswIndex(self._dimensions)
            known = np.fromiter(sorted(self._semantic), np.uint32, len(self._semantic))
            for first in range(0, len(known), 1000):
                part = known[first : first + 1000]
                rows = [records.vector(slot) for slot in part.tolist()]
                index.put(part, np.stack([row for row in rows if row is not None]))
            self._index = index

    def remove(self, slots: Slots) -> None:
        """These memories have no vector, or are gone."""
        self._semantic.difference_update(slots.tolist())
        self._others.difference_update(slots.tolist())
        self._changes += 1
        if self._index is not None:
            self._index.remove(slots)

    @property
    def active(self) -> bool:
        """Whether there are enough memories for it to be used."""
        return self._index is not None and len(self._semantic) > EXACT_UP_TO

    def __len__(self) -> int:
        return len(self._semantic)

    def candidates(self, query: npt.NDArray[np.float32], k: int, top_k: int) -> Slots:
        """About the `k` nearest semantic memories, ascending by slot, for an answer of `top_k`."""
        assert self._index is not None
        ef_search = min(500, max(self._index.ef_search, 3 * top_k))
        return np.sort(self._index.search(query, k, ef_search=ef_search)).astype(np.uint32)

    def others(self) -> Slots:
        """The memories of other types that have vectors, ascending: they are always scanned."""
        changes = self._changes
        known, found = self._sorted
        if known != changes:
            # If a change comes between, the next call sees by the number that this is older.
            others = self._others.copy()
            found = np.sort(np.fromiter(others, np.uint32, len(others)))
            self._sorted = (changes, found)
        return found

    def memory_usage(self) -> int:
        """Bytes of the index."""
        return 0 if self._index is None else self._index.memory_usage()
