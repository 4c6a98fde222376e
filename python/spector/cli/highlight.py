"""Where a query met a text, and the piece of the text worth showing."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from spector.lexical import Compound, analyze

__all__ = ["Analyze", "Piece", "matches", "plain", "snippet"]

#: A run of text and whether it matched.
Piece = tuple[str, bool]
#: The analyzer of the space that the text is in.
Analyze = Callable[[str], list[Compound]]

#: Longer texts are searched for matches up to here only; it bounds the cost of showing one hit.
_SEARCHED_CHARACTERS = 200_000

_SPACE = re.compile(r"\s+")
#: Stored text may hold anything; a terminal must not obey it.
_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), "\N{REPLACEMENT CHARACTER}")
_CONTROLS |= dict.fromkeys(map(ord, "\t\n\v\f\r\x85"), " ")


def plain(text: str) -> str:
    """Return the text on one line, without control characters."""
    return _SPACE.sub(" ", text.translate(_CONTROLS)).strip()


def matches(
    text: str, terms: Collection[str], analyze: Analyze = analyze
) -> list[tuple[int, int, frozenset[str]]]:
    """Find the compounds of a text that carry one of the terms.

    Parameters
    ----------
    text : str
    terms : collection of str
        Terms as indexed, for instance those of an explanation.
    analyze : callable

    Returns
    -------
    list of (start, end, terms)
        Character offsets in `text`, in order, and which terms the compound carries.
    """
    wanted = frozenset(terms)
    if not wanted:
        return []
    found = []
    for compound in analyze(text[:_SEARCHED_CHARACTERS]):
        carried = wanted.intersection(token.text for token in compound.tokens)
        if carried:
            found.append((compound.start, compound.end, carried))
    return found


def snippet(
    text: str, terms: Collection[str], width: int, analyze: Analyze = analyze
) -> list[Piece]:
    """Cut the part of a text that shows most of the terms.

    Parameters
    ----------
    text : str
    terms : collection of str
    width : int
        About how many characters to show.
    analyze : callable

    Returns
    -------
    list of Piece
        Consecutive runs of one line of text; ``…`` stands where text was cut off.
    """
    found = matches(text, terms, analyze)
    start, end = _window(text, found, width)
    pieces: list[Piece] = [("… ", False)] if start > 0 else []
    here = start
    for first, last, _ in found:
        if first < start or last > end or last <= here:
            continue
        pieces.append((text[here:first], False))
        pieces.append((text[max(first, here) : last], True))  # the pairs of CJK text overlap
        here = last
    pieces.append((text[here:end], False))
    if end < len(text):
        pieces.append((" …", False))
    return _one_line(pieces)


def _window(text: str, found: list[tuple[int, int, frozenset[str]]], width: int) -> tuple[int, int]:
    if len(text) <= width:
        return 0, len(text)
    best, start = 0, 0
    every = len(frozenset().union(*(terms for _, _, terms in found)))
    for index, (first, _, _) in enumerate(found):
        shown: set[str] = set()
        for other, last, terms in found[index:]:
            if last > first + width or other > first + width:
                break
            shown |= terms
        if len(shown) > best:
            best, start = len(shown), first
        if best == every:
            break
    start = 0 if start < width // 3 else _word_start(text, start - width // 5)
    if start + width >= len(text):
        return start, len(text)
    return start, _word_start(text, start + width)


def _word_start(text: str, near: int) -> int:
    """Move to the start of the word at `near`, unless that word is longer than any word is."""
    for at in range(near, max(near - 40, 0), -1):
        if text[at - 1].isspace():
            return at
    return near


def _one_line(pieces: list[Piece]) -> list[Piece]:
    """Collapse white space across the borders of the pieces."""
    line: list[Piece] = []
    after_space = True
    for text, matched in pieces:
        text = _SPACE.sub(" ", text.translate(_CONTROLS))
        if after_space:
            text = text.removeprefix(" ")
        if text:
            line.append((text, matched))
            after_space = text.endswith(" ")
    return line
