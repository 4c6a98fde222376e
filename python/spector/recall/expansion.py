"""Widening: what the graph adds to the memories that the lists found (REC-1 step 9, section D.9).

Each step gives activations of memories, none above 1 and each the strongest of its paths; they are
added to what the lists gave, by the weight of the layer (AM-5). What the query names comes first,
as it has a say in which memories are the seeds; the steps then see the seeds only, so their order
does not matter (EXP-8); the author match comes last, for it lifts what is there. A step that fails
is left out and named in `degraded` (EXP-5).
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spector import _core
from spector.errors import CorruptionError
from spector.graph import EntityDirectory
from spector.store.graphs import Graphs
from spector.store.model import MemoryRow
from spector.store.reader import Reader

from .fusion import Candidates

if TYPE_CHECKING:
    from .steps import RecallContext

_NOBODY: Final = 2**32 - 1
_FORWARD: Final = 0.8
_BACKWARD: Final = 0.7
_HOPS: Final = 3
_SEEDS: Final = 10
_MENTIONERS: Final = 3  # seeds whose texts are read for names
_SECOND_STEP: Final = 0.4
_ASSOCIATED: Final = 50  # of each seed, over at most so many edges and no weaker:
_DEPTH: Final = 2
_LEAST_ASSOCIATED: Final = 0.01
_FEW_NAMES: Final = 3
_ENTITY_SEEDS: Final = 5
_ASKED: Final = 0.5  # strength of what the query names, where the first seed's entities have 1
_STEPS: Final = 2
_SHARE: Final = 0.25
_BELOW: Final = 0.8
_UNDER: Final = 0.999  # of a score that is not to be reached
_LEAST: Final = 0.02
_MOST: Final = 100  # memories that one seed, or the query, leads to
_MOST_MEMORIES: Final = 200  # of an entity that says anything
_RULES: Final = _core.SeedRules(
    depth=_DEPTH,
    min_strength=_LEAST_ASSOCIATED,
    associated=_ASSOCIATED,
    hops=_HOPS,
    forward=_FORWARD,
    backward=_BACKWARD,
    asked=_ASKED,
    steps=_STEPS,
    share=_SHARE,
    most_memories=_MOST_MEMORIES,
    least=_LEAST,
    most=_MOST,
    entity_seeds=_ENTITY_SEEDS,
    few=_FEW_NAMES,
    below=_BELOW,
)


class Path(NamedTuple):
    """How a layer reached a memory: from which seed, if from one, and by way of what."""

    layer: str
    slot: int
    seed: int | None
    via: str
    activation: float
    gain: float  # what it adds to the score if it is the strongest of its layer


@dataclass(slots=True)
class Widening:
    """One recall's way through the steps."""

    context: RecallContext
    reader: Reader
    slots: npt.NDArray[np.int64]
    seeds: npt.NDArray[np.uint32]
    strengths: npt.NDArray[np.float64]  # of the seeds; the best has 1
    rows: dict[int, MemoryRow]
    _asked: dict[str, list[int]] | None = None

    @property
    def graphs(self) -> Graphs:
        """The stores."""
        return self.context.replica.graphs

    def known(self, size: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float64]]:
        """Seeds below `size`, and their strengths."""
        if _core.highest(self.seeds) < size:
            return self.seeds, self.strengths
        below = self.seeds < size
        return self.seeds[below], self.strengths[below]

    @property
    def asked(self) -> dict[str, list[int]]:
        """The entities that the query means, by name: those of the caller, else known names in
        it."""
        if self._asked is None:
            self._asked = self._find_asked()
        return self._asked

    @property
    def asked_entities(self) -> list[int]:
        """The same by number, ascending."""
        return sorted({entity for entities in self.asked.values() for entity in entities})

    def _find_asked(self) -> dict[str, list[int]]:
        directory = self.graphs.entities
        hints = self.context.options.entities
        if hints:
            found = ((name, directory.find_entity(name)) for name in hints)
            return {name: [entity] for name, entity in found if entity >= 0}
        text = self.context.text
        return {} if text is None else dict(self.graphs.mentions.names.find(text))

    def read(self, slots: Iterable[int]) -> dict[int, MemoryRow]:
        """The memories in these slots, each read once for all steps."""
        missing = sorted(set(slots) - self.rows.keys())
        if missing:
            self.rows |= self.reader.rows(missing)
        return self.rows


