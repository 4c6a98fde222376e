"""One recall from query to hits (REC-1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spector.encoding import Encoded, Models
from spector.records import ScoringOptions
from spector.store.filters import Filter
from spector.store.learning import first_tags
from spector.store.reader import Reader
from spector.store.replica import Replica
from spector.store.space import Space
from spector.store.sqlite_errors import damaged

from .expansion import widen
from .focus import Focus
from .options import RecallOptions
from .results import Edge, Hit
from .steps import RecallContext, adapt, combine, encode_queries, gather, rerank

_REMINDER_SCORE = 10.0


class Situation(NamedTuple):
    """In which a question is asked, beside its options."""

    now: int
    focus: Focus | None = None
    session: str = ""  # H64 of an explicit one; empty without
    returned: Mapping[int, int] = {}  # how often, in this session (HAB-1)
    reminded: frozenset[int] = frozenset()  # reminders that were delivered already


@dataclass
class Answer:
    """What one recall gives."""

    hits: list[Hit] = field(default_factory=list)
    degraded: tuple[str, ...] = ()
    slots: tuple[int, ...] = ()  # of the hits but the lateral ones
    lateral: tuple[int, ...] = ()
    reminded: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()  # hashed (STDP-2)

    def keep_reminders(self, own: frozenset[int]) -> None:
        """Leave out reminders but these: another recall delivers them. They come first."""
        chosen = [slot in own for slot in self.reminded]
        ahead = [hit for hit, kept in zip(self.hits, chosen, strict=False) if kept]
        self.hits = [*ahead, *self.hits[len(chosen) :]]
        self.reminded = tuple(slot for slot in self.reminded if slot in own)


Query = tuple["str | None", "npt.NDArray[np.float32] | None"]

_ALL: Final = Filter()
_UNTRACED: Final = repeat(())


def recall_many(
    space: Space,
    models: Models,
    queries: Sequence[Query],
    options: RecallOptions,
    situation: Situation,
) -> list[Answer]:
    """What each query finds, best first (GEN-4), all from one state of the space."""
    encoded = encode_queries(models, queries, options)
    if options.as_of is not None:
        situation = situation._replace(now=as_of(options, situation.now))
    wanted = wanted_by(options)

    def work(reader: Reader, replica: Replica) -> list[Answer]:
        allow = allowed(reader, replica, options, situation, wanted)
        return [
            _answer(space, reader, replica, (text, query, errors), options, situation, allow)
            for (text, _), (query, errors) in zip(queries, encoded, strict=True)
        ]

    return space.read(work, whole=False)


def as_of(options: RecallOptions, now: int) -> int:
    """The moment of which the answer is."""
    return now if options.as_of is None else options.as_of  # type: ignore[return-value]


def wanted_by(options: RecallOptions) -> Filter:
    """Which memories the options let pass."""
    wanted = options.filter()
    if options.as_of is None:
        return wanted
    moment = as_of(options, 0)
    until = moment if wanted.until is None else min(moment, wanted.until)
    return replace(wanted, until=until)


def allowed(
    reader: Reader, replica: Replica, options: RecallOptions, situation: Situation, wanted: Filter
) -> npt.NDArray[np.uint32] | None:
    """The slots that filters, a focus and "associative" let pass; None for all."""
    allow = None if wanted == _ALL else reader.matching(wanted)
    masks: list[npt.NDArray[np.uint32]] = []
    if situation.focus is not None:  # SCO-2
        masks.append(reader.matching(Filter(tags=situation.focus.tags)))
    if options.scoring_mode == "associative" and situation.session:  # PRO-15
        recent = replica.learning.recent_tags(situation.session)
        expected = {*recent, *replica.learning.following(recent)}
        names = replica.graphs.named(expected) if recent else ()
        if names:
            masks.append(reader.matching(Filter(tags=names, tag_match="any")))
    for mask in masks:
        allow = mask if allow is None else np.intersect1d(allow, mask, assume_unique=True)
    return allow


def run(
    replica: Replica,
    reader: Reader,
    query: tuple[str | None, Encoded, dict[str, Exception]],
    options: RecallOptions,
    situation: Situation,
    allow: npt.NDArray[np.uint32] | None,
) -> RecallContext:
    """The steps up to the sorted candidates."""
    text, encoded, errors = query
    boost = None if situation.focus is None else situation.focus.boost
    context = RecallContext(text, encoded, options, replica, allow, situation.now, boost)
    if situation.session:
        context.recent = replica.learning.recent_tags(situation.session)
        context.returned = situation.returned
    gather(context, errors)
    combine(context)
    rerank(context, errors)
    adapt(context)
    context.listed = context.found.slots
    widen(context, reader)
    return context


def _answer(
    space: Space,
    reader: Reader,
    replica: Replica,
    query: tuple[str | None, Encoded, dict[str, Exception]],
    options: RecallOptions,
    situation: Situation,
    allow: npt.NDArray[np.uint32] | None,
) -> Answer:
    due = _due(replica, options, situation)
    if allow is not None and not allow.size:
        slots, scores, lateral = [], [], []
        context = None
    else:
        context = run(replica, reader, query, options, situation, allow)
        lateral = _lateral(context, reader)
        most = options.k + len(lateral)
        slots, scores = context.found.slots[:most].tolist(), context.found.scores[:most].tolist()
        if lateral:
            apart = {slot for slot, _ in lateral}
            pairs = [one for one in zip(slots, scores, strict=True) if one[0] not in apart]
            slots, scores = [slot for slot, _ in pairs], [score for _, score in pairs]
        slots, scores = slots[: options.k], scores[: options.k]
    others = [*due, *(slot for slot, _ in lateral)]
    rows = reader.rows(sorted({*slots, *others} if others else slots))
    try:
        found = [rows[slot] for slot in slots]
    except KeyError:
        missing = min(slot for slot in slots if slot not in rows)
        raise damaged(space.journal.where, f"the memory in slot {missing} is missing") from None
    traces: Iterable[tuple[Edge, ...]] = _UNTRACED
    mode = "standard" if situation.focus is None else "hyperfocus"
    modes: Iterable[str] = repeat(mode)
    if context is not None and options.trace:
        paths = _traces(context, reader)
        traces = [paths.get(slot, ()) for slot in slots]
    if context is not None and context.found.slots is not context.listed:  # there is a graph
        listed = set(context.listed.tolist())
        modes = [mode if slot in listed else "graph" for slot in slots]
    hits = [Hit(_REMINDER_SCORE, rows[slot], (), "reminder") for slot in due if slot in rows]
    hits += map(Hit, scores, found, traces, modes)
    hits += [Hit(score, rows[slot], (), "lateral") for slot, score in lateral]
    return Answer(
        hits,
        () if context is None else tuple(context.degraded),
        tuple(slots),
        tuple([slot for slot, _ in lateral]),
        tuple([slot for slot in due if slot in rows]),
        first_tags(found),
    )


def _due(replica: Replica, options: RecallOptions, situation: Situation) -> list[int]:
    """Reminders to deliver with this recall (IMP-4)."""
    if options.recall_mode == "observe" or options.as_of is not None:
        return []
    return [slot for slot in replica.due(situation.now) if slot not in situation.reminded]


def _lateral(context: RecallContext, reader: Reader) -> list[tuple[int, float]]:
    """Memories that share tags with the query and are far from it (SCO-15), best first."""
    options, replica = context.options, context.replica
    vector = context.query.dense
    learned = replica.learning.lateral
    if not options.lateral or not options.tags or vector is None or not learned.enabled:
        return []
    if vector.shape != (replica.shape.dimensions,):
        return []
    scoring = ScoringOptions(
        now=context.now,
        allow=context.allow,
        tags=[reader.matching(Filter(tags=(tag,))) for tag in options.tags],
        tag_match=options.tag_match,
        strictness=options.strictness,
        alpha=options.alpha,
        beta=options.beta,
        lateral_distance=learned.distance,
    )
    answer = replica.records.search(vector, scoring, options.k)
    pairs = zip(answer.slots[answer.lateral], answer.scores[answer.lateral], strict=True)
    return [(int(slot), float(score)) for slot, score in pairs][: max(1, options.k // 3)]


def _traces(context: RecallContext, reader: Reader) -> dict[int, tuple[Edge, ...]]:
    """For each memory the paths on which the graph reached it, the strongest first."""
    seeds = {path.seed for path in context.paths if path.seed is not None}
    ids = {slot: row[1] for slot, row in reader.rows(sorted(seeds)).items()}
    traces: dict[int, list[Edge]] = {}
    for path in sorted(context.paths, key=lambda path: -path.gain):
        seed = None if path.seed is None else ids[path.seed]
        edge = Edge(path.layer, seed, path.via, path.activation, path.gain)
        traces.setdefault(path.slot, []).append(edge)
    return {slot: tuple(edges) for slot, edges in traces.items()}
