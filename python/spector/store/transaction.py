"""One change of the journal in the making."""

from __future__ import annotations

import itertools
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from spector.errors import CapacityError, DuplicateMemoryError

from .ids import IdMaker
from .learning import RecallRecord
from .model import (
    EXTRACT,
    MEMORY_COLUMNS,
    REMINDER,
    Event,
    EventType,
    MemoryRow,
    Stored,
    VectorRow,
    add_crc,
    checkpoint_crc,
    event_crc,
    memory_crc,
    meta_crc,
    session_payload,
    vector_crc,
)
from .reader import (
    AT_ONCE,
    COLUMNS,
    PRUNED,
    TOLD,
    TOLD_PARTS,
    VECTOR_COLUMNS,
    Pruned,
    Reader,
    Told,
    Total,
    chunks,
    placeholders,
)
from .schema import MAX_SLOT
from .sqlite_errors import damaged
from .values import Draft, Vector, show

_INSERT: Final = f"INSERT INTO memories({COLUMNS}) VALUES({','.join('?' * len(MEMORY_COLUMNS))})"
_UPDATE: Final = (
    f"UPDATE memories SET ({', '.join(MEMORY_COLUMNS[1:])})"
    f" = ({','.join('?' * (len(MEMORY_COLUMNS) - 1))}) WHERE slot = ?"
)
_INSERT_VECTOR: Final = f"INSERT INTO vectors({VECTOR_COLUMNS}) VALUES(?, ?, ?, ?, ?, ?)"
_INSERT_TAG: Final = "INSERT INTO memory_tags(tag, slot) VALUES(?, ?)"
_DELETE_TAG: Final = "DELETE FROM memory_tags WHERE tag = ? AND slot = ?"
_INSERT_EVENT: Final = "INSERT INTO events(seq, type, at, slot, payload, crc) VALUES(?,?,?,?,?,?)"
_CHECKPOINT_BYTES: Final = 1 << 20  # of one row
_EVENT_BYTES: Final = 24  # of a row of `events` beside its payload, about
_PASSIVE_PAUSE: Final = 300_000  # milliseconds in which a memory is returned once (SCO-10)


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


class Tail(NamedTuple):
    """What a transaction has to know of the end of the journal."""

    newest: int
    highest_slot: int
    totals: dict[str, Total]


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
        for chunk in chunks(slots):
            marks = placeholders(chunk)
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
        for chunk in chunks(names):
            for name, *rest in self._connection.execute(
                "SELECT id, slot, created, crc, tags, recalls, strength, passive, last_passive,"
                f" suppressed FROM memories WHERE id IN ({placeholders(chunk)})",
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
            for event in self.events(after, AT_ONCE, before.until):
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
            (TOLD_PARTS + "*",),
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
            f"SELECT count(*), coalesce(sum(crc), 0) FROM checkpoint {where}", (TOLD_PARTS + "*",)
        ).fetchone()
        self._connection.execute(f"DELETE FROM checkpoint {where}", (TOLD_PARTS + "*",))
        self._connection.executemany(
            "INSERT INTO checkpoint(part, place, crc, data) VALUES(?, ?, ?, ?)", rows
        )
        self._count("checkpoint", len(rows) - count, sum(row[2] for row in rows) - crc_sum)

    def _tell(self, event: int, until: int, parts: Mapping[str, bytes]) -> None:
        rows = _checkpoint_rows({TOLD_PARTS + part: data for part, data in parts.items()})
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