class Reached:
    """What a layer leads to; of a memory the strongest activation counts."""

    __slots__ = (
        "_layer",
        "_paths",
        "_single",
        "activations",
        "scale",
        "slots",
        "traced",
        "weight",
    )

    def __init__(self, layer: str, weight: float, best: float, paths: list[Path] | None) -> None:
        self.weight = weight
        self.slots: list[npt.NDArray[np.uint32]] = []
        self.activations: list[npt.NDArray[np.float64]] = []
        self.scale = weight * best
        #: Whether somebody wants to know the ways.
        self.traced = paths is not None
        self._layer = layer
        self._paths = paths
        self._single: dict[int, float] = {}

    def raise_to(
        self, slot: int, activation: float, seed: int | None = None, via: str = ""
    ) -> None:
        """Note a path."""
        if activation > self._single.get(slot, 0.0):
            self._single[slot] = activation
        if self._paths is not None:
            gain = activation * self.scale
            self._paths.append(Path(self._layer, slot, seed, via, activation, gain))

    def raise_many(
        self, slots: npt.NDArray[np.uint32], activations: npt.NDArray[np.float64]
    ) -> None:
        """`raise_to` for several, where nobody wants to know the ways."""
        self.slots.append(slots)
        self.activations.append(activations)

    def close(self) -> None:
        """Put what was noted one by one to the rest."""
        if self._single:
            n = len(self._single)
            self.slots.append(np.fromiter(self._single, np.uint32, n))
            self.activations.append(np.fromiter(self._single.values(), np.float64, n))


Step = Callable[[Widening, Reached], None]


def temporal(widening: Widening, reached: Reached) -> None:
    """What was told shortly before and after each seed, in its session (TMP-4)."""
    chain = widening.graphs.temporal
    seeds, strengths = widening.known(len(chain))
    for backward, share in ((False, _FORWARD), (True, _BACKWARD)):
        ends, slots = chain.followers(seeds, _HOPS, backward)
        if not reached.traced:
            reached.raise_many(slots, (share * strengths).repeat(ends[1:] - ends[:-1]))
            continue
        direction = "before" if backward else "after"
        for place, seed in enumerate(seeds.tolist()):
            for slot in slots[ends[place] : ends[place + 1]].tolist():
                reached.raise_to(slot, share * float(strengths[place]), seed, direction)


def hebbian(widening: Widening, reached: Reached) -> None:
    """What is associated with each seed, over at most two edges (HEB-11)."""
    graph = widening.graphs.hebbian
    seeds, strengths = widening.known(len(graph))
    ends, slots, weights = graph.spread_each(seeds, _DEPTH, _LEAST_ASSOCIATED, _ASSOCIATED)
    lengths = ends.astype(np.int64)
    lengths[1:] -= lengths[:-1].copy()
    activations = weights * strengths.repeat(lengths)
    if not reached.traced:
        reached.raise_many(slots, activations)
        return
    of = np.repeat(seeds, lengths)
    for seed, slot, weight, activation in zip(
        of.tolist(), slots.tolist(), weights.tolist(), activations.tolist(), strict=True
    ):
        reached.raise_to(slot, activation, seed, f"{weight:.2f}")


def author(widening: Widening, reached: Reached) -> None:
    """What the lists found that is by somebody whom the query names (AM-7)."""
    text = widening.context.text
    graphs = widening.graphs
    if text is None:
        return
    numbers: list[int] = []
    names: list[str] = []
    for name, found in graphs.authors.find(text):
        numbers += found
        names.append(name)
    if numbers:
        own = graphs.by_author(widening.slots, numbers)
        if not reached.traced:
            reached.raise_many(own, np.ones(len(own)))
            return
        for slot in own.tolist():
            reached.raise_to(slot, 1.0, None, ", ".join(names))


def about(widening: Widening, reached: Reached) -> None:
    """What is about the entities that the query names (AM-10)."""
    text = widening.context.text
    if text is None:
        return
    for name, entities in widening.graphs.names.find(text):
        slots = _all_about(widening, entities)
        for slot in slots:
            reached.raise_to(slot, 1 / math.sqrt(len(slots)), None, name)


