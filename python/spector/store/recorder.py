"""Recalls that count, on their way into the journal (AM-15).

A recall takes no lock that a writer can hold and commits nothing: it leaves a record here, and a
thread of its own commits what has gathered, at most once a second. What the last second left is
lost if the process dies.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from typing import Final

from spector.errors import SpectorError

from .learning import RecallRecord
from .space import Space

_SECONDS: Final = 1.0
_WAITING: Final = 10_000  # records; the oldest leave first

_log = logging.getLogger("spector")

#: Held while a thread of ours writes: a fork waits, so that the child finds no connection in use.
writing = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=writing.acquire,
        after_in_parent=writing.release,
        after_in_child=writing.release,
    )


class Recorder:
    """See the top of this file. Any thread may call it."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._records: deque[RecallRecord] = deque(maxlen=_WAITING)
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self.dropped = 0
        self.failures = 0

    def add(self, record: RecallRecord) -> None:
        """Leave a record; returns at once."""
        if self._closed or self._space.journal.read_only or self._space.journal.forked:
            return
        if len(self._records) == _WAITING:
            self.dropped += 1
        self._records.append(record)
        if self._thread is None:
            with self._start_lock:
                if self._thread is None and not self._closed:
                    self._thread = threading.Thread(
                        target=self._run, name="spector-recorder", daemon=True
                    )
                    self._thread.start()
        if not self._wake.is_set():  # without its lock where one follows the other
            self._wake.set()

    def take(self) -> list[RecallRecord]:
        """All that waits, which the caller commits."""
        taken = []
        while True:
            try:
                taken.append(self._records.popleft())
            except IndexError:
                return taken

    def give_back(self, records: list[RecallRecord]) -> None:
        """What could not be committed waits on."""
        self._records.extendleft(reversed(records))

    def flush(self, *, last: bool = False) -> None:
        """Commit what waits; `last` as for `Space.write`."""
        records = self.take()
        if not records:
            return
        try:
            self._space.write(lambda transaction: transaction.recalled(records), last=last)
        except BaseException:
            self.give_back(records)
            raise

    def _run(self) -> None:
        pause = threading.Event()
        while not self._closed:
            self._wake.wait()
            self._wake.clear()
            if self._closed:
                return
            pause.wait(_SECONDS)
            try:
                with writing:
                    self.flush()
            except SpectorError as error:  # counted, and tried again with the next
                self.failures += 1
                _log.warning("recalls could not be recorded: %s", error)
            except Exception:
                self.failures += 1
                _log.exception("recalls could not be recorded")

    def close(self) -> None:
        """Commit what waits and end the thread; may be called again."""
        if self._closed or self._space.journal.forked:
            self._closed = True
            return
        self._closed = True
        self._wake.set()
        try:
            self.flush(last=True)
        except SpectorError as error:
            self.failures += 1
            _log.warning("recalls could not be recorded: %s", error)
