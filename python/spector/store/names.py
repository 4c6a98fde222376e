"""Names that occur in texts: of entities in memories and queries, of authors in queries."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from spector import _core
from spector.graph import EntityDirectory

_ADDED_BYTES: Final = 140  # of a name and its number as Python keeps them
# What tells two of a name apart is not written where it is clear: "Inception (film)".
_QUALIFIER: Final = re.compile(r"\s*\([^()]*\)\s*$")


class NameIndex:
    """Numbers by name, to be found in running text.

    A name of several words is found as these words in a row, whatever stands between them; the
    longest name at a place counts, of 12 words at most. Words are runs of letters, digits and
    marks. Names that differ only in what they have in parentheses at their end are found where the
    rest is. Case does not matter, except that a name with a capital is not found in a word without
    one, as long as the text has capitals at all: the film "Comedy!" is not meant by "a comedy".

    Any number of threads may search while one adds.
    """

    def __init__(self) -> None:
        self._matcher = _core.NameMatcher()
        self._added: list[tuple[str, int]] = []

    @property
    def added(self) -> list[tuple[str, int]]:
        """What was added, in this order."""
        return self._added.copy()

    def add_all(self, added: Iterable[Sequence[Any]]) -> None:
        """Add what `added` gave."""
        for name, number in added:
            self.add(name, number)

    def add(self, name: str, number: int) -> None:
        """Let `number` be found by `name`."""
        self._added.append((name, number))
        self._matcher.add(name, number)
        short = _QUALIFIER.sub("", name)
        if short != name:
            self._matcher.add(short, number)

    def __len__(self) -> int:
        return self._matcher.size()

    def find(self, text: str) -> Iterator[tuple[str, list[int]]]:
        """Each name that occurs, folded, with its numbers, in the order of the text."""
        return ((name, numbers) for name, numbers, _, _ in self._matcher.find(text))

    def places(self, text: str) -> list[tuple[str, list[int], int, int]]:
        """The same with where each stands in the NFKC form of the text, in characters."""
        return self._matcher.find(text)

    def memory_usage(self) -> int:
        """Bytes."""
        return self._matcher.memory_bytes() + _ADDED_BYTES * len(self._added)


class EntityNames(NameIndex):
    """Names of entities: each leads to the entity whose own it is, also if that was merged."""

    def __init__(self) -> None:
        super().__init__()
        self._entities: set[int] = set()

    def add(self, name: str, number: int) -> None:
        """Let the entity `number` be found by `name`."""
        self._entities.add(number)
        super().add(name, number)

    def note(self, names: list[str], directory: EntityDirectory) -> None:
        """Add the names of entities that have none here yet."""
        for name, number in zip(names, directory.recognise(names).tolist(), strict=True):
            if number >= 0 and number not in self._entities:
                self.add(name, number)

    @property
    def n_entities(self) -> int:
        """How many entities can be found."""
        return len(self._entities)

    def memory_usage(self) -> int:
        """Bytes."""
        return super().memory_usage() + sys.getsizeof(self._entities)
