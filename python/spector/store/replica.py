"""What a process keeps in memory of a space: the stores that answer recalls.

Everything here follows from rows of the journal; `Space` says when.
"""

from __future__ import annotations

import functools
import itertools
import operator
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from spector import _core
from spector.graph import TagCoActivation
from spector.lexical import TextIndex
from spector.records import RecordStore
from spector.records.store import flags_of

from .bandit import ProfileAdaptor
from .filters import Filter
from .graphs import Graphs
from .learning import Learning
from .model import (
    CONSOLIDATED,
    CONTRADICTED,
    PINNED,
    REMINDER,
    UNRESOLVED,
    Event,
    EventType,
    MemoryRow,
    VectorRow,
)
from .nearby import Nearby
from .parts import Parts
from .snapshots import load_json, save_json
from .vectors import unpack_dense, unpack_sparse, unpack_tokens

if TYPE_CHECKING:
    from .reader import Reader


_REMEMBER: Final = EventType.REMEMBER.value


@dataclass(frozen=True)
class Settings:
    """What decides scores. Stored with the space; the stored ones win."""

    k1: float
    b: float
    analyzer: str
    language: str | None

    def index(self) -> TextIndex:
        """An empty index with these settings."""
        return TextIndex(k1=self.k1, b=self.b, analyzer=self.analyzer, language=self.language)


@dataclass(frozen=True)
class Shape:
    """Models and dimensions of the vectors in a space; empty where there are none yet."""

    dense: str = ""
    dimensions: int = 0
    sparse: str = ""
    tokens: str = ""
    token_dimensions: int = 0


