"""The graph over the memories of a space, fed by the journal (AM-14, TMP-3, COA-1, XCP-1, AM-10).

Two sources: the events, in their order, say which memories were told one after the other in a
session; the rows say what each memory is about, by whom it is, and which tags it has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spector import _core
from spector.arguments import fold
from spector.graph import (
    CrossCapture,
    HebbianGraph,
    TagCoActivation,
    TemporalChain,
)

from .learning import partners, tag_hash
from .mentions import Mentions
from .model import Event, EventType, MemoryRow, about_of, tags_of
from .names import EntityNames, NameIndex
from .parts import Parts
from .snapshots import load_array, load_json, save_array, save_json

#: How many memories before it in its session a new one is associated with (HEB-5, AM-14).
WINDOW: Final = 8
_REMEMBER: Final = EventType.REMEMBER.value
_DELTA: Final = 0.3  # HEB-4
_DELTAS: Final = [_DELTA * 0.5**distance for distance in range(WINDOW)]
NOBODY: Final = 0
_WORDS: Final = 100  # of a text, in which tags are looked for
_TAG_WORDS: Final = 3
_AROUND: Final = " .,;:!?\"'()[]{}"  # what stands around a word but is not part of it


def reflect_payload(step: str, *arguments: Any) -> str:
    """What a REFLECT event says: a step, and what it has to know that is not in the graph."""
    return json.dumps([step, *arguments], separators=(",", ":"))


class Restored(NamedTuple):
    """What a reflection made of what memories say."""

    mentions: Mentions
    names: EntityNames
    size: int


def _without(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    return tuple([other for other in numbers if other != number])


class Graphs(Parts):
    """The stores of layers 1 to 4. Any thread may read; one at a time calls the methods below."""

    def __init__(self) -> None:
        super().__init__()
        self.hebbian = HebbianGraph()
        self.temporal = TemporalChain()
        self.coactivation = TagCoActivation()
        self.capture = CrossCapture()
        self.mentions = Mentions()
        self.entities = self.mentions.directory
        self.names = EntityNames()  # of what memories are about
        self.told_by = 0  # the last reflection on entities: its event
        self.authors = NameIndex()
        self._author_numbers: dict[str, int] = {}
        self._author_of: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._sessions: dict[str, int] = {}
        # Tuples, which the garbage collector does not look at: a pass over a million lists would
        # stop every thread.
        self._recent: dict[int, tuple[int, ...]] = {}  # of a session: the newest WINDOW memories
        self._recent_in: dict[int, tuple[int, ...]] = {}  # of a memory: the sessions that have it
        self._newest: dict[int, int] = {}  # of a session: the last memory that was new
        self._newest_in: dict[int, int] = {}
        self._size = 0
        self._put_until = 0  # more than any slot that `put` had
        self.reflected: Mapping[str, int] = {}  # what the last step of a reflection did

    # Events

    def feed(self, events: Sequence[Event]) -> None:
        """Let events that follow each other change the session layers."""
        events = [event for event in events if event.type != EventType.RECALL]
        if not events:
            return
        links: list[tuple[int, int, int, int]] = []
        ends: list[int] = []  # of pairs: one, and in `others` the other, in `deltas` how much
        others: list[int] = []
        deltas: list[float] = []
        highest = max((event.slot for event in events), default=-1)
        fresh = self._size
        if highest >= self._size:
            self._size = highest + 1
            self.hebbian.resize(self._size)
            self.temporal.resize(self._size)

        def flush() -> None:
            if links:
                current, prev, session, when = (list(column) for column in zip(*links, strict=True))
                self.temporal.link(current, prev, session, when)
                links.clear()
            if ends:
                self.hebbian.strengthen_many(ends, others, np.asarray(deltas, np.float32))
                for column in (ends, others, deltas):
                    column.clear()

        for event in events:
            slot = event.slot
            if event.type == _REMEMBER and event.payload is not None:
                session = self._sessions.setdefault(event.payload, len(self._sessions) + 1)
                if slot >= fresh:
                    fresh = slot + 1
                    prev = self._newest.get(session)
                    if prev is not None:
                        when = min(max(event.at // 1000, 0), 2**32 - 1)
                        links.append((slot, prev, session, when))
                        del self._newest_in[prev]
                    self._newest[session] = slot
                    self._newest_in[slot] = session
                recent = self._recent.get(session, ())
                ends += [slot] * len(recent)
                others += reversed(recent)
                deltas += _DELTAS[: len(recent)]
                if slot in recent:
                    own = len(ends) - 1 - recent.index(slot)  # not with itself
                    for column in (ends, others, deltas):
                        del column[own]
                    recent = _without(recent, slot)
                else:
                    self._recent_in[slot] = (*self._recent_in.get(slot, ()), session)
                recent = (*recent, slot)
                if len(recent) > WINDOW:
                    self._drop(recent[0], session)
                    recent = recent[1:]
                self._recent[session] = recent
            elif event.type == EventType.FORGET:
                flush()
                self._leave(slot)
            elif event.type == EventType.REFLECT:
                flush()
                self._reflect(*json.loads(event.payload or "[]"))
            elif event.type == EventType.REINFORCE:
                found = partners(event)
                ends += [slot] * len(found)
                others += found
                deltas += [_DELTA] * len(found)
            elif slot >= fresh:
                fresh = slot + 1
        flush()

    def _reflect(self, step: str, *arguments: Any) -> None:
        """A step of a reflection (RFL-4, RFL-5); that on entities is in the checkpoint of it."""
        if step == "hebbian":
            report = self.hebbian.decay()
            bridges = self.hebbian.recompute_bridges()
            self.hebbian.compact()
            self.reflected = {
                "edges": report.edges,
                "removed": report.removed,
                "floored": report.floored,
                "bridges": bridges,
            }
        elif step == "temporal":
            before, slots = arguments
            self.reflected = {"unlinked": self.temporal.prune(before, slots)}

    def _leave(self, slot: int) -> None:
        for session in self._recent_in.pop(slot, ()):
            self._recent[session] = _without(self._recent[session], slot)
        last_of = self._newest_in.pop(slot, None)
        if last_of is not None:
            before = self.temporal.prev(slot)
            if before >= 0:
                self._newest[last_of] = before
                self._newest_in[before] = last_of
            else:
                del self._newest[last_of]
        self.temporal.remove(slot)
        self.hebbian.remove(slot)

    def _drop(self, slot: int, session: int) -> None:
        sessions = _without(self._recent_in.pop(slot), session)
        if sessions:
            self._recent_in[slot] = sessions

    # Rows

    def forget(self, slots: Sequence[int]) -> None:
        """Take memories out of the layers that follow from their rows."""
        for slot in slots:
            before = self.capture.tags(slot)
            if before:
                self.coactivation.forget(before)
                self.capture.remove(slot)
        self.entities.remove_memory(list(slots))
        self.mentions.remove(slots)
        self._set_authors(slots, [None] * len(slots))

    def put(self, rows: Mapping[int, MemoryRow], told: bool = False) -> None:
        """Let memories have what their rows say, instead of what they had.

        `told`: what they say of entities is in the checkpoint of a reflection, but for the names.
        """
        fresh: list[int] = []
        tags: list[tuple[str, ...]] = []
        known = [slot for slot in rows if slot < self._put_until]
        for slot, row in rows.items():
            own = tags_of(row)
            before = self.capture.tags(slot) if slot < self._put_until else []
            if before:
                self.coactivation.update(before, own)
                self.capture.update(slot, own)
            elif own:
                fresh.append(slot)
                tags.append(own)
        if fresh:
            folded = [list(own) for own in tags]
            self.coactivation.observe_folded(folded)
            self.capture.add_folded(np.asarray(fresh, np.uint32), folded)
        self._put_until = max(self._put_until, max(rows, default=-1) + 1)
        if told:
            about = [name for row in rows.values() for name in about_of(row)]
            self.names.note(about, self.entities)
            self.mentions.recognise(rows)
        else:
            if known:
                self.entities.remove_memory(known)
                self.mentions.remove(known)
            self.mentions.put(rows, self._set_about(rows))
        self._set_authors(list(rows), [row[7] for row in rows.values()])

    def _set_about(self, rows: Mapping[int, MemoryRow]) -> list[tuple[int, int]]:
        """Link memories to what they are about; returns the links."""
        names: list[str] = []
        slots: list[int] = []
        for slot, row in rows.items():
            about = about_of(row)
            names += about
            slots += [slot] * len(about)
        if not names:
            return []
        numbers = self.entities.intern(names, "OTHER")
        self.entities.link(numbers, np.asarray(slots, np.uint32), True)
        self.names.note(names, self.entities)
        return list(zip(numbers.tolist(), slots, strict=True))

    def about(self, entity: int) -> npt.NDArray[np.uint32]:
        """The memories that are about an entity, not those that only mention it (AM-10)."""
        if not len(self.mentions):
            return self.entities.memories_for_entity(entity)
        links = self.entities.links(entity)
        return links.memories[links.about]

    def _set_authors(self, slots: Sequence[int], authors: Sequence[str | None]) -> None:
        if not slots or (not self._author_numbers and not any(authors)):
            return
        highest = max(slots)
        if highest >= len(self._author_of):
            grown = np.zeros(max(2 * len(self._author_of), highest + 1), np.uint32)
            grown[: len(self._author_of)] = self._author_of
            self._author_of = grown
        numbers = []
        for author in authors:
            number = NOBODY
            if author is not None:
                folded = fold(author)
                number = self._author_numbers.get(folded, NOBODY)
                if number == NOBODY:
                    number = self._author_numbers[folded] = len(self._author_numbers) + 1
                    self.authors.add(author, number)
            numbers.append(number)
        self._author_of[list(slots)] = numbers

    def by_author(self, slots: npt.NDArray[np.int64], authors: list[int]) -> npt.NDArray[np.uint32]:
        """Those of these memories that are by one of the authors."""
        return _core.having(self._author_of, slots, authors)

    def tags_in(self, text: str) -> tuple[str, ...]:
        """The tags of memories that occur in a text, as one to three words in a row (XCP-3)."""
        if not len(self.capture):
            return ()
        return tuple(self.capture.among(fold(text).split()[:_WORDS], _TAG_WORDS, _AROUND))

    def named(self, hashes: Set[str]) -> tuple[str, ...]:
        """The tags of memories whose hash is one of these."""
        return tuple(tag for tag, _ in self.coactivation.tags() if tag_hash(tag) in hashes)

    # Reflections on entities. One process does it, on a copy, and what comes of it goes into the
    # journal; all others take it from there, so that all have the same.

    def associated(self, mentions: Mentions, least: float, most: int) -> list[tuple[int, int]]:
        """The pairs of memories that are associated strongest and name different entities
        (RFL-6)."""
        edges = self.hebbian.edges()
        strong = np.flatnonzero(edges.weight >= least)
        order = strong[np.lexsort((edges.b[strong], edges.a[strong], -edges.weight[strong]))]
        pairs: list[tuple[int, int]] = []
        for place in order.tolist():
            a, b = int(edges.a[place]), int(edges.b[place])
            mine, other = (
                set(mentions.directory.entities_for_memory(slot).tolist()) for slot in (a, b)
            )
            if mine and other and mine != other:
                pairs.append((a, b))
                if len(pairs) == most:
                    break
        return pairs

    def told(
        self,
        parts: Mapping[str, bytes],
        rows: Iterable[MemoryRow],
        living: Iterable[int],
        size: int,
    ) -> Restored:
        """What the checkpoint of a reflection holds; `take_told` is for its result.

        Of the memories, which are all below `size`, it has those that are `living` now. `rows` are
        all of these; they are looked at if there are types that are not known yet.
        """
        mentions = self.mentions.of_checkpoint(
            parts, rows if self.mentions.unknown_types(parts) else ()
        )
        slots = np.fromiter(living, np.uint32)
        gone = np.setdiff1d(np.arange(size, dtype=np.uint32), slots, assume_unique=True)
        mentions.directory.remove_memory(gone)
        mentions.remove(gone.tolist())
        names = EntityNames()
        names.note([name for name, _ in self.names.added], mentions.directory)
        return Restored(mentions, names, size)

    def take_told(self, told: Restored, event: int) -> None:
        """Have that, of the reflection that was this event."""
        self.load_all()
        self.mentions, self.names, size = told
        self.entities = self.mentions.directory
        self.told_by = event
        self._put_until = max(self._put_until, size)

    # Snapshots

    @property
    def size(self) -> int:
        """One more than the highest slot so far."""
        return self._size

    def save_parts(self, folder: Path) -> None:
        """Write all of it into a folder."""
        self.coactivation.save(folder / "coactivation.dat")
        tags, tagged, ends, uses = self.capture.table()
        save_array(folder / "tagged.npy", tagged.astype("<u4"))
        save_array(folder / "tags.npy", uses.astype("<u4"))
        save_array(folder / "tag-ends.npy", ends.astype("<u8"))
        self.save_learned(folder)
        self.mentions.save_parts(folder)
        names = {"tags": tags, "about": self.names.added, "authors": self.authors.added}
        save_json(folder / "names.json", names)
        save_array(folder / "authors.npy", self._author_of.astype("<u4"))

    def save_learned(self, folder: Path) -> None:
        """Write what does not follow from rows."""
        self.hebbian.save(folder / "hebbian.graph")
        self.temporal.save(folder / "temporal.chain")
        save_json(folder / "sessions.json", self.sessions())

    def sessions(self) -> dict[str, Any]:
        """What is remembered of sessions to go on with them, as plain values."""
        return {
            "size": self._size,
            "sessions": list(self._sessions),
            "recent": [(session, self._recent[session]) for session in sorted(self._recent)],
            "newest": [(session, self._newest[session]) for session in sorted(self._newest)],
        }

    def load_learned(self, folder: Path) -> None:
        """Take what `save_learned` wrote."""
        self.load_all()
        self.hebbian = HebbianGraph.load(folder / "hebbian.graph")
        self.temporal = TemporalChain.load(folder / "temporal.chain")
        self.__dict__.update(_sessions(folder))

    def load_parts(self, folder: Path) -> None:
        """Of new graphs: take what `save_parts` wrote, each part when it is first used."""

        def sessions() -> dict[str, Any]:
            found = _sessions(folder)
            return {**found, "_put_until": found["_size"]}

        def mentions() -> dict[str, Any]:
            found = Mentions()
            found.load_parts(folder)
            return {"mentions": found, "entities": found.directory}

        self.leave(lambda: {"hebbian": HebbianGraph.load(folder / "hebbian.graph")}, "hebbian")
        self.leave(lambda: {"temporal": TemporalChain.load(folder / "temporal.chain")}, "temporal")
        self.leave(
            lambda: {"coactivation": TagCoActivation.load(folder / "coactivation.dat")},
            "coactivation",
        )
        self.leave(mentions, "mentions", "entities")
        self.leave(sessions, *_SESSIONS, "_put_until")
        self.leave(lambda: _names(folder), *_NAMES)

    def bytes(self) -> dict[str, int]:
        """Memory of each layer (BUD-7)."""
        return {
            "hebbian": self.hebbian.memory_usage(),
            "temporal": sum(self.temporal.memory_usage().values()),
            "coactivation": sum(self.coactivation.memory_usage().values()),
            "capture": sum(self.capture.memory_usage().values()),
            "names": self.names.memory_usage() + self.authors.memory_usage(),
            **self.mentions.bytes(),
        }


#: What `Graphs` keeps of sessions, and what of names.
_SESSIONS: Final = ("_size", "_sessions", "_recent", "_recent_in", "_newest", "_newest_in")
_NAMES: Final = ("capture", "names", "authors", "_author_numbers", "_author_of")


def _sessions(folder: Path) -> dict[str, Any]:
    stored = load_json(folder / "sessions.json")
    recent = {session: tuple(slots) for session, slots in stored["recent"]}
    recent_in: dict[int, tuple[int, ...]] = {}
    for session, slots in recent.items():
        for slot in slots:
            recent_in[slot] = (*recent_in.get(slot, ()), session)
    newest = dict(stored["newest"])
    numbers = {name: number for number, name in enumerate(stored["sessions"], 1)}
    newest_in = {slot: session for session, slot in newest.items()}
    values = (stored["size"], numbers, recent, recent_in, newest, newest_in)
    return dict(zip(_SESSIONS, values, strict=True))


def _names(folder: Path) -> dict[str, Any]:
    stored = load_json(folder / "names.json")
    slots, ends, uses = (
        load_array(folder / f"{name}.npy").astype(dtype)
        for name, dtype in (("tagged", np.uint32), ("tag-ends", np.uint64), ("tags", np.uint32))
    )
    capture = CrossCapture()
    capture.restore(stored["tags"], slots, ends, uses)
    names, authors = EntityNames(), NameIndex()
    names.add_all(stored["about"])
    authors.add_all(stored["authors"])
    numbers = {fold(name): number for name, number in stored["authors"]}
    author_of = load_array(folder / "authors.npy").astype(np.uint32)
    return dict(zip(_NAMES, (capture, names, authors, numbers, author_of), strict=True))
