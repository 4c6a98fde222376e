"""Memories and hits as JSON and as text to show."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from spector import lexical
from spector.cli.highlight import Piece, snippet

if TYPE_CHECKING:
    from spector import Hit, Memory, Results, SpectorMemory

__all__ = ["hit_as_dict", "memory_as_dict", "snippets"]

_FIELDS = (
    "id",
    "text",
    "tags",
    "type",
    "source",
    "session",
    "author",
    "context",
    "timestamp",
    "created",
    "updated",
    "metadata",
)


def memory_as_dict(memory: Memory) -> dict[str, Any]:
    """Return a memory for ``--json``; times are milliseconds since 1970 in UTC."""
    return {name: getattr(memory, name) for name in _FIELDS}


def hit_as_dict(hit: Hit) -> dict[str, Any]:
    """Return a hit for ``--json``."""
    return {"score": hit.score, **memory_as_dict(hit.memory)}


def snippets(memory: SpectorMemory, hits: Results, width: int) -> list[list[Piece]]:
    """Return the part of each hit that says why it was found, with the matches marked."""
    state = memory.status()
    found = []
    for hit in hits:
        terms = {term.term for term in memory.explain(hit.id, hits.query).terms}
        analyze = partial(lexical.analyze, analyzer=state.analyzer, language=state.language)
        found.append(snippet(hit.text, terms, width, analyze))
    return found
