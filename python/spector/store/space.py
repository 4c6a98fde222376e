"""One open space: its journal, and this process's replica of what is built from it.

The one path for change: a write commits rows and events to the journal, and `Space._apply` is the
only code that changes the replica: for one's own events, for those of other processes, and when
the events are replayed on open.

What only stores memories need not look at the replica, so it follows later: with the next question
to it, or when `_LATER` events are waiting, all in one go. `_own` keeps what was written until then,
so that it is not read again. A question always sees all that was committed before it.

Locks, always taken in this order: `_write_lock` (one writer of this object at a time), the turn of
the journal's connection, `_apply_lock` (held while the replica changes, for one batch). A reader
takes none of them unless the replica is behind the journal.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import operator
import threading
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from spector.errors import (
    ConfigurationError,
    CorruptionError,
    LockedError,
    SpectorError,
    VersionError,
)

from . import snapshots
from .bandit import ProfileAdaptor
from .check import Audit
from .filters import Filter
from .graphs import Restored, reflect_payload
from .journal import CLOSE_TIMEOUT, Journal, SpectorWarning
from .learning import Learning, recalled_slots
from .model import Event, EventType, MemoryRow, VectorRow
from .reader import Pruned, Reader, Told
from .replica import Replica, Settings, Shape
from .sqlite_errors import damaged, translated
from .transaction import Transaction

T = TypeVar("T")

_EVENTS_AT_ONCE: Final = 10_000
_SLOTS_AT_ONCE: Final = 10_000
_KNOWN_TYPES: Final = frozenset(EventType)
_REMEMBER: Final = EventType.REMEMBER.value
_TRIES: Final = 3
#: How many events may wait for the replica.
_LATER: Final = 64
#: Longer texts do not wait, so that what waits takes little memory.
_LATER_CHARACTERS: Final = 16_384
#: What filters read that is not checked when a space is opened from a snapshot.
_AUDITS: Final = ("tags", "valence", "rows")
#: The setting that says which event was the last erasure.
ERASED: Final = "erased"
#: The setting that says at which event it was last seen whether there is something to prune.
LOOKED: Final = "looked"

_log = logging.getLogger("spector")


class _Own(NamedTuple):
    """What a transaction of this process committed, for the replica."""

    events: list[Event]
    rows: dict[int, MemoryRow]
    vectors: dict[int, list[VectorRow]]


class Space:
    """See the top of this file."""

    def __init__(
        self,
        journal: Journal,
        settings: Settings,
        keywords: bool = True,
        ann: bool = False,
        bandit: Mapping[str, Any] | None = None,
    ) -> None:
        self.journal = journal
        self.settings = settings
        self._keywords = keywords
        self._ann = ann
        self._bandit = bandit or {}
        self._write_lock = threading.Lock()
        self._apply_lock = threading.Lock()
        self._replica = self._new_replica(Shape())
        self._applied = 0  # the newest event the replica knows
        self._written = 0  # the newest event that this object wrote
        self._own: deque[_Own] = deque()  # in order; appended by writers, taken by `_take_own`
        self._built = 0  # the event that was the newest when it was made of rows: see Manifest
        self._saved = 0  # the event of the newest snapshot
        self._audited = set(_AUDITS)  # of what filters read, what has been checked
        self.snapshot_every = 0  # events between two snapshots; 0: none by itself
        self._looked = 0  # the event at which it was last seen whether there is something to prune
        self._version = 0  # odd while the replica changes
        # The first and last of events that change nothing but weights of the graph, so that no
        # reader has to wait for them: the stores of the graph are right at any moment.
        self._soft = (0, 0)

    def _new_replica(self, shape: Shape) -> Replica:
        bandit = ProfileAdaptor(**self._bandit)
        return Replica(self.settings, shape, self._keywords, self._ann, bandit)

    @functools.cached_property
    def key(self) -> str:
        """What tells it from other spaces: 8 hexadecimal digits."""
        with self.journal.reader(whole=False) as reader:
            return str(reader.setting("store_id"))[:8]

    @property
    def fingerprint(self) -> str:
        """What tells the analyzer from others."""
        return self._replica.index.fingerprint

    # Reading

    def read(self, work: Callable[[Reader, Replica], T], *, whole: bool = True) -> T:
        """Run `work` on one state: the journal and the replica it sees are equally old.

        It is repeated when another thread changed the replica meanwhile, so it must only read.
        `whole` as for a reader of the journal.
        """
        for _ in range(_TRIES):
            written = self._written  # committed, so this reader sees it
            with self.journal.reader(whole=whole) as reader:
                newest = reader.newest_event()
                self._check_not_older(newest, written)
                behind = newest > self._applied and not self._nearly(newest)
                if behind or self._replica.broken is not None:
                    with self._apply_lock:
                        if self._replica.broken is not None:
                            self._complete()
                        self._catch_up(reader, newest)
                # Taken before the version is looked at: if that is this reader's, so is this.
                reader.kept = self._replica.kept
                reader.kept_matches = self._replica.kept_matches
                checked = self.journal.sound and len(self._audited) == len(_AUDITS)
                reader.audit = None if checked else self._audit
                version = self._version
                if version % 2 or (self._applied != newest and not self._nearly(newest)):
                    continue
                replica = self._replica
                try:
                    result = work(reader, replica)
                except Exception:
                    if self._version == version and replica.broken is None:
                        self.journal.check_whole()  # if it is damaged, that says more
                        raise
                    continue  # what was read did not fit because the replica moved on
                if self._version == version and replica.broken is None:
                    if reader.missed:
                        self.journal.check_whole()
                    return result
        with self.journal.reader(begin=False, whole=whole) as reader, self._apply_lock:
            self._complete()
            reader.begin()
            newest = reader.newest_event()
            self._check_not_older(newest, self._applied)
            self._catch_up(reader, newest)
            reader.audit = self._audit
            return work(reader, self._replica)

    def _nearly(self, newest: int) -> bool:
        """Whether all that the replica lacks is weights that another thread changes just now."""
        first, last = self._soft
        return first - 1 <= self._applied <= newest <= last

    def _check_not_older(self, newest: int, seen: int) -> None:
        if newest < seen:
            raise CorruptionError(
                f"{self.journal.where} ends at event {newest}, but event {seen} was seen"
                " in it: it was replaced while it was open; close this object and open the space"
                " again"
            )

    # Writing

    def write(
        self, change: Callable[[Transaction], T], *, later: bool = False, last: bool = False
    ) -> T:
        """Run `change` in one transaction; when this returns it is durable, and whoever asks the
        replica sees it.

        `later`: it stores memories and does not look at the replica, which may follow later.
        `last`: this object is about to be closed, so the replica need not follow, and to look at
        the tables as a whole is left to others; all that it reads is verified.
        """
        if not last:
            self.journal.check_whole()
        if later:
            behind = self._written - self._applied >= _LATER
        else:
            behind = self._applied < self._written or self.journal.others_wrote()
        if behind:
            self.catch_up()
        with self._write_lock:
            with self.journal.transaction(whole=False) as transaction:
                newest = transaction.newest_event()
                self._check_not_older(newest, max(self._applied, self._written))
                if newest > self._applied and not later:
                    with self._apply_lock:
                        self._catch_up(transaction, newest)
                result = change(transaction)
                events = transaction.log
                if events and {event.type for event in events} == {EventType.REFLECT}:
                    self._soft = (events[0].seq, events[-1].seq)
            if events and last:
                self._written = events[-1].seq
            elif events:
                self._follow(transaction, later)
        if events and transaction.settings_changed:
            self.catch_up()
        if self.snapshot_every and events:
            self.snapshot_if_due(max(self.snapshot_every, self._saved))
            self._prune_if_due()
        return result

    def _follow(self, transaction: Transaction, later: bool) -> None:
        """Bring the replica up to date with what was committed, or remember it for later. Needs
        `_write_lock`."""
        events = transaction.log
        last = self._written = events[-1].seq
        if last == self._soft[1]:
            if transaction.settings_changed:  # the journal has what it does
                return
            with self._apply_lock:
                if self._applied < last:
                    self._complete()
                if self._applied < last:
                    self._replica.feed(events)
                    self._applied = last
        elif not transaction.settings_changed:
            self._own.append(_Own(events, transaction.written, transaction.vectors_written))
            large = any(len(row[2]) > _LATER_CHARACTERS for row in transaction.written.values())
            if not later or large or last - self._applied >= _LATER:
                with self._apply_lock:
                    own = self._take_own(last)
                    if own:  # else a reader was first, or others wrote as well
                        self._change(lambda: self._feed(own), last)

    def _take_own(self, newest: int) -> list[_Own]:
        """What was written of the events from the applied one to `newest`; nothing if that is not
        all of them. Needs `_apply_lock`."""
        taken: list[_Own] = []
        last = self._applied
        whole = True
        while self._own and self._own[0].events[-1].seq <= newest:
            own = self._own.popleft()
            if own.events[-1].seq > self._applied:  # else a reader found it in the journal
                whole = whole and own.events[0].seq == last + 1
                last = own.events[-1].seq
                taken.append(own)
        return taken if whole and last == newest else []

    def _feed(self, own: Sequence[_Own]) -> None:
        """Apply what was written. Of several, all have only stored memories."""
        events, rows, vectors = own[0]
        if len(own) > 1:
            events, rows, vectors = [], {}, {}
            for each in own:
                for slot in vectors.keys() & each.rows.keys():
                    del vectors[slot]
                events += each.events
                rows |= each.rows
                vectors |= each.vectors
        last: dict[int, int] = {}
        self._add_last(last, events)
        self._replica.feed(events)
        self._apply(last, rows, vectors)

    def catch_up(self) -> None:
        """Apply what others committed, outside any write transaction (AM-21)."""
        with self.journal.reader(whole=False) as reader:
            newest = reader.newest_event()
            if newest > self._applied:
                with self._apply_lock:
                    self._catch_up(reader, newest)

    def complete(self) -> None:
        """Have all of the replica in memory, with all that this object wrote."""
        if self._own:
            self.catch_up()
        if self._replica.partial:
            with self._apply_lock:
                self._complete()

    # Upkeep

    @contextlib.contextmanager
    def _exclusive(self, timeout: float | None = None) -> Iterator[Path | None]:
        """The folder of the space, with nobody else in its snapshots; None if there is none."""
        path = self.journal.path
        if path is None:
            yield None
            return
        with translated(str(path.parent)):
            timeout = self.journal.busy_timeout if timeout is None else timeout
            with snapshots.exclusive(path.parent, timeout):
                yield path.parent

    def compact(self, *, renew: bool = False) -> None:
        """Free what deleted and replaced memories and past events still hold, on disk and in
        memory; `renew` as for `prune`."""
        self.journal.check_writable()
        self.prune(renew=renew)
        with self._exclusive() as folder:
            with self._write_lock:
                self.journal.compact()
            with self._apply_lock:
                self._replica.compact()
            for path in () if folder is None else snapshots.aside(folder):
                snapshots.remove(path)

    def prune(
        self, timeout: float | None = None, *, always: bool = False, renew: bool = False
    ) -> int:
        """Take out of the journal the events that no replay needs any more, and put in it what
        they taught (AM-19); returns how many. Other processes go on meanwhile.

        Nothing happens if that would take more space than it frees; except `always`, or with
        `renew` if there is such a checkpoint already, or one of a reflection, which then are
        replaced.
        """
        self.complete()
        with self._exclusive(timeout) as folder:
            with self.journal.reader() as reader, self._apply_lock:
                self._catch_up(reader, reader.newest_event())
                until = self._applied
                pruned = reader.pruned()
                if until == pruned.until:
                    return 0
                must = always or (renew and (pruned.until > 0 or reader.told().event > 0))
                told = None
                with translated("the checkpoint of what was learned"):
                    parts = self._replica.checkpoint()
                    if renew and reader.told().event:
                        told = self._replica.graphs.mentions.checkpoint()
            events = [] if folder is None else [event for event, _ in snapshots.found(folder)]

            def change(transaction: Transaction) -> int:
                gone = transaction.prune(until, parts, told, events, always=must)
                transaction.set_meta({LOOKED: until})
                return gone

            self._looked = until
            return self.write(change)

    def _prune_if_due(self) -> None:
        """Prune if more events than there are memories, and many, can go; failing is no error."""
        newest = max(self._applied, self._written)
        if newest - self._looked < self.snapshot_every:
            return
        try:
            with self.journal.reader(whole=False) as reader:
                pruned = reader.pruned()
                self._looked = max(pruned.until, reader.meta_value(LOOKED, 0))
                totals = reader.totals()
            memories = totals["memories"].rows
            superfluous = totals["events"].rows - memories - pruned.extra
            if newest - self._looked >= self.snapshot_every:
                self._looked = newest
                if superfluous >= max(self.snapshot_every, memories):
                    self.prune(timeout=0)
        except LockedError:  # another process is at it
            pass
        except (SpectorError, OSError) as error:
            warnings.warn(f"no events were pruned: {error}", SpectorWarning, stacklevel=4)

    def reflect_entities(self, now: int, least: float, most: int) -> dict[str, int]:
        """Let a reflection change what memories say of entities (RFL-6, RFL-7); returns what it
        did.

        It is done on a copy, beside readers and writers. What comes of it goes into the journal as
        it is: it depends on what memories said until now, which nobody knows any more who reads
        their latest rows.
        """
        self.complete()
        with self.journal.reader() as reader, self._apply_lock:
            self._catch_up(reader, reader.newest_event())
            before, until = reader.told(), self._applied
            graphs = self._replica.graphs
            if not len(graphs.entities):
                return {}
            with translated("a copy of what memories say of entities"):
                mentions = graphs.mentions.copy()
        done = mentions.reflect(graphs.associated(mentions, least, most))
        with translated("the checkpoint of a reflection"):
            parts = mentions.checkpoint()

        def change(transaction: Transaction) -> bool:
            erased = transaction.meta_value(ERASED, 0)
            if transaction.told() != before or erased > until:  # another process was first
                return False
            transaction.reflect_entities(reflect_payload("entities"), now, until, parts)
            return True

        return done if self.write(change) else {}

    def erase(self, memory_id: str, now: int) -> None:
        """Forget a memory and leave no byte of it in a file of the space (AM-20)."""

        def change(transaction: Transaction) -> None:
            for made in transaction.consolidated_from(memory_id):
                transaction.forget_row(made, now)
            transaction.forget(memory_id, now)
            transaction.set_meta({ERASED: transaction.log[-1].seq})

        self.write(change)
        had = False
        with self._exclusive() as folder:
            if folder is not None:
                had = bool(snapshots.found(folder))
                snapshots.remove_all(folder)
        self.compact(renew=True)
        if had:
            self.snapshot()

    def snapshot(self, timeout: float | None = None) -> int:
        """Write a snapshot, if there is none of this state; returns the event it is of.

        Raises
        ------
        LockedError
            Another process is at it for longer than `timeout`, by default that of the journal.
        """
        self.journal.check_writable()
        self.complete()
        with self._exclusive(timeout) as folder:
            if folder is None or not self._keywords:
                raise ConfigurationError(
                    f"{self.journal.where} cannot have snapshots: it is ephemeral, or open without"
                    " its keyword index"
                )
            with self.journal.reader() as reader, self._apply_lock:
                self._catch_up(reader, reader.newest_event())
                if self._built < reader.meta().get(ERASED, 0):
                    self._rebuild(reader)
                event = self._applied
                newest = next(iter(snapshots.found(folder)), (0, folder))
                if newest[0] != event or not _is_sound(newest[1]):
                    origin = self._origin(reader)
                    crc_sum = reader.events_crc(event)
                    if crc_sum is None:
                        raise damaged(self.journal.where, f"an event up to {event} is missing")
                    manifest = snapshots.Manifest(event, crc_sum, self._built, origin)
                    if event:
                        snapshots.write(folder, manifest, self._replica.save_parts)
                self._saved = event
        return event

    def newest_snapshot(self) -> int | None:
        """The event of the newest snapshot on disk."""
        path = self.journal.path
        if path is None:
            return None
        with translated(str(path.parent)):
            return max((event for event, _ in snapshots.found(path.parent)), default=None)

    def damaged_snapshots(self) -> list[Path]:
        """What was set aside."""
        path = self.journal.path
        return [] if path is None else snapshots.aside(path.parent)

    def snapshot_if_due(self, least: int) -> None:
        """Write a snapshot if there were `least` events since the newest; failing is no error."""
        journal = self.journal
        newest = max(self._applied, self._written)
        if (
            newest - self._saved < least
            or journal.path is None
            or journal.read_only
            or journal.closed
            or journal.forked
            or not self._keywords
        ):
            return
        try:
            self._saved = max((n for n, _ in snapshots.found(journal.path.parent)), default=0)
            if newest - self._saved >= least:
                self.snapshot(timeout=0)
        except LockedError:  # another process is at it
            pass
        except (SpectorError, OSError) as error:
            self._saved = newest  # not again at once
            warnings.warn(f"no snapshot was made: {error}", SpectorWarning, stacklevel=4)

    def repair(self) -> int:
        """Build all stores anew from the journal, delete all snapshots, and write a new one."""
        self.journal.check_writable()
        with self._exclusive() as folder:
            if folder is not None:
                snapshots.remove_all(folder)
        with self.journal.reader() as reader, self._apply_lock:
            self._rebuild(reader)
        return self.snapshot()

    def _origin(self, reader: Reader) -> snapshots.Origin:
        return snapshots.Origin(
            reader.setting("store_id"),
            self._replica.index.fingerprint,
            asdict(self.settings),
            asdict(self._replica.shape),
        )

    # The replica

    def _catch_up(self, reader: Reader, newest: int) -> None:
        """Apply the events up to `newest`, the newest that `reader` sees. Needs `_apply_lock`."""
        if self._applied < newest:
            own = self._take_own(newest)
            told = None if own else self._told(reader)  # before readers have to wait
            self._change(lambda: self._feed(own) if own else self._replay(reader, told), newest)

    def _complete(self) -> None:
        """Load what of a snapshot nobody used so far. Needs `_apply_lock`."""
        if self._replica.partial or self._replica.broken is not None:
            self._change(self._replica.complete, self._applied)

    def _told(self, reader: Reader) -> tuple[Restored, Told] | None:
        """What a reflection made that the replica does not have yet. Needs `_apply_lock`."""
        told = reader.told()
        graphs = self._replica.graphs
        if told.event <= graphs.told_by:
            return None
        self.journal.check_whole()  # it matters which slots there are
        with translated("the checkpoint of a reflection"):
            living = (slot for slot, _ in reader.slots())
            size = reader.highest_slot() + 1
            return graphs.told(reader.told_parts(), reader.every_row(), living, size), told

    def _fit(self, reader: Reader) -> None:
        """Make the replica one for the vectors of the journal; it is empty if that changes it."""
        shape = Shape(**reader.setting("vectors"))
        if shape != self._replica.shape:
            self._replica = self._new_replica(shape)
            self._applied = 0

    def _replay(
        self,
        reader: Reader,
        told: tuple[Restored, Told] | None = None,
        audit: Audit | None = None,
    ) -> None:
        """Apply all events that `reader` sees after the applied one, in batches.

        The rows are those of the reader's state, so the last event of a slot says all: a memory
        updated many times is read and analysed once, and one forgotten later not at all. What they
        say of entities is in `told` up to one of the events, so all after that one are gone
        through.
        """
        self._fit(reader)
        told = told or self._told(reader)  # also of a replica that is new
        known = after = self._applied
        if not known:
            self._built = reader.newest_event()
        pruned = reader.pruned()
        last: dict[int, int] = {}
        if known < pruned.until:
            last = self._begin_pruned(reader, pruned)
        until = 0
        if told is not None:
            restored, (event, until) = told
            after = min(after, until)
            self._replica.graphs.take_told(restored, event)
        taught = max(known, pruned.until)
        while events := reader.events(after, _EVENTS_AT_ONCE, pruned.until):
            if audit is not None:
                audit.add_events(events)
            for part in _parts(events, {taught, until}):
                if last and after <= until < part[0].seq:
                    self._apply_rows(reader, last, audit, told=True)
                    last = {}
                self._add_last(last, part)
                if part[0].seq > taught:
                    self._replica.feed(part)
                after = part[-1].seq
        self._apply_rows(reader, last, audit, told=after <= until)

    def _begin_pruned(self, reader: Reader, pruned: Pruned) -> dict[int, int]:
        """Begin a replay before `pruned.until`: have at once what all events up to that taught, as
        only the rows follow from those that are left. Returns what there is to apply."""
        self.journal.check_whole()
        reader.check_kept(pruned)
        last: dict[int, int] = {}
        if self._applied:  # which memories were forgotten or recalled since, nothing says
            living = {slot for slot, _ in reader.slots()}
            had = {*self._replica.records.slots().tolist(), *self._replica.suppressed}
            self._apply(dict.fromkeys(sorted(had - living), EventType.FORGET), {}, {})
            last = dict.fromkeys(sorted(living & had), EventType.REINFORCE.value)
        self._replica.take_checkpoint(reader.checkpoint())
        return last

    def _apply_rows(
        self, reader: Reader, last: Mapping[int, int], audit: Audit | None, told: bool
    ) -> None:
        """Bring these slots to the state of `reader`, in batches."""
        if self._replica.shape != Shape() and _REMEMBER in last.values():
            self.journal.check_whole()  # a vector that is gone would not be missed
        slots = sorted(last)
        for start in range(0, len(slots), _SLOTS_AT_ONCE):
            batch = {slot: last[slot] for slot in slots[start : start + _SLOTS_AT_ONCE]}
            rows = reader.rows(list(batch))  # what was forgotten must not have one: see Audit
            if any(batch[slot] != EventType.FORGET for slot in batch.keys() - rows.keys()):
                self.journal.check_whole()  # perhaps it is forgotten by an event that is not in it
            if audit is not None:
                audit.add_rows(rows.values())
            vectors = reader.vectors(list(batch)) if self._replica.shape != Shape() else {}
            self._apply(batch, rows, vectors, told)

    def _add_last(self, last: dict[int, int], events: Sequence[Event]) -> None:
        """Note for each slot what its events make of it: FORGET, REMEMBER, or, where only what
        was learned of the memory has changed, REINFORCE."""
        for event in events:
            if event.type == _REMEMBER:
                last[event.slot] = _REMEMBER
                continue
            if event.type not in _KNOWN_TYPES:
                raise CorruptionError(
                    f"{self.journal.where}: event {event.seq} has the unknown type {event.type}"
                )
            if event.type == EventType.RECALL:
                for slot in recalled_slots(event):
                    last.setdefault(slot, EventType.REINFORCE)
            elif event.type == EventType.REINFORCE:
                last.setdefault(event.slot, event.type)
            elif event.slot:
                gone = event.type == EventType.FORGET
                last[event.slot] = EventType.FORGET if gone else EventType.REMEMBER

    def _apply(
        self,
        last: Mapping[int, int],
        rows: Mapping[int, MemoryRow],
        vectors: Mapping[int, list[VectorRow]],
        told: bool = False,
    ) -> None:
        """Bring the replica up to date with the last event of each of these slots; doing so again
        changes nothing.

        `rows` and `vectors` are those of the slots to remember; `told` as in `Graphs.put`.
        """
        put: dict[int, MemoryRow] = {}
        touched: dict[int, MemoryRow] = {}
        for slot, kind in last.items():
            if kind != EventType.FORGET and slot in rows:
                (put if kind == EventType.REMEMBER else touched)[slot] = rows[slot]
        gone = [slot for slot, kind in last.items() if kind == EventType.FORGET]
        self._replica.apply(gone, put, vectors, touched, told)

    def _change(self, work: Callable[[], object], newest: int) -> None:
        """Change the replica to the state after event `newest`. Needs `_apply_lock`."""
        self._version += 1
        try:
            try:
                work()
            except Exception:
                if self._replica.broken is None:
                    self.journal.check_whole()  # if it is damaged, that says more
                    raise
                newest = self._renew()  # the snapshot is gone of which it needed a part
            self._applied = newest
        except BaseException:
            # Half applied: start over at the next call.
            self._replica = self._new_replica(self._replica.shape)
            self._applied = 0
            raise
        finally:
            self._version += 1

    def _renew(self) -> int:
        """Make the replica anew from the journal; returns the event up to which."""
        self._replica = self._new_replica(self._replica.shape)
        self._applied = 0
        with self.journal.reader() as reader:
            self._replay(reader)
            return reader.newest_event()

    # Opening and closing

    def load(self) -> None:
        """Build the replica: from the newest snapshot that is sound and the events since, else from
        the whole journal, after a check that it is all there."""
        with self.journal.reader(whole=False) as reader, self._apply_lock:
            reader.require_schema()
            try:
                self._load(reader)
            except SpectorError:
                raise
            except Exception:
                self.journal.check_whole()  # if it is damaged, that says more
                raise

    def _load(self, reader: Reader) -> None:
        if not self._load_snapshot(reader):
            self.journal.check_whole()
            self._rebuild(reader)

    def _rebuild(self, reader: Reader) -> None:
        """Build the replica from the whole journal. Needs `_apply_lock`."""
        audit = Audit()

        def begin_again() -> None:
            self._replica = self._new_replica(self._replica.shape)
            self._applied = 0
            self._replay(reader, audit=audit)

        self._change(begin_again, reader.newest_event())
        for problem in audit.problems(reader):
            raise damaged(self.journal.where, problem)
        self._audited = set(_AUDITS)

    def _load_snapshot(self, reader: Reader) -> bool:
        if self.journal.path is None:
            return False
        for event, path in snapshots.found(self.journal.path.parent):
            replica = self._replica_of(reader, event, path)
            if replica is None:
                continue

            def go_on(event: int = event, replica: Replica = replica) -> None:
                self._replica, self._applied, self._saved = replica, event, event
                self._replay(reader)
                if not self._replica.filled:
                    self.journal.check_whole()
                    self._replica.fill(reader, _SLOTS_AT_ONCE)

            self._change(go_on, reader.newest_event())
            self._audited = set()
            return True
        return False

    def _replica_of(self, reader: Reader, event: int, path: Path) -> Replica | None:
        """What a snapshot holds; None if it is of no use, and set aside if it is damaged."""
        shape = Shape(**reader.setting("vectors"))
        replica = self._new_replica(shape)
        try:
            manifest = snapshots.read(path)
            if reader.events_crc(event) != manifest.events_crc:
                raise CorruptionError(f"{path} is of other events than those of the journal")
            if manifest.origin.shape != asdict(shape) or manifest.built < reader.meta().get(
                ERASED, 0
            ):
                return None  # the next one will replace it
            origin = snapshots.Origin(
                reader.setting("store_id"),
                replica.index.fingerprint,
                asdict(self.settings),
                asdict(shape),
            )
            if manifest.origin != origin:
                raise VersionError(f"{path} was made with other settings or another analyzer")
            replica.load_parts(path)
            if not replica.filled:
                replica.complete()
        except FileNotFoundError:  # another process replaced it just now
            return None
        except Exception as error:  # whatever loading what is damaged raises
            self._set_aside(path, error)
            return None
        self._built = manifest.built
        return replica

    def _set_aside(self, path: Path, error: Exception) -> None:
        where = "left where it is"
        if not self.journal.read_only:
            with contextlib.suppress(OSError, LockedError), self._exclusive(0):
                where = f"set aside as {snapshots.set_aside(path).name}"
        warnings.warn(
            f"a snapshot could not be used and was {where}; the space is read from its journal,"
            f" nothing is lost ({error})",
            SpectorWarning,
            stacklevel=6,
        )

    def _audit(self, reader: Reader, wanted: Filter) -> None:
        """Check once all that a filter reads: opening from a snapshot reads no rows, and what a
        filter leaves out is never read.

        Types, times and authors are in indexes, which were compared with the rows. Tags and valence
        are compared with the replica's, which are of files with checksums; for the rest the rows
        are read.
        """
        self.journal.check_whole()
        needed = {
            name
            for name, given in (
                ("tags", bool(wanted.tags)),
                ("valence", wanted.min_valence is not None or wanted.max_valence is not None),
                ("rows", wanted.min_importance is not None),
            )
            if given
        }
        for name in sorted(needed - self._audited):
            if name == "rows":
                self._audit_rows(reader)
            elif not (self._same_tags(reader) if name == "tags" else self._same_valence(reader)):
                raise damaged(
                    self.journal.where,
                    f"the {name} that filters read are not those of the memories",
                )
            self._audited.add(name)

    def _same_tags(self, reader: Reader) -> bool:
        capture = self._replica.graphs.capture
        count = 0
        for tag, pairs in itertools.groupby(reader.every_tag(), operator.itemgetter(0)):
            count += 1
            slots = [slot for _, slot in pairs]
            try:
                if capture.slots(tag)[::-1].tolist() != slots:
                    return False
            except ValueError:  # no tag
                return False
        return count == len(capture.tags())

    def _same_valence(self, reader: Reader) -> bool:
        found = reader.valences()
        for slot, row in reader.rows(sorted(self._replica.suppressed)).items():
            if found.pop(slot, None) != row[16]:
                return False
        records = self._replica.records
        slots = records.slots()
        return list(found) == slots.tolist() and bool(
            (records.headers(slots)["valence"] == list(found.values())).all()
        )

    def _audit_rows(self, reader: Reader) -> None:
        audit = Audit()
        after = 0
        until = reader.pruned().until
        while events := reader.events(after, _EVENTS_AT_ONCE, until):
            audit.add_events(events)
            after = events[-1].seq
        slots = [slot for slot, _ in reader.slots()]
        for start in range(0, len(slots), _SLOTS_AT_ONCE):
            audit.add_rows(reader.rows(slots[start : start + _SLOTS_AT_ONCE]).values())
        for problem in audit.problems(reader):
            raise damaged(self.journal.where, problem)

    @property
    def replica(self) -> Replica:
        """The stores as they are, all of them, with all that this object wrote. Not for use in
        `read`."""
        self.complete()
        return self._replica

    @property
    def learning(self) -> Learning:
        """What recalls and their outcomes taught, as it is."""
        if self._own:
            self.catch_up()
        return self._replica.learning

    def tags_in(self, text: str) -> tuple[str, ...]:
        """The tags of memories that occur in a text; see `Graphs.tags_in`."""
        replica = self._replica
        try:
            return replica.graphs.tags_in(text)
        except Exception:
            if replica.broken is None:
                raise
            return self.replica.graphs.tags_in(text)

    def close(self) -> None:
        """Wait for the calls in progress (see `Journal.close`) and close the journal."""
        if self.journal.forked:
            return
        self.journal.refuse_calls()
        waited = self._write_lock.acquire(timeout=CLOSE_TIMEOUT)
        try:
            self.journal.close()
            self._own.clear()
            # Whoever still has this object shall not keep the files of a snapshot in use.
            self._replica = Replica(self.settings, Shape())
        finally:
            if waited:
                self._write_lock.release()


def _parts(events: Sequence[Event], ends: Collection[int]) -> Iterator[Sequence[Event]]:
    """The events in parts, so that none of these events, or where it was, is inside one."""
    start = 0
    for place in range(1, len(events)):
        if any(events[place - 1].seq <= end < events[place].seq for end in ends):
            yield events[start:place]
            start = place
    yield events[start:]


def _is_sound(path: Path) -> bool:
    try:
        snapshots.read(path)
    except (SpectorError, OSError):
        return False
    return True
