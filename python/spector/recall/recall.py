"""One recall from query to hits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from spector.encoding import Encoded, Models
from spector.store.filters import Filter
from spector.store.journal import Reader, damaged
from spector.store.model import to_memory
from spector.store.replica import Replica
from spector.store.space import Space

from .expansion import widen
from .focus import Focus
from .options import RecallOptions
from .results import Edge, Hit
from .steps import RecallContext, combine, encode_queries, gather, rerank


def recall(
    space: Space,
    models: Models,
    text: str | None,
    vector: npt.NDArray[np.float32] | None,
    options: RecallOptions,
    now: int,
    focus: Focus | None = None,
) -> tuple[list[Hit], tuple[str, ...]]:
    """The best hits, best first (GEN-4), and what could not take part."""
    return recall_many(space, models, [(text, vector)], options, now, focus)[0]


Query = tuple[str | None, npt.NDArray[np.float32] | None]
Answer = tuple[list[Hit], tuple[str, ...]]


def recall_many(
    space: Space,
    models: Models,
    queries: Sequence[Query],
    options: RecallOptions,
    now: int,
    focus: Focus | None = None,
) -> list[Answer]:
    """`recall` for each of the queries, all from one state of the space."""
    encoded = encode_queries(models, queries, options)
    wanted = options.filter()

    def answer(
        reader: Reader,
        replica: Replica,
        text: str | None,
        query: Encoded,
        errors: dict[str, Exception],
        allow: npt.NDArray[np.uint32] | None,
    ) -> Answer:
        if allow is not None and not allow.size:
            return [], ()
        boost = None if focus is None else focus.boost
        context = RecallContext(text, query, options, replica, allow, now, boost)
        gather(context, errors)
        combine(context)
        rerank(context, errors)
        widen(context, reader)
        slots = context.found.slots[: options.k].tolist()
        scores = context.found.scores[: options.k].tolist()
        rows = reader.rows(sorted(slots))
        if len(rows) != len(slots):
            missing = sorted(set(slots) - rows.keys())
            raise damaged(space.journal.where, f"the memory in slot {missing[0]} is missing")
        traces = _traces(context, reader) if options.trace else {}
        hits = [
            Hit(score, to_memory(rows[slot]), traces.get(slot, ()))
            for slot, score in zip(slots, scores, strict=True)
        ]
        return hits, tuple(context.degraded)

    def work(reader: Reader, replica: Replica) -> list[Answer]:
        allow = None if wanted == Filter() else reader.matching(wanted)
        if focus is not None:  # SCO-2
            mask = reader.matching(Filter(tags=focus.tags))
            allow = mask if allow is None else np.intersect1d(allow, mask, assume_unique=True)
        return [
            answer(reader, replica, text, query, errors, allow)
            for (text, _), (query, errors) in zip(queries, encoded, strict=True)
        ]

    return space.read(work)


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
