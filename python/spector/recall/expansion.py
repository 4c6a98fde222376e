"""Widening: what the graph adds to the memories that the lists found (REC-1 step 9, section D.9).

Each step gives activations of memories, none above 1 and each the strongest of its paths; they are
added to what the lists gave, by the weight of the layer (AM-5). Steps see the seeds only, so their
order does not matter (EXP-8). One that fails is left out and named in `degraded` (EXP-5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from spector.store.graphs import Graphs
from spector.store.journal import Reader
from spector.store.model import MemoryRow

from .fusion import Candidates
from .steps import RecallContext

_FORWARD: Final = 0.8
_BACKWARD: Final = 0.7
_HOPS: Final = 3
_MENTIONERS: Final = 5  # seeds whose texts are read for names


@dataclass
class Edge:
    """How a layer reached a memory: from which seed, by way of what."""

    layer: str
    slot: int
    seed: int | None
    via: str
    activation: float


@dataclass
class Widening:
    """One recall's way through the steps."""

    context: RecallContext
    graphs: Graphs
    reader: Reader
    slots: npt.NDArray[np.int64]
    seeds: npt.NDArray[np.uint32]
    strengths: npt.NDArray[np.float64]  # of the seeds; the best has 1
    rows: dict[int, MemoryRow] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def read(self, slots: Iterable[int]) -> dict[int, MemoryRow]:
        """The memories in these slots, each read once for all steps."""
        missing = sorted(set(slots) - self.rows.keys())
        if missing:
            self.rows |= self.reader.rows(missing)
        return self.rows


class Reached:
    """The strongest activation of each memory."""

    def __init__(self, layer: str, edges: list[Edge] | None) -> None:
        self.layer = layer
        self.values: dict[int, float] = {}
        self._edges = edges

    def raise_to(self, slot: int, activation: float, seed: int | None = None, via: str = "") -> None:
        """Note a path."""
        if activation > self.values.get(slot, 0.0):
            self.values[slot] = activation
        if self._edges is not None:
            self._edges.append(Edge(self.layer, slot, seed, via, activation))


def temporal(widening: Widening, reached: Reached) -> None:
    """What was told shortly before and after each seed, in its session (TMP-4)."""
    for backward, share in ((False, _FORWARD), (True, _BACKWARD)):
        known = widening.seeds < len(widening.graphs.temporal)
        seeds, strengths = widening.seeds[known], widening.strengths[known]
        ends, slots = widening.graphs.temporal.followers(seeds, _HOPS, backward)
        for place, seed in enumerate(seeds.tolist()):
            for slot in slots[ends[place] : ends[place + 1]].tolist():
                direction = "before" if backward else "after"
                reached.raise_to(slot, share * float(strengths[place]), seed, direction)


def hebbian(widening: Widening, reached: Reached) -> None:
    """What is associated with each seed, over at most two edges (HEB-11)."""
    graph = widening.graphs.hebbian
    for seed, strength in zip(widening.seeds.tolist(), widening.strengths.tolist(), strict=True):
        if seed >= len(graph):
            continue
        slots, strengths = graph.spread([seed], limit=50)
        for slot, weight in zip(slots.tolist(), strengths.tolist(), strict=True):
            reached.raise_to(slot, weight * strength, seed, f"{weight:.2f}")


def author(widening: Widening, reached: Reached) -> None:
    """What the lists found that is by somebody whom the query names (AM-7)."""
    text = widening.context.text
    graphs = widening.graphs
    if text is None or not len(graphs.authors):
        return
    numbers: list[int] = []
    names: list[str] = []
    for name, found in graphs.authors.find(text):
        numbers += found
        names.append(name)
    if numbers:
        own = widening.slots[graphs.by_author(widening.slots, numbers)]
        for slot in own.tolist():
            reached.raise_to(slot, 1.0, None, ", ".join(names))


def about(widening: Widening, reached: Reached) -> None:
    """What is about the entities that the query names (AM-10)."""
    text = widening.context.text
    if text is None:
        return
    for name, entities in widening.graphs.names.find(text):
        _lead_to(widening, reached, name, entities, 1.0, None)


