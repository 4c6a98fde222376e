"""Names that occur in texts: of entities in memories and queries, of authors in queries."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_WORD: Final = re.compile(r"\w+")
# What tells two of a name apart is not written where it is clear: "Inception (film)".
_QUALIFIER: Final = re.compile(r"\s*\([^()]*\)\s*$")
_LONGEST: Final = 12  # words of a name


def words(text: str) -> list[str]:
    """The words of a text: runs of letters, digits and marks, NFKC, in their own case."""
    return _WORD.findall(text if text.isascii() else unicodedata.normalize("NFKC", text))


class NameIndex:
    """Numbers by name, to be found in running text.

    A name of several words is found as these words in a row, whatever stands between them; the
    longest name at a place counts. Names that differ only in what they have in parentheses at
    their end are found where the rest is. Case does not matter, except that a name with a capital
    is not found in a word without one, as long as the text has capitals at all: the film "Comedy!"
    is not meant by "a comedy".
    """

    def __init__(self) -> None:
        self._numbers: dict[str, list[int]] = {}
        self._capital: dict[str, bool] = {}  # whether all of a name begin with one
        self._lengths: dict[str, list[int]] = {}  # by first word: of names, longest first

    def add(self, name: str, number: int) -> None:
        """Let `number` be found by `name`."""
        self._put(name, number)
        short = _QUALIFIER.sub("", name)
        if short != name:
            self._put(short, number)

    def _put(self, name: str, number: int) -> None:
        parts = words(name)
        if not 1 <= len(parts) <= _LONGEST:
            return
        capital = parts[0][0].isupper()
        folded = [part.casefold() for part in parts]
        key = " ".join(folded)
        self._capital[key] = capital and self._capital.get(key, True)
        numbers = self._numbers.get(key, [])
        if number not in numbers:
            # New lists: a reader may be in the old ones.
            self._numbers[key] = [*numbers, number]
        lengths = self._lengths.get(folded[0], [])
        if len(parts) not in lengths:
            self._lengths[folded[0]] = sorted([*lengths, len(parts)], reverse=True)

    def __len__(self) -> int:
        return len(self._numbers)

    def find(self, text: str) -> Iterator[tuple[str, list[int]]]:
        """Each name that occurs, folded, with its numbers, in the order of the text."""
        lengths_of, numbers_of = self._lengths, self._numbers
        if not numbers_of:
            return
        parts = words(text)
        folded = [part.casefold() for part in parts]
        cased = folded != parts
        place = 0
        while place < len(parts):
            step = 1
            for length in lengths_of.get(folded[place], ()):
                if place + length > len(parts):
                    continue
                name = " ".join(folded[place : place + length])
                numbers = numbers_of.get(name)
                if numbers is None:
                    continue
                if cased and self._capital[name] and not parts[place][0].isupper():
                    continue
                yield name, numbers
                step = length
                break
            place += step
