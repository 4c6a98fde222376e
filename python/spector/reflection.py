"""One cycle of reflection: what fades is let go, what belongs together is joined (RFL-1 to RFL-9).

Each step is confined: one that fails is reported, and the next one runs. What a step changes is an
event like any other, so that replicas agree; what it has to know for that, it computes before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spector.errors import SpectorError
from spector.records import ScoringOptions
from spector.store.graphs import reflect_payload
from spector.store.model import (
    CONSOLIDATED,
    MADE_BY_REFLECTION,
    PINNED,
    UNRESOLVED,
    MemoryRow,
    tags_of,
)
from spector.store.reader import Reader
from spector.store.recorder import writing
from spector.store.replica import Replica
from spector.store.space import Space
from spector.store.transaction import Transaction
from spector.store.values import show

__all__ = ["Cycles", "Reflection", "ReflectionReport", "Step"]

_FADED: Final = 0.05  # importance times decay (RFL-1)
_FEEBLE: Final = 0.5  # importance above which nothing fades so far: decay is at least 0.1
_AT_ONCE: Final = 100  # memories of a transaction that forgets: a recall may wait for one
_LINKS_AT_ONCE: Final = 10_000  # of one that takes them out of their chains
_RETENTION_DAYS: Final = 30.0  # TMP-5
_UNIMPORTANT: Final = 1.0
_PROMOTED: Final = 0.65  # RFL-6
_MOST_PROMOTED: Final = 2000
_LEAST_CLUSTER: Final = 5  # RFL-2
_MOST_OF_TAG: Final = 200
_OVERLAP: Final = 0.5
_ALIKE: Final = 0.6  # cosine
_DAY: Final = 86_400_000
_HOUR: Final = 3_600_000
#: New memories that are reason enough for a cycle, unless there were more before them.
_MANY: Final = 10_000
#: The setting that says when a cycle ended last.
_REFLECTED: Final = "reflected"

_log = logging.getLogger("spector")


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did.

    Attributes
    ----------
    name : str
    counts : dict of str to int
    seconds : float
    error : str or None
        What went wrong, if something did.
    """

    name: str
    counts: dict[str, int]
    seconds: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReflectionReport:
    """What a cycle did, step by step (RFL-9)."""

    steps: tuple[Step, ...]

    @property
    def ok(self) -> bool:
        """Whether no step failed."""
        return all(step.error is None for step in self.steps)

    def __getitem__(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {"ok": self.ok, "steps": [asdict(step) for step in self.steps]}

    def __str__(self) -> str:
        lines = []
        for step in self.steps:
            did = ", ".join(f"{value:,} {name}" for name, value in step.counts.items() if value)
            lines.append(f"{step.name}: {step.error or did or 'nothing to do'}")
        return "\n".join(lines)


Store = Callable[[Mapping[str, Any]], str]


class Reflection:
    """One cycle over one space."""

    def __init__(
        self,
        space: Space,
        now: int,
        store: Store,
        retry_extractions: Callable[[], int],
        consolidate: bool = False,
        summarise: Callable[[Sequence[str]], str] | None = None,
        pin_sources: bool = False,
    ) -> None:
        self._space = space
        self._now = now
        self._store = store
        self._retry = retry_extractions
        self._consolidate = consolidate
        self._summarise = summarise
        self._pin = pin_sources

    def run(self) -> ReflectionReport:
        """All steps in their order."""
        steps: list[tuple[str, Callable[[], dict[str, int]]]] = [("prune", self._prune)]
        if self._consolidate:
            steps.append(("consolidate", self._join))
        steps += [
            ("extract", lambda: {"retried": self._retry()}),
            ("hebbian", self._hebbian),
            ("temporal", self._temporal),
            ("entities", self._entities),
            ("checkpoint", self._checkpoint),
        ]
        done = []
        for name, step in steps:
            start = time.perf_counter()
            counts, problem = {}, None
            try:
                counts = step()
            except Exception as error:  # the next one runs all the same
                problem = f"{type(error).__name__}: {error}"
            done.append(Step(name, counts, time.perf_counter() - start, problem))
        return ReflectionReport(tuple(done))

    # RFL-1

    def _prune(self) -> dict[str, int]:
        def work(reader: Reader, replica: Replica) -> list[int]:
            slots = np.asarray(reader.feeble(_FEEBLE, PINNED | UNRESOLVED), np.uint32)
            slots = slots[replica.records.contains(slots)]
            if not len(slots):
                return []
            _, decays = replica.records.factors(slots, ScoringOptions(now=self._now))
            importance = replica.records.headers(slots)["importance"]
            faded: list[int] = slots[importance * decays < _FADED].tolist()
            return faded

        slots = self._space.read(work)
        pruned = 0
        for part in _parts(slots):

            def change(transaction: Transaction, part: Sequence[int] = part) -> int:
                rows = transaction.rows(part)
                for row in rows.values():
                    if row[4] == "episodic" and not row[18] & (PINNED | UNRESOLVED):
                        transaction.forget_row(row, self._now)
                return len(rows)

            pruned += self._space.write(change)
        return {"pruned": pruned}

    # RFL-2

    def _join(self) -> dict[str, int]:
        rows, vectors = self._space.read(_episodes)
        joined = sources = 0
        for cluster in _clusters(rows, vectors):
            members = [rows[slot] for slot in cluster]
            texts = [row[2] for row in members]
            common = set.intersection(*(set(tags_of(row)) for row in members))
            central = texts[_central(cluster, vectors, texts)]
            text = self._summarise(texts) if self._summarise else central
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"summarise must give a text, got {show(text)}")
            if not self._claim(members):  # another process was first, or one of them is gone
                continue
            try:
                self._store(
                    {
                        "text": text,
                        "type": "semantic",
                        "source": MADE_BY_REFLECTION,
                        "tags": sorted(common),
                        "importance": float(np.mean([row[14] for row in members])),
                        "valence": max((row[16] for row in members), key=abs),
                        "metadata": {"sources": [row[1] for row in members]},
                    }
                )
            except BaseException:
                self._release(members)
                raise
            joined += 1
            sources += len(cluster)
        return {"made": joined, "sources": sources}

    def _claim(self, members: Sequence[MemoryRow]) -> bool:
        """Mark the sources, if all are as they were read and nobody else has."""
        flags = CONSOLIDATED | (PINNED if self._pin else 0)

        def change(transaction: Transaction) -> bool:
            there = transaction.rows([row[0] for row in members])
            fresh = [there.get(row[0]) for row in members]
            if any(row is None or row[18] & CONSOLIDATED for row in fresh):
                return False
            if any(
                now is None or now[2] != row[2] for now, row in zip(fresh, members, strict=True)
            ):
                return False
            for row in there.values():
                transaction.set_state(row, "consolidated", self._now, flags=row[18] | flags)
            return True

        return self._space.write(change)

    def _release(self, members: Sequence[MemoryRow]) -> None:
        """Take the marks back."""

        def change(transaction: Transaction) -> None:
            for row in transaction.rows([row[0] for row in members]).values():
                flags = row[18] & ~CONSOLIDATED
                transaction.set_state(row, "consolidated", self._now, flags=flags)

        self._space.write(change)

    # RFL-4 to RFL-7

    def _reflect(self, step: str, *arguments: Any) -> dict[str, int]:
        """Let all replicas do a step on their graph; returns what it did on this one."""
        payload = reflect_payload(step, *arguments)
        self._space.write(lambda transaction: transaction.reflect(payload, self._now))
        return dict(self._space.replica.graphs.reflected)

    def _hebbian(self) -> dict[str, int]:
        if not self._space.replica.graphs.hebbian.edge_count:
            return {}
        return self._reflect("hebbian")

    def _temporal(self) -> dict[str, int]:
        before = (self._now - int(_RETENTION_DAYS * _DAY)) // 1000
        if before <= 0:
            return {}

        def work(reader: Reader, replica: Replica) -> list[int]:
            chain = replica.graphs.temporal.records()
            linked = (chain.prev >= 0) | (chain.next >= 0)
            old = np.flatnonzero(linked & (chain.time > 0) & (chain.time < before))
            slots = old.astype(np.uint32)
            slots = slots[replica.records.contains(slots)]
            if not len(slots):
                return []
            importance = replica.records.headers(slots)["importance"]
            unimportant: list[int] = slots[importance < _UNIMPORTANT].tolist()
            return unimportant

        unlinked = 0
        for part in _parts(self._space.read(work), _LINKS_AT_ONCE):
            unlinked += self._reflect("temporal", before, part).get("unlinked", 0)
        return {"unlinked": unlinked}

    def _entities(self) -> dict[str, int]:
        return self._space.reflect_entities(self._now, _PROMOTED, _MOST_PROMOTED)

    # RFL-8

    def _checkpoint(self) -> dict[str, int]:
        self._space.write(lambda transaction: transaction.set_meta({_REFLECTED: self._now}))
        self._space.snapshot_if_due(1)
        return {}


