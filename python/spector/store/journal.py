"""journal.db: the only source of truth of a space.

One SQLite file in WAL mode. Every change is one transaction that writes the rows, the events that
tell other replicas of it, and the totals row with the count and checksum sum of each table. All
SQL of the project is in this file and in `filters.py`, and `translated` is the one place where
errors of SQLite and of the operating system become ours.

A space that this process may not write to is open for reading only. SQLite needs files beside a
journal in WAL mode and cannot make them there, so it is told that the file does not change
(`immutable`), and each call looks whether that is still true.

Threads: a `Journal` may be used by any number of threads. Readers each borrow a connection of
their own; there is one connection for writing, and the caller sees to it that one thread at a time
uses it. An ephemeral journal has a single connection, which a lock passes from one to the next.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import json
import os
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from spector.errors import (
    CapacityError,
    ClosedError,
    CorruptionError,
    DuplicateMemoryError,
    LockedError,
    SpectorError,
    StorageError,
    UnknownMemoryError,
    VersionError,
)

from .filters import Filter
from .ids import IdMaker
from .learning import RecallRecord
from .model import (
    EXTRACT,
    MEMORY_COLUMNS,
    REMINDER,
    Event,
    EventType,
    Memory,
    MemoryRow,
    Stored,
    VectorRow,
    add_crc,
    checkpoint_crc,
    event_crc,
    event_holds,
    memory_crc,
    meta_crc,
    row_problem,
    session_payload,
    to_memory,
    vector_crc,
    vector_holds,
)
from .values import Draft, Vector, show

FILE_NAME: Final = "journal.db"
LOCK_NAME: Final = "lock"
APPLICATION_ID: Final = 0x53504543  # "SPEC"
SCHEMA_VERSION: Final = 4
MAX_SLOT: Final = 2**32 - 2
TABLES: Final = ("memories", "vectors", "events", "meta", "checkpoint")

# memory_tags has no foreign key: SQLite would then look for children by slot, which is not the
# first column of its key. Its rows are compared with the memories on open instead.
SCHEMA: Final = """
CREATE TABLE meta(
  key TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE totals(
  name TEXT PRIMARY KEY, count INTEGER NOT NULL, crc_sum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE memories(
  slot INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL,
  context TEXT, type TEXT NOT NULL, source TEXT NOT NULL, session TEXT, author TEXT,
  timestamp INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL,
  tags TEXT NOT NULL, metadata TEXT NOT NULL, about TEXT NOT NULL, importance REAL NOT NULL,
  surprise REAL NOT NULL, valence INTEGER NOT NULL, arousal INTEGER NOT NULL,
  flags INTEGER NOT NULL, entities TEXT NOT NULL, recalls INTEGER NOT NULL,
  strength REAL NOT NULL, passive INTEGER NOT NULL, last_passive INTEGER NOT NULL,
  suppressed TEXT, crc INTEGER NOT NULL
) STRICT;
CREATE TABLE vectors(
  slot INTEGER NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL, content INTEGER NOT NULL,
  data BLOB NOT NULL, crc INTEGER NOT NULL, UNIQUE(slot, kind)
) STRICT;
CREATE INDEX vectors_by_content ON vectors(content, kind);
CREATE INDEX memories_by_time ON memories(timestamp);
CREATE INDEX memories_by_type ON memories(type, timestamp);
CREATE INDEX memories_by_author ON memories(author, timestamp) WHERE author IS NOT NULL;
CREATE TABLE memory_tags(
  tag TEXT NOT NULL, slot INTEGER NOT NULL, PRIMARY KEY(tag, slot)
) STRICT, WITHOUT ROWID;
CREATE TABLE events(
  seq INTEGER PRIMARY KEY, type INTEGER NOT NULL, at INTEGER NOT NULL, slot INTEGER NOT NULL,
  payload TEXT, crc INTEGER NOT NULL
) STRICT;
CREATE TABLE checkpoint(
  part TEXT NOT NULL, place INTEGER NOT NULL, crc INTEGER NOT NULL, data BLOB NOT NULL,
  UNIQUE(part, place)
) STRICT;
"""

_SCHEMA_QUERY: Final = "SELECT type, name, sql FROM sqlite_schema"
_COLUMNS: Final = ", ".join(MEMORY_COLUMNS)
_INSERT: Final = f"INSERT INTO memories({_COLUMNS}) VALUES({','.join('?' * len(MEMORY_COLUMNS))})"
_UPDATE: Final = (
    f"UPDATE memories SET ({', '.join(MEMORY_COLUMNS[1:])})"
    f" = ({','.join('?' * (len(MEMORY_COLUMNS) - 1))}) WHERE slot = ?"
)
_VECTOR_COLUMNS: Final = "slot, kind, model, content, data, crc"
_INSERT_VECTOR: Final = f"INSERT INTO vectors({_VECTOR_COLUMNS}) VALUES(?, ?, ?, ?, ?, ?)"
_INSERT_TAG: Final = "INSERT INTO memory_tags(tag, slot) VALUES(?, ?)"
_DELETE_TAG: Final = "DELETE FROM memory_tags WHERE tag = ? AND slot = ?"
_INSERT_EVENT: Final = "INSERT INTO events(seq, type, at, slot, payload, crc) VALUES(?,?,?,?,?,?)"
_IN_LIMIT: Final = 500  # parameters of one IN list
_CHECKPOINT_BYTES: Final = 1 << 20  # of one row
_EVENT_BYTES: Final = 24  # of a row of `events` beside its payload, about
_AT_ONCE: Final = 10_000  # events, for what reads all of them
#: The setting that holds what `Pruned` says.
PRUNED: Final = "pruned"
#: The setting that holds what `Told` says.
TOLD: Final = "told"
#: How the names of its parts in the table `checkpoint` begin.
_TOLD_PARTS: Final = "told/"
_KEPT_ROWS: Final = 4096  # verified rows kept for the next recall, of texts of at most
_KEPT_CHARACTERS: Final = 4096
_KEPT_MATCHES: Final = 32  # answers to filters, of at most so many slots
_KEPT_SLOTS: Final = 100_000
_IDLE_READERS: Final = 8  # connections kept open for the next recall
CLOSE_TIMEOUT: Final = 5.0  # seconds
#: The source of what stands for others (RFL-2).
MADE_BY_REFLECTION: Final = "consolidated"
_PASSIVE_PAUSE: Final = 300_000  # milliseconds in which a memory is returned once (SCO-10)
_HEADER_BYTES: Final = 100
# A commit writes each page that it touches whole, and one memory touches nine.
_PAGE_BYTES: Final = 2048
_IMMUTABLE: Final = "immutable=1"
_ORPHAN: Final = ".orphan-"
_RESTORE: Final = "restore it from a copy"
#: How errors about damage end; `check` leaves it out, as it is what lists all that is wrong.
SEE_DOCTOR: Final = " (`spector doctor` lists all that is wrong)"
_DAMAGED: Final = f"{_RESTORE}{SEE_DOCTOR}"


class SpectorWarning(UserWarning):
    """Something about a space that nobody asked for but should know."""


class FileIdentity(NamedTuple):
    """Which file a path means."""

    device: int
    inode: int


class Known(NamedTuple):
    """What an update needs of a memory that is stored; the last five stay as they are."""

    slot: int
    created: int
    crc: int
    tags: str
    recalls: int
    strength: float
    passive: int
    last_passive: int
    suppressed: str | None


_NOTHING_LEARNED: Final[tuple[int, float, int, int, str | None]] = (
    0,
    1.0,
    0,
    0,
    None,
)  # of a new memory


class Total(NamedTuple):
    """Count and checksum sum of one table."""

    rows: int
    crc_sum: int


class Told(NamedTuple):
    """What a reflection made of what memories say of entities is in the table `checkpoint`, for it
    does not follow from the latest rows.

    Attributes
    ----------
    event : int
        The reflection.
    until : int
        The event whose state it was made of, or a later one; what memories say that were stored
        afterwards comes on top of it.
    """

    event: int = 0
    until: int = 0


class Pruned(NamedTuple):
    """Which events were taken out, because a replay does not need them any more (PER-9).

    Attributes
    ----------
    until : int
        Of the events up to this one only some are left; what the others taught is in the table
        `checkpoint`.
    kept, kept_crc : int
        How many are left, and the sum of their checksums.
    ever_crc : int
        The sum of the checksums of all that there were.
    first : int or None
        When the first of them happened.
    extra : int
        How many more were left than there were memories.
    known : dict
        The sum of the checksums of all events up to that of each snapshot there was.
    """

    until: int = 0
    kept: int = 0
    kept_crc: int = 0
    ever_crc: int = 0
    first: int | None = None
    extra: int = 0
    known: Mapping[str, int] = {}


class Tail(NamedTuple):
    """What a transaction has to know of the end of the journal."""

    newest: int
    highest_slot: int
    totals: dict[str, Total]


# --- errors -------------------------------------------------------------------------------------

_BUSY: Final = (5, 6)
_READONLY: Final = 8
_IO_ERROR: Final = 10
_CORRUPT: Final = (11, 26)
_FULL: Final = 13
_CANNOT_OPEN: Final = 14
_TOO_BIG: Final = 18
# Python 3.10 gives the message only.
_CODES_BY_MESSAGE: Final = (
    ("locked", 5),
    ("readonly", 8),
    ("disk I/O error", 10),
    ("malformed", 11),
    ("is full", 13),
    ("unable to open", 14),
    ("too big", 18),
    ("not a database", 26),
)
_ERRNO_BY_CODE: Final = {
    _IO_ERROR: errno.EIO,
    _FULL: errno.ENOSPC,
    _CANNOT_OPEN: errno.EIO,
}


def _sqlite_code(error: sqlite3.Error) -> int:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF
    message = str(error)
    return next((code for text, code in _CODES_BY_MESSAGE if text in message), 1)


def _translate(error: Exception, where: str, waited: float) -> Exception:
    if isinstance(error, UnicodeDecodeError):  # a text, or SQLite's message about one
        return CorruptionError(f"{where} is damaged ({error}); {_DAMAGED}")
    if isinstance(error, OSError):
        return StorageError(error.errno or errno.EIO, f"{where}: {error.strerror or error}")
    assert isinstance(error, sqlite3.Error)
    code = _sqlite_code(error)
    if code in _BUSY:
        return LockedError(
            f"{where} has been locked by another process for the {waited:.1f} s that this call"
            " waited (busy_timeout); nothing was changed and retrying is safe"
        )
    if code == _READONLY:
        return StorageError(
            errno.EROFS, f"{where} may not be written any more ({error}); nothing was changed"
        )
    if code in _ERRNO_BY_CODE:
        return StorageError(
            _ERRNO_BY_CODE[code], f"{where}: {error}; the operation was undone as a whole"
        )
    if code == _TOO_BIG:
        return ValueError(f"{where}: a value is larger than SQLite can store ({error})")
    if isinstance(error, sqlite3.ProgrammingError):
        return SpectorError(f"{where}: {error}")
    return CorruptionError(f"{where} is damaged ({error}); {_DAMAGED}")


class translated:
    """Turn errors of SQLite and of the operating system into ours, naming the file."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._start = time.monotonic()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, SpectorError):
            return
        if isinstance(error, (sqlite3.Error, OSError, UnicodeDecodeError)):
            waited = time.monotonic() - self._start
            raise _translate(error, self._where, waited) from error


def damaged(where: str, problem: str) -> CorruptionError:
    """The error for a journal that holds something it never wrote."""
    return CorruptionError(f"{where} is damaged: {problem}; {_DAMAGED}")


# --- reading ------------------------------------------------------------------------------------


class Reader:
    """Questions to one consistent state of the journal: that of the read transaction it is in."""

    def __init__(self, connection: sqlite3.Connection, where: str) -> None:
        self._connection = connection
        self._where = where
        #: Whether a memory that was asked for by its slot was not there.
        self.missed = False
        #: Rows that were verified before and are those of this reader's state (see `Space.read`).
        self.kept: dict[int, MemoryRow] | None = None
        #: The slots that filters keep, likewise.
        self.kept_matches: dict[Filter, npt.NDArray[np.uint32]] | None = None
        #: What has to be done before a filter decides which memories are found: see `Space._audit`.
        self.audit: Callable[[Reader, Filter], object] | None = None

    def begin(self) -> None:
        """Fix the state that all later questions see."""
        self._connection.execute("BEGIN")  # the first question fixes the state

    def newest_event(self) -> int:
        """The number of the newest event, 0 if there is none."""
        newest: int | None = self._connection.execute("SELECT max(seq) FROM events").fetchone()[0]
        return newest or 0

    def told(self) -> Told:
        """The last reflection on entities."""
        return Told(*self.meta_value(TOLD, ()))

    def pruned(self) -> Pruned:
        """Which events were taken out."""
        return Pruned(*self.meta_value(PRUNED, ()))

    def events(self, after: int, limit: int, until: int = 0) -> list[Event]:
        """The next events in order, their checksums verified.

        Of those up to `until` some were taken out: `check_kept` says whether the others are there.
        """
        events = [
            Event(*row)
            for row in self._connection.execute(
                "SELECT seq, type, at, slot, payload, crc FROM events WHERE seq > ?"
                " ORDER BY seq LIMIT ?",
                (after, limit),
            )
        ]
        expected = max(after, until) + 1
        for event in events:
            number = event.seq if event.seq <= until else expected
            if event.seq != number or not event_holds(event):
                raise damaged(
                    self._where, f"event {number} is missing or does not match its checksum"
                )
            expected += number == expected
        return events

    def check_kept(self, pruned: Pruned) -> None:
        """Raise if one of the events that were left is gone."""
        count, crc_sum = self._connection.execute(
            "SELECT count(*), coalesce(sum(crc), 0) FROM events WHERE seq <= ?", (pruned.until,)
        ).fetchone()
        if (count, add_crc(0, crc_sum)) != (pruned.kept, pruned.kept_crc):
            raise damaged(self._where, f"one of the events up to {pruned.until} is missing")

    def checkpoint(self) -> dict[str, bytes]:
        """What the events that were taken out taught: see `Replica.checkpoint`."""
        parts = self._parts().items()
        return {part: data for part, data in parts if not part.startswith(_TOLD_PARTS)}

    def told_parts(self) -> dict[str, bytes]:
        """What the last reflection on entities made: see `Mentions.checkpoint`."""
        return {
            part.removeprefix(_TOLD_PARTS): data
            for part, data in self._parts().items()
            if part.startswith(_TOLD_PARTS)
        }

    def _parts(self) -> dict[str, bytes]:
        if self.checkpoint_total() != self.totals()["checkpoint"]:
            raise damaged(self._where, "a part of the checkpoint is missing")
        parts: dict[str, list[bytes]] = {}
        for part, place, crc, data in self._connection.execute(
            "SELECT part, place, crc, data FROM checkpoint ORDER BY part, place"
        ):
            if checkpoint_crc(part, place, data) != crc or len(parts.get(part, ())) != place:
                raise damaged(
                    self._where, f"part {show(part)} of the checkpoint does not match its checksum"
                )
            parts.setdefault(part, []).append(data)
        return {part: zlib.decompress(b"".join(rows)) for part, rows in parts.items()}

    def rows(self, slots: Sequence[int]) -> dict[int, MemoryRow]:
        """The memories in these slots (ascending), verified; an empty slot is left out."""
        found = self._known_rows(slots)
        if len(found) < len(slots):
            self.missed = True
        return found

    def _known_rows(self, slots: Sequence[int]) -> dict[int, MemoryRow]:
        found: dict[int, MemoryRow] = {}
        kept = self.kept
        if kept is not None:
            for slot in slots:
                if (known := kept.get(slot)) is not None:
                    found[slot] = known
            if len(found) == len(slots):
                return found
            read = self._read_rows([slot for slot in slots if slot not in found])
            if len(kept) + len(read) > _KEPT_ROWS:
                kept.clear()
            kept.update(
                (slot, row) for slot, row in read.items() if len(row[2]) <= _KEPT_CHARACTERS
            )
            return found | read
        return self._read_rows(slots)

    def _read_rows(self, slots: Sequence[int]) -> dict[int, MemoryRow]:
        found: dict[int, MemoryRow] = {}
        if len(slots) > 1 and slots[-1] - slots[0] < 2 * len(slots):  # nearly one run
            wanted = set(slots)
            cursor = self._connection.execute(
                f"SELECT {_COLUMNS} FROM memories WHERE slot BETWEEN ? AND ?",
                (slots[0], slots[-1]),
            )
            for row in cursor:
                if row[0] in wanted:
                    found[row[0]] = self._verified(row)
            return found
        for chunk in _chunks(slots):
            cursor = self._connection.execute(
                f"SELECT {_COLUMNS} FROM memories WHERE slot IN ({_marks(chunk)})", chunk
            )
            for row in cursor:
                found[row[0]] = self._verified(row)
        return found

    def vectors(self, slots: Sequence[int]) -> dict[int, list[VectorRow]]:
        """The vectors of the memories in these slots (ascending), verified."""
        found: dict[int, list[VectorRow]] = {}
        for chunk in _chunks(slots):
            cursor = self._connection.execute(
                f"SELECT {_VECTOR_COLUMNS} FROM vectors WHERE slot IN ({_marks(chunk)})"
                " ORDER BY slot, kind",
                chunk,
            )
            for row in cursor:
                vector = VectorRow(*row)
                if not vector_holds(vector):
                    raise damaged(
                        self._where,
                        f"the {vector.kind} vector in slot {vector.slot} does not match its"
                        " checksum",
                    )
                found.setdefault(vector.slot, []).append(vector)
        return found

    def encoded(self, kind: str, model: str, contents: Sequence[int]) -> dict[int, bytes]:
        """What the model made of equal texts before, by H64 of the text."""
        found: dict[int, bytes] = {}
        for chunk in _chunks(contents):
            cursor = self._connection.execute(
                f"SELECT {_VECTOR_COLUMNS} FROM vectors WHERE content IN ({_marks(chunk)})"
                " AND kind = ? AND model = ?",
                (*chunk, kind, model),
            )
            for row in cursor:
                vector = VectorRow(*row)
                if vector_holds(vector):
                    found[vector.content] = vector.data
        return found

    def events_crc(self, last: int) -> int | None:
        """The sum of the checksums of all events up to `last`, also of those that were taken out;
        None if that is not known. Those after it are read, the others follow from the totals."""
        pruned = self.pruned()
        if last < pruned.until:
            return pruned.known.get(str(last))
        total = self.totals()["events"]
        count, crc_sum = self._connection.execute(
            "SELECT count(*), coalesce(sum(crc), 0) FROM events WHERE seq > ?", (last,)
        ).fetchone()
        if total.rows - pruned.kept - count != last - pruned.until:
            return None
        return add_crc(pruned.ever_crc, total.crc_sum - pruned.kept_crc - crc_sum)

    def quick_problems(self) -> Iterator[str]:
        """Where counts and checksum sums of the tables differ from the totals; no row is read."""
        totals = self.totals()
        for name in TABLES:
            count, crc_sum = self._connection.execute(
                f"SELECT count(*), coalesce(sum(crc), 0) FROM {name}"
            ).fetchone()
            if Total(count, add_crc(0, crc_sum)) != totals[name]:
                yield f"the rows of {name} do not add up to the stored totals"

    def consolidated_from(self, memory_id: str) -> list[MemoryRow]:
        """The memories that a reflection made of this one and others (RFL-2)."""
        cursor = self._connection.execute(
            f"SELECT {_COLUMNS} FROM memories WHERE source = ? ORDER BY slot", (MADE_BY_REFLECTION,)
        )
        return [
            self._verified(row)
            for row in cursor
            if memory_id in json.loads(row[12]).get("sources", ())
        ]

    def feeble(self, importance: float, without: int) -> list[int]:
        """Episodic memories of less importance and with none of these flags."""
        cursor = self._connection.execute(
            "SELECT slot FROM memories WHERE type = 'episodic' AND importance < ?"
            " AND NOT flags & ? ORDER BY slot",
            (importance, without),
        )
        return [row[0] for row in cursor]

    def of_type(self, type: str) -> list[int]:
        """The memories of a type."""
        cursor = self._connection.execute(
            "SELECT slot FROM memories WHERE type = ? ORDER BY slot", (type,)
        )
        return [row[0] for row in cursor]

    def reinforcements(self) -> list[Event]:
        """The outcomes that were reported, in their order."""
        return self._of_type(EventType.REINFORCE)

    def _of_type(self, kind: EventType) -> list[Event]:
        cursor = self._connection.execute(
            "SELECT seq, type, at, slot, payload, crc FROM events WHERE type = ? ORDER BY seq",
            (kind.value,),
        )
        return [Event(*row) for row in cursor]

    def every_vector(self) -> Iterator[VectorRow]:
        """All vectors in order, not verified."""
        cursor = self._connection.execute(
            f"SELECT {_VECTOR_COLUMNS} FROM vectors ORDER BY slot, kind"
        )
        return (VectorRow(*row) for row in cursor)

    def vector_total(self) -> Total:
        """Count and checksum sum of the vectors as they are."""
        count, crc_sum = self._connection.execute(
            "SELECT count(*), coalesce(sum(crc), 0) FROM vectors"
        ).fetchone()
        return Total(count, add_crc(0, crc_sum))

    def slots(self) -> Iterator[tuple[int, int]]:
        """Slot and checksum of each memory, in the order of slots."""
        return self._connection.execute("SELECT slot, crc FROM memories ORDER BY slot")

    def every_row(self) -> Iterator[MemoryRow]:
        """All memories in slot order, not verified."""
        return self._connection.execute(f"SELECT {_COLUMNS} FROM memories ORDER BY slot")

    def every_event(self) -> Iterator[Event]:
        """All events in order, not verified."""
        cursor = self._connection.execute(
            "SELECT seq, type, at, slot, payload, crc FROM events ORDER BY seq"
        )
        return (Event(*row) for row in cursor)

    def every_tag(self) -> Iterator[tuple[str, int]]:
        """All rows of the tags table, in order."""
        return self._connection.execute("SELECT tag, slot FROM memory_tags ORDER BY tag, slot")

    def valences(self) -> dict[int, int]:
        """What filters see of the valence of each memory, not verified."""
        return dict(self._connection.execute("SELECT slot, valence FROM memories ORDER BY slot"))

    def find(self, memory_id: str) -> MemoryRow:
        """The memory of this id."""
        row: MemoryRow | None = self._connection.execute(
            f"SELECT {_COLUMNS} FROM memories WHERE id = ?", (memory_id,)
        ).fetchone()
        if row is None:
            raise UnknownMemoryError(f"no memory has the id {show(memory_id)}")
        return self._verified(row)

    def memory(self, memory_id: str) -> Memory:
        """The same in its public form."""
        return to_memory(self.find(memory_id))

    def has(self, memory_id: str) -> bool:
        """Whether there is a memory of this id."""
        return (
            self._connection.execute("SELECT 1 FROM memories WHERE id = ?", (memory_id,)).fetchone()
            is not None
        )

    def matching(self, wanted: Filter) -> npt.NDArray[np.uint32]:
        """The slots of the memories that meet the conditions, ascending."""
        matches = self.kept_matches
        if matches is not None and (known := matches.get(wanted)) is not None:
            return known
        if self.audit is not None:
            self.audit(self, wanted)
        asked = wanted
        if len(wanted.tags) > 1 and wanted.tag_match == "all":
            wanted = replace(wanted, tags=tuple(sorted(wanted.tags, key=self._uses)))
        cursor = self._connection.execute(*wanted.slots_query())
        found = np.sort(np.fromiter(itertools.chain.from_iterable(cursor), dtype=np.uint32))
        found.flags.writeable = False
        if matches is not None and len(found) <= _KEPT_SLOTS:
            if len(matches) >= _KEPT_MATCHES:
                matches.clear()
            matches[asked] = found
        return found

    def _uses(self, tag: str) -> int:
        uses: int = self._connection.execute(
            "SELECT count(*) FROM memory_tags WHERE tag = ?", (tag,)
        ).fetchone()[0]
        return uses

    def newest_first(self, wanted: Filter, limit: int, after: str | None) -> list[Memory]:
        """A page of memories by descending timestamp, after the memory `after`."""
        if self.audit is not None:
            self.audit(self, wanted)
        conditions, parameters = wanted.conditions()
        if after is not None:
            last = self.find(after)
            conditions.append("(timestamp, slot) < (?, ?)")
            parameters.extend((last[8], last[0]))
        cursor = self._connection.execute(
            f"SELECT {_COLUMNS} FROM memories WHERE {' AND '.join(conditions) or 'TRUE'}"
            " ORDER BY timestamp DESC, slot DESC LIMIT ?",
            (*parameters, min(limit, MAX_SLOT)),
        )
        return [to_memory(self._verified(row)) for row in cursor]

    def frequent_tags(self, limit: int) -> dict[str, int]:
        """Tags of at least two memories and how many have them, the most frequent first."""
        cursor = self._connection.execute(
            "SELECT tag, count(*) AS uses FROM memory_tags GROUP BY tag HAVING uses > 1"
            " ORDER BY uses DESC, tag LIMIT ?",
            (limit,),
        )
        return dict(cursor.fetchall())

    def without_vector(self, kind: str, model: str, after: int, limit: int) -> list[int]:
        """The next slots of memories that have no such vector of the model."""
        cursor = self._connection.execute(
            "SELECT slot FROM memories WHERE slot > ? AND NOT EXISTS (SELECT 1 FROM vectors"
            " WHERE vectors.slot = memories.slot AND kind = ? AND model = ?)"
            " ORDER BY slot LIMIT ?",
            (after, kind, model, limit),
        )
        return [row[0] for row in cursor]

    def marked(self, flag: int, after: int, limit: int) -> list[int]:
        """The next slots of memories that have a flag."""
        cursor = self._connection.execute(
            "SELECT slot FROM memories WHERE slot > ? AND flags & ? ORDER BY slot LIMIT ?",
            (after, flag, limit),
        )
        return [row[0] for row in cursor]

    def count_marked(self, flag: int) -> int:
        """How many memories have a flag."""
        row = self._connection.execute(
            "SELECT count(*) FROM memories WHERE flags & ?", (flag,)
        ).fetchone()
        return int(row[0])

    def count_lacking(self, models: Sequence[tuple[str, str]]) -> int:
        """How many memories lack a vector of one of these kinds and models."""
        lacks = " OR ".join(
            "NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.slot = memories.slot AND kind = ?"
            " AND model = ?)"
            for _ in models
        )
        row = self._connection.execute(
            f"SELECT count(*) FROM memories WHERE {lacks or 'FALSE'}",
            [value for model in models for value in model],
        ).fetchone()
        return int(row[0])

    def totals(self) -> dict[str, Total]:
        """What the totals table says about each table."""
        cursor = self._connection.execute("SELECT name, count, crc_sum FROM totals")
        totals = {name: Total(count, crc_sum) for name, count, crc_sum in cursor}
        if totals.keys() != set(TABLES):
            raise damaged(self._where, "the totals table is damaged")
        return totals

    def meta(self) -> dict[str, Any]:
        """The stored settings, verified."""
        settings: dict[str, Any] = {}
        for key, value, crc in self._connection.execute("SELECT key, value, crc FROM meta"):
            if meta_crc(key, value) != crc:
                raise damaged(self._where, f"the setting {show(key)} does not match its checksum")
            settings[key] = json.loads(value)
        if self.meta_total() != self.totals()["meta"]:
            raise damaged(self._where, "a setting is missing")
        return settings

    def setting(self, key: str) -> Any:
        """One stored setting, verified."""
        row = self._connection.execute(
            "SELECT value, crc FROM meta WHERE key = ?", (key,)
        ).fetchone()
        if row is None or meta_crc(key, row[0]) != row[1]:
            raise damaged(
                self._where, f"the setting {show(key)} is missing or does not match its checksum"
            )
        return json.loads(row[0])

    def meta_value(self, key: str, default: Any) -> Any:
        """The same, with a default for a setting that there need not be."""
        row = self._connection.execute("SELECT 1 FROM meta WHERE key = ?", (key,)).fetchone()
        return default if row is None else self.setting(key)

    def checkpoint_total(self) -> Total:
        """Count and checksum sum of the rows of the checkpoint as they are."""
        count, crc_sum = self._connection.execute(
            "SELECT count(*), coalesce(sum(crc), 0) FROM checkpoint"
        ).fetchone()
        return Total(count, add_crc(0, crc_sum))

    def meta_total(self) -> Total:
        """Count and checksum sum of the settings as they are."""
        crcs = [row[0] for row in self._connection.execute("SELECT crc FROM meta")]
        return Total(len(crcs), add_crc(0, sum(crcs)))

    def first_event_time(self) -> int | None:
        """When the oldest event happened."""
        pruned = self.pruned()
        if pruned.first is not None:
            return pruned.first
        row = self._connection.execute("SELECT at FROM events ORDER BY seq LIMIT 1").fetchone()
        return None if row is None else int(row[0])

    def last_event_time(self) -> int | None:
        """When the newest event happened."""
        row = self._connection.execute("SELECT at FROM events ORDER BY seq DESC LIMIT 1").fetchone()
        return None if row is None else int(row[0])

    def highest_slot(self) -> int:
        """The highest slot ever given out."""
        row = self._connection.execute(
            "SELECT seq FROM sqlite_sequence WHERE name = 'memories'"
        ).fetchone()
        return 0 if row is None else int(row[0])

    def _verified(self, row: MemoryRow) -> MemoryRow:
        problem = row_problem(row)
        if problem is not None:
            raise damaged(self._where, problem)
        return row

    def free_pages(self) -> int:
        """How many pages of the file hold nothing."""
        return int(self._connection.execute("PRAGMA freelist_count").fetchone()[0])

    def problems(self) -> Iterator[str]:
        """What is wrong with the file as a whole: SQLite's own check, schema, totals, tags."""
        for (message,) in self._connection.execute("PRAGMA integrity_check(100)"):
            if message != "ok":
                yield f"SQLite integrity check: {message}"
        yield from self._schema_problems()

    def require_schema(self) -> None:
        """Raise if tables or indexes are not those of this version."""
        for problem in self._schema_problems():
            raise damaged(self._where, problem)

    def _schema_problems(self) -> Iterator[str]:
        found = set(self._connection.execute(_SCHEMA_QUERY))
        expected = _expected_schema()
        for kind, name, _ in sorted(expected - found, key=str):
            yield f"{kind} {name} is missing or has another definition"
        for kind, name, _ in sorted(found - expected, key=str):
            if kind in ("trigger", "view"):
                yield f"{kind} {name} is not ours"


@functools.cache
def _expected_schema() -> frozenset[tuple[str, str, str | None]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(SCHEMA)
        return frozenset(fresh.execute(_SCHEMA_QUERY))


def _row(
    slot: int, name: str, draft: Draft, created: int, now: int, learned: tuple[Any, ...]
) -> MemoryRow:
    """A row of `memories`; `learned` are the columns from recalls on."""
    fields = (
        slot,
        name,
        draft.text,
        draft.context,
        draft.type,
        draft.source,
        draft.session,
        draft.author,
        draft.timestamp,
        created,
        now,
        draft.tags_json,
        draft.metadata_json,
        draft.about_json,
        draft.importance,
        draft.surprise,
        draft.valence,
        draft.arousal,
        draft.flags,
        draft.entities_json,
        *learned,
    )
    return cast(MemoryRow, (*fields, memory_crc(*fields)))


def _vector_rows(slot: int, vectors: Iterable[tuple[str, str, int, bytes]]) -> list[VectorRow]:
    return [VectorRow(slot, *vector, vector_crc(slot, *vector)) for vector in vectors]


_CheckpointRow = tuple[str, int, int, bytes]  # part, place, crc, data


def _checkpoint_rows(parts: Mapping[str, bytes]) -> list[_CheckpointRow]:
    return [
        (part, place, checkpoint_crc(part, place, data), data)
        for part, content in sorted(parts.items())
        for place, data in enumerate(_cut(zlib.compress(content, 1)))
    ]


def _cut(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), _CHECKPOINT_BYTES):
        yield data[start : start + _CHECKPOINT_BYTES]


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _IN_LIMIT):
        yield values[start : start + _IN_LIMIT]


# --- writing ------------------------------------------------------------------------------------


class Transaction(Reader):
    """One change in the making; `log`, `written` and `vectors_written` are what `apply` needs
    after the commit."""

    def __init__(
        self, connection: sqlite3.Connection, where: str, before: Tail | None = None
    ) -> None:
        super().__init__(connection, where)
        self.log: list[Event] = []
        self.written: dict[int, MemoryRow] = {}
        self.vectors_written: dict[int, list[VectorRow]] = {}
        self._deltas: dict[str, tuple[int, int]] = {}
        self._before = before
        self._highest_slot = 0
        self._next_seq = 0
        self.settings_changed = False

    @property
    def before(self) -> Tail:
        """The end of the journal before this transaction."""
        if self._before is None:
            self._before = Tail(super().newest_event(), super().highest_slot(), self.totals())
        return self._before

    def newest_event(self) -> int:
        """The number of the newest event before this transaction."""
        return self.before.newest

    def highest_slot(self) -> int:
        """The highest slot ever given out."""
        return max(self.before.highest_slot, self._highest_slot)

    def remember(
        self,
        drafts: Sequence[Draft],
        on_conflict: str,
        now: int,
        ids: IdMaker,
        first: int | None = None,
    ) -> list[str]:
        """Store a batch as if one by one; returns the id of each draft.

        `first` is the position of the first draft in what the caller was given, for messages.
        """
        if len(drafts) == 1 and (name := self._remember_new(drafts[0], now, ids)) is not None:
            return [name]
        names, known = self._name(drafts, now, ids)
        staged: dict[str, Draft] = {}
        for position, (name, draft) in enumerate(zip(names, drafts, strict=True)):
            if on_conflict != "update" and (name in known or name in staged):
                if on_conflict == "ignore":
                    continue
                place = "" if first is None else f"item {first + position}: "
                raise DuplicateMemoryError(
                    f"{place}a memory has the id {show(name)} already (on_conflict='error')"
                )
            staged[name] = draft
        inserts: list[MemoryRow] = []
        updates: list[tuple[Any, ...]] = []
        tags: list[tuple[str, int]] = []
        old_tags: list[tuple[str, int]] = []
        replaced: list[int] = []
        next_slot = self.highest_slot() + 1
        crc_delta = 0
        for name, draft in staged.items():
            old = known.get(name)
            if old is None:
                slot = next_slot
                next_slot += 1
                row = _row(slot, name, draft, now, now, _NOTHING_LEARNED)
                inserts.append(row)
            else:
                slot = old.slot
                row = _row(slot, name, draft, old.created, now, old[4:])
                replaced.append(slot)
                crc_delta -= old.crc
                old_tags += [(tag, slot) for tag in json.loads(old.tags)]
                updates.append((*row[1:], slot))
            crc_delta += row[-1]
            tags += [(tag, slot) for tag in draft.tags]
            self.written[slot] = row
            if draft.vectors:
                self.vectors_written[slot] = _vector_rows(slot, draft.vectors)
        self._check_capacity(next_slot - 1)
        vectors = [row for rows in self.vectors_written.values() for row in rows]
        self._drop_vectors(replaced)
        for statement, values in (
            (_DELETE_TAG, old_tags),
            (_UPDATE, updates),
            (_INSERT, inserts),
            (_INSERT_TAG, tags),
            (_INSERT_VECTOR, vectors),
        ):
            if values:
                self._connection.executemany(statement, values)
        self._count("memories", len(inserts), crc_delta)
        self._count("vectors", len(vectors), sum(vector.crc for vector in vectors))
        sessions = [session_payload(row[6]) for row in self.written.values()]
        self._log(EventType.REMEMBER, self.written, now, sessions)
        return names

    def _remember_new(self, draft: Draft, now: int, ids: IdMaker) -> str | None:
        """`remember` of one memory, unless its id is taken."""
        name = ids.next(now) if draft.id is None else draft.id
        slot = self.highest_slot() + 1
        row = _row(slot, name, draft, now, now, _NOTHING_LEARNED)
        try:  # to ask first would be one statement more
            self._connection.execute(_INSERT, row)
        except sqlite3.IntegrityError:
            return None
        self._check_capacity(slot)
        self._count("memories", 1, row[-1])
        for tag in draft.tags:
            self._connection.execute(_INSERT_TAG, (tag, slot))
        self.written[slot] = row
        if draft.vectors:
            vectors = self.vectors_written[slot] = _vector_rows(slot, draft.vectors)
            self._connection.executemany(_INSERT_VECTOR, vectors)
            self._count("vectors", len(vectors), sum(vector.crc for vector in vectors))
        self._log(EventType.REMEMBER, (slot,), now, (session_payload(draft.session),))
        return name

    def _check_capacity(self, slot: int) -> None:
        if slot > MAX_SLOT:
            raise CapacityError(
                f"{self._where}: a space holds at most {MAX_SLOT} memories over its whole life"
            )
        self._highest_slot = max(self._highest_slot, slot)

    def add_vectors(self, made: Mapping[int, Sequence[Vector]], now: int) -> int:
        """Store vectors of memories that have none of their kind; returns how many memories.

        The caller has looked, in this transaction, that the vectors are of the texts as they are.
        """
        slots = sorted(made)
        rows = self.rows(slots)
        before = self.vectors(slots)
        for slot in slots:
            there = before.get(slot, [])
            kinds = {vector.kind for vector in there}
            new = [
                VectorRow(slot, *vector, vector_crc(slot, *vector))
                for vector in made[slot]
                if vector.kind not in kinds
            ]
            if slot not in rows or not new:
                continue
            self._connection.executemany(_INSERT_VECTOR, new)
            self._count("vectors", len(new), sum(vector.crc for vector in new))
            self.written[slot] = rows[slot]
            self.vectors_written[slot] = [*there, *new]
        self._log(EventType.ENCODE, self.written, now)
        return len(self.written)

    def restore(self, items: Sequence[Stored], on_conflict: str) -> int:
        """Store memories with all their columns; returns how many. Of equal ids the last counts."""
        names = list(dict.fromkeys(item.id for item in items))
        known = self._known(names)
        if on_conflict == "error" and known:
            name = next(iter(known))
            raise DuplicateMemoryError(
                f"a memory has the id {show(name)} already (on_conflict='error')"
            )
        chosen = {
            item.id: item for item in items if on_conflict != "ignore" or item.id not in known
        }
        execute = self._connection.execute
        next_slot = self.highest_slot() + 1
        self._check_capacity(next_slot - 1 + sum(name not in known for name in chosen))
        for name, item in chosen.items():
            old = known.get(name)
            slot = next_slot if old is None else old.slot
            columns = item[:-1]
            row: MemoryRow = (slot, *columns, memory_crc(slot, *columns))
            if old is None:
                next_slot += 1
                execute(_INSERT, row)
                self._count("memories", 1, row[-1])
            else:
                pairs = [(tag, slot) for tag in json.loads(old.tags)]
                self._connection.executemany(_DELETE_TAG, pairs)
                self._drop_vectors([slot])
                execute(_UPDATE, (*row[1:], slot))
                self._count("memories", 0, row[-1] - old.crc)
            self._connection.executemany(
                _INSERT_TAG, [(tag, slot) for tag in json.loads(item.tags)]
            )
            vectors = _vector_rows(slot, item.vectors)
            self._connection.executemany(_INSERT_VECTOR, vectors)
            self._count("vectors", len(vectors), sum(vector.crc for vector in vectors))
            self.written[slot] = row
            if vectors:
                self.vectors_written[slot] = vectors
            self._log(EventType.REMEMBER, [slot], item.created, [session_payload(item.session)])
        return len(chosen)

    def marked_now(self, flag: int) -> list[int]:
        """Of what this transaction wrote so far the slots that have a flag."""
        return [slot for slot, row in self.written.items() if row[18] & flag]

    def set_entities(self, made: Mapping[int, tuple[MemoryRow, str]], now: int) -> int:
        """Write entities that were extracted from rows as they were (EXT-7); returns how many.

        A memory that was forgotten or changed since, or no longer waits for them, is left as it is.
        """
        slots = sorted(made)
        rows = self.rows(slots)
        for slot in slots:
            row = rows.get(slot)
            before, entities = made[slot]
            if row is None or row[1:4] != before[1:4] or not row[18] & EXTRACT:
                continue
            fields = (*row[1:18], row[18] & ~EXTRACT, entities, *row[20:-1])
            crc = memory_crc(slot, *fields)
            self._connection.execute(_UPDATE, (*fields, crc, slot))
            self._count("memories", 0, crc - row[-1])
            self.written[slot] = (slot, *fields, crc)
        self.vectors_written |= self.vectors(sorted(self.written))
        self._log(EventType.ENTITY, self.written, now)
        return len(self.written)

    def _drop_vectors(self, slots: Sequence[int]) -> None:
        for chunk in _chunks(slots):
            marks = _marks(chunk)
            count, crc_sum = self._connection.execute(
                f"SELECT count(*), total(crc) FROM vectors WHERE slot IN ({marks})", chunk
            ).fetchone()
            if count:
                self._connection.execute(f"DELETE FROM vectors WHERE slot IN ({marks})", chunk)
                self._count("vectors", -count, -int(crc_sum))

    def _name(
        self, drafts: Sequence[Draft], now: int, ids: IdMaker
    ) -> tuple[list[str], dict[str, Known]]:
        """Ids for all drafts, and of those that are stored what `_known` gives."""
        names = [ids.next(now) if draft.id is None else draft.id for draft in drafts]
        known = self._known(list(dict.fromkeys(names)))
        taken = {draft.id for draft in drafts}
        for position, draft in enumerate(drafts):
            while draft.id is None and (names[position] in known or names[position] in taken):
                # Made up by another handle at the same moment.
                names[position] = ids.next(now)
                known.update(self._known([names[position]]))
        return names, known

    def _known(self, names: Sequence[str]) -> dict[str, Known]:
        """Slot, created, crc, tags and what was learned of the memories with these ids."""
        known: dict[str, Known] = {}
        for chunk in _chunks(names):
            for name, *rest in self._connection.execute(
                "SELECT id, slot, created, crc, tags, recalls, strength, passive, last_passive,"
                f" suppressed FROM memories WHERE id IN ({_marks(chunk)})",
                chunk,
            ):
                known[name] = Known(*rest)
        return known

    def forget(self, memory_id: str, now: int) -> None:
        """Delete a memory; its slot stays out of use."""
        self.forget_row(self.find(memory_id), now)

    def forget_row(self, row: MemoryRow, now: int) -> None:
        """`forget` for a memory that was read in this transaction."""
        slot = row[0]
        execute = self._connection.executemany
        execute("DELETE FROM memories WHERE slot = ?", [(slot,)])
        execute(_DELETE_TAG, [(tag, slot) for tag in json.loads(row[11])])
        self._drop_vectors([slot])
        self._count("memories", -1, -row[-1])
        self._log(EventType.FORGET, [slot], now)

    def _rewrite(self, row: MemoryRow, **changes: Any) -> MemoryRow:
        """Store a memory with other values in some columns; text, tags and vectors stay."""
        values: list[Any] = list(self.written.get(row[0], row))
        old_crc = values[-1]
        for name, value in changes.items():
            values[MEMORY_COLUMNS.index(name)] = value
        values[-1] = memory_crc(*values[:-1])
        columns = [*changes, "crc"]
        self._connection.execute(
            f"UPDATE memories SET {', '.join(f'{name} = ?' for name in columns)} WHERE slot = ?",
            [*changes.values(), values[-1], row[0]],
        )
        self._count("memories", 0, values[-1] - old_crc)
        changed = cast(MemoryRow, tuple(values))
        self.written[row[0]] = changed
        return changed

    def reinforce(
        self, row: MemoryRow, valence: int, strength: float, payload: str, now: int
    ) -> None:
        """Store an outcome: `valence` as reported, `strength` as it is to be (PAD-7)."""
        self._rewrite(
            row,
            valence=round(0.7 * row[16] + 0.3 * valence),
            recalls=row[20] + 1,
            strength=strength,
        )
        self._log(EventType.REINFORCE, [row[0]], now, [payload])

    def recalled(self, records: Sequence[RecallRecord]) -> None:
        """Store that memories were returned, and count it where it counts (SCO-10)."""
        wanted = {slot for record in records for slot in (*record.slots, *record.lateral)}
        rows = self.rows(sorted(wanted))
        counted = {slot: (row[22], row[23]) for slot, row in rows.items()}
        for record in records:
            slots = tuple([slot for slot in record.slots if slot in rows])
            lateral = tuple([slot for slot in record.lateral if slot in rows])
            for slot in (*slots, *lateral):
                passive, last = counted[slot]
                if record.at - last >= _PASSIVE_PAUSE or not passive:
                    counted[slot] = passive + 1, record.at
            kept = record._replace(slots=slots, lateral=lateral)
            self._log(EventType.RECALL, [0], record.at, [kept.payload()])
        for slot, (passive, last) in counted.items():
            if passive != rows[slot][22]:
                self._rewrite(rows[slot], passive=passive, last_passive=last)
        for record in records:
            for slot, row in self.rows(sorted(record.reminded)).items():
                flags = self.written.get(slot, row)[18] & ~REMINDER
                self.set_state(row, "remind", record.at, flags=flags)

    def prune(
        self,
        until: int,
        parts: Mapping[str, bytes],
        told: Mapping[str, bytes] | None,
        snapshots: Iterable[int],
        *,
        always: bool,
    ) -> int:
        """Take out events up to `until` that a replay does not need when it has `parts`, what all
        of them taught; returns how many. `told`: what the checkpoint of the last reflection on
        entities is to hold from now on, up to that event.

        What stays: outcomes, which are a log (`reinforcements`), and the last event of each memory.

        Nothing happens if that would free less than it takes, unless `always`, or if another
        process was first.
        """
        before = self.pruned()
        if until <= before.until:
            return 0
        ever = self.events_crc(until)
        if ever is None:
            raise damaged(self._where, f"an event up to {until} is missing")
        known = {str(n): crc for n in snapshots if (crc := self.events_crc(n)) is not None}
        first = self.first_event_time()
        living = {slot for slot, _ in self.slots()}
        gone: list[Event] = []
        last: dict[int, Event] = {}  # of each memory
        kept = kept_crc = after = 0
        while after < until:
            for event in self.events(after, _AT_ONCE, before.until):
                after, slot = event.seq, event.slot
                if after > until:
                    break
                kept += 1
                kept_crc += event.crc
                if event.type == EventType.REINFORCE:
                    continue
                if slot not in living or event.type == EventType.FORGET:
                    if after < until:  # which says what the newest is
                        gone.append(event)
                else:
                    if slot in last:
                        gone.append(last[slot])
                    last[slot] = event
        rows = _checkpoint_rows(parts)
        (size,) = self._connection.execute(
            "SELECT coalesce(sum(length(data)), 0) FROM checkpoint WHERE NOT part GLOB ?",
            (_TOLD_PARTS + "*",),
        ).fetchone()
        freed = size + sum(_EVENT_BYTES + len(event.payload or "") for event in gone)
        if not always and freed <= sum(len(row[-1]) for row in rows):
            return 0
        self._put_checkpoint(rows, told=False)
        if told is not None:
            self._tell(self.told().event, until, told)
        self._connection.executemany(
            "DELETE FROM events WHERE seq = ?", sorted((event.seq,) for event in gone)
        )
        gone_crc = sum(event.crc for event in gone)
        self._count("events", -len(gone), -gone_crc)
        kept -= len(gone)
        pruned = Pruned(
            until,
            kept,
            add_crc(0, kept_crc - gone_crc),
            ever,
            first,
            kept - len(living),
            known,
        )
        self.set_meta({PRUNED: pruned})
        return len(gone)

    def _put_checkpoint(self, rows: Sequence[_CheckpointRow], told: bool) -> None:
        """Store these parts instead of those that there are, of a reflection or of events."""
        where = f"WHERE {'' if told else 'NOT '}part GLOB ?"
        count, crc_sum = self._connection.execute(
            f"SELECT count(*), coalesce(sum(crc), 0) FROM checkpoint {where}", (_TOLD_PARTS + "*",)
        ).fetchone()
        self._connection.execute(f"DELETE FROM checkpoint {where}", (_TOLD_PARTS + "*",))
        self._connection.executemany(
            "INSERT INTO checkpoint(part, place, crc, data) VALUES(?, ?, ?, ?)", rows
        )
        self._count("checkpoint", len(rows) - count, sum(row[2] for row in rows) - crc_sum)

    def _tell(self, event: int, until: int, parts: Mapping[str, bytes]) -> None:
        rows = _checkpoint_rows({_TOLD_PARTS + part: data for part, data in parts.items()})
        self._put_checkpoint(rows, told=True)
        self.set_meta({TOLD: Told(event, until)})

    def set_state(self, row: MemoryRow, what: str, now: int, **changes: Any) -> None:
        """Store flags or a suppression; `what` names the change in the event."""
        self._rewrite(row, **changes)
        self.vectors_written.update(self.vectors([row[0]]))
        self._log(EventType.STATE, [row[0]], now, [what])

    def reflect(self, payload: str, now: int) -> None:
        """Let all replicas do a step of a reflection on their graph; see `Graphs.feed`."""
        self._log(EventType.REFLECT, [0], now, [payload])

    def reflect_entities(
        self, payload: str, now: int, until: int, parts: Mapping[str, bytes]
    ) -> None:
        """Let all replicas have what a reflection made of the state after the event `until`."""
        self.reflect(payload, now)
        self._tell(self.log[-1].seq, until, parts)

    def set_meta(self, values: Mapping[str, Any]) -> None:
        """Store settings."""
        self.settings_changed = True
        for key, value in values.items():
            encoded = json.dumps(value)
            crc = meta_crc(key, encoded)
            old = self._connection.execute("SELECT crc FROM meta WHERE key = ?", (key,)).fetchone()
            self._connection.execute(
                "INSERT OR REPLACE INTO meta(key, value, crc) VALUES(?, ?, ?)", (key, encoded, crc)
            )
            self._count("meta", 0 if old else 1, crc - (old[0] if old else 0))

    def finish(self) -> Tail:
        """Write the events and the new totals; the commit comes next. Returns the new end."""
        log = self.log
        if log:
            self._connection.executemany(_INSERT_EVENT, log)
            self._count("events", len(log), sum([event.crc for event in log]))
        before = self.before
        changed: dict[str, Total] = {}
        for name, (count, crc) in self._deltas.items():
            rows, crc_sum = before.totals[name]
            changed[name] = Total(rows + count, add_crc(crc_sum, crc))
        if changed:  # one statement for all of them
            self._connection.execute(
                f"REPLACE INTO totals VALUES {','.join(['(?, ?, ?)'] * len(changed))}",
                [value for name, total in changed.items() for value in (name, *total)],
            )
        newest = log[-1].seq if log else before.newest
        return Tail(newest, self.highest_slot(), before.totals | changed)

    def _count(self, table: str, rows: int, crc: int) -> None:
        before = self._deltas.get(table, (0, 0))
        self._deltas[table] = before[0] + rows, before[1] + crc

    def _log(
        self,
        kind: EventType,
        slots: Iterable[int],
        now: int,
        payloads: Iterable[str | None] = itertools.repeat(None),
    ) -> None:
        seq = self._next_seq or self.newest_event() + 1
        code = kind.value
        for slot, payload in zip(slots, payloads, strict=False):
            crc = event_crc(seq, code, now, slot, payload)
            self.log.append(Event(seq, code, now, slot, payload, crc))
            seq += 1
        self._next_seq = seq


# --- the file -----------------------------------------------------------------------------------

_open_journals: weakref.WeakSet[Journal] = weakref.WeakSet()
_busy_at_fork: set[FileIdentity] = set()
_raw_lock = threading.Lock()  # guards changes of the sets
_left_open: list[tuple[FileIdentity, int]] = []


def _used() -> set[FileIdentity | None]:
    return {journal._identity for journal in _open_journals}


def _file(status: os.stat_result) -> FileIdentity:
    return FileIdentity(status.st_dev, status.st_ino)


@contextlib.contextmanager
def raw(path: Path) -> Iterator[int]:
    """A descriptor to read the bytes of a journal by, beside SQLite.

    A process that closes any descriptor of a file loses all its POSIX locks on that file, those
    that SQLite took included. Another process would then take the journal for one that nobody
    uses, and remove the log that this one goes on writing to. So a descriptor stays open while a
    journal of this process may have the file open, for the next one who asks.
    """
    with _raw_lock:
        used = _used()
        for unused in [left for left in _left_open if left[0] not in used]:
            _left_open.remove(unused)
            os.close(unused[1])
        identity = _file(path.stat())
        left = next((left for left in _left_open if left[0] == identity), None)
        if left is not None:
            _left_open.remove(left)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if left is None else left[1]
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        with _raw_lock:
            identity = _file(os.fstat(descriptor))
            if identity in _used():
                _left_open.append((identity, descriptor))
            else:
                os.close(descriptor)


class _Reading:
    """`Journal.reader`: each recall has one, and a generator would cost more than what it does."""

    __slots__ = ("_begin", "_connection", "_journal", "_translated")

    def __init__(self, journal: Journal, begin: bool) -> None:
        self._journal = journal
        # The one connection of an ephemeral space is all the reader's until it is given back.
        self._begin = begin and journal.path is not None
        self._translated = translated(journal.where)

    def __enter__(self) -> Reader:
        journal = self._journal
        with self._translated:
            journal.check_usable()
            self._connection = journal.borrow()
            reader = Reader(self._connection, journal.where)
            if self._begin:
                try:
                    reader.begin()
                except BaseException:
                    journal.give_back(self._connection)
                    raise
            return reader

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._translated:
            try:
                if error is None:
                    self._journal.check_unchanged()
            finally:
                self._journal.give_back(self._connection)
        self._translated.__exit__(kind, error, traceback)


class Journal:
    """The journal of one open space; see the top of this file for threads."""

    def __init__(self, path: Path | None, busy_timeout: float = 5.0) -> None:
        self.path = path
        self.where = "the ephemeral space" if path is None else str(path)
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()  # guards the three below
        self._all_back = threading.Condition(self._lock)
        self._idle: list[sqlite3.Connection] = []
        self._borrowed = 0
        self._closed = False
        self._pid = os.getpid()
        self._broken = False
        self.sound = path is None  # see `check_whole`
        # What this connection committed last: `PRAGMA data_version` and the end of the journal.
        self._known: tuple[int, Tail] | None = None
        # Held while the write connection is in use; with one connection for all, readers too.
        self._turn = threading.Lock()
        self.newly_set_aside: list[Path] = []
        with self._turn:
            self._identity = None if path is None else self._check_file(path)
            with _raw_lock:  # before the first lock is taken: see `raw`
                _open_journals.add(self)
            self._access = "" if path is None else _access(path)
            self._state = self._file_state() if _IMMUTABLE in self._access else None
            try:
                self._writer = self._connect()
            except BaseException:
                self._closed = True
                raise

    @classmethod
    def ephemeral(cls, meta: Mapping[str, Any]) -> Journal:
        """A journal in memory, gone when it is closed."""
        journal = cls(None)
        _fill(journal._writer, meta)
        return journal

    @classmethod
    def open(cls, folder: Path, meta: Mapping[str, Any], busy_timeout: float) -> Journal:
        """The journal in a folder; both are created, with these settings, when absent."""
        path = folder / FILE_NAME
        with translated(str(path)):
            _check_folder(folder)
            orphans = [] if path.exists() else _create(folder, meta, busy_timeout)
            journal = cls(path, busy_timeout)
            journal.newly_set_aside = orphans
            return journal

    @classmethod
    def existing(cls, folder: Path, busy_timeout: float = 5.0) -> Journal:
        """The journal in a folder; a StorageError when there is none."""
        path = folder / FILE_NAME
        with translated(str(path)):
            _check_folder(folder)
            return cls(path, busy_timeout)

    def check_whole(self) -> None:
        """Once: raise what is wrong with the tables as a whole (AM-18). Opening a space from a
        snapshot leaves it to the first who depends on it."""
        if self.sound or self._closed:
            return
        with self.reader(whole=False) as reader:
            for problem in itertools.chain(reader.problems(), reader.quick_problems()):
                raise damaged(self.where, problem)
        self.sound = True

    # Connections

    def _check_file(self, path: Path) -> FileIdentity:
        """Refuse what is not a journal of ours before SQLite may touch it."""
        with raw(path) as descriptor:
            header = os.read(descriptor, _HEADER_BYTES)
            identity = _file(os.fstat(descriptor))
        if identity in _busy_at_fork:
            raise SpectorError(
                f"{path} was in use by another thread when this process was forked, so it cannot"
                " be opened here; fork while no call is running, or start processes by spawn"
            )
        application_id = int.from_bytes(header[68:72], "big")
        if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\0"):
            raise CorruptionError(
                f"{path} is not a journal of spector: its first {_HEADER_BYTES} bytes are not those"
                f" of an SQLite file ({len(header)} bytes read); {_RESTORE}, or remove it to start"
                " an empty space"
            )
        if application_id != APPLICATION_ID:
            raise CorruptionError(
                f"{path} is an SQLite file, but not a journal of spector (application id"
                f" {application_id:#010x} at offset 68, expected {APPLICATION_ID:#010x}); open"
                " another folder"
            )
        self._check_version(int.from_bytes(header[60:64], "big"), path)
        return identity

    def _check_version(self, version: int, path: Path | str) -> None:
        if version > SCHEMA_VERSION:
            raise VersionError(
                f"{path} has format version {version}; this spector knows versions up to"
                f" {SCHEMA_VERSION}. Install a newer spector; the file is untouched"
            )
        if version in (1, 2, 3):
            raise VersionError(
                f"{path} has format version {version}, which no release of spector wrote; remember"
                " its texts again in a new space. The file is untouched"
            )
        if version < 1:
            raise CorruptionError(
                f"{path} has the impossible format version {version} at offset 60; {_RESTORE}"
            )

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = _connect(self.path, self._busy_timeout, self._access)
            try:
                if self.path is not None:
                    self._prepare(connection, self.path)
            except BaseException:
                connection.close()
                raise
        except sqlite3.OperationalError as error:
            if not self.read_only or _sqlite_code(error) not in (_READONLY, _CANNOT_OPEN):
                raise
            raise StorageError(
                errno.EROFS,
                f"{self.where} cannot be read: its last changes are in a log beside it, which can"
                " be read only where SQLite may write, and this process may not write to its"
                " folder; open the space once with the permission to write, or copy the folder"
                " and open the copy",
            ) from error
        return connection

    def _prepare(self, connection: sqlite3.Connection, path: Path) -> None:
        if not self.read_only and connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            connection.execute("PRAGMA journal_mode = WAL")
        self._check_version(connection.execute("PRAGMA user_version").fetchone()[0], path)

    def _file_state(self) -> tuple[int, int]:
        """What changes when another process writes to the file."""
        assert self.path is not None
        status = self.path.stat()
        return status.st_mtime_ns, status.st_size

    def check_unchanged(self) -> None:
        """Raise if the file was changed although it was opened as one that nobody changes."""
        if self._state is None or self.path is None:
            return
        if self._state != self._file_state() or _has_content(f"{self.path}-wal"):
            raise StorageError(
                errno.ESTALE,
                f"{self.where} was changed by another process while it was open for reading only;"
                " close this object and open the space again",
            )

    @property
    def busy_timeout(self) -> float:
        """Seconds to wait for other processes."""
        return self._busy_timeout

    @property
    def read_only(self) -> bool:
        """Whether this process may not write to the folder or the file."""
        return bool(self._access)

    def check_usable(self) -> None:
        """Raise if this object is closed, is a fork's, or its file is no longer there."""
        if self.forked:
            raise SpectorError(
                f"{self.where} was opened by process {self._pid} and this is its fork"
                f" {os.getpid()}; open the space again here"
            )
        if self._closed:
            raise ClosedError(f"{self.where} is closed; open the space again")
        if self.path is None:
            return
        try:
            status = os.stat(self.path)  # noqa: PTH116  (this is on the way of each call)
        except FileNotFoundError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._identity:
            raise CorruptionError(
                f"{self.where} was removed or replaced while it was open;"
                " close this object and open the space again"
            )
        self.check_unchanged()

    def reader(self, *, begin: bool = True, whole: bool = True) -> _Reading:
        """A read transaction, begun here or later by the caller.

        `whole`: the tables have been looked at as a whole (`check_whole`). Who asks for rows by
        their slots or for the next events need not: each is verified.
        """
        if whole:
            self.check_whole()
        return _Reading(self, begin)

    def borrow(self) -> sqlite3.Connection:
        """A connection to read by, until `give_back`."""
        if self.path is None:
            self._turn.acquire()
            if self._closed:
                self._end_turn()
                self.check_usable()
            return self._writer
        with self._lock:
            if self._closed:
                self.check_usable()
            self._borrowed += 1
            if self._idle:
                return self._idle.pop()
        try:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            return connection
        except BaseException:
            with self._lock:
                self._borrowed -= 1
                self._all_back.notify_all()
            raise

    def give_back(self, connection: sqlite3.Connection) -> None:
        """End what was read, and let others have the connection."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        finally:
            if self.path is None:
                self._end_turn()
            else:
                with self._lock:
                    self._borrowed -= 1
                    self._all_back.notify_all()
                    keep = not self._closed and len(self._idle) < _IDLE_READERS
                    if keep:
                        self._idle.append(connection)
                if not keep:
                    connection.close()

    @contextlib.contextmanager
    def transaction(self, *, whole: bool = True) -> Iterator[Transaction]:
        """A write transaction: committed at the end of the block, undone if anything is raised;
        `whole` as for a `reader`."""
        if whole:
            self.check_whole()
        with translated(self.where):
            self._turn.acquire()
            try:
                self.check_writable()
                self._writer.execute("BEGIN IMMEDIATE")
                known, self._known = self._known, None
                try:
                    # It changes with what another connection commits, and with nothing else.
                    (version,) = self._writer.execute("PRAGMA data_version").fetchone()
                    before = known[1] if known is not None and known[0] == version else None
                    transaction = Transaction(self._writer, self.where, before)
                    yield transaction
                    after = transaction.finish()
                    self._writer.execute("COMMIT")
                    self._known = version, after
                except BaseException as error:
                    self._note_failed_sync(error)
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                    raise
            finally:
                self._end_turn()

    def others_wrote(self) -> bool:
        """Whether another connection committed after this object's last transaction, or may have;
        cheaper than to look."""
        with translated(self.where), self._turns():
            if self._known is None or self._closed or self.forked:
                return True
            (version,) = self._writer.execute("PRAGMA data_version").fetchone()
            return bool(version != self._known[0])

    def check_writable(self) -> None:
        """Raise if this object may not be written to."""
        self.check_usable()
        if self.path is not None and self.read_only:
            raise StorageError(
                errno.EROFS,
                f"{self.where} is open for reading only, because this process may not write to"
                f" it or to {self.path.parent}; nothing was changed. Permit it, or copy the"
                " folder, and open the space again",
            )
        if self._broken:
            raise StorageError(
                errno.EIO,
                f"{self.where}: an earlier sync to disk failed, so what is on it is unknown;"
                " close this object and open the space again",
            )

    def _note_failed_sync(self, error: BaseException) -> None:
        # After a failed fsync the kernel may have dropped the pages: no retry proves them.
        # Python 3.10 does not tell it from other I/O errors.
        reason = getattr(error, "sqlite_errorname", str(error))
        self._broken = self._broken or "FSYNC" in reason or reason == "disk I/O error"

    def copy_to(self, path: Path) -> None:
        """Copy one state of the journal into a new file, while others go on writing."""
        with translated(self.where):
            self.check_usable()
            connection = self.borrow()
            try:
                with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as copy:
                    connection.backup(copy)
                    copy.execute("PRAGMA journal_mode = WAL")
                    _empty_log(copy)
            finally:
                self.give_back(connection)

    def compact(self) -> None:
        """Write the file anew without free space, and empty its log: what was deleted is gone."""
        with translated(self.where), self._turns():
            self.check_writable()
            try:
                self._writer.execute("PRAGMA secure_delete = ON")
                self._writer.execute("VACUUM")
                emptied = _empty_log(self._writer)
            except BaseException as error:
                self._note_failed_sync(error)
                raise
        if not emptied:
            raise LockedError(
                f"{self.where} was written anew, but its log was in use by another reader or writer"
                f" for longer than {self._busy_timeout:g} s (busy_timeout), so what was deleted may"
                " still be in it; compact again"
            )

    @contextlib.contextmanager
    def _turns(self) -> Iterator[None]:
        self._turn.acquire()
        try:
            yield
        finally:
            self._end_turn()

    def refuse_calls(self) -> None:
        """Let every call that starts from now on raise `ClosedError`."""
        self._closed = True

    def close(self) -> None:
        """Close all connections once the calls in progress have ended. May be called again.

        It waits for them, so that at exit no thread is left inside the core; but not for ever,
        as the call may be the one that a signal handler interrupted. Whoever uses a connection
        then closes it.
        """
        if self.forked:
            return
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self._turn.acquire(timeout=CLOSE_TIMEOUT):
            self._end_turn()
        with self._all_back:
            self._all_back.wait_for(lambda: not self._borrowed, CLOSE_TIMEOUT)

    def _end_turn(self) -> None:
        try:
            if self._closed:
                with translated(self.where):
                    self._writer.close()
        finally:
            self._turn.release()

    @property
    def forked(self) -> bool:
        """Whether this is the copy in a child of the process that opened the journal."""
        return self._pid != os.getpid()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def size(self) -> int:
        """Bytes on disk, the write-ahead log included; 0 for an ephemeral journal."""
        if self.path is None:
            return 0
        size = 0
        for suffix in ("", "-wal"):
            with translated(self.where), contextlib.suppress(FileNotFoundError):
                size += Path(f"{self.path}{suffix}").stat().st_size
        return size

    def set_aside(self) -> list[Path]:
        """Logs of lost journals that `_create` found in the folder, at any time."""
        if self.path is None:
            return []
        return sorted(self.path.parent.glob(f"{FILE_NAME}-*{_ORPHAN}*"))

    def _leave_to_parent(self) -> None:
        """In a forked child: drop the parent's connections, so that SQLite forgets their locks.

        The locks in the file are the parent's and stay. Connections in use at the moment of the
        fork cannot be dropped; then the child must not open this file.
        """
        if self._identity is None or self._closed:
            return
        if self._borrowed or self._turn.locked() or self._lock.locked():
            _busy_at_fork.add(self._identity)
            return
        for connection in (*self._idle, self._writer):
            connection.close()


def _leave_all_to_parent() -> None:
    global _raw_lock
    _raw_lock = threading.Lock()  # a thread that is not here may have held it
    for journal in list(_open_journals):
        journal._leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise StorageError(
            errno.ENOTDIR, f"{folder} is a file; a space is a folder that holds {FILE_NAME}"
        )


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _has_content(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0  # noqa: PTH116  (this is on the way of each call)
    except FileNotFoundError:
        return False


def _access(path: Path) -> str:
    """How SQLite is to open the file: parameters of a URI for reading only, else nothing."""
    if _may_write(path.parent) and _may_write(path):
        return ""
    log = f"{path}-wal"
    in_use = Path(log).exists() and Path(f"{path}-shm").exists()
    if in_use or _has_content(log) or _may_write(path.parent):
        return "mode=ro"
    return f"mode=ro&{_IMMUTABLE}"


def set_aside_notice(log: Path) -> str:
    """What a user should know of a log that was set aside."""
    return (
        f"{log} is the log of a journal that was lost or moved away; nothing of that journal is in"
        " this space. Put the journal and its log back together under their old names, or remove"
        " this file"
    )


def _connect(path: Path | None, busy_timeout: float, access: str = "") -> sqlite3.Connection:
    place: str | Path = ":memory:" if path is None else path
    connection = sqlite3.connect(
        f"{path.as_uri()}?{access}" if path is not None and access else place,
        timeout=busy_timeout,
        isolation_level=None,
        check_same_thread=False,
        uri=bool(access),
    )
    try:
        for pragma in (
            "foreign_keys = ON",
            "synchronous = FULL",
            "trusted_schema = OFF",
            "cell_size_check = ON",
            "mmap_size = 0",
        ):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def _fill(connection: sqlite3.Connection, meta: Mapping[str, Any]) -> None:
    """Make an empty journal."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in SCHEMA.split(";"):
        connection.execute(statement)
    connection.executemany("INSERT INTO totals VALUES(?, 0, 0)", [(name,) for name in TABLES])
    transaction = Transaction(connection, "a new journal")
    transaction.set_meta(meta)
    transaction.finish()
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _create(folder: Path, meta: Mapping[str, Any], busy_timeout: float) -> list[Path]:
    """Make journal.db whole under another name, then rename it: it exists complete or not at all.

    So a journal.db of zero bytes is always damage. A write-ahead log that lies beside an absent
    journal belongs to a lost one and SQLite would replay it into ours: it is set aside. Returns
    what was.
    """
    orphans: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    with locked(folder / LOCK_NAME, busy_timeout, "is making the space"):
        if path.exists():
            return orphans
        new = folder / (FILE_NAME + ".new")
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{new}{suffix}").unlink(missing_ok=True)
            orphan = Path(f"{path}{suffix}")
            if suffix and orphan.exists():
                aside = f"{orphan}{_ORPHAN}{time.time_ns() // 1_000_000}"
                orphans.append(orphan.rename(aside))
        with contextlib.closing(_connect(new, busy_timeout)) as connection:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            _fill(connection, meta)
            _empty_log(connection)
        sync(new)
        new.rename(path)
        sync(folder)
        sync(folder.parent)
    return orphans


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Have all that is in the log in the file itself, where a rename takes it along; False if
    others are using the log. Closing does this, too, but says nothing when it fails."""
    busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return not busy


@contextlib.contextmanager
def locked(path: Path, timeout: float, doing: str) -> Iterator[None]:
    """Hold the lock file; LockedError after `timeout` seconds says what the other one is doing."""
    import fcntl

    start = time.monotonic()
    with path.open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = time.monotonic() - start
                if waited >= timeout:
                    raise LockedError(
                        f"{path} has been locked by another process, which {doing}, for the"
                        f" {waited:.1f} s that this call waited (busy_timeout); retrying is safe"
                    ) from None
                time.sleep(0.01)
        yield


def sync(path: Path) -> None:
    """Let what is in a file, or the names in a folder, be on stable storage."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