def mention(widening: Widening, reached: Reached) -> None:
    """What is about the entities that the first seeds mention (AM-10)."""
    graphs = widening.graphs
    if not len(graphs.names):
        return
    seeds = widening.seeds[:_MENTIONERS].tolist()
    rows = widening.read(seeds)
    for seed, strength in zip(seeds, widening.strengths.tolist(), strict=False):
        for name, entities in graphs.names.find(rows[seed][2]):
            share = strength / math.sqrt(_mentions(widening, name))
            _lead_to(widening, reached, name, entities, share, seed)


def _lead_to(
    widening: Widening,
    reached: Reached,
    name: str,
    entities: list[int],
    activation: float,
    seed: int | None,
) -> None:
    directory = widening.graphs.entities
    slots = {
        slot
        for entity in entities
        for slot in directory.memories_for_entity(entity).tolist()
        if slot != seed
    }
    for slot in slots:
        reached.raise_to(slot, activation / math.sqrt(len(slots)), seed, name)


def _mentions(widening: Widening, name: str) -> int:
    """In how many memories the name may occur: all its words do, so the rarest bounds it."""
    index = widening.context.replica.index
    slot = int(widening.seeds[0])
    counts = [term.n for term in index.explain(slot, name) if term.n]
    return max(1, min(counts, default=1))


def cross_capture(widening: Widening, reached: Reached) -> None:
    """What has tags that occur together with those of the query, or of the first seeds (XCP-3)."""
    graphs = widening.graphs
    if not len(graphs.capture):
        return
    tags = list(widening.context.options.tags)
    if not tags:
        for seed in widening.seeds[:3].tolist():
            tags += graphs.capture.tags(seed)
    if tags:
        slots, scores, _ = graphs.capture.expand(
            list(dict.fromkeys(tags)), 1.0, graphs.coactivation, attenuation=1.0
        )
        for slot, score in zip(slots.tolist(), scores.tolist(), strict=True):
            reached.raise_to(slot, score)


STEPS: Final[dict[str, Callable[[Widening, Reached], None]]] = {
    "hebbian": hebbian,
    "temporal": temporal,
    "about": about,
    "mention": mention,
    "author": author,
    "cross_capture": cross_capture,
}


def widen(context: RecallContext, reader: Reader) -> None:
    """Let the graph raise what the lists found and add what they did not."""
    options = context.options
    if (
        not options.graph_expansion
        or options.scoring_mode == "similarity"
        or options.text_search_mode == "keyword_only"
        or not len(context.found.slots)
        or context.found.scores[0] <= 0
    ):
        return
    slots, scores = context.found
    best = float(scores[0])
    n = min(options.k, 10, int(np.count_nonzero(scores > 0)))
    widening = Widening(
        context,
        context.replica.graphs,
        reader,
        slots,
        slots[:n].astype(np.uint32),
        scores[:n].astype(np.float64) / best,
    )
    total: dict[int, float] = {}
    weights = dict(options.graph_weights)
    for name, step in STEPS.items():
        weight = weights[name]
        if not weight:
            continue
        reached = Reached(name, None)
        try:
            step(widening, reached)
        except Exception as error:  # the answer is the one without this step
            context.degraded.append(f"{name}: {type(error).__name__}: {error}"[:200])
            continue
        for slot, activation in reached.values.items():
            total[slot] = total.get(slot, 0.0) + weight * activation
    if total:
        _accumulate(context, total, best)


def _accumulate(context: RecallContext, total: dict[int, float], best: float) -> None:
    slots, scores = context.found
    extra = np.fromiter(total, np.int64, len(total))
    gains = np.fromiter(total.values(), np.float64, len(total)) * best
    if context.allow is not None:
        kept = np.isin(extra, context.allow)
        extra, gains = extra[kept], gains[kept]
    known, places = np.unique(np.concatenate([slots, extra]), return_inverse=True)
    sums = np.zeros(len(known))
    np.add.at(sums, places, np.concatenate([scores.astype(np.float64), gains]))
    order = np.lexsort((known, -sums))
    context.found = Candidates(known[order], sums[order].astype(np.float32))
