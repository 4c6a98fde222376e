"""Recall by words: BM25 over all memories, narrowed to those that a filter allows."""

from __future__ import annotations

from spector.lexical import TextIndex
from spector.store.filters import Filter
from spector.store.journal import Reader, damaged
from spector.store.model import to_memory
from spector.store.space import Space

from .results import Hit


def keyword_recall(space: Space, query: str, k: int, wanted: Filter) -> list[Hit]:
    """The best `k` memories with a score above 0, best first; equal scores: the older slot."""

    def work(reader: Reader, index: TextIndex) -> list[Hit]:
        allow = None if wanted == Filter() else reader.matching(wanted)
        if allow is not None and not allow.size:
            return []
        slots, scores = index.search(query, min(k, max(len(index), 1)), allow)
        found = slots.tolist()
        rows = reader.rows(sorted(found))
        if len(rows) != len(found):
            missing = sorted(set(found) - rows.keys())
            raise damaged(space.journal.where, f"the memory in slot {missing[0]} is missing")
        return [
            Hit(score, to_memory(rows[slot]))
            for slot, score in zip(found, scores.tolist(), strict=True)
        ]

    return space.read(work)