def mention(widening: Widening, reached: Reached) -> None:
    """What is about the entities that the first seeds mention, and about those that these mention
    in turn (AM-10); it does not pass the seed that leads to it."""
    seeds = widening.seeds[:_MENTIONERS].tolist()
    found_scores = widening.context.found.scores.tolist()
    scores = dict(zip(widening.slots.tolist(), found_scores, strict=True))
    level = {
        seed: (strength, _UNDER * scores[seed])
        for seed, strength in zip(seeds, widening.strengths.tolist(), strict=False)
    }
    for share in (1.0, _SECOND_STEP):
        if not level:
            return
        rows = widening.read(level)
        following: dict[int, tuple[float, float]] = {}
        for seed, (strength, most) in level.items():
            found = dict(widening.graphs.names.find(rows[seed][2]))
            # One of many names says less.
            each = min(1.0, share * strength * (_FEW_NAMES / max(len(found), 1)) ** 0.25)
            for name, entities in found.items():
                slots = _all_about(widening, entities, seed)
                for slot in slots:
                    room = (most - scores.get(slot, 0.0)) / reached.scale
                    if room > 0:
                        reached.raise_to(slot, min(each / math.sqrt(len(slots)), room), seed, name)
                    following[slot] = max(following.get(slot, (0.0, 0.0)), (each, most))
        level = following


def _all_about(widening: Widening, entities: list[int], seed: int | None = None) -> set[int]:
    """The memories about any of the entities, but for the seed."""
    return {
        slot
        for entity in entities
        for slot in widening.graphs.about(entity).tolist()
        if slot != seed
    }


def entity(widening: Widening, reached: Reached) -> None:
    """What mentions the entities that the query names, or what is around these over two steps of
    relations and events; and what mentions those of the first seeds (EXP-1)."""
    mentions = widening.graphs.mentions
    directory = widening.graphs.entities
    asked = widening.asked_entities
    if asked:
        hyper = mentions.hyper
        starts = np.array(asked, np.uint32)
        found = directory.spread(
            starts, _ASKED, _STEPS, _SHARE, _MOST_MEMORIES, hyper, _LEAST, _MOST
        )
        _raise_all(reached, directory, found)
    _raise_together(widening, reached, directory)


def _raise_together(widening: Widening, reached: Reached, directory: EntityDirectory) -> None:
    """What mentions what the first seeds mention; it does not pass the seed that leads to it."""
    seeds = widening.seeds[:_ENTITY_SEEDS]
    strengths = widening.strengths[:_ENTITY_SEEDS]
    places, slots, activations, ways = directory.spread_each(
        seeds, strengths, _FEW_NAMES, _MOST_MEMORIES, _LEAST, _MOST
    )
    if not len(slots):
        return
    kept, activations = _core.bound_by_seeds(
        places,
        slots,
        activations,
        seeds,
        strengths,
        widening.slots,
        widening.context.found.scores,
        _BELOW,
        reached.weight,
        _LEAST,
    )
    if not reached.traced:
        reached.raise_many(slots[kept], activations)
        return
    columns = (slots[kept], activations, seeds[places[kept]], ways[kept])
    for slot, activation, seed, way in zip(*(column.tolist() for column in columns), strict=True):
        reached.raise_to(slot, activation, seed, directory.name(way))


def _raise_all(
    reached: Reached,
    directory: EntityDirectory,
    found: tuple[npt.NDArray[np.uint32], npt.NDArray[np.float64], npt.NDArray[np.uint32]],
) -> None:
    """Note what `EntityDirectory.spread` found for the query."""
    if not reached.traced:
        reached.raise_many(found[0], found[1])
        return
    for slot, activation, way in zip(*(column.tolist() for column in found), strict=True):
        via = " > ".join(directory.name(each) for each in way if each != _NOBODY)
        reached.raise_to(slot, activation, None, via)


def hyperedge(widening: Widening, reached: Reached) -> None:
    """What tells of an event that at least two of the entities took part in which the query names
    (HYP-7)."""
    hyper = widening.graphs.mentions.hyper
    asked = widening.asked
    if len(asked) < 2:
        return
    took_part: dict[int, list[str]] = {}
    for name, entities in asked.items():
        events = {event for entity in entities for event in hyper.hyperedges_for(entity).tolist()}
        for event in events:
            took_part.setdefault(event, []).append(name)
    common = sorted(event for event, names in took_part.items() if len(names) > 1)
    if not common:
        return
    memories = hyper.edges(common).memories.tolist()
    share = 1 / math.sqrt(len(set(memories)))
    for event, slot in zip(common, memories, strict=True):
        names = took_part[event]
        reached.raise_to(slot, share * len(names) / len(asked), None, " + ".join(names))


