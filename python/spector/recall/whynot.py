"""Why a memory is not among the hits of a query: the first step that kept it out (API-4)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from spector.encoding import Encoded, Models
from spector.store.filters import Filter
from spector.store.model import MemoryRow, tags_of
from spector.store.reader import Reader
from spector.store.replica import Replica
from spector.store.space import Space

from .options import RecallOptions
from .recall import Query, Situation, allowed, as_of, run, wanted_by
from .steps import RecallContext, encode_query

_CONDITIONS: Final = {
    "tags": "its tags are {tags}, the query wants {wanted} ({match})",
    "types": "it is {type}, the query wants {wanted}",
    "author": "its author is {author!r}, the query wants {wanted!r}",
    "since": "its timestamp {timestamp} is before {wanted}",
    "until": "its timestamp {timestamp} is after {wanted}",
    "min_valence": "its valence {valence} is below {wanted}",
    "max_valence": "its valence {valence} is above {wanted}",
    "min_importance": "its importance {importance:g} is below {wanted:g}",
}


@dataclass(frozen=True, slots=True)
class WhyNot:
    """What became of a memory in a recall.

    Attributes
    ----------
    id, query : str
    found : bool
        Whether it is among the hits.
    step : str
        Where it ended: "suppressed", "filter", "hyperfocus", "associative", "lists", "cut", or
        "found".
    reason : str
        In words.
    rank : int or None
        Its place among all candidates, from 1; None if it is none of them.
    score : float or None
        Its score there.
    needed : float or None
        How much more score it would have needed; None where that is not what was missing.
    lists : dict
        For each list that found it its place in it, from 1.
    """

    id: str
    query: str
    found: bool
    step: str
    reason: str
    rank: int | None = None
    score: float | None = None
    needed: float | None = None
    lists: dict[str, int] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.id}: {'found' if self.found else 'not found'} ({self.step}): {self.reason}"


def why_not(
    space: Space,
    models: Models,
    memory_id: str,
    query: Query,
    options: RecallOptions,
    situation: Situation,
) -> WhyNot:
    """See `WhyNot`; nothing is changed or counted."""
    text, vector = query
    encoded, errors = encode_query(models, text, vector, options)
    situation = situation._replace(now=as_of(options, situation.now))
    shown = "a vector" if text is None else text

    def work(reader: Reader, replica: Replica) -> WhyNot:
        row = reader.find(memory_id)
        slot = row[0]
        if slot in replica.suppressed:
            reason = f"it is suppressed{f': {row[24]}' if row[24] else ''}"
            return WhyNot(memory_id, shown, False, "suppressed", reason)
        wanted = wanted_by(options)
        failing = _failing(reader, slot, wanted)
        if failing is not None:
            return WhyNot(memory_id, shown, False, "filter", _filtered(row, failing, wanted))
        focus = situation.focus
        if focus is not None and not set(focus.tags) <= set(tags_of(row)):
            reason = f"the focus is on {', '.join(focus.tags)}, its tags are {_listed(row)}"
            return WhyNot(memory_id, shown, False, "hyperfocus", reason)
        allow = allowed(reader, replica, options, situation, wanted)
        if allow is not None and slot not in allow:
            reason = f"its tags ({_listed(row)}) do not follow from this session's"
            return WhyNot(memory_id, shown, False, "associative", reason)
        context = run(replica, reader, (text, encoded, errors), options, situation, allow)
        return _placed(context, encoded, row, shown)

    return space.read(work)


def _failing(reader: Reader, slot: int, wanted: Filter) -> str | None:
    """The first condition that the memory does not meet."""
    for each in fields(Filter):
        value = getattr(wanted, each.name)
        if each.name not in _CONDITIONS or value in (None, ()):
            continue
        alone = {each.name: value}
        if each.name == "tags":
            alone["tag_match"] = wanted.tag_match
        if slot not in reader.matching(Filter(**alone)):
            return each.name
    return None


def _filtered(row: MemoryRow, failing: str, wanted: Filter) -> str:
    value = getattr(wanted, failing)
    return _CONDITIONS[failing].format(
        tags=_listed(row),
        match=wanted.tag_match,
        type=row[4],
        author=row[7],
        timestamp=row[8],
        importance=row[14],
        valence=row[16],
        wanted=", ".join(value) if isinstance(value, tuple) else value,
    )


def _listed(row: MemoryRow) -> str:
    return ", ".join(tags_of(row)) or "none"


def _placed(context: RecallContext, query: Encoded, row: MemoryRow, shown: str) -> WhyNot:
    slot, memory_id = row[0], row[1]
    places = {
        name: found.slots.tolist().index(slot) + 1
        for name, found in context.lists.items()
        if slot in found.slots
    }
    slots, scores = context.found.slots.tolist(), context.found.scores.tolist()
    k = context.options.k
    if slot in slots:
        rank = slots.index(slot) + 1
        score = scores[rank - 1]
        if rank <= k:
            reason = f"it is hit {rank} with {score:.3f}"
            return WhyNot(memory_id, shown, True, "found", reason, rank, score, None, places)
        needed = scores[k - 1] - score
        reason = (
            f"it is in place {rank} with {score:.3f}; the last of {k} hits has"
            f" {scores[k - 1]:.3f}, so it lacks {needed:.3f}"
        )
        return WhyNot(memory_id, shown, False, "cut", reason, rank, score, needed, places)
    reasons = [_missed(context, query, slot, name) for name in context.lists]
    reasons += list(context.degraded)
    reasons.append("the graph does not lead to it")
    return WhyNot(memory_id, shown, False, "lists", "; ".join(reasons), lists=places)


def _missed(context: RecallContext, query: Encoded, slot: int, name: str) -> str:
    found = context.lists[name]
    replica = context.replica
    full = f"{name}: {len(found.slots)} memories are nearer"
    if name == "keyword":
        assert context.text is not None
        terms = replica.index.explain(slot, context.text)
        own = sum(term.contribution for term in terms)
        if not own:
            return "keyword: it has no term of the query"
        return f"{full}; it has {own:.3f}, the last of them {float(found.scores[-1]):.3f}"
    if name == "dense":
        if slot not in replica.records or replica.records.vector(slot) is None:
            return "dense: it has no vector"
        return full
    has = replica.sparse.contains(slot) if name == "sparse" else replica.tokens.contains(slot)
    return full if has else f"{name}: it has no such vector"
