"""What each `text_search_mode` consults (TSM-4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spector.store.values import nearest, show

__all__ = ["MODES", "Mode", "check_mode"]


@dataclass(frozen=True, slots=True)
class Mode:
    """The lists of a mode.

    Attributes
    ----------
    lists : tuple of str
        Of "keyword", "dense", "sparse", "late", in the order in which they are consulted.
    required : bool
        The mode is this list alone: without it there is no answer (TSM-6).
    table_query : bool
        Sparse weights of the query come from a table (SPL-2).
    rerank : bool
        Late interaction orders the first results instead of being a list (RRK-2).
    """

    lists: tuple[str, ...]
    required: bool = False
    table_query: bool = False
    rerank: bool = False


MODES: Final = {
    "hybrid": Mode(("keyword", "dense", "sparse", "late")),
    "keyword_only": Mode(("keyword",), required=True),
    "vector_only": Mode(("dense",), required=True),
    "splade": Mode(("sparse",), required=True),
    "splade_hybrid": Mode(("dense", "sparse")),
    "li_lsr": Mode(("sparse",), required=True, table_query=True),
    "colbert_rerank": Mode(("keyword", "dense"), rerank=True),
    "full_stack": Mode(("keyword", "dense", "sparse"), rerank=True),
}


def check_mode(value: object) -> str:
    """The name of a mode, in any case."""
    if not isinstance(value, str):
        raise TypeError(f"text_search_mode must be a str, got {type(value).__name__} {show(value)}")
    name = value.lower()
    if name not in MODES:
        raise ValueError(
            f"text_search_mode must be one of {', '.join(map(repr, MODES))},"
            f" got {show(value)}{nearest(name, MODES)}"
        )
    return name
