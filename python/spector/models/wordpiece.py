"""WordPiece with BERT's uncased vocabulary, which both built-in models were trained with.

The vocabulary is that of google-research/bert (Apache License 2.0).
"""

from __future__ import annotations

import functools
import gzip
import importlib.resources
import unicodedata
from collections.abc import Sequence
from typing import Final

VOCABULARY_SIZE: Final = 30_522
CLS: Final = 101
SEP: Final = 102
_UNKNOWN: Final = 100
_LONGEST_WORD: Final = 100


@functools.cache
def vocabulary() -> tuple[str, ...]:
    """The 30,522 pieces by number."""
    packed = importlib.resources.files(__package__).joinpath("bert_uncased.txt.gz").read_bytes()
    return tuple(gzip.decompress(packed).decode().split("\n")[:-1])


@functools.cache
def _numbers() -> dict[str, int]:
    return {piece: number for number, piece in enumerate(vocabulary())}


def _is_punctuation(character: str) -> bool:
    # All ASCII that is neither letter, digit nor blank counts, as in the original.
    if character.isascii():
        return not character.isalnum() and not character.isspace()
    return unicodedata.category(character).startswith("P")


def _is_han(character: str) -> bool:
    code = ord(character)
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x2CEAF
        or 0x2F800 <= code <= 0x2FA1F
    )


def _words(text: str) -> list[str]:
    """Lower-cased words without accents; punctuation and Han characters stand alone."""
    if text.isascii():
        plain = text.lower()
    else:
        plain = "".join(
            character
            for character in unicodedata.normalize("NFD", text.lower())
            if unicodedata.category(character) != "Mn"
        )
    spaced = []
    for character in plain:
        if character.isalnum() and not _is_han(character):
            spaced.append(character)
        elif character.isspace():
            spaced.append(" ")
        elif character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf"):
            continue
        elif _is_punctuation(character) or _is_han(character):
            spaced.append(f" {character} ")
        else:
            spaced.append(character)
    return "".join(spaced).split()


@functools.lru_cache(maxsize=65_536)
def _pieces(word: str) -> tuple[int, ...]:
    """Longest pieces first, from the left; a word that they do not cover is one unknown."""
    if len(word) > _LONGEST_WORD:
        return (_UNKNOWN,)
    numbers = _numbers()
    pieces: list[int] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            number = numbers.get(prefix + word[start:end])
            if number is not None:
                break
        else:
            return (_UNKNOWN,)
        pieces.append(number)
        start = end
    return tuple(pieces)


def tokenize(text: str, limit: int) -> list[int]:
    """The numbers of a text's pieces between CLS and SEP, `limit` in all at most."""
    # No text needs more characters than this to fill the limit: the longest piece has 18.
    pieces = [CLS]
    for word in _words(text[: limit * 200]):
        pieces.extend(_pieces(word))
        if len(pieces) >= limit - 1:
            break
    return [*pieces[: limit - 1], SEP]


def batches(texts: Sequence[str], limit: int, most: int) -> list[tuple[list[int], list[list[int]]]]:
    """Texts of about equal length together: places and token lists, at most `most` a batch."""
    tokens = [tokenize(text, limit) for text in texts]
    order = sorted(range(len(texts)), key=lambda place: len(tokens[place]))
    return [
        (order[start : start + most], [tokens[place] for place in order[start : start + most]])
        for start in range(0, len(order), most)
    ]
