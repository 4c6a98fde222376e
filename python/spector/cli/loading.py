"""Storing many items so that a bad one costs only itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spector.cli.readers import Problem, Record
from spector.store.values import check_draft

if TYPE_CHECKING:
    from spector import SpectorMemory

__all__ = ["Loaded", "load"]

#: One transaction holds at most this many items, and closes early when their texts get large.
_BATCH_ITEMS = 1000
_BATCH_CHARACTERS = 8_000_000


@dataclass(slots=True)
class Loaded:
    """How far a load has come."""

    stored: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Memories stored per second."""
        return self.stored / self.seconds if self.seconds else 0.0


def load(
    memory: SpectorMemory,
    records: Iterable[Record],
    report: Callable[[Problem], None],
    progress: Callable[[Loaded], None],
    loaded: Loaded,
) -> None:
    """Remember all records, a batch per transaction.

    Parameters
    ----------
    memory : SpectorMemory
    records : iterable of (item, place)
    report : callable
        Called with each item that the memory refused.
    progress : callable
        Called with `loaded` after every batch.
    loaded : Loaded
        Counts what is stored; true also when the load is interrupted.
    """
    start = time.perf_counter()
    batch: list[Record] = []
    characters = 0

    def flush() -> None:
        loaded.stored += _store(memory, batch, report)
        loaded.seconds = time.perf_counter() - start
        batch.clear()
        progress(loaded)

    for record in records:
        batch.append(record)
        characters += len(record[0]["text"])
        if len(batch) >= _BATCH_ITEMS or characters >= _BATCH_CHARACTERS:
            flush()
            characters = 0
    flush()


def _store(memory: SpectorMemory, batch: list[Record], report: Callable[[Problem], None]) -> int:
    if not batch:
        return 0
    try:
        memory.remember_many([item for item, _ in batch], batch_size=len(batch))
        return len(batch)
    except (TypeError, ValueError):
        sound = [record for record in batch if _is_sound(record, report)]
        if len(sound) == len(batch):  # it was not about one of the items
            raise
    return _store(memory, sound, report)


def _is_sound(record: Record, report: Callable[[Problem], None]) -> bool:
    item, place = record
    try:
        check_draft(item, now=0)
    except (TypeError, ValueError) as error:
        report(Problem(place, str(error)))
        return False
    return True
