"""What an open memory keeps of its recalls: local to it, and never stored (AM-15)."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .recall import Answer

_SESSIONS: Final = 1024
_RECALLS: Final = 4096
_NONE: Final[Mapping[int, int]] = {}


class Sessions:
    """How often each session was given a memory (HAB-1), which reminders were delivered, and which
    memories of one recall helped (HEB-5). Any thread may use it.

    Parameters
    ----------
    strengthen : bool
        Keep the last of these.
    """

    def __init__(self, strengthen: bool = False) -> None:
        self.implicit = os.urandom(8).hex()
        self.reminded: frozenset[int] = frozenset()
        self._lock = threading.Lock()  # held to change `reminded` and `_returned`
        self._strengthen = strengthen
        self._returned: dict[str, dict[int, int]] = {}
        self._recalls: dict[int, tuple[int, ...]] = {}  # by number: what it returned
        self._next = 0
        self._helped: dict[int, set[int]] = {}  # by number of the recall

    def returned(self, session: str) -> Mapping[int, int]:
        """How often each memory was returned in a session."""
        return self._returned.get(session, _NONE) if session else _NONE

    def claim(self, reminders: Sequence[int]) -> frozenset[int]:
        """Those of these reminders that nobody else delivers."""
        with self._lock:
            own = frozenset(reminders) - self.reminded
            self.reminded |= own
            return own

    def note(self, session: str, answer: Answer) -> None:
        """A recall that counts gave this answer."""
        if session:
            with self._lock:
                if session not in self._returned and len(self._returned) >= _SESSIONS:
                    del self._returned[next(iter(self._returned))]
                counts = self._returned.setdefault(session, {})
                for slot in answer.slots:
                    counts[slot] = counts.get(slot, 0) + 1
        if self._strengthen and answer.slots:
            self._recalls[self._next] = answer.slots
            self._helped[self._next] = set()
            self._next += 1
            if len(self._recalls) > _RECALLS:
                oldest = next(iter(self._recalls))
                self._recalls.pop(oldest, None)
                self._helped.pop(oldest, None)

    def clear(self, session: str) -> None:
        """The session ended: it is used to nothing."""
        with self._lock:
            self._returned.pop(session, None)

    def partners(self, slot: int) -> list[int]:
        """The memories that helped beside this one in the last recall that returned it."""
        number = self._last(slot)
        return [] if number is None else sorted(self._helped[number] - {slot})

    def helped(self, slot: int) -> None:
        """This memory helped."""
        number = self._last(slot)
        if number is not None:
            self._helped[number].add(slot)

    def _last(self, slot: int) -> int | None:
        for number in reversed(tuple(self._recalls)):
            if slot in self._recalls[number]:
                return number
        return None
