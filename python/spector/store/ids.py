"""Ids for memories that come without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

# Crockford base-32: no I, L, O or U; its order is the order of the values.
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_RANDOM_BITS: Final = 20
_LAST: Final = (1 << 65) - 1


class IdMaker:
    """Makes 13-character ids that sort by time: 45 bits of milliseconds, 20 bits of chance.

    Ids of one maker always ascend, also within a millisecond and when the clock steps back.
    Two makers can meet on an id, so the journal checks each one. Not for use by two threads at
    once; the journal calls it inside a transaction.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._last = -1

    def next(self, now: int) -> str:
        """An id for the time `now` (ms), greater than every id given out before."""
        value = max(now, 0) << _RANDOM_BITS
        if value >> _RANDOM_BITS > self._last >> _RANDOM_BITS:
            value += self._rng.getrandbits(_RANDOM_BITS)
        else:
            value = self._last + 1
        self._last = value = min(value, _LAST)
        return (
            _ALPHABET[value >> 60]
            + _PAIRS[value >> 50 & 1023]
            + _PAIRS[value >> 40 & 1023]
            + _PAIRS[value >> 30 & 1023]
            + _PAIRS[value >> 20 & 1023]
            + _PAIRS[value >> 10 & 1023]
            + _PAIRS[value & 1023]
        )