def cross_capture(widening: Widening, reached: Reached) -> None:
    """What has tags that occur together with those of the query, or of the first seeds (XCP-3)."""
    graphs = widening.graphs
    tags = list(widening.context.options.tags)
    if not tags:
        for seed in widening.seeds[:3].tolist():
            tags += graphs.capture.tags(seed)
    if tags:
        slots, scores, pairs = graphs.capture.expand_folded(
            list(dict.fromkeys(tags)), graphs.coactivation, reached.traced
        )
        if not reached.traced:
            reached.raise_many(slots, scores.astype(np.float64))
            return
        for slot, score, pair in zip(slots.tolist(), scores.tolist(), pairs, strict=True):
            reached.raise_to(slot, score, None, " > ".join(pair))


# What the query itself points to comes first: it decides which memories are the seeds.
LIFTS: Final[dict[str, Step]] = {"about": about}
STEPS: Final[dict[str, Step]] = {
    "hebbian": hebbian,
    "temporal": temporal,
    "mention": mention,
    "entity": entity,
    "hyperedge": hyperedge,
    "cross_capture": cross_capture,
}
LAST: Final[dict[str, Step]] = {"author": author}
# Steps that `_reach` takes in one call where nobody wants to know the ways.
_TOGETHER: Final[dict[str, Step]] = {"hebbian": hebbian, "temporal": temporal, "entity": entity}

#: Of what there must be some for a step to lead anywhere.
_NEEDS: Final[dict[str, Callable[[Graphs], int]]] = {
    "about": lambda graphs: len(graphs.names),
    "hebbian": lambda graphs: graphs.hebbian.edge_count,
    "temporal": lambda graphs: graphs.temporal.link_count,
    "mention": lambda graphs: len(graphs.names),
    "entity": lambda graphs: len(graphs.mentions),
    "hyperedge": lambda graphs: len(graphs.mentions.hyper),
    "cross_capture": lambda graphs: len(graphs.coactivation),
    "author": lambda graphs: len(graphs.authors),
}


def widen(context: RecallContext, reader: Reader) -> None:
    """Let the graph raise what the lists found and add what they did not."""
    options = context.options
    if (
        not options.graph_expansion
        or options.scoring_mode == "similarity"
        or context.boost is not None  # hyperfocus
        or options.text_search_mode == "keyword_only"
        or (len(context.found.slots) and context.found.scores[0] <= 0)
    ):
        return
    best = 0.0  # of the lists; where they found nothing, of the lifts
    rows: dict[int, MemoryRow] = {}
    paths = context.paths if options.trace else None
    graphs = context.replica.graphs
    weights = {
        name: weight
        for name, weight in dict(options.graph_weights).items()
        if weight and _NEEDS[name](graphs)
    }
    widening = None
    for steps in (LIFTS, STEPS, LAST):
        if weights.keys().isdisjoint(steps):
            continue
        if widening is None:
            slots, scores = context.found
            seeds, strengths = _core.seeds_of(slots, scores, _SEEDS)
            if len(seeds) and not best:
                best = float(scores[0])
            widening = Widening(context, reader, slots, seeds, strengths, rows)
        first_path = len(context.paths)
        layers: list[Reached] = []
        parts = _reach(widening, weights) if steps is STEPS and paths is None else {}
        for name, step in steps.items():
            if name not in weights:
                continue
            reached = Reached(name, weights[name], best or 1.0, paths)
            try:
                if name in parts:
                    reached.raise_many(*parts[name])
                else:
                    step(widening, reached)
            except (CorruptionError, sqlite3.Error):  # of the journal
                raise
            except Exception as error:  # the answer is the one without this step
                context.degraded.append(f"{name}: {type(error).__name__}: {error}"[:200])
                continue
            reached.close()
            if reached.slots:
                layers.append(reached)
        if layers:
            _accumulate(context, layers, first_path)
            widening = None  # other seeds


