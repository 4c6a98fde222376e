"""`SpectorMemory`: remember texts, recall the ones that matter."""

from __future__ import annotations

import functools
import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, SupportsIndex

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from spector import arguments
from spector._core import simd_level
from spector.configuration import Configuration, in_environment, load
from spector.encoding import GIVEN, Models, encoder_text
from spector.extraction.worker import ExtractionWorker, choose
from spector.profiles import AUTO, DEFAULT
from spector.recall.around import Surroundings, around
from spector.recall.focus import Hyperfocus
from spector.recall.options import RecallOptions, check_profile, make_filter, resolve
from spector.recall.recall import Query, Situation, recall_many
from spector.recall.results import Explanation, Hit, Results
from spector.recall.sessions import Sessions
from spector.recall.topics import Topic, summarise
from spector.recall.whynot import WhyNot, why_not
from spector.records.cognition import DEFAULT_DECAY, decay_bucket, strength_increment
from spector.reflection import Cycles, Reflection, ReflectionReport
from spector.store import Journal, Memory, Report, Settings, Space, SpectorWarning, transfer
from spector.store.bandit import Choice, Estimate, ProfileAdaptor, evaluate
from spector.store.ids import IdMaker
from spector.store.ingestion import Importance, Ingestion, with_tags
from spector.store.journal import set_aside_notice
from spector.store.learning import Credit, RecallRecord, logged, outcome_payload, tag_hash
from spector.store.model import (
    EXTRACT,
    MEMORY_COLUMNS,
    PINNED,
    REMINDER,
    UNRESOLVED,
    MemoryRow,
    Stored,
    tags_of,
)
from spector.store.reader import Reader
from spector.store.recorder import Recorder
from spector.store.replica import Replica, Shape
from spector.store.sqlite_errors import translated
from spector.store.state import state_hash
from spector.store.transaction import Transaction
from spector.store.upkeep import Compaction, back_up
from spector.store.values import (
    CONFLICTS,
    UNSET,
    Draft,
    Unset,
    check_choice,
    check_count,
    check_draft,
    check_flag,
    check_id,
    check_keys,
    check_label,
    check_path,
    check_seconds,
    check_tags,
    check_text,
    check_time,
    check_vector,
    encode_json,
    make_draft,
    show,
)
from spector.store.vectors import unpack_dense

__all__ = [
    "Explanation",
    "Hit",
    "Memory",
    "RecallOptions",
    "Results",
    "SpectorMemory",
    "Status",
]

_DEFAULTS: Final = Settings(k1=1.2, b=0.75, analyzer="code", language="english")

#: How many of the tags of a space `auto_tags` looks for.
_AUTO_TAGS: Final = 2000

#: Of two vectors: an L2 distance up to which their memories are one (IMP-3).
_NEARLY_EQUAL: Final = 0.05

#: Hours between two cycles of reflection that nobody asked for.
_REFLECT_EVERY: Final = 24.0
#: How many memories of a topic `introspect` looks at.
_TOPIC: Final = 100

Time = int | date | str
EntityLike = str | Sequence[str | None] | Mapping[str, Any]
RelationLike = Sequence[str] | Mapping[str, Any]
Config = str | os.PathLike[str] | Mapping[str, Any] | bool | Configuration | None
_P = ParamSpec("_P")


def _system_clock() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Status:
    """What is in a space and how large it is.

    Attributes
    ----------
    path : str or None
        The folder; None for an ephemeral memory.
    documents : int
        How many memories there are.
    events : int
        How many changes the journal has.
    terms, postings : int
        Size of the keyword index.
    index_bytes, journal_bytes : int
        Memory of the index, and size of the journal on disk with its log.
    k1, b, analyzer, language
        The stored settings.
    fingerprint : str
        Versions of what makes terms out of texts.
    simd_level : str
        The instruction set that the kernels use.
    last_event : int or None
        When the newest change happened, in milliseconds since 1970 UTC.
    read_only : bool
        Whether this process may not write to the space.
    suppressed, reminders : int
        Memories that are kept out of recalls, and reminders that are not due or not delivered yet.
    bandit_contexts : int
        Contexts in which an outcome was reported.
    lateral : dict
        How lateral results were used, and what followed from it (SCO-16).
    recalls_lost : int
        Recalls of this object that could not be recorded.
    background_failures : int
        How often this object could not record recalls, for now, or reflect in the background; the
        log "spector" says why.
    pending_extractions : int
        How many memories still wait for their entities (EXT-7).
    without_vectors : int
        How many memories lack a vector of a model that this object has; see `encode_missing`.
    set_aside : tuple of str
        Logs of lost journals that were in the folder when the space was made, of which nothing is
        in it, and snapshots that were damaged, which it does not need.
    snapshot : int or None
        The last event in the newest snapshot on disk.
    """

    path: str | None
    documents: int
    events: int
    terms: int
    postings: int
    index_bytes: int
    journal_bytes: int
    k1: float
    b: float
    analyzer: str
    language: str | None
    fingerprint: str
    simd_level: str
    last_event: int | None
    read_only: bool
    suppressed: int
    reminders: int
    bandit_contexts: int
    lateral: dict[str, Any]
    recalls_lost: int
    background_failures: int
    pending_extractions: int
    without_vectors: int
    set_aside: tuple[str, ...]
    snapshot: int | None

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def _configured(
    make: Callable[Concatenate[type[SpectorMemory], _P], SpectorMemory],
) -> Callable[Concatenate[type[SpectorMemory], _P], SpectorMemory]:
    """Give `open` and `ephemeral` the options that were configured and not passed."""

    @functools.wraps(make)
    def made(cls: type[SpectorMemory], /, *args: _P.args, **keywords: _P.kwargs) -> SpectorMemory:
        config = keywords.get("config")
        if config is None and not in_environment():
            return make(cls, *args, **keywords)
        where = args[0] if args else keywords.get("path")
        folder = Path(where) if isinstance(where, (str, os.PathLike)) else None
        chosen = load(config, folder=folder)
        defaults = RecallOptions.from_mapping(chosen.recall)
        keywords.update({**chosen.open, **keywords})
        memory = make(cls, *args, **keywords)
        memory._recall_defaults = defaults
        return memory

    return made


