"""Extraction for one open memory: at once where that is quick, else in the background (EXT-7).

A memory whose entities are still to come has the flag EXTRACT on its row. It is removed by the
transaction that writes them; so what was not done when a memory is closed is done when it is open
again with an extractor.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from spector._core import NameMatcher
from spector.errors import ConfigurationError, SpectorError
from spector.store.model import EXTRACT, Entity, MemoryRow
from spector.store.space import Space
from spector.store.transaction import Transaction
from spector.store.values import Draft, check_seconds, show

from .protocol import Extraction, cleaned, encoded
from .rules import Known, RuleEntityExtractor

__all__ = ["ExtractionStats", "ExtractionWorker", "choose"]

CAPACITY: Final = 1000
RETRIES: Final = 2
BACKOFF: Final = 0.5  # seconds
CLOSE_TIMEOUT: Final = 5.0
_PATIENCE: Final = 0.05  # after that time, for a thread that is not in an extractor

MODES: Final = ("none", "llm", "custom")


@dataclass(frozen=True, slots=True)
class ExtractionStats:
    """What extraction did since the memory was opened.

    Attributes
    ----------
    size : int
        Memories that are waiting or being worked on.
    submitted, processed, failed : int
        Memories that were queued, that were done, and that were given up for now; these keep
        waiting on disk, for `ExtractionWorker.retry` or the next open.
    refused : int
        Memories that found the queue full; likewise.
    stale : int
        Memories that were forgotten or changed while they were worked on; nothing was linked.
    malformed : int
        Answers of a model that could not be read (EXT-4).
    entities, relations : int
        What was found.
    mean_latency : float
        Seconds for one memory.
    calls, prompt_tokens, completion_tokens : int
        Requests to a language model and what they cost, as far as its provider says.
    last_error : str or None
        Why the last one failed.
    """

    size: int
    submitted: int
    processed: int
    failed: int
    refused: int
    stale: int
    malformed: int
    entities: int
    relations: int
    mean_latency: float
    calls: int
    prompt_tokens: int
    completion_tokens: int
    last_error: str | None

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def choose(mode: object, extractor: object, provider: object) -> Any:
    """The extractor that the options of `SpectorMemory.open` ask for, or None (EXT-1).

    Raises
    ------
    ConfigurationError
        They do not fit together.
    """
    folded = mode.lower() if isinstance(mode, str) else mode
    if folded not in MODES:
        raise ValueError(
            f"entity_extraction_mode must be one of 'none', 'llm', 'custom', got {show(mode)}"
        )
    if folded == "none":
        for name, value in (
            ("entity_extractor", extractor),
            ("text_generation_provider", provider),
        ):
            if value is not None:
                wanted = "custom" if value is extractor else "llm"
                raise ConfigurationError(
                    f"{name} is given, but entity_extraction_mode is 'none'; use {wanted!r}"
                )
        return None
    if folded == "llm":
        if extractor is not None:
            raise ConfigurationError(
                "entity_extractor belongs to entity_extraction_mode 'custom', not 'llm'"
            )
        if provider is None:
            raise ConfigurationError(
                "entity_extraction_mode 'llm' needs a text_generation_provider: a function from a"
                " prompt to a text, or the address of a server and a model, such as"
                " 'http://127.0.0.1:8080/v1#my-model'"
            )
        from .llm import LlmEntityExtractor

        return LlmEntityExtractor(_server(provider) if isinstance(provider, str) else provider)
    if provider is not None:
        raise ConfigurationError(
            "text_generation_provider belongs to entity_extraction_mode 'llm'; with 'custom' give"
            " it to the entity_extractor: LlmEntityExtractor(provider)"
        )
    if extractor is None:
        raise ConfigurationError(
            "entity_extraction_mode 'custom' needs an entity_extractor: an object with"
            " extract(id, text), or 'rules' for the built-in one"
        )
    if isinstance(extractor, str):
        if extractor.lower() != "rules":
            raise ConfigurationError(
                f"entity_extractor must be an object with extract(id, text) or 'rules', got"
                f" {show(extractor)}"
            )
        return RuleEntityExtractor()
    if not callable(getattr(extractor, "extract", None)):
        raise ConfigurationError(
            f"entity_extractor must have extract(id, text), got {type(extractor).__name__}"
        )
    return extractor


def _server(address: str) -> Any:
    """The server and model that a text such as http://127.0.0.1:8080/v1#my-model means."""
    url, _, model = address.partition("#")
    if not model:
        raise ConfigurationError(
            "text_generation_provider as a text must be the address of a server, '#' and the name"
            f" of a model, such as 'http://127.0.0.1:8080/v1#my-model', got {show(address)}"
        )
    from .openai import OpenAIProvider

    return OpenAIProvider(url, model)


