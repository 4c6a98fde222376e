"""The order in which each session's memories came (TMP-1 to TMP-5)."""

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spector import _core, arguments
from spector.graph.export import Exportable

__all__ = ["ChainRecords", "TemporalChain"]

_U32 = 2**32 - 1
_MAX_HOPS = 2**63 - 1
_MAX_SLOTS = 2**31  # TMP-1: prev and next are i32


@dataclass(frozen=True, slots=True, eq=False)
class ChainRecords:
    """The records of all slots as arrays of shape (slots,) (TMP-1).

    Attributes
    ----------
    prev, next : ndarray of int32
        Slots; -1 is none.
    session : ndarray of uint32
    time : ndarray of uint32
        Seconds since 1970; 0 is not known.
    """

    prev: NDArray[np.int32]
    next: NDArray[np.int32]
    session: NDArray[np.uint32]
    time: NDArray[np.uint32]


class TemporalChain(Exportable):
    """Memories in the order in which their session told them, one chain for each session.

    Parameters
    ----------
    slots : int
        How many memory slots there are at first, in [0, 2**31]; `resize` makes it more.

    Examples
    --------
    >>> chain = TemporalChain(4)
    >>> chain.link([1, 2, 3], [0, 1, 2], session=7)
    >>> chain.follow_forward(0, 2)
    array([1, 2], dtype=uint32)
    >>> chain.follow_backward(3, 10)
    array([2, 1, 0], dtype=uint32)
    >>> chain.remove(1)
    >>> chain.follow_forward(0, 2)
    array([2, 3], dtype=uint32)
    """

    __slots__ = ("_core",)

    def __init__(self, slots: int = 0) -> None:
        self._core = _core.TemporalChain()
        if slots != 0:
            self._core.resize(arguments.whole("slots", slots, 0, _MAX_SLOTS))

    def resize(self, n: int) -> None:
        """There are `n` slots, in [0, 2**31]; fewer than there are changes nothing."""
        self._core.resize(arguments.whole("n", n, 0, _MAX_SLOTS))

    def link(
        self, current: ArrayLike, prev: ArrayLike, session: ArrayLike, time: ArrayLike = 0
    ) -> None:
        """Put `current` directly after `prev` in the chain of their session (TMP-2).

        A slot that is linked already is taken out of its place first, and its neighbours are
        joined. What came after `prev` comes after `current`. A `prev` that was never linked
        belongs to session 0 and gets the session given here. Arrays are links one after the
        other, all of them or, if one is refused, none; a single number stands for all.

        Parameters
        ----------
        current, prev : int or array_like of int
            Two slots.
        session : int or array_like of int
            A u32.
        time : int or array_like of int
            When `current` was told, in seconds since 1970, a u32. 0 is not known.

        Raises
        ------
        ValueError
            `current` is `prev`, or `prev` is in another session.
        IndexError
            There is no such slot.
        """
        if type(current) is type(prev) is type(session) is type(time) is int:  # one, and quickly
            self._core.link_one(
                arguments.whole("current", current, 0, arguments.MAX_SLOT),
                arguments.whole("prev", prev, 0, arguments.MAX_SLOT),
                arguments.whole("session", session, 0, _U32),
                arguments.whole("time", time, 0, _U32),
            )
            return
        currents = arguments.slots("current", arguments.several(current))
        n = len(currents)
        self._core.link(
            currents,
            arguments.slots("prev", arguments.several(prev, n)),
            arguments.integers("session", arguments.several(session, n), np.uint32),
            arguments.integers("time", arguments.several(time, n), np.uint32),
        )

    def follow_forward(self, start: int, max_hops: int) -> NDArray[np.uint32]:
        """Up to `max_hops` slots that came after `start`, nearest first (TMP-4).

        Parameters
        ----------
        start : int
            A slot; not part of the answer.
        max_hops : int
            0 or more.

        Returns
        -------
        ndarray of uint32
        """
        return self._follow(start, False, max_hops)

    def follow_backward(self, start: int, max_hops: int) -> NDArray[np.uint32]:
        """Up to `max_hops` slots that came before `start`, nearest first (TMP-4)."""
        return self._follow(start, True, max_hops)

    def _follow(self, start: int, backward: bool, max_hops: int) -> NDArray[np.uint32]:
        return self._core.follow(
            arguments.whole("start", start, 0, arguments.MAX_SLOT),
            backward,
            arguments.whole("max_hops", max_hops, 0, _MAX_HOPS),
        )

    def followers(
        self, starts: ArrayLike, max_hops: int, backward: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """`follow_forward`, or `follow_backward`, from many slots at once.

        Returns
        -------
        indptr : ndarray of int64, shape (len(starts) + 1,)
        slots : ndarray of uint32, shape (indptr[-1],)
            From ``starts[i]`` lead ``slots[indptr[i]:indptr[i + 1]]``.
        """
        return self._core.followers(
            arguments.slots("starts", arguments.several(starts)),
            bool(backward),
            arguments.whole("max_hops", max_hops, 0, _MAX_HOPS),
        )

    def prev(self, slot: int) -> int:
        """The slot before this one, or -1."""
        return self._core.record(arguments.whole("slot", slot, 0, arguments.MAX_SLOT))[0]

    def next(self, slot: int) -> int:
        """The slot after this one, or -1."""
        return self._core.record(arguments.whole("slot", slot, 0, arguments.MAX_SLOT))[1]

    def session(self, slot: int) -> int:
        """The session that the slot was linked in; 0 if it never was."""
        return self._core.record(arguments.whole("slot", slot, 0, arguments.MAX_SLOT))[2]

    def time(self, slot: int) -> int:
        """When it was told, in seconds since 1970; 0 is not known."""
        return self._core.record(arguments.whole("slot", slot, 0, arguments.MAX_SLOT))[3]

    def records(self) -> ChainRecords:
        return ChainRecords(*self._core.records())

    @property
    def link_count(self) -> int:
        """How many slots have one before them."""
        return self._core.link_count()

    def remove(self, slot: ArrayLike) -> None:
        """Forget slots: they lose place, session and time, and their neighbours are joined."""
        self._core.remove(arguments.slots("slot", arguments.several(slot)))

    def prune(self, before_time: int, low: ArrayLike) -> int:
        """Take old unimportant memories out of their chains; their neighbours are joined (TMP-5).

        They keep session and time. One whose time is not known stays.

        Parameters
        ----------
        before_time : int
            In seconds since 1970, a u32: what was told earlier goes.
        low : array_like of bool, shape (slots,), or of int
            Which slots are of low importance: a mask, or the slots.

        Returns
        -------
        int
            How many were taken out.
        """
        chosen = np.asarray(low)
        if chosen.dtype == np.bool_:
            if chosen.shape != (len(self),):
                raise ValueError(
                    f"low must be one bool for each of the {len(self)} slots, "
                    f"not of shape {chosen.shape}"
                )
            chosen = np.flatnonzero(chosen)
        return self._core.prune(
            arguments.whole("before_time", before_time, 0, _U32),
            arguments.slots("low", arguments.several(chosen)),
        )

    def memory_usage(self) -> dict[str, int]:
        """Bytes by part (BUD-6): ``records``, 16 a slot and a little for their pages.

        Slots that were never linked have none.
        """
        return {"records": self._core.memory_bytes()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a TPCH file, which then is there entirely or not at all.

        Raises
        ------
        StorageError
            The file cannot be written (an OSError with its errno); the old one is as it was.
        """
        self._core.save(os.fsencode(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "TemporalChain":
        """Read what `save` wrote.

        Raises
        ------
        CorruptionError
            The file is damaged, or not one of `save`.
        VersionError
            It is of a newer release.
        StorageError
            It cannot be read (an OSError with its errno).
        """
        chain = cls()
        chain._core.load(os.fsencode(path))
        return chain

    def __len__(self) -> int:
        return self._core.size()

    def __repr__(self) -> str:
        return f"TemporalChain(slots={len(self)}, links={self.link_count})"