class Replica(Parts):
    """The stores. Readers of any thread may use them; one thread at a time changes them."""

    def __init__(
        self,
        settings: Settings,
        shape: Shape,
        keywords: bool = True,
        ann: bool = False,
        bandit: ProfileAdaptor | None = None,
    ) -> None:
        super().__init__()
        self.shape = shape
        self.keywords = keywords
        self.index = settings.index()
        self.records = RecordStore(shape.dimensions)
        self.sparse = _core.SparseIndex()
        self.tokens = _core.TokenVectors(shape.token_dimensions or 1)
        self.graphs = Graphs()
        self.learning = Learning(bandit or ProfileAdaptor())
        self.suppressed: frozenset[int] = frozenset()  # in no list (SUP-1)
        self.reminders: dict[int, int] = {}  # when each memory is due that is one (IMP-4)
        self.nearby = Nearby(shape.dimensions) if ann and shape.dimensions else None
        # Rows of this state that readers have verified. A change makes another one, so that
        # whoever still reads the state before it leaves its rows in the old one.
        self.kept: dict[int, MemoryRow] = {}
        self.kept_matches: dict[Filter, npt.NDArray[np.uint32]] = {}
        self.filled = True  # False between `load_parts` and `fill`, if that has something to do

    def feed(self, events: Sequence[Event]) -> None:
        """Let events, in their order, teach what does not follow from the rows."""
        self.graphs.feed(events)
        for event in events:
            if event.type != _REMEMBER:
                self.learning.feed(event)

    def apply(
        self,
        gone: Sequence[int],
        rows: Mapping[int, MemoryRow],
        vectors: Mapping[int, Sequence[VectorRow]],
        touched: Mapping[int, MemoryRow],
        told: bool = False,
    ) -> None:
        """Forget `gone` and remember `rows`, each instead of what there was in its slot; of
        `touched` only what was learned of it has changed. `told`: see `Graphs.put`."""
        before = self.kept_matches.copy()
        self.kept_matches = {}
        if not gone and not rows:  # what was learned decides conditions on these only
            self.kept_matches = {
                wanted: slots
                for wanted, slots in before.items()
                if wanted.min_importance is wanted.min_valence is wanted.max_valence is None
            }
        self.kept = self.kept.copy()
        for slot in (*gone, *rows):
            self.kept.pop(slot, None)
        self.kept.update((slot, row) for slot, row in touched.items() if slot in self.kept)
        hidden = [slot for slot, row in rows.items() if row[24] is not None]
        if hidden or self.suppressed:
            self.suppressed = self.suppressed.difference(gone, rows).union(hidden)
        if gone or hidden:
            slots = np.asarray([*gone, *hidden], np.uint32)
            self.index.erase(slots)
            self.records.remove(slots)
            self.sparse.erase(slots)
            self.tokens.erase(slots)
            if gone:
                self.graphs.forget(gone)
            if self.nearby is not None:
                self.nearby.remove(slots)
        for slot in gone:
            self.reminders.pop(slot, None)
        self._touch({slot: row for slot, row in touched.items() if slot not in self.suppressed})
        if not rows:
            return
        self.graphs.put(rows, told)
        for slot, row in rows.items():
            if row[18] & REMINDER:
                self.reminders[slot] = row[8]
            elif self.reminders:
                self.reminders.pop(slot, None)
        if hidden:
            rows = {slot: row for slot, row in rows.items() if row[24] is None}
            if not rows:
                return
        slots = np.fromiter(rows, np.uint32, len(rows))
        if self.keywords:
            texts = [row[2] for row in rows.values()]
            self.index.put(slots, texts, [row[3] for row in rows.values()])
        found = self._vectors_by_kind(vectors)
        self._put_records(slots, rows, found["dense"])
        if self.filled:
            self._put_sparse(slots, found["sparse"])
            self._put_tokens(slots, found["tokens"])

    def _vectors_by_kind(
        self, vectors: Mapping[int, Sequence[VectorRow]]
    ) -> dict[str, dict[int, bytes]]:
        found: dict[str, dict[int, bytes]] = {"dense": {}, "sparse": {}, "tokens": {}}
        for slot, of_slot in vectors.items():
            for vector in of_slot:
                if vector.model == self._model(vector.kind):
                    found[vector.kind][slot] = vector.data
        return found

    def _model(self, kind: str) -> str:
        return str(getattr(self.shape, kind))

    def _put_records(
        self,
        slots: npt.NDArray[np.uint32],
        rows: Mapping[int, MemoryRow],
        vectors: Mapping[int, bytes],
    ) -> None:
        table = [_columns_of(row) for row in rows.values()]
        flags = [_flags(row[4], row[18]) for row in rows.values()]
        contradicted = [bool(row[18] & CONTRADICTED) for row in rows.values()]
        if not vectors:
            self.records.put_table(slots, table, flags, contradicted)
            if self.nearby is not None and self.filled:
                self.nearby.remove(slots)
            return
        has = np.asarray([slot in vectors for slot in rows])
        semantic = np.asarray([row[4] == "semantic" for row in rows.values()])
        for chosen in (has, ~has):
            if not chosen.any():
                continue
            some = slots[chosen]
            dense = None
            if chosen is has:
                dense = np.stack([unpack_dense(vectors[slot]) for slot in some.tolist()])
            self.records.put_table(
                some,
                list(itertools.compress(table, chosen)),
                np.asarray(flags)[chosen].tolist(),
                np.asarray(contradicted)[chosen].tolist(),
                dense,
            )
            if self.nearby is None or not self.filled:
                continue
            if dense is None:
                self.nearby.remove(some)
            else:
                self.nearby.put(some, dense, semantic[chosen], self.records)

    def _touch(self, rows: Mapping[int, MemoryRow]) -> None:
        if rows:
            slots = np.fromiter(rows, np.uint32, len(rows))
            self.records.update_table(slots, [_columns_of(row) for row in rows.values()])

    def _put_sparse(self, slots: npt.NDArray[np.uint32], vectors: Mapping[int, bytes]) -> None:
        if vectors or len(self.sparse):
            self.sparse.put(slots, [unpack_sparse(vectors.get(int(slot))) for slot in slots])

    def _put_tokens(self, slots: npt.NDArray[np.uint32], vectors: Mapping[int, bytes]) -> None:
        if not vectors and not len(self.tokens):
            return
        parts = [
            unpack_tokens(vectors.get(int(slot)), self.shape.token_dimensions) for slot in slots
        ]
        ends = np.zeros(len(parts) + 1, np.uint64)
        np.cumsum([len(scales) for _, scales in parts], out=ends[1:])
        self.tokens.put(
            slots,
            ends,
            np.concatenate([codes for codes, _ in parts]),
            np.concatenate([scales for _, scales in parts]),
        )

    # Snapshots. A new store gets one line in `save_parts` and one in `load_parts`; plain values and
    # arrays go through `save_json` and `save_array` of `snapshots.py`. What is saved must be the
    # state after the last event that was applied, and loading must give that state back. What
    # follows from rows alone may be left out and made in `fill` instead. The checksums of the files
    # hold when a space is opened; a store that raises later has the replica made anew.

    def save_parts(self, folder: Path) -> None:
        """Write the stores into a folder. Readers go on, nobody changes the replica meanwhile."""
        self.index.save(folder / "bm25.idx", self.graphs.size)
        self.records.save(folder / "records.seg")
        self.graphs.save_parts(folder)
        self._save_learning(
            folder,
            suppressed=sorted(self.suppressed),
            reminders=sorted(self.reminders.items()),
            told_by=self.graphs.told_by,
        )

    def _save_learning(self, folder: Path, **more: Any) -> None:
        self.learning.bandit.save(folder / "coactivation.tracker")
        self.learning.sequence.save(folder / "sequences.dat")
        save_json(folder / "learning.json", {"learning": self.learning.as_dict(), **more})

    def _load_learning(self, folder: Path) -> dict[str, Any]:
        self.learning.bandit.restore(folder / "coactivation.tracker")
        self.learning.sequence = TagCoActivation.load(folder / "sequences.dat")
        stored: dict[str, Any] = load_json(folder / "learning.json")
        self.learning.take(stored["learning"])
        return stored

    def checkpoint(self) -> dict[str, bytes]:
        """What events taught and no row says, for the journal, which then need not keep them all
        (AM-19): numbers and hashes, never text (AM-17), so that no erasure has to look there."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            self.graphs.save_learned(folder)
            self._save_learning(folder)
            return {path.name: path.read_bytes() for path in folder.iterdir()}

    def take_checkpoint(self, parts: Mapping[str, bytes]) -> None:
        """Have what `checkpoint` gave, whatever was learned before."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for name, content in parts.items():
                (folder / name).write_bytes(content)
            self.graphs.load_learned(folder)
            self._load_learning(folder)

    def load_parts(self, folder: Path) -> None:
        """Of a new replica: take the stores that `save_parts` wrote, the large ones when they are
        first used."""
        if self.keywords:
            self.index.load(folder / "bm25.idx")
        self.leave(lambda: {"records": RecordStore.load(folder / "records.seg")}, "records")
        self.graphs.load_parts(folder)
        stored = self._load_learning(folder)
        self.suppressed = frozenset(stored["suppressed"])
        self.reminders = dict(stored["reminders"])
        self.graphs.told_by = stored["told_by"]
        self.filled = not self.shape.sparse and not self.shape.tokens and self.nearby is None

    def complete(self) -> None:
        """Load what is not there yet."""
        self.failed = self.graphs.failed = None
        self.load_all()
        self.graphs.load_all()

    @property
    def partial(self) -> bool:
        """Whether something is not loaded yet."""
        return bool(self.absent or self.graphs.absent)

    @property
    def broken(self) -> Exception | None:
        """Why a part could not be loaded when it was used."""
        return self.failed or self.graphs.failed

    def fill(self, reader: Reader, batch: int) -> None:
        """After `load_parts` and the events since: make what is not in a snapshot from the rows."""
        self.filled = True
        slots = [slot for slot, _ in reader.slots() if slot not in self.suppressed]
        for start in range(0, len(slots), batch):
            part = slots[start : start + batch]
            found = self._vectors_by_kind(reader.vectors(part))
            for kind, put in (("sparse", self._put_sparse), ("tokens", self._put_tokens)):
                if found[kind]:
                    put(np.asarray(sorted(found[kind]), np.uint32), found[kind])
            if self.nearby is not None and found["dense"]:
                chosen = np.asarray(sorted(found["dense"]), np.uint32)
                dense = np.stack([unpack_dense(found["dense"][slot]) for slot in chosen.tolist()])
                rows = reader.rows(chosen.tolist())
                semantic = np.asarray([row[4] == "semantic" for row in rows.values()])
                self.nearby.put(chosen, dense, semantic, self.records)

    def compact(self) -> None:
        """Free what removed and replaced memories still hold; answers do not change."""
        self.index.compact()
        self.records.compact()
        self.sparse.compact()
        self.graphs.hebbian.compact()

    def due(self, now: int) -> list[int]:
        """The reminders whose time has come, in its order (IMP-4)."""
        if not self.reminders:
            return []
        return [
            slot
            for at, slot in sorted((at, slot) for slot, at in self.reminders.copy().items())
            if at <= now and slot not in self.suppressed
        ]

    def bytes(self) -> dict[str, int]:
        """Memory of each store."""
        usage: dict[str, Any] = {
            "keyword": self.index.stats()["bytes"],
            "records": self.records.memory_usage()["bytes"],
            "sparse": self.sparse.memory_usage(),
            "tokens": self.tokens.memory_usage(),
        }
        usage |= self.graphs.bytes()
        if self.nearby is not None:
            usage["ann"] = self.nearby.memory_usage()
        return usage


#: The columns of a row that a record has, in the order of `records.store.COLUMNS`.
_columns_of = operator.itemgetter(16, 17, 14, 8, 20, 21, 22, 23, 15)


@functools.lru_cache(maxsize=256)
def _flags(type: str, flags: int) -> int:
    return flags_of(
        type,
        consolidated=bool(flags & CONSOLIDATED),
        pinned=bool(flags & PINNED),
        resolved=not flags & UNRESOLVED,
    )
