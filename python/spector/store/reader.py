"""Questions to one state of the journal."""

from __future__ import annotations

import itertools
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spector.errors import UnknownMemoryError

from .filters import Filter
from .model import (
    MADE_BY_REFLECTION,
    MEMORY_COLUMNS,
    Event,
    EventType,
    Memory,
    MemoryRow,
    VectorRow,
    add_crc,
    checkpoint_crc,
    event_holds,
    meta_crc,
    row_problem,
    to_memory,
    vector_holds,
)
from .schema import MAX_SLOT, SCHEMA_QUERY, TABLES, expected_schema
from .sqlite_errors import damaged
from .values import show

#: What is read of a memory, in order.
COLUMNS: Final = ", ".join(MEMORY_COLUMNS)
VECTOR_COLUMNS: Final = "slot, kind, model, content, data, crc"
_IN_LIMIT: Final = 500  # parameters of one IN list
AT_ONCE: Final = 10_000  # events, for what reads all of them
#: The setting that holds what `Pruned` says.
PRUNED: Final = "pruned"
#: The setting that holds what `Told` says.
TOLD: Final = "told"
#: How the names of its parts in the table `checkpoint` begin.
TOLD_PARTS: Final = "told/"
_KEPT_ROWS: Final = 4096  # verified rows kept for the next recall, of texts of at most
_KEPT_CHARACTERS: Final = 4096
_KEPT_MATCHES: Final = 32  # answers to filters, of at most so many slots
_KEPT_SLOTS: Final = 100_000


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
        return {part: data for part, data in parts if not part.startswith(TOLD_PARTS)}

    def told_parts(self) -> dict[str, bytes]:
        """What the last reflection on entities made: see `Mentions.checkpoint`."""
        return {
            part.removeprefix(TOLD_PARTS): data
            for part, data in self._parts().items()
            if part.startswith(TOLD_PARTS)
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
                f"SELECT {COLUMNS} FROM memories WHERE slot BETWEEN ? AND ?",
                (slots[0], slots[-1]),
            )
            for row in cursor:
                if row[0] in wanted:
                    found[row[0]] = self._verified(row)
            return found
        for chunk in chunks(slots):
            cursor = self._connection.execute(
                f"SELECT {COLUMNS} FROM memories WHERE slot IN ({placeholders(chunk)})", chunk
            )
            for row in cursor:
                found[row[0]] = self._verified(row)
        return found

    def vectors(self, slots: Sequence[int]) -> dict[int, list[VectorRow]]:
        """The vectors of the memories in these slots (ascending), verified."""
        found: dict[int, list[VectorRow]] = {}
        for chunk in chunks(slots):
            cursor = self._connection.execute(
                f"SELECT {VECTOR_COLUMNS} FROM vectors WHERE slot IN ({placeholders(chunk)})"
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
        for chunk in chunks(contents):
            cursor = self._connection.execute(
                f"SELECT {VECTOR_COLUMNS} FROM vectors WHERE content IN ({placeholders(chunk)})"
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
            f"SELECT {COLUMNS} FROM memories WHERE source = ? ORDER BY slot", (MADE_BY_REFLECTION,)
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
            f"SELECT {VECTOR_COLUMNS} FROM vectors ORDER BY slot, kind"
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
        return self._connection.execute(f"SELECT {COLUMNS} FROM memories ORDER BY slot")

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
            f"SELECT {COLUMNS} FROM memories WHERE id = ?", (memory_id,)
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
            f"SELECT {COLUMNS} FROM memories WHERE {' AND '.join(conditions) or 'TRUE'}"
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
        found = set(self._connection.execute(SCHEMA_QUERY))
        expected = expected_schema()
        for kind, name, _ in sorted(expected - found, key=str):
            yield f"{kind} {name} is missing or has another definition"
        for kind, name, _ in sorted(found - expected, key=str):
            if kind in ("trigger", "view"):
                yield f"{kind} {name} is not ours"


def placeholders(values: Sequence[object]) -> str:
    """One for each value of an IN list."""
    return ",".join("?" * len(values))


def chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Values in parts that are short enough for an IN list."""
    for start in range(0, len(values), _IN_LIMIT):
        yield values[start : start + _IN_LIMIT]
