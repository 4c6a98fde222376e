"""What a memory knows of a topic (API-4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .results import Hit

_MOST = 10


@dataclass(frozen=True, slots=True)
class Topic:
    """What `SpectorMemory.introspect` found.

    Attributes
    ----------
    topic : str
    memories : int
        How many memories match, 100 at most.
    types, tags, authors, entities : dict
        How many of these have it, the most frequent first.
    oldest, newest : int or None
        Their timestamps.
    importance, valence : float
        Their means.
    unresolved : tuple of str
        Ids of those that wait for something.
    best : tuple of str
        Ids of the best matches.
    related_tags : tuple of str
        Tags that occur together with theirs.
    profile : str
        What ``profile="auto"`` would take without exploring.
    """

    topic: str
    memories: int
    types: dict[str, int]
    tags: dict[str, int]
    authors: dict[str, int]
    entities: dict[str, int]
    oldest: int | None
    newest: int | None
    importance: float
    valence: float
    unresolved: tuple[str, ...]
    best: tuple[str, ...]
    related_tags: tuple[str, ...]
    profile: str

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def summarise(topic: str, hits: Sequence[Hit], related: Sequence[str], profile: str) -> Topic:
    """The facts about these hits."""
    memories = [hit.memory for hit in hits]
    times = sorted(memory.timestamp for memory in memories)
    n = max(1, len(memories))

    def count(values: Sequence[str]) -> dict[str, int]:
        return dict(Counter(values).most_common(_MOST))

    tags = count([tag for memory in memories for tag in memory.tags])
    return Topic(
        topic=topic,
        memories=len(memories),
        types=count([memory.type for memory in memories]),
        tags=tags,
        authors=count([memory.author for memory in memories if memory.author]),
        entities=count([one.name for memory in memories for one in memory.entities]),
        oldest=times[0] if times else None,
        newest=times[-1] if times else None,
        importance=sum(memory.importance for memory in memories) / n,
        valence=sum(memory.valence for memory in memories) / n,
        unresolved=tuple(memory.id for memory in memories if memory.unresolved),
        best=tuple(memory.id for memory in memories[:_MOST]),
        related_tags=tuple(tag for tag in related if tag not in tags)[:_MOST],
        profile=profile,
    )