def _reach(
    widening: Widening, weights: Mapping[str, float]
) -> dict[str, tuple[npt.NDArray[np.uint32], npt.NDArray[np.float64]]]:
    """What the steps of `_TOGETHER` lead to; nothing where one fails, so that it says so itself."""
    graphs = widening.graphs
    wanted = {name for name in _TOGETHER if name in weights and STEPS[name] is _TOGETHER[name]}
    if not wanted:
        return {}
    has_entities = "entity" in wanted
    try:
        parts = _core.reach(
            _RULES,
            widening.seeds,
            widening.strengths,
            widening.slots,
            widening.context.found.scores,
            graphs.hebbian._core if "hebbian" in wanted else None,
            graphs.temporal._core if "temporal" in wanted else None,
            graphs.entities._core if has_entities else None,
            graphs.mentions.hyper._core if has_entities else None,
            widening.asked_entities if has_entities else [],
            weights.get("entity", 0.0),
        )
    except (CorruptionError, sqlite3.Error):
        raise
    except Exception:
        return {}
    return {name: part for name, part in zip(_TOGETHER, parts, strict=True) if name in wanted}


def _passes_gate(
    context: RecallContext, extra: npt.NDArray[np.int64], gains: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Which memories the graph leads to strongly enough, or the lists found as well (EXP-2).

    What passes is what a memory gains, with how important and fresh it is on top.
    """
    passing = np.isin(extra, context.found.slots)
    records = context.replica.records
    others = [place for place in np.flatnonzero(~passing).tolist() if int(extra[place]) in records]
    if others:
        slots = extra[others].astype(np.uint32)
        _, decays = records.factors(slots, context.scoring)
        weights = 1 + 0.4 * records.headers(slots)["importance"] / 10 * decays
        passing[others] = gains[others] * weights >= context.options.graph_expansion_threshold
    return passing


def _accumulate(context: RecallContext, layers: Sequence[Reached], first_path: int) -> None:
    slots, scores = context.found
    parts: tuple[list[Any], ...] = ([], [], [], [])
    for number, layer in enumerate(layers):
        n = len(layer.slots)
        parts[0].extend(layer.slots)
        parts[1].extend(layer.activations)
        parts[2].extend([number] * n)
        parts[3].extend([layer.scale] * n)
    if not (
        context.allow is not None
        or context.replica.suppressed
        or context.options.graph_expansion_threshold
        or context.exact
    ):
        context.found = Candidates(*_core.add_to(slots, scores, *parts))
        return
    extra, gains = _core.add_layers(*parts)
    if context.allow is not None:
        kept = np.isin(extra, context.allow)
        extra, gains = extra[kept], gains[kept]
    if context.replica.suppressed:  # SUP-1
        kept = ~np.isin(extra, list(context.replica.suppressed))
        extra, gains = extra[kept], gains[kept]
    if context.options.graph_expansion_threshold:
        kept = _passes_gate(context, extra, gains)
        extra, gains = extra[kept], gains[kept]
    if context.exact:
        _accumulate_below(context, extra, gains, first_path)
    else:
        context.found = Candidates(*_core.accumulate(slots, scores, extra, gains))


def _accumulate_below(
    context: RecallContext,
    extra: npt.NDArray[np.int64],
    gains: npt.NDArray[np.float64],
    first_path: int,
) -> None:
    """The same where nothing may pass the exact hits of an identifier (AM-13)."""
    slots, scores = context.found
    known, places = np.unique(np.concatenate([slots, extra]), return_inverse=True)
    sums = np.zeros(len(known))
    np.add.at(sums, places, np.concatenate([scores.astype(np.float64), gains]))
    before = np.zeros(len(known))
    before[places[: len(slots)]] = scores
    exact = np.isin(known, context.lists["keyword"].slots)
    below = 0.999 * before[exact].min()
    least = np.where(exact, before, np.minimum(sums, np.maximum(before, below)))
    shares = (least - before) / np.maximum(sums - before, 1e-30)
    kept_of = dict(zip(known.tolist(), shares.tolist(), strict=True))
    context.paths[first_path:] = [
        path._replace(gain=path.gain * kept_of[path.slot])
        for path in context.paths[first_path:]
        if path.slot in kept_of
    ]
    order = np.lexsort((known, -least))
    context.found = Candidates(known[order], least[order].astype(np.float32))
