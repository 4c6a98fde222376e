"""Is a journal sound? Used in full by `spector doctor`, and in part at each open."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from spector.errors import CorruptionError, VersionError

from .journal import FILE_NAME, Journal, set_aside_notice
from .model import (
    Event,
    EventType,
    MemoryRow,
    add_crc,
    event_holds,
    row_problem,
    tags_of,
    vector_holds,
)
from .reader import Reader
from .snapshots import notices
from .sqlite_errors import SEE_DOCTOR
from .values import check_path


class Audit:
    """Collects what was read and compares it with what the journal says it holds."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._row_sum = 0
        self._tags = 0
        self._tag_sum = 0
        self._events = 0
        self._event_sum = 0
        self._highest_slot = 0
        self._living: set[int] = set()

    def add_rows(self, rows: Iterable[MemoryRow]) -> None:
        """Count these memories, each once however often it is read."""
        for row in rows:
            slot, crc = row[0], row[-1]
            if slot in self._rows:
                continue
            self._rows[slot] = crc
            self._row_sum += crc
            for tag in tags_of(row):
                self._tags += 1
                self._tag_sum += hash((tag, slot))

    def add_events(self, events: Iterable[Event]) -> None:
        """Count these events; they must come in order."""
        for event in events:
            self._events += 1
            self._event_sum += event.crc
            if event.slot > self._highest_slot:
                self._highest_slot = event.slot
            if event.type == EventType.FORGET:
                self._living.discard(event.slot)
            elif event.slot and event.type != EventType.REINFORCE:  # the first of these may be gone
                self._living.add(event.slot)

    def problems(self, reader: Reader) -> Iterator[str]:
        """Every difference between what was counted and what is stored."""
        totals = reader.totals()
        found = {
            "memories": (len(self._rows), add_crc(0, self._row_sum)),
            "events": (self._events, add_crc(0, self._event_sum)),
            "vectors": reader.vector_total(),
            "meta": reader.meta_total(),
            "checkpoint": reader.checkpoint_total(),
        }
        for name, (count, crc_sum) in found.items():
            if count != totals[name].rows:
                yield f"{name} has {count} rows, but {totals[name].rows} were written"
            elif crc_sum != totals[name].crc_sum:
                yield f"the checksums of {name} do not add up to the stored sum"
        for slot in sorted(self._living ^ self._rows.keys())[:10]:
            state = "is missing" if slot in self._living else "has no event"
            yield f"the memory in slot {slot} {state}"
        if reader.highest_slot() < self._highest_slot:
            yield (
                f"the highest slot is said to be {reader.highest_slot()},"
                f" but {self._highest_slot} was given out"
            )
        tags, tag_sum = 0, 0
        for pair in reader.every_tag():
            tags += 1
            tag_sum += hash(pair)
        if (tags, tag_sum) != (self._tags, self._tag_sum):
            yield "the table of tags differs from the tags of the memories"


@dataclass(frozen=True)
class Report:
    """What `check` found.

    Attributes
    ----------
    path : str
        The journal that was checked.
    memories, events : int
        How many of each were read.
    problems : list of str
        What is wrong, one sentence each; empty when the journal is sound.
    warnings : list of str
        What is no damage of this journal but should be known.
    """

    path: str
    memories: int = 0
    events: int = 0
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "path": self.path,
            "ok": self.ok,
            "memories": self.memories,
            "events": self.events,
            "problems": list(self.problems),
            "warnings": list(self.warnings),
        }


def check(path: str | os.PathLike[str]) -> Report:
    """Check the journal of the space in a folder, without changing it.

    Looks at the application id and version, the schema, SQLite's own integrity check, the checksum
    of each row, the totals, the order of events, and the table of tags.

    Parameters
    ----------
    path : str or PathLike
        The folder of the space.

    Returns
    -------
    Report
        With `ok` and the list of `problems`. A damaged journal is reported, not raised; a journal
        that is absent, locked or unreadable raises.
    """
    folder = check_path(path)
    try:
        journal = Journal.existing(folder)
    except (CorruptionError, VersionError) as error:
        return Report(str(folder / FILE_NAME), problems=[_problem(error)])
    report = check_journal(journal)
    report.warnings.extend(notices(folder))
    return report


def check_journal(journal: Journal) -> Report:
    """`check` of a journal that was opened for it; closes it."""
    memories = events = 0
    problems: list[str] = []
    try:
        with journal.reader(whole=False) as reader:
            problems.extend(reader.problems())
            audit = Audit()
            for row in reader.every_row():
                memories += 1
                problem = row_problem(row)
                if problem is None:
                    audit.add_rows([row])
                else:
                    problems.append(problem)
            for vector in reader.every_vector():
                if not vector_holds(vector):
                    problems.append(
                        f"the {vector.kind} vector in slot {vector.slot} does not match its"
                        " checksum"
                    )
            pruned = reader.pruned()
            reader.check_kept(pruned)
            reader.checkpoint()
            expected = pruned.until + 1
            for event in reader.every_event():
                events += 1
                audit.add_events([event])
                if event.seq > pruned.until:
                    if event.seq != expected:
                        problems.append(f"event {expected} is missing or out of order")
                        break
                    expected += 1
                if not event_holds(event):
                    problems.append(f"event {event.seq} does not match its checksum")
                elif event.type not in EventType.__members__.values():
                    problems.append(f"event {event.seq} has the unknown type {event.type}")
            reader.meta()
            problems.extend(audit.problems(reader))
    except CorruptionError as error:
        problems.append(_problem(error))
    finally:
        journal.close()
    warnings = [set_aside_notice(log) for log in journal.set_aside()]
    return Report(journal.where, memories, events, problems, warnings)


def _problem(error: Exception) -> str:
    return str(error).replace(SEE_DOCTOR, "")