class ExtractionWorker:
    """The extraction of one open memory. Any thread may call it.

    Without an extractor it does nothing.
    """

    def __init__(
        self,
        space: Space,
        extractor: Any,
        now: Callable[[], int],
        *,
        capacity: int = CAPACITY,
        retries: int = RETRIES,
        backoff: float = BACKOFF,
    ) -> None:
        self._space = space
        self._extractor = extractor
        self._now = now
        self._capacity = capacity
        self._retries = retries
        self._backoff = backoff
        self._changed = threading.Condition()
        self._queue: deque[int] = deque()
        self._waiting: set[int] = set()
        self._busy = False
        self._in_hand = False  # one memory, taken from the queue
        self._left = False  # more may wait on disk,
        self._after = -1  # in the slots after this
        self._asked = False  # somebody wants that looked at now, not when the queue is empty
        self._closing = threading.Event()
        #: Held from before memories are stored until they are queued, so that none is queued twice.
        self.storing: contextlib.AbstractContextManager[Any] = (
            contextlib.nullcontext() if extractor is None else threading.Lock()
        )
        self._thread: threading.Thread | None = None
        self._counts = dict.fromkeys(
            ("submitted", "processed", "failed", "refused", "stale", "entities", "relations"), 0
        )
        self._seconds = 0.0
        self._done = 0
        self._last_error: str | None = None
        self._batch = threading.local()
        if isinstance(extractor, RuleEntityExtractor):
            self._extractor = extractor.with_names(self._known)
        self.active = extractor is not None
        self.immediate = bool(getattr(extractor, "immediate", False))
        if extractor is not None and not self.immediate and not space.journal.read_only:
            self.retry()

    # At once

    def prepare(self, drafts: Sequence[Draft]) -> list[Draft]:
        """The drafts with their entities, or marked as waiting for them.

        Those that the caller gave entities keep them (EXT-6).
        """
        if self._extractor is None:
            return list(drafts)
        if not self.immediate:
            return [_waiting(draft) for draft in drafts]
        self._batch.names = _Names() if len(drafts) > 1 else None
        try:
            return [self._extracted(draft) for draft in drafts]
        finally:
            self._batch.names = None

    def _extracted(self, draft: Draft) -> Draft:
        names = self._batch.names
        if not draft.entities_json:
            start = time.perf_counter()
            try:
                found = cleaned(self._extractor.extract(draft.id or "", draft.text))
            except Exception as error:  # tried again in the background
                self._note_error(error)
                return _waiting(draft)
            self._note(found, time.perf_counter() - start)
            draft = draft._replace(entities_json=encoded(found))
            if names is not None:
                names.add(found.entities)
        if names is not None and draft.about_json != "[]":
            import json

            names.add(Entity(name) for name in json.loads(draft.about_json))
        return draft

    def _known(self, text: str) -> list[Known]:
        """Names in a text that the graph or the batch so far has."""
        graphs = self._space.replica.graphs
        directory, types = graphs.entities, graphs.mentions.entity_types
        found = []
        for index in (graphs.names, graphs.mentions.names):
            for _, numbers, begin, end in index.places(text):
                entity = numbers[0]
                kind = types.name(directory.type(entity)) or "OTHER"
                found.append(Known(directory.name(entity), kind, begin, end))
        names = getattr(self._batch, "names", None)
        return found if names is None else found + names.find(text)

    # In the background

    def submit(self, slots: Iterable[int]) -> None:
        """Queue memories that are marked as waiting; never waits. Of what is too much the mark on
        disk is all that is left."""
        with self._changed:
            for slot in slots:
                if slot in self._waiting:
                    continue
                if len(self._waiting) + self._in_hand >= self._capacity or self._closing.is_set():
                    self._counts["refused"] += 1
                    self._left, self._after = True, -1
                    continue
                self._add(slot)
            if self._queue and self._thread is None:
                self._start()
            self._changed.notify_all()

    def _add(self, slot: int) -> None:
        self._waiting.add(slot)
        self._queue.append(slot)
        self._counts["submitted"] += 1

    def retry(self) -> None:
        """Queue what waits on disk: refused, failed, or left by an earlier process."""
        if self._extractor is None or self._space.journal.read_only:
            return
        with self._changed:
            self._left, self._after, self._asked = True, -1, True
            if self._thread is None:
                self._start()
            self._changed.notify_all()

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until nothing is queued, and what was refused has been tried as well.

        Parameters
        ----------
        timeout : float, optional
            In seconds; without it as long as it takes.

        Returns
        -------
        bool
            False if the time was up before.
        """
        seconds = None if timeout is None else check_seconds("timeout", timeout)
        with self._changed:
            return self._changed.wait_for(self._idle, seconds)

    def _idle(self) -> bool:
        working = self._queue or self._busy or self._left
        return not working or self._thread is None or self._closing.is_set()

    def stats(self) -> ExtractionStats:
        """Counters since the memory was opened."""
        usage = getattr(getattr(self._extractor, "provider", None), "usage", None)
        with self._changed:
            return ExtractionStats(
                size=len(self._waiting) + self._in_hand,
                malformed=getattr(self._extractor, "malformed", 0),
                mean_latency=self._seconds / self._done if self._done else 0.0,
                calls=getattr(usage, "calls", getattr(self._extractor, "calls", 0)),
                prompt_tokens=getattr(usage, "prompt_tokens", 0),
                completion_tokens=getattr(usage, "completion_tokens", 0),
                last_error=self._last_error,
                **self._counts,
            )

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Let the queue finish for so long; the rest stays marked on disk."""
        if self._thread is None or self._space.journal.forked:
            return
        if threading.current_thread() is not self._thread:
            self.drain(timeout)
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(_PATIENCE)

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="spector-extraction", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._left or self._closing.is_set())
                if self._closing.is_set():
                    return
                slot = self._queue.popleft() if self._queue and not self._asked else None
                if slot is not None:
                    self._waiting.discard(slot)  # who changes it from now on queues it again
                    self._in_hand = True
                self._asked = False
                self._busy = True
            try:
                if slot is None:
                    self._load()
                else:
                    self._process(slot)
            except Exception as error:  # closed meanwhile, or another process kept it locked
                self._note_error(error)
            finally:
                with self._changed:
                    self._busy = self._in_hand = False
                    self._changed.notify_all()

    def _load(self) -> None:
        """Queue the next memories that wait on disk and are not queued."""
        with self.storing:
            with self._changed:
                after, self._left = self._after, False
            with self._space.journal.reader() as reader:
                slots = reader.marked(EXTRACT, after, self._capacity)
            with self._changed:
                last = slots[-1] if len(slots) == self._capacity else None
                for slot in slots:
                    if slot in self._waiting:
                        continue
                    if len(self._waiting) >= self._capacity:
                        last = slot - 1
                        break
                    self._add(slot)
                if last is not None and not self._left:
                    self._left, self._after = True, last

    def _process(self, slot: int) -> None:
        with self._space.journal.reader() as reader:
            row = reader.rows([slot]).get(slot)
        if row is None or not row[18] & EXTRACT:
            self._count("stale")
            return
        start = time.perf_counter()
        found = self._try(row)
        if found is None:
            return
        made = {slot: (row, encoded(found))}

        def change(transaction: Transaction) -> int:
            return transaction.set_entities(made, self._now())

        if self._space.write(change):
            self._note(found, time.perf_counter() - start)
        else:
            self._count("stale")

    def _try(self, row: MemoryRow) -> Extraction | None:
        available = getattr(self._extractor, "is_available", None)
        for attempt in range(self._retries + 1):
            if attempt and self._closing.wait(self._backoff * attempt):
                return None
            try:
                if available is not None and not available():
                    raise SpectorError("the extractor is not available")
                return cleaned(self._extractor.extract(row[1], row[2]))
            except BaseException as error:  # SystemExit, too, would only end this thread
                self._note_error(error)
                if getattr(error, "final", False):  # whoever raised it has tried often enough
                    break
        self._count("failed")
        return None

    def _count(self, name: str) -> None:
        with self._changed:
            self._counts[name] += 1

    def _note(self, found: Extraction, seconds: float) -> None:
        with self._changed:
            self._counts["processed"] += 1
            self._counts["entities"] += len(tuple(found.entities))
            self._counts["relations"] += len(tuple(found.relations))
            self._seconds += seconds
            self._done += 1

    def _note_error(self, error: BaseException) -> None:
        with self._changed:
            self._last_error = f"{type(error).__name__}: {error}"[:300]


def _waiting(draft: Draft) -> Draft:
    if draft.entities_json:
        return draft
    return draft._replace(flags=draft.flags | EXTRACT)


class _Names:
    """Names that the memories of a batch before this one have."""

    def __init__(self) -> None:
        self._matcher = NameMatcher()
        self._entities: list[Entity] = []

    def add(self, entities: Iterable[Entity]) -> None:
        for entity in entities:
            if self._matcher.add(entity.name, len(self._entities)):
                self._entities.append(entity)

    def find(self, text: str) -> list[Known]:
        return [
            Known(self._entities[numbers[0]].name, self._entities[numbers[0]].type, begin, end)
            for _, numbers, begin, end in self._matcher.find(text)
        ]