class SpectorMemory:
    """A memory: one space on disk, or one that lives as long as the object.

    Open it with `SpectorMemory.open` or `SpectorMemory.ephemeral`. Any number of threads may use
    one object, and any number of processes may open one folder, all of them for writing; a process
    made by fork opens the folder again.

    What `remember`, `remember_many` and `forget` did is on stable storage when they return, and
    every recall that starts then sees it.

    Attributes
    ----------
    hyperfocus : Hyperfocus
        Narrows recalls to some tags for a while (SCO-14).
    extraction : ExtractionWorker
        What draws entities from texts: ``stats()``, ``drain(timeout)``, ``retry()`` (EXT-7).

    Examples
    --------
    >>> with SpectorMemory.ephemeral() as memory:
    ...     _ = memory.remember("Deploy failed: ERR_CONN_RESET from db-7", id="m1")
    ...     [hit.id for hit in memory.recall("err_conn_reset")]
    ['m1']
    """

    def __init__(
        self,
        space: Space,
        clock: Callable[[], int] | None = None,
        seed: int | None = None,
        models: Models | None = None,
        auto_tags: bool = False,
        flashbulb_threshold: float = 3.0,
        strengthen_on_reinforce: bool = False,
        merge_near_duplicates: bool = False,
        extractor: Any = None,
        reflect_every: float | None = None,
    ) -> None:
        import random

        self._space = space
        self._models = models or Models()
        self._encodes = self._models != Models()
        self._clock = clock or _system_clock
        self._ids = IdMaker(random.Random(seed))
        self._ingestion = Ingestion(flashbulb_threshold)
        self._auto_tags = auto_tags
        self._merges = merge_near_duplicates
        self._recall_defaults = RecallOptions()
        self.hyperfocus = Hyperfocus(self._now)
        self.extraction = ExtractionWorker(space, extractor, self._clock)
        self._recorder = Recorder(space)
        self._sessions = Sessions(strengthen_on_reinforce)
        self._cycles = Cycles(space, reflect_every, 0 if reflect_every is None else self._now())
        # Closes at garbage collection and at exit, if nobody did before.
        self._finalizer = weakref.finalize(
            self, _close, self._cycles, self._recorder, self.extraction, space
        )

    @classmethod
    @_configured
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        k1: float | Unset = UNSET,
        b: float | Unset = UNSET,
        analyzer: str | Unset = UNSET,
        language: str | Unset | None = UNSET,
        models: str | None = None,
        embedding_provider: object | None = None,
        sparse_encoder: object | None = None,
        token_encoder: object | None = None,
        query_table: object | None = None,
        entity_extraction_mode: str = "none",
        entity_extractor: object | None = None,
        text_generation_provider: object | None = None,
        bm25_enabled: bool = True,
        splade_enabled: bool = True,
        ann: bool = False,
        auto_tags: bool = False,
        flashbulb_threshold: float = 3.0,
        merge_near_duplicates: bool = False,
        bandit: Mapping[str, Any] | None = None,
        strengthen_on_reinforce: bool = False,
        busy_timeout: float = 5.0,
        snapshot_every: int | None = 10_000,
        reflect_every: float | Unset | None = UNSET,
        clock: Callable[[], int] | None = None,
        seed: int | None = None,
        config: Config = None,
    ) -> SpectorMemory:
        """Open the space in a folder; folder and space are made when absent.

        A folder that this process may not write to is opened for reading: what would change it
        raises `StorageError`.

        Parameters
        ----------
        path : str or PathLike
            The folder.
        k1, b : float, optional
            Constants of BM25, in [0, 3] and [0, 1]; 1.2 and 0.75 in a new space.
        analyzer : {"code", "standard", "whitespace"}, optional
            How texts become terms; "code" in a new space.
        language : str or None, optional
            Whose words are stemmed; "english" in a new space, None for no stemming.
        models : {"all"}, optional
            All built-in models for what is not given below (extra ``models``).
        embedding_provider : "minilm", EmbeddingProvider or callable, optional
            Makes dense vectors of texts; a callable takes a list of texts.
        sparse_encoder : "splade-tiny", SparseEncoder or callable, optional
            Makes maps from term to weight.
        token_encoder : "minilm", TokenEncoder or callable, optional
            Makes a vector for each token, for late interaction.
        query_table : QueryTable or path, optional
            Weights of query terms for "li_lsr", made by ``spector distill-lsr``.
        entity_extraction_mode : {"none", "llm", "custom"}
            Whether entities are drawn from the texts that come without any (EXT-1): not at all,
            by a language model, or by the next one. See `spector.extraction`.
        entity_extractor : "rules", EntityExtractor, optional
            For "custom". "rules" reads names off the text, while `remember` waits; others work in
            the background.
        text_generation_provider : callable, str or object with ``generate``, optional
            For "llm": from a prompt to a text; or a server with OpenAI's protocol and its model,
            ``"http://127.0.0.1:8080/v1#my-model"``, the key in OPENAI_API_KEY
            (`spector.extraction.OpenAIProvider` has more).
        bm25_enabled : bool
            False makes no keyword index (TSM-1).
        splade_enabled : bool
            False leaves the sparse encoder out, given or built in (SPL-3).
        ann : bool
            Look for semantic memories by HNSW where there are more than 20,000 (DEN-2; extra
            ``ann``). It is built when the space is opened.
        auto_tags : bool
            Give a memory without tags the frequent tags of the space that occur in its text.
        flashbulb_threshold : float
            A memory whose surprise is so many standard deviations is most important and pinned
            (IMP-2).
        merge_near_duplicates : bool
            A memory without an id whose vector is hardly another one than that of a memory of its
            type becomes a new version of that (IMP-3).
        bandit : mapping, optional
            Options of the `ProfileAdaptor` behind ``profile="auto"``: "policy", "epsilon",
            "alpha", "minimum", "back_off", "default".
        strengthen_on_reinforce : bool
            Associate memories that one recall found and that both were reinforced (HEB-5).
        busy_timeout : float
            Seconds to wait for another process that is writing, before a `LockedError`.
        snapshot_every : int or None
            After how many changes `close` writes a snapshot, and a write does when it doubled what
            the newest snapshot has; None for never by itself.
        reflect_every : float or None, optional
            Hours after which `reflect` runs by itself, in the background of a write or a recall;
            it does so too after 10,000 new memories, or as many as there were. None for never. 24
            if left out, but None where the clock is not the system's.
        clock : callable, optional
            Gives the time in milliseconds since 1970 UTC.
        seed : int, optional
            Of the random part of ids.
        config : path, mapping, True, optional
            Values for the other options, and defaults of recalls (`spector.configuration`): a file
            or a folder that has one, the values, or True for the file in the folder of the space
            if there is one. Environment variables come before it, arguments before both.

        Returns
        -------
        SpectorMemory

        Raises
        ------
        ValueError
            A bad option, or one that differs from what is stored with the space.
        ConfigurationError
            A model is not installed, or the space has vectors of another one.
        CorruptionError, VersionError
            The journal is damaged, not ours, or of a newer version; it was not touched.
        LockedError, StorageError
            Another process held it too long; the disk or its permissions refused.

        Warns
        -----
        SpectorWarning
            The log of a lost journal was in the folder of a new space; it was set aside.
        """
        folder = check_path(path)
        given = {"k1": k1, "b": b, "analyzer": analyzer, "language": language}
        wanted, fingerprint = _check_settings(given)
        timeout = check_seconds("busy_timeout", busy_timeout)
        every = 0 if snapshot_every is None else check_count("snapshot_every", snapshot_every)
        _check_clock_and_seed(clock, seed)
        given_models = (models, embedding_provider, sparse_encoder, token_encoder)
        chosen = Models.of(*given_models, query_table, splade_enabled)
        keywords = check_flag("bm25_enabled", bm25_enabled)
        _check_ann(ann)
        extras = (
            *_check_extras(
                auto_tags, flashbulb_threshold, strengthen_on_reinforce, merge_near_duplicates
            ),
            choose(entity_extraction_mode, entity_extractor, text_generation_provider),
            _check_reflect_every(reflect_every, clock),
        )
        learner = _check_bandit(bandit, seed)
        journal = Journal.open(folder, _new_meta(wanted, fingerprint), timeout)
        try:
            with journal.reader(whole=False) as reader:
                meta = reader.meta()
            stored = Settings(**{name: meta[name] for name in given})
            for name, value in given.items():
                if value is not UNSET and value != getattr(stored, name):
                    raise ValueError(
                        f"{name} is {getattr(stored, name)!r} in the space {folder}, got {value!r};"
                        f" leave {name} out to use the stored one"
                    )
            chosen.shape(Shape(**meta["vectors"]))
            space = Space(journal, stored, keywords, ann, learner)
            space.load()
            space.snapshot_every = every
            fingerprint = space.fingerprint
            if meta["fingerprint"] != fingerprint and not journal.read_only:
                with journal.transaction() as transaction:
                    transaction.set_meta({"fingerprint": fingerprint})
            for log in journal.newly_set_aside:
                warnings.warn(set_aside_notice(log), SpectorWarning, stacklevel=3)
            return cls(space, clock, seed, chosen, *extras)
        except BaseException:
            journal.close()
            raise

    @classmethod
    @_configured
    def ephemeral(
        cls,
        *,
        k1: float | Unset = UNSET,
        b: float | Unset = UNSET,
        analyzer: str | Unset = UNSET,
        language: str | Unset | None = UNSET,
        models: str | None = None,
        embedding_provider: object | None = None,
        sparse_encoder: object | None = None,
        token_encoder: object | None = None,
        query_table: object | None = None,
        entity_extraction_mode: str = "none",
        entity_extractor: object | None = None,
        text_generation_provider: object | None = None,
        bm25_enabled: bool = True,
        splade_enabled: bool = True,
        ann: bool = False,
        auto_tags: bool = False,
        flashbulb_threshold: float = 3.0,
        merge_near_duplicates: bool = False,
        bandit: Mapping[str, Any] | None = None,
        strengthen_on_reinforce: bool = False,
        reflect_every: float | Unset | None = UNSET,
        clock: Callable[[], int] | None = None,
        seed: int | None = None,
        config: Config = None,
    ) -> SpectorMemory:
        """Make a memory that touches no file and is gone when it is closed.

        The parameters are those of `open`.
        """
        wanted, fingerprint = _check_settings(
            {"k1": k1, "b": b, "analyzer": analyzer, "language": language}
        )
        _check_clock_and_seed(clock, seed)
        given_models = (models, embedding_provider, sparse_encoder, token_encoder)
        chosen = Models.of(*given_models, query_table, splade_enabled)
        keywords = check_flag("bm25_enabled", bm25_enabled)
        _check_ann(ann)
        extras = (
            *_check_extras(
                auto_tags, flashbulb_threshold, strengthen_on_reinforce, merge_near_duplicates
            ),
            choose(entity_extraction_mode, entity_extractor, text_generation_provider),
            _check_reflect_every(reflect_every, clock),
        )
        learner = _check_bandit(bandit, seed)
        journal = Journal.ephemeral(_new_meta(wanted, fingerprint))
        space = Space(journal, wanted, keywords, ann, learner)
        return cls(space, clock, seed, chosen, *extras)

    # Writing

    def remember(
        self,
        text: str,
        *,
        id: str | None = None,
        tags: Iterable[str] = (),
        type: str = "semantic",
        source: str = "user_stated",
        session: str | None = None,
        author: str | None = None,
        context: str | None = None,
        timestamp: Time | None = None,
        metadata: Mapping[str, Any] | None = None,
        about: str | Iterable[str] = (),
        entities: str | Iterable[EntityLike] = (),
        relations: Iterable[RelationLike] = (),
        vector: ArrayLike | None = None,
        importance: float | None = None,
        interest: float | None = None,
        challenge: float | None = None,
        urgency: float | None = None,
        valence: int = 0,
        arousal: int | None = None,
        unresolved: bool = False,
        pinned: bool = False,
        on_conflict: str = "update",
    ) -> str:
        """Store one memory.

        Each call leaves an event of some 25 bytes in the journal for good, also one that updates
        a memory; its earlier text is overwritten or becomes free space of the file.

        Parameters
        ----------
        text : str
            Any text. A lone surrogate in it becomes U+FFFD.
        id : str, optional
            Its name; by default a new one that sorts by time.
        tags : iterable of str
            Stored folded: NFKC, lower case, single spaces.
        type : {"working", "episodic", "semantic", "procedural"}
            What kind of memory it is.
        source : str
            Where it came from.
        session, author : str, optional
            In which session, and by whom.
        context : str, optional
            Short text that is searched like the text: speaker, date, title, path.
        timestamp : int, datetime, date or str, optional
            When it happened: milliseconds since 1970 UTC, or a time or date in ISO 8601; without
            a zone it is UTC. Now, if not given.
        metadata : mapping, optional
            Whatever JSON can hold; kept, not searched.
        about : str or iterable of str
            Names of what it is about: its title or subject (AM-10).
        entities : str or iterable of str, tuple or mapping
            Who and what it mentions: a name, (name, type), (name, type, role) or a mapping with
            these keys, which may have "relations" as well, of (type, target). Types and roles are
            any words; the known ones are those of TYP-1 and HYP-4. The first 10 count (EXT-2).
        relations : iterable of tuple or mapping
            How these are related: (source, type, target) or a mapping with these keys. The first 20
            count.
        vector : array of float, optional
            Its dense vector, instead of that of the embedding provider.
        importance : float, optional
            In [0.05, 10]; by default it follows from the next three and from how new it is (IMP-1).
        interest, challenge, urgency : float, optional
            In [0, 1].
        valence : int
            In [-128, 127]: how pleasant.
        arousal : int, optional
            In [0, 255]; by default twice the valence without its sign (HDR-3).
        unresolved, pinned : bool
            It waits for something; it is kept from fading (SCO-12).
        on_conflict : {"update", "ignore", "error"}
            What to do when the id exists: replace the memory entirely (it keeps its place among
            equal scores and its time of creation), keep the old one, or raise.

        Returns
        -------
        str
            The id.

        Raises
        ------
        DuplicateMemoryError
            The id exists and `on_conflict` is "error".
        LockedError, StorageError
            Another process wrote for too long; the disk refused. Nothing was stored.
        """
        on_conflict = check_choice("on_conflict", on_conflict, CONFLICTS)
        now = self._now()
        draft = make_draft(
            now,
            text=text,
            id=id,
            tags=tags,
            type=type,
            source=source,
            session=session,
            author=author,
            context=context,
            timestamp=timestamp,
            metadata=metadata,
            about=about,
            entities=entities,
            relations=relations,
            vector=vector,
            importance=importance,
            interest=interest,
            challenge=challenge,
            urgency=urgency,
            valence=valence,
            arousal=arousal,
            unresolved=unresolved,
            pinned=pinned,
        )
        return self._store([draft], on_conflict, now)[0]

    def remember_many(
        self,
        items: Iterable[Mapping[str, Any]],
        *,
        batch_size: int = 1000,
        progress: Callable[[int], object] | None = None,
        on_conflict: str = "update",
    ) -> list[str]:
        """Store many memories, one transaction per batch.

        The result is that of one `remember` after the other. If an item is bad or the iterable
        raises, the batches before it stay stored and nothing of its own batch is.

        Parameters
        ----------
        items : iterable of mappings
            Each with the arguments of `remember` (not `on_conflict`); only "text" is needed. Read
            as it is needed, so a generator may be larger than memory.
        batch_size : int
            How many to store at once.
        progress : callable, optional
            Called with the number stored so far after each batch; it may use this object.
        on_conflict : {"update", "ignore", "error"}
            As in `remember`.

        Returns
        -------
        list of str
            The id of each item.

        Raises
        ------
        TypeError, ValueError
            A bad item; the message says which (`item 17: ...`, counted from 0).
        """
        on_conflict = check_choice("on_conflict", on_conflict, CONFLICTS)
        size = check_count("batch_size", batch_size)
        if progress is not None and not callable(progress):
            raise TypeError(f"progress must be callable, got {show(progress)}")
        if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
            raise TypeError(
                "items must be an iterable of mappings,"
                f" got {items.__class__.__name__} {show(items)}"
            )
        self._space.journal.check_usable()
        ids: list[str] = []
        batch: list[Draft] = []
        now = self._now()

        def flush() -> None:
            ids.extend(self._store(batch, on_conflict, now, first=len(ids)))
            batch.clear()
            if progress is not None:
                progress(len(ids))

        for position, item in enumerate(items):
            if not batch:
                now = self._now()
            try:
                batch.append(check_draft(item, now))
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"item {position}: {error}") from None
            if len(batch) == size:
                flush()
        if batch:
            flush()
        return ids

    def _store(
        self, drafts: list[Draft], on_conflict: str, now: int, first: int | None = None
    ) -> list[str]:
        prepared = self.extraction.prepare(self._prepare(drafts))
        waiting: list[int] = []

        def change(transaction: Transaction) -> list[str]:
            self._note_models(transaction, prepared)
            stored = transaction.remember(prepared, on_conflict, now, self._ids, first)
            if self.extraction.active:
                waiting[:] = transaction.marked_now(EXTRACT)
            return stored

        with self.extraction.storing:
            ids = self._space.write(change, later=True)
            if waiting:
                self.extraction.submit(waiting)
        self._cycles.note(now, len(ids), self.reflect)
        return ids

    def _prepare(self, drafts: list[Draft]) -> list[Draft]:
        """The drafts with their vectors, made before anything is locked (AM-21)."""
        if self._auto_tags and not all(draft.tags for draft in drafts):
            with self._space.journal.reader() as reader:
                drafts = with_tags(drafts, reader.frequent_tags(_AUTO_TAGS))
        if not self._encodes and all(draft.given is None for draft in drafts):
            return drafts
        self._space.journal.check_usable()
        encoded = self._models.encode(drafts, self._encoded_before, self._model_failed)
        weighed = self._ingestion.weigh(encoded)
        return self._merge_near(weighed) if self._merges else weighed

    def _merge_near(self, drafts: list[Draft]) -> list[Draft]:
        """Let what is nearly a memory that is there already become a new version of it (IMP-3)."""

        def work(reader: Reader, replica: Replica) -> list[Draft]:
            merged = []
            for draft in drafts:
                data = next((v.data for v in draft.vectors if v.kind == "dense"), None)
                known = len(replica.records) and replica.shape.dimensions
                if data is not None and draft.id is None and known:
                    near = replica.records.nearest(unpack_dense(data), [draft.type])
                    if near is not None and near[1] <= _NEARLY_EQUAL:
                        draft = _merged(draft, reader.rows([near[0]])[near[0]])
                merged.append(draft)
            return merged

        return self._space.read(work)

    def encode_missing(
        self, *, batch_size: int = 256, progress: Callable[[int], object] | None = None
    ) -> int:
        """Make the vectors that memories lack: their model was absent or failed when they came.

        Parameters
        ----------
        batch_size : int
            How many texts a model gets at once; each batch is one transaction.
        progress : callable, optional
            Called with the number of memories done so far.

        Returns
        -------
        int
            How many memories got vectors.

        Raises
        ------
        Exception
            Whatever a model raises; the batches before stay stored.
        """
        size = check_count("batch_size", batch_size)
        if progress is not None and not callable(progress):
            raise TypeError(f"progress must be callable, got {show(progress)}")
        done = 0
        for kind, name in self._models.names():
            after = -1
            while True:
                with self._space.journal.reader() as reader:
                    slots = reader.without_vector(kind, name, after, size)
                    rows = reader.rows(slots)
                if not slots:
                    break
                after = slots[-1]
                done += self._encode(rows)
                if progress is not None:
                    progress(done)
        return done

    def _encode(self, rows: Mapping[int, MemoryRow]) -> int:
        now = self._now()
        drafts = [check_draft({"text": row[2], "context": row[3]}, now) for row in rows.values()]
        errors: list[Exception] = []
        encoded = self._models.encode(
            drafts, self._encoded_before, lambda kind, error: errors.append(error)
        )
        made = {
            slot: draft.vectors for slot, draft in zip(rows, encoded, strict=True) if draft.vectors
        }

        def change(transaction: Transaction) -> int:
            present = transaction.rows(list(made))
            same = {
                slot: vectors
                for slot, vectors in made.items()
                if slot in present and present[slot][2:4] == rows[slot][2:4]
            }
            self._note_models(transaction, encoded)
            return transaction.add_vectors(same, now)

        count = self._space.write(change) if made else 0
        if errors:
            raise errors[0]
        return count

    def compute_importance(
        self,
        text: str,
        *,
        context: str | None = None,
        vector: ArrayLike | None = None,
        interest: float | None = None,
        challenge: float | None = None,
        urgency: float | None = None,
    ) -> Importance:
        """What importance a memory would get now (IMP-1, IMP-2); nothing is stored.

        The parameters are those of `remember`. Without a vector and an embedding provider it counts
        as half new.
        """
        item = {
            "text": text,
            "context": context,
            "vector": vector,
            "interest": interest,
            "challenge": challenge,
            "urgency": urgency,
        }
        draft = check_draft(item, self._now())
        dense = draft.given
        if dense is None and self._models.dense is not None:
            self._space.journal.check_usable()
            rows = self._models.dense.embed_documents([encoder_text(draft.text, draft.context)])
            dense = np.asarray(rows, np.float32)[0]
        return self._ingestion.preview(dense, draft.hints or (None, None, None))

    def _encoded_before(self, kind: str, model: str, contents: Sequence[int]) -> dict[int, bytes]:
        with self._space.journal.reader() as reader:
            return reader.encoded(kind, model, contents)

    def _model_failed(self, kind: str, error: Exception) -> None:
        warnings.warn(
            f"the {kind} model failed ({type(error).__name__}: {error}); the memories are stored"
            " without its vectors",
            SpectorWarning,
            stacklevel=5,
        )

    def _note_models(self, transaction: Transaction, drafts: Sequence[Draft]) -> None:
        """See that all vectors of the space are of one model, which the first ones decide."""
        if not any(draft.vectors for draft in drafts):
            return
        stored = Shape(**transaction.setting("vectors"))
        wanted = self._models.shape(stored)
        for draft in drafts:
            if draft.given is None:
                continue
            if not wanted.dense:
                wanted = replace(wanted, dense=GIVEN, dimensions=len(draft.given))
            if len(draft.given) != wanted.dimensions:
                raise ValueError(
                    f"vector must have {wanted.dimensions} dimensions like the others of this"
                    f" space, got {len(draft.given)}"
                )
        if wanted != stored:
            transaction.set_meta({"vectors": asdict(wanted)})

    def forget(self, id: str, *, erase: bool = False) -> None:
        """Forget a memory: no recall that starts later finds it.

        Parameters
        ----------
        id : str
        erase : bool
            Also leave no byte of it in any file of the space (AM-20): the journal is written anew,
            which takes time in proportion to its size. Without it the bytes can stay in the journal
            until the space they took is used again. Memories that `reflect` made of it are erased
            as well. Backups and exports are yours to care for.

        Raises
        ------
        UnknownMemoryError
            No memory has this id.
        LockedError
            Another process was in the way for too long. If it was after the memory was forgotten,
            the message says so, and `compact` erases what is left.
        """
        memory_id = check_id("id", id)
        now = self._now()
        if check_flag("erase", erase):
            self._space.erase(memory_id, now)
        else:
            self._space.write(lambda transaction: transaction.forget(memory_id, now))

    # Learning

    def reinforce(
        self,
        id: str,
        positive: bool | None = None,
        *,
        valence: int | None = None,
        recall: str | None = None,
    ) -> None:
        """Report what came of a memory: it helped, or it did not (PAD-6, PAD-7).

        It counts as an explicit recall and so slows its fading, moves its valence a third of the
        way, and tells the bandit behind ``profile="auto"`` about the recall that found it.

        Parameters
        ----------
        id : str
            The memory.
        positive : bool, optional
            Whether it helped: a valence of 50 or -50.
        valence : int, optional
            Instead of it, in [-128, 127]; 0 tells the bandit nothing.
        recall : str, optional
            `Results.token` of the recall that found it; by default the latest that did.

        Raises
        ------
        UnknownMemoryError
            No memory has this id.
        LockedError, StorageError
            Another process wrote for too long; the disk refused. Nothing has changed.
        """
        memory_id = check_id("id", id)
        if (positive is None) == (valence is None):
            both = "neither" if positive is None else "both"
            raise TypeError(f"give either positive or valence, got {both}")
        if valence is None:
            reported = 50 if check_flag("positive", positive) else -50
        else:
            reported = arguments.whole("valence", valence, -128, 127)
        if recall is not None and not isinstance(recall, str):
            raise TypeError(f"recall must be a str, got {show(recall)}")
        stated, returned = (None, None)
        if recall is not None:
            stated, returned = Credit.from_token(recall, self._space.key)
        now = self._now()
        records = self._recorder.take()

        def change(transaction: Transaction) -> int:
            transaction.recalled(records)
            row = transaction.find(memory_id)
            slot = row[0]
            if returned is not None and slot not in returned:
                raise ValueError(f"recall did not return {show(memory_id)}: it is another's token")
            credit = stated or self._credit(slot, records)
            partners = self._sessions.partners(slot) if reported > 0 else []
            pairs = sorted(transaction.rows(partners))
            left = DEFAULT_DECAY.multiplier(decay_bucket(now - row[8]))
            strength = min(5.0, row[21] + strength_increment(left))
            payload = outcome_payload(reported, credit, pairs)
            transaction.reinforce(row, reported, strength, payload, now)
            return slot

        try:
            slot = self._space.write(change)
        except BaseException:
            self._recorder.give_back(records)
            raise
        if reported > 0:
            self._sessions.helped(slot)

    def _credit(self, slot: int, records: Sequence[RecallRecord]) -> Credit | None:
        """Whom to credit: the latest recall, of those that wait for the journal or before."""
        for record in reversed(records):
            if slot in record.slots:
                return record.credit
            if slot in record.lateral:
                return record.credit._replace(lateral=True)
        return self._space.learning.credit(slot)

    def suppress(self, id: str, reason: str = "") -> None:
        """Keep a memory out of recalls, until `unsuppress` (SUP-1); it stays as it is.

        Raises
        ------
        UnknownMemoryError
            No memory has this id.
        """
        text = check_text("reason", reason)
        self._set_state(id, "suppress", lambda _: {"suppressed": text})

    def unsuppress(self, id: str) -> None:
        """Let recalls find a suppressed memory again.

        Raises
        ------
        UnknownMemoryError
            No memory has this id.
        """
        self._set_state(id, "unsuppress", lambda _: {"suppressed": None})

    def suppressed(self) -> dict[str, str]:
        """The suppressed memories: why, by id."""
        return self._space.read(
            lambda reader, replica: {
                row[1]: row[24] or "" for row in reader.rows(sorted(replica.suppressed)).values()
            }
        )

    def pin(self, id: str) -> None:
        """Keep a memory from fading (SCO-12)."""
        self._set_state(id, "pin", lambda flags: {"flags": flags | PINNED})

    def unpin(self, id: str) -> None:
        """Let a pinned memory fade as others do."""
        self._set_state(id, "unpin", lambda flags: {"flags": flags & ~PINNED})

    def mark_unresolved(self, id: str) -> None:
        """Note that a memory waits for something; it does not fade until it is resolved (HDR-2)."""
        self._set_state(id, "unresolved", lambda flags: {"flags": flags | UNRESOLVED})

    def mark_resolved(self, id: str) -> None:
        """Note that nothing is open about a memory any more (HDR-2)."""
        self._set_state(id, "resolved", lambda flags: {"flags": flags & ~UNRESOLVED})

    def _set_state(self, id: str, what: str, changed: Callable[[int], dict[str, Any]]) -> None:
        memory_id = check_id("id", id)
        now = self._now()

        def change(transaction: Transaction) -> None:
            row = transaction.find(memory_id)
            wanted = changed(row[18])
            if any(row[MEMORY_COLUMNS.index(name)] != value for name, value in wanted.items()):
                transaction.set_state(row, what, now, **wanted)

        self._space.write(change)

    def schedule_reminder(self, text: str, at: Time, *, tags: Iterable[str] = ()) -> str:
        """Store a memory that the next recall from `at` on brings up, whatever is asked (IMP-4).

        It stands first there, with a score of 10, outside `k`, once; it is found like any other
        memory before and after.

        Parameters
        ----------
        text : str
        at : int, datetime, date or str
            When it is due, as `timestamp` of `remember`.
        tags : iterable of str

        Returns
        -------
        str
            Its id.
        """
        now = self._now()
        due = check_time("at", at)
        draft = check_draft(
            {"text": text, "tags": tags, "timestamp": due, "source": "reminder"}, now
        )
        return self._store([draft._replace(flags=draft.flags | REMINDER)], "update", now)[0]

    def reflect(
        self,
        *,
        consolidate: bool = False,
        summarise: Callable[[Sequence[str]], str] | None = None,
        profile: str = DEFAULT,
    ) -> ReflectionReport:
        """Let what fades go, and join what belongs together: one cycle, say once a day (RFL-1 to
        RFL-9).

        Episodic memories of hardly any importance left are forgotten; unused associations and
        links lose weight and go; entities that are one are merged; strong associations become
        relations; extractions that are pending are tried again; a snapshot is written. Recalls go
        on meanwhile. A second call waits and gives the same report.

        Parameters
        ----------
        consolidate : bool
            Store one semantic memory for each five or more episodic ones that share tags and
            meaning; they stay, and are not consolidated again (RFL-2).
        summarise : callable, optional
            Makes its text of theirs; by default it is that of the most central one.
        profile : str
            With "systematizer" the sources are pinned.

        Returns
        -------
        ReflectionReport
        """
        check_flag("consolidate", consolidate)
        if summarise is not None and not callable(summarise):
            raise TypeError(f"summarise must be callable, got {show(summarise)}")
        pin_sources = check_profile(profile) == "systematizer"
        self._space.journal.check_writable()

        def store(item: Mapping[str, Any]) -> str:
            return self._store([check_draft(item, now)], "update", now)[0]

        def retry() -> int:
            pending = self.status().pending_extractions
            self.extraction.retry()
            return pending

        def cycle() -> ReflectionReport:
            self._recorder.flush()
            return Reflection(
                self._space, now, store, retry, consolidate, summarise, pin_sources
            ).run()

        now = self._now()
        return self._cycles.run(cycle)

    def end_session(self, session: str) -> None:
        """Forget how often a session was given each memory (HAB-1)."""
        self._sessions.clear(tag_hash(check_label("session", session)))

    def flush(self) -> None:
        """Commit what recalls left behind, which otherwise happens within about a second.

        Raises
        ------
        LockedError, StorageError
            Another process wrote for too long; the disk refused. It is tried again later.
        """
        self._space.journal.check_usable()
        self._recorder.flush()

    def bandit_report(self) -> list[Estimate]:
        """What each profile that was used, taken always, would have earned, the best first.

        From all outcomes that `reinforce` reported, each with the probability with which its
        profile had been chosen; see `Estimate`.
        """
        with self._space.journal.reader() as reader:
            log = [one for event in reader.reinforcements() if (one := logged(event)) is not None]
        names = sorted({one.profile for one in log})
        found = [evaluate(log, lambda _, name=name: name, name) for name in names]  # type: ignore[misc]
        return sorted(found, key=lambda one: -one.doubly_robust)

    @property
    def bandit(self) -> ProfileAdaptor:
        """What is behind ``profile="auto"``: `stats` says what it has learned."""
        return self._space.learning.bandit

    # Reading

    def recall(
        self,
        query: str | ArrayLike,
        *,
        k: int | Unset = UNSET,
        options: RecallOptions | Mapping[str, Any] | None = None,
        vector: ArrayLike | None = None,
        profile: str | Unset = UNSET,
        recall_mode: str | Unset = UNSET,
        session: str | Unset | None = UNSET,
        as_of: Time | Unset | None = UNSET,
        tags: Iterable[str] | Unset = UNSET,
        tag_match: str | Unset = UNSET,
        type: str | Iterable[str] | Unset | None = UNSET,
        author: str | Unset | None = UNSET,
        since: Time | Unset | None = UNSET,
        until: Time | Unset | None = UNSET,
        min_valence: int | Unset | None = UNSET,
        max_valence: int | Unset | None = UNSET,
        min_importance: float | Unset | None = UNSET,
        text_search_mode: str | Unset = UNSET,
        enable_text_search: bool | Unset = UNSET,
        gamma: float | Unset = UNSET,
        fusion: str | Unset = UNSET,
        rrf_k: int | Unset = UNSET,
        late_interaction: str | Unset = UNSET,
        enable_reranker: bool | Unset = UNSET,
        reranker_depth: int | Unset = UNSET,
        scoring_mode: str | Unset = UNSET,
        score_combine: str | Unset = UNSET,
        alpha: float | Unset = UNSET,
        beta: float | Unset = UNSET,
        strictness: float | Unset = UNSET,
        habituation: float | Unset = UNSET,
        query_valence: int | Unset | None = UNSET,
        lateral: bool | Unset = UNSET,
        graph_expansion: bool | Unset = UNSET,
        graph_expansion_threshold: float | Unset = UNSET,
        graph_weights: Mapping[str, float] | Unset = UNSET,
        entities: str | Iterable[str] | Unset = UNSET,
        trace: bool | Unset = UNSET,
    ) -> Results:
        """Find the memories that match a query best.

        Parameters
        ----------
        query : str or array of float
            Any text; there is no query syntax. Or a dense vector.
        k : int
            How many hits at most, 10 by default. Only memories that match are returned.
        options : RecallOptions or mapping, optional
            Values for the other parameters; what is given as a keyword wins.
        vector : array of float, optional
            A dense vector beside the text, instead of that of the embedding provider.
        profile, recall_mode, session, as_of
            For what the answer is, and of which moment; see `RecallOptions`.
        tags, tag_match, type, author, since, until, min_valence, max_valence, min_importance
            Return only memories that meet all of these; see `RecallOptions`. They do not change
            scores.
        text_search_mode, enable_text_search, gamma, fusion, rrf_k, late_interaction, \
        enable_reranker, reranker_depth, scoring_mode, score_combine, alpha, beta, strictness, \
        habituation, query_valence, lateral, graph_expansion, graph_expansion_threshold, \
        graph_weights, entities, trace
            How memories are found and ranked; see `RecallOptions`.

        Returns
        -------
        Results
            A sequence of `Hit`, best first. Scores of more than one list are scaled so that the
            best is 1; of keywords alone they are BM25's, times what importance and age make of
            it, which "keyword_only" leaves out.

        Raises
        ------
        ConfigurationError
            The mode needs a list that this memory does not have.
        """
        start = time.perf_counter()
        text, dense = _check_query(query, vector)
        explicit = {
            "k": k,
            "profile": profile,
            "recall_mode": recall_mode,
            "session": session,
            "as_of": as_of,
            "tags": tags,
            "tag_match": tag_match,
            "type": type,
            "author": author,
            "since": since,
            "until": until,
            "min_valence": min_valence,
            "max_valence": max_valence,
            "min_importance": min_importance,
            "text_search_mode": text_search_mode,
            "enable_text_search": enable_text_search,
            "gamma": gamma,
            "fusion": fusion,
            "rrf_k": rrf_k,
            "late_interaction": late_interaction,
            "enable_reranker": enable_reranker,
            "reranker_depth": reranker_depth,
            "scoring_mode": scoring_mode,
            "score_combine": score_combine,
            "alpha": alpha,
            "beta": beta,
            "strictness": strictness,
            "habituation": habituation,
            "query_valence": query_valence,
            "lateral": lateral,
            "graph_expansion": graph_expansion,
            "graph_expansion_threshold": graph_expansion_threshold,
            "graph_weights": graph_weights,
            "entities": entities,
            "trace": trace,
        }
        chosen = resolve(options, explicit, self._recall_defaults)
        return self._recall([(text, dense)], [query], chosen, start)[0]

    def recall_many(
        self,
        queries: Iterable[str | ArrayLike],
        *,
        options: RecallOptions | Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> list[Results]:
        """`recall` for many queries: encoded together, answered from one state of the space.

        Parameters
        ----------
        queries : iterable of str or array of float
        options : RecallOptions or mapping, optional
        **keywords
            What `recall` takes beside `vector`; the same for all queries.

        Returns
        -------
        list of Results
            One for each query, with its share of the time.
        """
        start = time.perf_counter()
        if isinstance(queries, (str, bytes, Mapping)) or not isinstance(queries, Iterable):
            raise TypeError(f"queries must be an iterable of str or vectors, got {show(queries)}")
        asked = list(queries)
        checked = [_check_query(query, None) for query in asked]
        names = [each.name for each in fields(RecallOptions) if each.init]
        given = check_keys("recall_many", keywords, names)
        chosen = resolve(options, given, self._recall_defaults)
        if chosen.profile == AUTO:  # each query has a context of its own
            return [self.recall(query, options=chosen) for query in asked]
        return self._recall(checked, asked, chosen, start)

    def _recall(
        self,
        queries: Sequence[Query],
        asked: Sequence[str | ArrayLike],
        options: RecallOptions,
        start: float,
    ) -> list[Results]:
        learn = options.recall_mode == "learn" and options.as_of is None
        choice = Choice(options.profile, False, 1.0)
        bandit = self._space.learning.bandit
        context: tuple[str, ...] = ()
        if learn or options.profile == AUTO:
            text = queries[0][0] if len(queries) == 1 else None
            context = tuple(options.tags)
            if not context and text is not None:
                context = self._space.tags_in(text)
        if options.profile == AUTO:
            choice = bandit.suggest(context)
            options = options.put_over({"profile": choice.profile})
        situation = self._situation(options)
        now, session = situation.now, situation.session
        found = recall_many(self._space, self._models, queries, options, situation)
        if choice.explored and not found[0].hits:  # PAD-8
            choice = bandit.exploit(context)
            options = options.put_over({"profile": choice.profile})
            found = recall_many(self._space, self._models, queries, options, situation)
        credit = Credit(*bandit.key(context), options.profile, choice.propensity)
        if learn:
            for answer in found:
                if answer.reminded:
                    answer.keep_reminders(self._sessions.claim(answer.reminded))
                self._sessions.note(session, answer)
                if answer.slots or answer.lateral or answer.reminded:
                    self._recorder.add(
                        RecallRecord(
                            now,
                            session or self._sessions.implicit,
                            credit,
                            answer.slots,
                            answer.lateral,
                            answer.tags,
                            answer.reminded,
                        )
                    )
            self._cycles.note(now, 0, self.reflect)
        seconds = (time.perf_counter() - start) / max(1, len(asked))
        return [
            Results(
                answer.hits,
                _shown(query),
                seconds,
                answer.degraded,
                options.profile,
                choice.explored,
                credit if learn else None,
                (*answer.slots, *answer.lateral),
                self._space.key if learn else "",
            )
            for query, answer in zip(asked, found, strict=True)
        ]

    def _situation(self, options: RecallOptions) -> Situation:
        session = "" if options.session is None else tag_hash(options.session)
        return Situation(
            self._now(),
            self.hyperfocus.current(),
            session,
            self._sessions.returned(session),
            self._sessions.reminded,
        )

    def why_not(
        self,
        id: str,
        query: str | ArrayLike,
        *,
        vector: ArrayLike | None = None,
        options: RecallOptions | Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> WhyNot:
        """Why a memory is not among the hits of a query: the first step that kept it out.

        Parameters
        ----------
        id : str
            The memory.
        query, vector, options
            As in `recall`.
        **keywords
            What else `recall` takes.

        Returns
        -------
        WhyNot

        Raises
        ------
        UnknownMemoryError
            No memory has this id.
        """
        memory_id = check_id("id", id)
        asked = _check_query(query, vector)
        names = [each.name for each in fields(RecallOptions) if each.init]
        given = check_keys("why_not", keywords, names)
        chosen = resolve(options, given, self._recall_defaults)
        if chosen.profile == AUTO:
            tags = tuple(chosen.tags) or self._space.tags_in(asked[0] or "")
            chosen = chosen.put_over({"profile": self.bandit.exploit(tags).profile})
        return why_not(self._space, self._models, memory_id, asked, chosen, self._situation(chosen))

    def introspect(self, topic: str) -> Topic:
        """What there is about a topic: how much, of which kinds, with which tags, since when."""
        text = check_text("topic", topic)
        hits = self.recall(text, k=_TOPIC, recall_mode="observe")
        graphs = self._space.replica.graphs
        tags = list(dict.fromkeys(tag for hit in hits for tag in hit.tags))[:_TOPIC]
        related = [name for tag in tags for name, _ in graphs.coactivation.associated(tag, 5)]
        profile = self.bandit.exploit(graphs.tags_in(text)).profile
        return summarise(text, hits, list(dict.fromkeys(related)), profile)

    def inspect(self, id: str) -> Memory:
        """The memory of this id.

        Raises
        ------
        UnknownMemoryError
            No memory has this id.
        """
        memory_id = check_id("id", id)
        with self._space.journal.reader() as reader:
            return reader.memory(memory_id)

    def browse(
        self,
        *,
        tags: Iterable[str] = (),
        tag_match: str = "all",
        type: str | None = None,
        author: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[Memory]:
        """List memories, newest timestamp first.

        Parameters
        ----------
        tags, tag_match, type, author, since, until
            List only memories that meet all of these; see `RecallOptions`.
        limit : int
            How many at most.
        after : str, optional
            The id of the last memory of the previous page; it must still be there.

        Returns
        -------
        list of Memory
        """
        wanted = make_filter(tags, tag_match, type, author, since, until)
        count = check_count("limit", limit)
        last = None if after is None else check_id("after", after)
        return self._space.read(lambda reader, _: reader.newest_first(wanted, count, last))

    def graph_recall(
        self,
        start_entity: str | None = None,
        *,
        query: str | None = None,
        target_entity: str | None = None,
        max_hops: int = 2,
        entity_types: Iterable[str] | None = None,
        relation_types: Iterable[str] | None = None,
        k: int = 10,
        top_paths: int = 5,
    ) -> Surroundings:
        """What is known around an entity, or around those that a text names (ENT-10).

        Parameters
        ----------
        start_entity : str, optional
            Its name, or one of its aliases; case does not matter.
        query : str, optional
            A text that names entities, instead of `start_entity`.
        target_entity : str, optional
            Where ways are to lead.
        max_hops : int
            How many steps over relations and events, in [0, 6].
        entity_types, relation_types : iterable of str, optional
            What may be given, and what may be followed; all if not given.
        k : int
            How many memories at most.
        top_paths : int
            How many ways at most.

        Returns
        -------
        Surroundings

        Raises
        ------
        ValueError
            No entity has the name, or there is no such type.
        """
        if (start_entity is None) == (query is None):
            raise ValueError("give start_entity or query, and not both")
        start = None if start_entity is None else check_label("start_entity", start_entity)
        text = "" if query is None else check_text("query", query)
        target = None if target_entity is None else check_label("target_entity", target_entity)
        hops = arguments.whole("max_hops", max_hops, 0, 6)
        types = None if entity_types is None else check_tags("entity_types", entity_types)[0]
        edges = None if relation_types is None else check_tags("relation_types", relation_types)[0]
        memories, paths = check_count("k", k), check_count("top_paths", top_paths)
        return self._space.read(
            lambda reader, replica: around(
                *(replica.graphs, reader, start, text, target, hops),
                *(types, edges, memories, paths),
            )
        )

    def explain(self, id: str, query: str) -> Explanation:
        """Why a memory matches a query, term by term.

        Raises
        ------
        UnknownMemoryError
            No memory has this id.
        """
        memory_id = check_id("id", id)
        text = check_text("query", query)
        terms = self._space.read(
            lambda reader, replica: tuple(replica.index.explain(reader.find(memory_id)[0], text))
        )
        return Explanation(memory_id, sum(term.contribution for term in terms), terms)

    def status(self) -> Status:
        """What is in the space and how large it is."""
        journal = self._space.journal
        settings = self._space.settings
        replica = self._space.replica
        totals, last_event, index, lacking, pending = self._space.read(
            lambda reader, replica: (
                reader.totals(),
                reader.last_event_time(),
                replica.index.stats(),
                reader.count_lacking(self._models.names()),
                reader.count_marked(EXTRACT),
            )
        )
        return Status(
            path=None if journal.path is None else str(journal.path.parent),
            documents=totals["memories"].rows,
            events=totals["events"].rows,
            terms=index["terms"],
            postings=index["postings"],
            index_bytes=index["bytes"],
            journal_bytes=journal.size(),
            k1=settings.k1,
            b=settings.b,
            analyzer=settings.analyzer,
            language=settings.language,
            fingerprint=index["fingerprint"],
            simd_level=simd_level(),
            last_event=last_event,
            read_only=journal.read_only,
            suppressed=len(replica.suppressed),
            reminders=len(replica.reminders),
            bandit_contexts=len(replica.learning.bandit),
            lateral=replica.learning.lateral.stats(),
            recalls_lost=self._recorder.dropped,
            background_failures=self._recorder.failures + self._cycles.failures,
            pending_extractions=pending,
            without_vectors=lacking,
            set_aside=tuple(map(str, [*journal.set_aside(), *self._space.damaged_snapshots()])),
            snapshot=self._space.newest_snapshot(),
        )

    def space(self, name: str, **options: Any) -> SpectorMemory:
        """Open another space beside this one, as `spector.Spaces` of the folder above it does.

        The options are those of `open`; of an ephemeral memory, another ephemeral one.
        """
        from spector.spaces import Spaces, folder_name

        path = self._space.journal.path
        if path is None:
            folder_name(name)
            return SpectorMemory.ephemeral(**options)
        return Spaces(path.parent.parent).open(name, **options)

    # Copies and upkeep

    def backup(self, dest: str | os.PathLike[str]) -> Report:
        """Copy the space into a new folder, while any process goes on writing.

        The copy is one state of the space, of a moment during the call; it is checked in full
        before it gets its name, and is a space like any other.

        Parameters
        ----------
        dest : str or PathLike
            A folder that does not exist, or is empty.

        Returns
        -------
        Report
            What was found in the copy: numbers of memories and events.

        Raises
        ------
        StorageError
            The folder is not empty, or the disk refused.
        CorruptionError
            The copy is not sound, as the space may be.
        """
        return back_up(self._space.journal, dest)

    def export(self, dest: str | os.PathLike[str], *, vectors: bool = True) -> int:
        """Write all memories with all that is stored of them as JSON lines.

        What was learned between memories is not in it; a `backup` has all.

        Parameters
        ----------
        dest : str or PathLike
            The file; compressed if its name ends with ".gz". One that is there is replaced.
        vectors : bool
            With the vectors that models made.

        Returns
        -------
        int
            How many memories were written.
        """
        chosen = check_flag("vectors", vectors)
        path = check_path(dest)
        with self._space.journal.reader() as reader, translated(str(path)):
            return transfer.write(path, transfer.lines(reader, self._space.settings, chosen))

    def import_(
        self,
        source: str | os.PathLike[str],
        *,
        on_conflict: str = "update",
        batch_size: int = 1000,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Store what `export` wrote, with times, counters and all.

        Parameters
        ----------
        source : str or PathLike
            The file.
        on_conflict : {"update", "ignore", "error"}
            What to do with an id that exists: replace the memory with all that is stored of it,
            keep it, or raise.
        batch_size : int
            How many to store in one transaction.
        progress : callable, optional
            Called with the number of memories stored so far after each batch.

        Returns
        -------
        int
            How many memories were stored.

        Raises
        ------
        CorruptionError, VersionError
            The file is no export, or one of a newer release.
        ValueError
            A line is not what `export` writes; the batches before it stay stored.
        ConfigurationError
            Its vectors are of other models than those of this space.
        """
        on_conflict = check_choice("on_conflict", on_conflict, CONFLICTS)
        size = check_count("batch_size", batch_size)
        if progress is not None and not callable(progress):
            raise TypeError(f"progress must be callable, got {show(progress)}")
        path = check_path(source)
        self._space.journal.check_usable()
        with translated(str(path)), transfer.opened(path, "rb") as file:
            header = transfer.Header.of(file.readline(), str(path))
            stored = 0
            for _, batch in transfer.batches(file, header.shape, str(path), size):
                stored += self._space.write(self._restoring(batch, header.shape, on_conflict))
                if progress is not None:
                    progress(stored)
        return stored

    def _restoring(
        self, batch: list[Stored], shape: Shape, on_conflict: str
    ) -> Callable[[Transaction], int]:
        def change(transaction: Transaction) -> int:
            if any(item.vectors for item in batch):
                transfer.take_shape(transaction, shape, self._models.shape)
            return transaction.restore(batch, on_conflict)

        return change

    def compact(self) -> Compaction:
        """Give back the space that forgotten and replaced texts and past events held.

        The journal is written anew, which takes time in proportion to its size and as much free
        space again; others can read meanwhile, and wait to write.

        Raises
        ------
        LockedError
            Another process wrote, or read an old state, for longer than ``busy_timeout``.
        """
        before = self._space.journal.size()
        self._space.compact()
        return Compaction(before, self._space.journal.size())

    def snapshot(self) -> int:
        """Write a snapshot, from which the space opens faster; answers do not change.

        It is made by itself at `close`, and while much is written, after ``snapshot_every`` events.
        The newest two are kept.

        Returns
        -------
        int
            The number of the last event in it.

        Raises
        ------
        LockedError
            Another process makes one, or compacts the space, for longer than ``busy_timeout``.
        ConfigurationError
            The memory is ephemeral, or open without its keyword index.
        """
        return self._space.snapshot()

    def state_hash(self) -> dict[str, str]:
        """A hash of what each store of this object holds, and of the journal.

        Objects that are open on one space, in any processes, have equal ones when they know the
        same events; so has the space when it is opened again.
        """
        return self._space.read(state_hash)

    def repair(self) -> int:
        """Build everything that follows from the journal anew, and a new snapshot of it.

        Snapshots, also damaged ones that were set aside, are deleted. Returns the number of the
        last event.
        """
        return self._space.repair()

    def __len__(self) -> int:
        with self._space.journal.reader() as reader:
            return reader.totals()["memories"].rows

    def __contains__(self, id: object) -> bool:
        with self._space.journal.reader() as reader:
            try:
                return reader.has(check_id("id", id))
            except (TypeError, ValueError):  # no memory can have it
                return False

    # Without these an object with a length and no memory in it would be false.
    def __bool__(self) -> bool:
        return True

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a SpectorMemory cannot be copied or pickled: open the folder again")

    def __repr__(self) -> str:
        journal = self._space.journal
        place = "ephemeral" if journal.path is None else repr(str(journal.path.parent))
        return f"<SpectorMemory {place}{' closed' if journal.closed else ''}>"

    # Closing

    def close(self) -> None:
        """Close the memory; may be called again. Any other call then raises `ClosedError`."""
        if self._space.snapshot_every:
            self._space.snapshot_if_due(self._space.snapshot_every)
        self._finalizer()

    def __enter__(self) -> SpectorMemory:
        self._space.journal.check_usable()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _now(self) -> int:
        now = self._clock()
        if isinstance(now, bool) or not isinstance(now, int):
            raise TypeError(
                f"clock must give an int of milliseconds since 1970 UTC, got {show(now)}"
            )
        return check_time("the time given by clock", now)


def _close(cycles: Cycles, recorder: Recorder, extraction: ExtractionWorker, space: Space) -> None:
    cycles.close()
    extraction.close()
    recorder.close()
    space.close()


def _merged(draft: Draft, row: MemoryRow) -> Draft:
    tags = tuple(dict.fromkeys((*tags_of(row), *draft.tags)))
    newer = draft.timestamp >= row[8]
    return draft._replace(
        id=row[1],
        tags=tags,
        tags_json=encode_json(list(tags)),
        importance=max(draft.importance, row[14]),
        timestamp=max(draft.timestamp, row[8]),
        valence=draft.valence if newer else row[16],
        flags=draft.flags | (row[18] & (PINNED | UNRESOLVED)),
    )


def _check_query(
    query: object, vector: ArrayLike | None
) -> tuple[str | None, npt.NDArray[np.float32] | None]:
    if isinstance(query, str):
        text = check_text("query", query)
        return text, None if vector is None else check_vector("vector", vector)
    if vector is not None:
        raise TypeError("query must be a str when vector is given")
    if query is None or isinstance(query, (bool, int, float, bytes)):
        raise TypeError(
            f"query must be a str or a vector, got {query.__class__.__name__} {show(query)}"
        )
    return None, check_vector("vector", query)


def _shown(query: str | ArrayLike) -> str:
    return query if isinstance(query, str) else f"a vector of {np.size(query)}"


def _check_settings(given: Mapping[str, Any]) -> tuple[Settings, str]:
    """Settings for a new space, and their fingerprint; bad ones raise before a file is touched."""
    chosen = {
        name: getattr(_DEFAULTS, name) if value is UNSET else value for name, value in given.items()
    }
    if not isinstance(chosen["analyzer"], str):  # a function cannot be stored
        raise TypeError(f"analyzer must be the name of one, got {show(chosen['analyzer'])}")
    index = Settings(**chosen).index()
    chosen["k1"] = float(chosen["k1"])
    chosen["b"] = float(chosen["b"])
    return Settings(**chosen), index.fingerprint


def _check_clock_and_seed(clock: object, seed: object) -> None:
    if clock is not None and not callable(clock):
        raise TypeError(f"clock must be callable, got {show(clock)}")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise TypeError(f"seed must be an int, got {show(seed)}")


def _check_extras(
    auto_tags: object, flashbulb_threshold: float, strengthen: object, merge: object
) -> tuple[bool, float, bool, bool]:
    return (
        check_flag("auto_tags", auto_tags),
        arguments.real("flashbulb_threshold", flashbulb_threshold, 0, 100),
        check_flag("strengthen_on_reinforce", strengthen),
        check_flag("merge_near_duplicates", merge),
    )


def _check_reflect_every(hours: float | Unset | None, clock: object) -> float | None:
    if isinstance(hours, Unset):
        return _REFLECT_EVERY if clock is None else None
    if hours is None:
        return None
    return arguments.real("reflect_every", hours, 0.01, 1e6)


def _check_bandit(options: object, seed: int | None) -> dict[str, Any]:
    """Options for a `ProfileAdaptor`; one generator of random numbers serves all replicas."""
    import random

    known = ("policy", "epsilon", "alpha", "minimum", "back_off", "default")
    given = dict(check_keys("bandit", {} if options is None else options, known))
    given["seed"] = random.Random(seed)
    ProfileAdaptor(**given)
    return given


def _check_ann(ann: object) -> None:
    if check_flag("ann", ann):
        from spector.ann import require_usearch

        require_usearch()


def _new_meta(settings: Settings, fingerprint: str) -> dict[str, Any]:
    return {
        "store_id": os.urandom(16).hex(),
        "fingerprint": fingerprint,
        "vectors": asdict(Shape()),
        **asdict(settings),
    }
