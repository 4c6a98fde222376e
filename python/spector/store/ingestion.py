"""What an open handle makes of memories before they are stored (IMP-1, IMP-2, AM-16).

It belongs to one handle and is gone with it. Everything it decides is written into the rows, so
that a replay decides nothing.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spector.arguments import fold
from spector.records.cognition import Surprise, importance, novelty

from .model import PINNED
from .values import Draft, Hints, encode_json
from .vectors import unpack_dense

__all__ = ["Importance", "Ingestion"]

#: How many of the last vectors a new one is compared with: the working memory.
WORKING_MEMORY: Final = 256
#: A memory with nothing to compare with counts as half new.
HALF_NEW: Final = 0.5
_MOST_TAGS: Final = 5
_WORD: Final = re.compile(r"\w+")
_BLOCK: Final = 256


class Importance(NamedTuple):
    """What a memory would count for.

    Attributes
    ----------
    importance : float
        In [0.05, 10] (IMP-1).
    novelty : float
        In [0, 1]: half the distance to the nearest of the last memories.
    surprise : float
        z of that distance among those before it (IMP-2).
    flashbulb : bool
        Whether the surprise makes it most important and pins it.
    """

    importance: float
    novelty: float
    surprise: float
    flashbulb: bool


class Ingestion:
    """See the top of this file. Any thread may use it."""

    def __init__(self, flashbulb_threshold: float = 3.0) -> None:
        self.flashbulb_threshold = flashbulb_threshold
        self._lock = threading.Lock()
        self._recent: npt.NDArray[np.float32] | None = None  # unit vectors, the newest last
        self._surprise = Surprise()

    def weigh(self, drafts: Sequence[Draft]) -> list[Draft]:
        """The drafts with importance and surprise by what was stored before each of them."""
        places, rows = [], []
        for place, draft in enumerate(drafts):
            vector = next((each for each in draft.vectors if each.kind == "dense"), None)
            if vector is not None:
                places.append(place)
                rows.append(unpack_dense(vector.data))
        if not rows:
            return list(drafts)
        found = list(drafts)
        if len({len(row) for row in rows}) > 1:
            return found  # refused when they are stored
        vectors = _unit(np.stack(rows))
        with self._lock:
            if self._recent is not None and self._recent.shape[1] != vectors.shape[1]:
                self._recent = None
            distances = _nearest(self._recent, vectors)
            for place, distance in zip(places, distances, strict=True):
                found[place] = self._weighed(found[place], distance, self._surprise)
            before = () if self._recent is None else (self._recent,)
            self._recent = np.concatenate([*before, vectors])[-WORKING_MEMORY:].copy()
        return found

    def preview(
        self,
        vector: npt.NDArray[np.float32] | None,
        hints: Hints,
    ) -> Importance:
        """What `weigh` would find now; nothing changes."""
        distance = None
        with self._lock:
            surprise = Surprise(self._surprise.count, self._surprise.mean, self._surprise.m2)
            recent = self._recent
        if vector is not None and recent is not None and recent.shape[1] == len(vector):
            distance = _nearest(recent, _unit(vector[np.newaxis]))[0]
        return self._importance(hints, distance, surprise)

    def _importance(
        self,
        hints: Hints,
        distance: float | None,
        surprise: Surprise,
    ) -> Importance:
        new = HALF_NEW if distance is None else novelty(distance)
        z = 0.0 if distance is None else surprise.observe(distance)
        flashbulb = z >= self.flashbulb_threshold
        interest, challenge, urgency = hints
        value = importance(interest=interest, challenge=challenge, urgency=urgency, novelty=new)
        return Importance(10.0 if flashbulb else round(value, 6), new, z, flashbulb)

    def _weighed(self, draft: Draft, distance: float | None, surprise: Surprise) -> Draft:
        found = self._importance(draft.hints or (None, None, None), distance, surprise)
        flags = draft.flags | (PINNED if found.flashbulb else 0)
        if draft.hints is None:  # what the caller stated wins
            return draft._replace(surprise=found.surprise, flags=flags)
        return draft._replace(
            importance=found.importance, surprise=round(found.surprise, 6), flags=flags
        )


def _unit(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    unit: npt.NDArray[np.float32] = (rows / np.maximum(lengths, 1e-30)).astype(np.float32)
    return unit


def _nearest(
    recent: npt.NDArray[np.float32] | None, vectors: npt.NDArray[np.float32]
) -> list[float | None]:
    """For each vector the L2 distance of the nearest of the `WORKING_MEMORY` before it."""
    n_before = 0 if recent is None else len(recent)
    line = vectors if recent is None else np.concatenate([recent, vectors])
    found: list[float | None] = []
    for first in range(n_before, len(line), _BLOCK):
        last = min(len(line), first + _BLOCK)
        start = max(0, first - WORKING_MEMORY)
        products = line[first:last] @ line[start:last].T
        # Row r is of first + r and sees first + r - WORKING_MEMORY to first + r - 1.
        own = np.arange(first, last)[:, np.newaxis]
        others = np.arange(start, last)[np.newaxis]
        seen = (others < own) & (others >= own - WORKING_MEMORY)
        best = np.where(seen, products, -np.inf).max(axis=1)
        found += [
            None if value == -np.inf else float(np.sqrt(max(0.0, 2 - 2 * float(value))))
            for value in best.tolist()
        ]
    return found


def tags_in(text: str, known: Mapping[str, int]) -> tuple[str, ...]:
    """Known tags that occur in a text as whole words, the most frequent first, at most five."""
    words = _WORD.findall(fold(text))
    seen = set(words)
    line = f" {' '.join(words)} "
    found = []
    for tag in known:
        parts = _WORD.findall(tag)
        if parts and seen.issuperset(parts) and f" {' '.join(parts)} " in line:
            found.append(tag)
            if len(found) == _MOST_TAGS:
                break
    return tuple(found)


def with_tags(drafts: Sequence[Draft], known: Mapping[str, int]) -> list[Draft]:
    """The drafts, those without tags with the known ones that occur in their text."""
    return [
        draft
        if draft.tags or not (tags := tags_in(draft.text, known))
        else draft._replace(tags=tags, tags_json=encode_json(list(tags)))
        for draft in drafts
    ]