class Cycles:
    """The cycles of one memory: one at a time, on request and, in a thread of its own, when one
    is due. Any thread may call it.

    Parameters
    ----------
    space : Space
    every : float or None
        Hours after which one is due; None for never by itself.
    now : int
        When the space was opened, in milliseconds since 1970 UTC.
    """

    def __init__(self, space: Space, every: float | None, now: int) -> None:
        self._space = space
        self._every = None if space.journal.read_only or every is None else int(every * _HOUR)
        self._lock = threading.Lock()
        self._running: Future[ReflectionReport] | None = None
        self._runs_in = 0
        self._thread: threading.Thread | None = None
        self._closed = False
        self._stored = self._before = 0
        self._last = now
        self.failures = 0
        if self._every is not None:
            self._last = self._reflected(now)
            self._before = self._memories()

    def _reflected(self, now: int) -> int:
        """When a cycle of any process ended last, else when the space had its first event."""
        with self._space.journal.reader(whole=False) as reader:
            known = reader.meta_value(_REFLECTED, None)
            if known is None:
                known = reader.first_event_time()
        return now if known is None else int(known)

    def _memories(self) -> int:
        with self._space.journal.reader(whole=False) as reader:
            return reader.totals()["memories"].rows

    def run(self, cycle: Callable[[], ReflectionReport]) -> ReflectionReport:
        """Run it, or wait for the one that runs (RFL-9)."""
        with self._lock:
            running = self._running
            if running is not None and self._runs_in == threading.get_ident():
                raise SpectorError("reflect must not be called by what it calls itself")
            mine = running is None
            if running is None:
                running = self._running = Future()
                self._runs_in = threading.get_ident()
        if not mine:
            return running.result()
        try:
            report = cycle()
            running.set_result(report)
            return report
        except BaseException as error:
            running.set_exception(error)
            raise
        finally:
            with self._lock:
                self._running = None

    def note(self, now: int, stored: int, reflect: Callable[[], ReflectionReport]) -> None:
        """Something happened: `stored` new memories, or a recall. Starts a cycle if one is due."""
        if self._every is None:
            return
        self._stored += stored
        if now - self._last < self._every and self._stored < max(_MANY, self._before):
            return
        with self._lock:
            if self._closed or self._running or (self._thread and self._thread.is_alive()):
                return
            many = self._stored >= max(_MANY, self._before)
            self._stored, self._before = 0, self._memories()
            self._thread = threading.Thread(
                target=self._alone, args=(now, many, reflect), name="spector-reflect", daemon=True
            )
            self._thread.start()

    def _alone(self, now: int, many: bool, reflect: Callable[[], ReflectionReport]) -> None:
        try:
            with writing:
                last = self._reflected(now)
                if many or now - last >= (self._every or 0):  # else another process was first
                    last = now  # and is not tried again at once, if it fails
                    failed = [step for step in reflect().steps if step.error]
                    self.failures += bool(failed)
                    for step in failed:
                        _log.warning("reflect: %s: %s", step.name, step.error)
                self._last = last
        except Exception as error:
            self._last = now
            self.failures += 1
            _log.warning("reflect: %s", error)

    def close(self) -> None:
        """Start no more, and wait for the one in the background."""
        with self._lock:
            self._closed = True
            thread = self._thread
        forked = self._space.journal.forked
        if thread is not None and thread is not threading.current_thread() and not forked:
            thread.join()


