"""Memories and hits as JSON and as text to show."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from spector import lexical
from spector.cli.highlight import Piece, plain, snippet

if TYPE_CHECKING:
    from spector import Hit, Memory, Results, SpectorMemory
    from spector.recall.results import Edge

__all__ = ["hit_as_dict", "memory_as_dict", "print_trace", "snippets"]

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
    found = {"score": hit.score, **memory_as_dict(hit.memory)}
    if hit.mode != "standard":
        found["mode"] = hit.mode
    if hit.trace:
        found["trace"] = [asdict(edge) for edge in hit.trace]
    return found


def print_trace(hits: Results) -> None:
    """Draw each hit with what its score is made of, and from where the graph came to it."""
    for hit in hits:
        text = " ".join(plain(hit.text).split())
        sys.stdout.write(f"{hit.score:.3f}  {plain(hit.id)}  {text[:100]}\n")
        strongest: dict[str, Edge] = {}
        for edge in hit.trace:
            strongest.setdefault(edge.layer, edge)
        base = hit.score - sum(edge.gain for edge in strongest.values())
        parts = [f"{base:.3f} lists"] if abs(base) > 1e-6 * abs(hit.score) else []
        for edge in strongest.values():
            start = f" from {plain(edge.seed)}" if edge.seed else ""
            by = f" by {plain(edge.via)}" if edge.via else ""
            parts.append(f"{edge.gain:.3f} {edge.layer}{start}{by}")
        for place, part in enumerate(parts):
            sys.stdout.write(f"       {'└' if place == len(parts) - 1 else '├'} {part}\n")


def snippets(memory: SpectorMemory, hits: Results, width: int) -> list[list[Piece]]:
    """Return the part of each hit that says why it was found, with the matches marked."""
    state = memory.status()
    found = []
    for hit in hits:
        terms = {term.term for term in memory.explain(hit.id, hits.query).terms}
        analyze = partial(lexical.analyze, analyzer=state.analyzer, language=state.language)
        found.append(snippet(hit.text, terms, width, analyze))
    return found
