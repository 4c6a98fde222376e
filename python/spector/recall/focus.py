"""Hyperfocus: for a while only memories of some tags count (SCO-14)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from spector import arguments
from spector.store.values import check_tags

__all__ = ["Focus", "Hyperfocus"]

_MINUTE: Final = 60_000
_LONGEST: Final = 60 * 24 * 365.0  # minutes


class Focus(NamedTuple):
    """What has the focus.

    Attributes
    ----------
    tags : tuple of str
        A memory needs all of them (SCO-2).
    boost : float
        By which its score is multiplied.
    until : int
        When it ends, in milliseconds since 1970 UTC.
    """

    tags: tuple[str, ...]
    boost: float
    until: int


class Hyperfocus:
    """The focus of one open memory; it is not stored, and ends by itself. Any thread may use it.

    While it is active every recall finds only memories that have all of its tags; they do not fade
    (SCO-12), and their cognitive scores are multiplied by the boost.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._focus: Focus | None = None

    def activate(self, tags: Iterable[str], *, minutes: float = 30, boost: float = 1.5) -> None:
        """Focus on memories with all of these tags, instead of what had the focus before.

        Parameters
        ----------
        tags : iterable of str
            At least one.
        minutes : float
            How long, unless it is extended.
        boost : float
            In [1, 10].
        """
        folded, _ = check_tags("tags", tags)
        if not folded:
            raise ValueError("tags must hold at least one tag")
        length = _milliseconds(minutes)
        strength = arguments.real("boost", boost, 1, 10)
        self._focus = Focus(folded, strength, self._clock() + length)

    def extend(self, minutes: float = 30) -> int:
        """Let an active focus last longer; returns `remaining_ms`."""
        length = _milliseconds(minutes)
        focus = self.current()
        if focus is not None:
            self._focus = focus._replace(until=focus.until + length)
        return self.remaining_ms

    def deactivate(self) -> None:
        """End it."""
        self._focus = None

    def current(self) -> Focus | None:
        """What has the focus now."""
        focus = self._focus
        return None if focus is None or self._clock() >= focus.until else focus

    @property
    def is_active(self) -> bool:
        """Whether something has the focus."""
        return self.current() is not None

    @property
    def remaining_ms(self) -> int:
        """Milliseconds until it ends; 0 if it is not active."""
        focus = self.current()
        return 0 if focus is None else max(0, focus.until - self._clock())


def _milliseconds(minutes: float) -> int:
    return int(arguments.real("minutes", minutes, 0.001, _LONGEST) * _MINUTE)