def _parts(slots: Sequence[int], size: int = _AT_ONCE) -> Iterator[list[int]]:
    for first in range(0, len(slots), size):
        yield list(slots[first : first + size])


Vectors = dict[int, "npt.NDArray[np.float32]"]


def _episodes(reader: Reader, replica: Replica) -> tuple[dict[int, MemoryRow], Vectors]:
    """The episodic memories with tags that no summary stands for yet, and their vectors."""
    rows = {
        slot: row
        for slot, row in reader.rows(reader.of_type("episodic")).items()
        if tags_of(row) and not row[18] & CONSOLIDATED and row[24] is None
    }
    vectors: Vectors = {}
    for slot in rows:
        vector = replica.records.vector(slot) if slot in replica.records else None
        if vector is not None:
            vectors[slot] = vector / max(float(np.linalg.norm(vector)), 1e-30)
    return rows, vectors


def _clusters(rows: Mapping[int, MemoryRow], vectors: Vectors) -> Iterator[list[int]]:
    """Groups of at least five that share tags and, where there are vectors, meaning.

    Within a tag the newest memories count, so that the work stays linear in all of them.
    """
    of_tag: dict[str, list[int]] = {}
    for slot, row in rows.items():
        for tag in tags_of(row):
            of_tag.setdefault(tag, []).append(slot)
    taken: set[int] = set()
    for tag in sorted(of_tag, key=lambda tag: (-len(of_tag[tag]), tag)):
        members = [slot for slot in of_tag[tag] if slot not in taken][-_MOST_OF_TAG:]
        while len(members) >= _LEAST_CLUSTER:
            first, *others = members
            near = [first] + [slot for slot in others if _alike(rows, vectors, first, slot)]
            if len(near) >= _LEAST_CLUSTER:
                taken.update(near)
                yield near
                members = [slot for slot in members if slot not in taken]
            else:
                members = others


def _alike(rows: Mapping[int, MemoryRow], vectors: Vectors, a: int, b: int) -> bool:
    one, other = set(tags_of(rows[a])), set(tags_of(rows[b]))
    if len(one & other) < _OVERLAP * len(one | other):
        return False
    return a not in vectors or b not in vectors or float(vectors[a] @ vectors[b]) >= _ALIKE


def _central(cluster: Sequence[int], vectors: Vectors, texts: Sequence[str]) -> int:
    """Which member stands for all: the nearest to their mean, else the one with their words."""
    if all(slot in vectors for slot in cluster):
        matrix = np.stack([vectors[slot] for slot in cluster])
        return int(np.argmax(matrix @ matrix.mean(axis=0)))
    words = [set(text.casefold().split()) for text in texts]
    frequent = Counter(word for of_text in words for word in of_text)
    shares = [sum(frequent[word] for word in of_text) / max(1, len(of_text)) for of_text in words]
    return int(np.argmax(shares))
