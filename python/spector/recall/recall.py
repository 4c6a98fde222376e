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
from .results import Hit
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
        hits = [
            Hit(score, to_memory(rows[slot])) for slot, score in zip(slots, scores, strict=True)
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
