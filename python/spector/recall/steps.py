"""The steps of a recall before the graph: lists, fusion, the cognitive factor, reranking (REC-1).

Each step works on one `RecallContext`. A list that is not there or fails leaves the others as they
are and is named in `degraded` (TSM-6).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from spector import lexical
from spector.encoding import Encoded, Models
from spector.errors import ConfigurationError
from spector.records import ScoringOptions
from spector.store.learning import tag_hash
from spector.store.nearby import LEAST_KEPT
from spector.store.replica import Replica
from spector.store.vectors import check_tokens, usable_weights

from .expansion import Path
from .fusion import NONE, Candidates, fuse
from .modes import MODES
from .options import RecallOptions

#: Weights of the lists where relative scores are fused; keywords have `gamma` (AM-12).
RELATIVE_WEIGHTS: Final = {"dense": 0.5}
#: Above this many memories token vectors are compared for candidates of other lists only (AM-21).
LATE_EVERYWHERE: Final = 50_000
_DEPTH: Final = 50
_LEAST_HABITUATED: Final = 0.3
_FOLLOWING: Final = 0.3  # HAB-2


@dataclass(frozen=True, slots=True)
class Absent:
    """A list that cannot take part, and why.

    `configured` is False where there is no such model or no such vector at all: "hybrid" uses what
    is there and does not mention what is not.
    """

    reason: str
    configured: bool = True


# What is not there at all, in most memories.
_NO_VECTOR: Final = Absent(
    "no vector for the query: the memory was opened without an embedding_provider", False
)
_NO_SPARSE: Final = Absent("no sparse query: the memory was opened without a sparse_encoder", False)
_NO_TABLE: Final = Absent("no sparse query: the memory was opened without a query_table", False)
_NO_TOKENS: Final = Absent(
    "no token vectors for the query: the memory was opened without a token_encoder", False
)


@dataclass(slots=True)
class RecallContext:
    """One recall on its way through the steps."""

    text: str | None
    query: Encoded
    options: RecallOptions
    replica: Replica
    allow: npt.NDArray[np.uint32] | None
    now: int
    boost: float | None = None  # of a focus; `allow` are the memories that have it
    degraded: list[str] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    lists: dict[str, Candidates] = field(default_factory=dict)
    exact: bool = False
    found: Candidates = NONE
    paths: list[Path] = field(default_factory=list)  # of the graph, where a trace is wanted
    listed: npt.NDArray[np.int64] = field(default_factory=lambda: NONE.slots)  # before the graph
    recent: tuple[str, ...] = ()  # tags of the session's last recalls, hashed
    returned: Mapping[int, int] = field(default_factory=dict)  # how often, in this session
    _scoring: ScoringOptions | None = None

    @property
    def depth(self) -> int:
        """How many memories of a list enter the fusion (RRF-3)."""
        return max(_DEPTH, 2 * self.options.k)

    @property
    def scoring(self) -> ScoringOptions:
        """The options as the record store takes them; filters are in `allow`."""
        if self._scoring is None:
            self._scoring = self._make_scoring()
        return self._scoring

    def _make_scoring(self) -> ScoringOptions:
        options = self.options
        if self.boost is not None:
            return ScoringOptions(
                now=self.now,
                hyperfocus=self.allow,
                boost=self.boost,
                strictness=options.strictness,
                alpha=options.alpha,
                beta=options.beta,
                score_combine=options.score_combine,
            )
        template = _scoring(
            options.strictness,
            options.alpha,
            options.beta,
            options.score_combine,
            options.query_valence,
        )
        return template.at(self.now, self.allow)


@functools.lru_cache(maxsize=64)
def _scoring(
    strictness: float, alpha: float, beta: float, combine: str, query_valence: int | None
) -> ScoringOptions:
    return ScoringOptions(
        now=0,
        strictness=strictness,
        alpha=alpha,
        beta=beta,
        score_combine=combine,
        query_valence=query_valence,
    )


def encode_queries(
    models: Models,
    queries: Sequence[tuple[str | None, npt.NDArray[np.float32] | None]],
    options: RecallOptions,
) -> list[tuple[Encoded, dict[str, Exception]]]:
    """`encode_query` for each; a provider with `embed_queries` gets all texts at once."""
    vectors = [vector for _, vector in queries]
    together = getattr(models.dense, "embed_queries", None)
    if len(queries) > 1 and together and "dense" in MODES[options.text_search_mode].lists:
        places = [i for i, (text, vector) in enumerate(queries) if text and vector is None]
        try:
            made = np.asarray(together([queries[i][0] for i in places]), np.float32)
            for place, row in zip(places, made, strict=True):
                vectors[place] = row
        except Exception:  # one by one: each query says what went wrong with it
            vectors = [vector for _, vector in queries]
    return [
        encode_query(models, text, vector, options)
        for (text, _), vector in zip(queries, vectors, strict=True)
    ]


def encode_query(
    models: Models, text: str | None, vector: npt.NDArray[np.float32] | None, options: RecallOptions
) -> tuple[Encoded, dict[str, Exception]]:
    """The query for each list of the mode, and what went wrong with which list."""
    query = Encoded(dense=vector)
    errors: dict[str, Exception] = {}
    if text is None:
        return query, errors
    mode = MODES[options.text_search_mode]

    def attempt(name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever a model of somebody else raises
            errors[name] = error

    def dense() -> None:
        assert models.dense is not None
        query.dense = np.asarray(models.dense.embed_query(text), np.float32)

    def sparse() -> None:
        assert asked is not None
        query.sparse = usable_weights(asked.encode_query(text))

    def tokens() -> None:
        assert models.tokens is not None
        found = models.tokens.encode_token_query(text)
        query.tokens = check_tokens(found, models.tokens.dimensions)

    asked = models.query_table if mode.table_query else models.sparse
    late = mode.rerank or options.enable_reranker or options.late_interaction != "off"
    if "dense" in mode.lists and vector is None and models.dense is not None:
        attempt("dense", dense)
    if "sparse" in mode.lists and asked is not None:
        attempt("sparse", sparse)
    if ("late" in mode.lists or _reranks(options)) and late and models.tokens is not None:
        attempt("late", tokens)
    return query, errors


def _reranks(options: RecallOptions) -> bool:
    mode = MODES[options.text_search_mode]
    possible = "dense" in mode.lists or ("keyword" in mode.lists and len(mode.lists) > 1)
    return mode.rerank or (
        possible
        and (
            options.enable_reranker
            or ("late" in mode.lists and options.late_interaction == "rerank")
        )
    )


def gather(context: RecallContext, errors: dict[str, Exception]) -> None:
    """Consult the lists of the mode."""
    mode = MODES[context.options.text_search_mode]
    optional = context.options.text_search_mode == "hybrid"
    for name in mode.lists:
        if name in errors:
            context.errors.append(errors[name])
            context.degraded.append(f"{name}: {_short(errors[name])}")
            continue
        if name == "late" and context.options.late_interaction != "list":
            continue
        try:
            found = _LISTS[name](context)
        except Exception as error:
            context.errors.append(error)
            context.degraded.append(f"{name}: {_short(error)}")
            continue
        if isinstance(found, Candidates):
            context.lists[name] = found
        elif found is None:
            continue
        elif mode.required:
            raise ConfigurationError(
                f"text_search_mode {context.options.text_search_mode!r} cannot work: {found.reason}"
            )
        elif found.configured or not optional:
            context.degraded.append(f"{name}: {found.reason}")
    if context.errors and not context.lists:
        raise context.errors[0]


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _keyword(context: RecallContext) -> Candidates | Absent | None:
    options = context.options
    if not context.replica.keywords:
        return Absent("keyword search is off in this space (bm25_enabled=False)")
    if context.text is None:
        return Absent("the query is a vector without text")
    if not options.enable_text_search or (
        options.gamma == 0 and options.text_search_mode != "keyword_only"
    ):
        return None  # as the caller wants it
    index = context.replica.index
    depth = options.k if options.text_search_mode == "keyword_only" else context.depth
    slots, scores = index.search(context.text, min(depth, max(len(index), 1)), context.allow)
    found = Candidates(slots, scores)
    context.exact = len(slots) > 0 and _is_exact(context, int(slots[0]))
    return found


def _is_exact(context: RecallContext, slot: int) -> bool:
    """Whether the query is one identifier that the index knows: all hits have it (RRF-5)."""
    assert context.text is not None
    if len(context.text.split(maxsplit=2)) != 1:
        return False
    index = context.replica.index
    assert isinstance(index.analyzer, str)  # a space keeps the name of its analyzer
    compounds = lexical.analyze(context.text, index.analyzer, index.language)
    if len(compounds) != 1 or not compounds[0].identifier:
        return False
    whole = compounds[0].tokens[0].text
    return any(term.term == whole for term in index.explain(slot, context.text))


def _dense(context: RecallContext) -> Candidates | Absent:
    shape = context.replica.shape
    vector = context.query.dense
    if vector is None:
        return _NO_VECTOR
    if not shape.dimensions:
        return Absent("no memory has a vector", False)
    if vector.shape != (shape.dimensions,):
        raise ValueError(
            f"vector must have {shape.dimensions} dimensions, got an array of shape {vector.shape}"
        )
    options = context.options
    depth, by = context.depth, "cosine"  # in a fusion it is what relative scores spread evenly
    if options.text_search_mode == "vector_only":
        depth, by = options.k, "similarity" if options.scoring_mode == "similarity" else "score"
    found = _nearby(context, vector, depth, by)
    if found is None:
        found = context.replica.records.ranked(vector, context.scoring, depth, by)
    return Candidates(*found)


def _nearby(
    context: RecallContext, vector: npt.NDArray[np.float32], depth: int, by: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]] | None:
    """What HNSW finds, measured exactly (DEN-2); None where a scan has to answer (DEN-3)."""
    replica = context.replica
    nearby = replica.nearby
    if nearby is None or not nearby.active:
        return None
    allow = context.allow
    count = max(depth, _DEPTH)
    if allow is not None:
        kept = len(allow) / len(replica.records)
        if kept < LEAST_KEPT:
            return None
        count += int(count / kept)
    among = nearby.candidates(vector, count, context.options.k)
    others = nearby.others()
    if len(others):
        among = np.union1d(among, others)
    if allow is not None:
        among = np.intersect1d(among, allow)
    found = replica.records.ranked(vector, context.scoring.at(context.now, among), depth, by)
    # Too few, where others may be: a scan knows.
    return found if len(found[0]) >= min(depth, len(replica.records)) else None


def _sparse(context: RecallContext) -> Candidates | Absent:
    query = context.query.sparse
    if query is None:
        table = MODES[context.options.text_search_mode].table_query
        return _NO_TABLE if table else _NO_SPARSE
    if not len(context.replica.sparse):
        return Absent("no memory has a sparse vector", False)
    slots, scores = context.replica.sparse.search(query, context.depth, context.allow)
    return Candidates(slots, scores)


def _late(context: RecallContext) -> Candidates | Absent:
    tokens = context.query.tokens
    if tokens is None:
        return _NO_TOKENS
    store = context.replica.tokens
    if not len(store):
        return Absent("no memory has token vectors", False)
    among = context.allow
    if len(store) > LATE_EVERYWHERE:
        others = [found.slots for found in context.lists.values()]
        among = np.unique(np.concatenate(others)).astype(np.uint32) if others else among
    slots, scores = store.search(tokens.reshape(-1), context.depth, among)
    return Candidates(slots, scores)


_LISTS: Final[dict[str, Callable[[RecallContext], Candidates | Absent | None]]] = {
    "keyword": _keyword,
    "dense": _dense,
    "sparse": _sparse,
    "late": _late,
}


def combine(context: RecallContext) -> None:
    """Fuse the lists (RRF-4); exact identifier hits stand before all others (RRF-5, AM-12)."""
    options = context.options
    mode = MODES[options.text_search_mode]
    if mode.required or context.lists.keys() == {"keyword"}:
        # One list is what it is, and keywords alone are not scaled.
        (context.found,) = context.lists.values()
        if not mode.required and options.scoring_mode != "similarity" and not context.exact:
            context.found = _weighed(context)
        return
    relative = options.fusion == "relative"
    weights = dict(RELATIVE_WEIGHTS) if relative else {}
    weights["keyword"] = options.gamma * (len(context.lists) if context.exact else 1)
    fused = fuse(context.lists, weights, options.fusion, options.rrf_k)
    slots, scores = fused
    weighed = options.scoring_mode != "similarity"
    if weighed:
        additive = options.score_combine == "additive"
        share = options.alpha / (options.alpha + options.beta) if additive else None
        slots, scores = context.replica.records.weigh(slots, scores, context.scoring, share)
    if context.exact:
        first = context.lists["keyword"]
        base = 1.0 + float(scores.max(initial=0.0))
        others = ~np.isin(slots, first.slots)
        slots = np.concatenate([first.slots, slots[others]])
        scores = np.concatenate([base + _falling(first.scores), scores[others]])
    if context.exact or not weighed:
        order = np.lexsort((slots, -scores))
        slots, scores = slots[order], scores[order]
    best = float(scores[0]) if len(scores) else 1.0
    context.found = Candidates(slots, (scores / (best or 1.0)).astype(np.float32, copy=False))


def _weighed(context: RecallContext) -> Candidates:
    """One list by the cognitive factor (AM-11)."""
    slots, scores = context.found
    if not len(slots):
        return context.found
    return Candidates(*context.replica.records.weigh(slots, scores, context.scoring))


def _falling(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    best = scores.max(initial=0.0)
    falling: npt.NDArray[np.float32] = scores / best if best > 0 else scores
    return falling


def rerank(context: RecallContext, errors: dict[str, Exception]) -> None:
    """Let token vectors order the first results (RRK-2)."""
    if not _reranks(context.options) or not len(context.found.slots):
        return
    tokens = context.query.tokens
    if tokens is None or not len(context.replica.tokens):
        reason = _short(errors["late"]) if "late" in errors else "no token vectors"
        context.degraded.append(f"rerank: {reason}")
        return
    slots, scores = context.found
    depth = min(context.options.reranker_depth, len(slots))
    among = np.sort(slots[:depth]).astype(np.uint32)
    found, sums = context.replica.tokens.search(tokens.reshape(-1), depth, among)
    late = dict(zip(found.tolist(), sums.tolist(), strict=True))
    first = np.asarray([late.get(slot, 0.0) for slot in slots[:depth].tolist()], np.float32)
    combined = 0.3 * scores / max(float(scores[0]), 1e-9)
    combined[:depth] += 0.7 * np.maximum(first / len(tokens), 0)
    order = np.lexsort((slots, -combined))
    context.found = Candidates(slots[order], combined[order].astype(np.float32))


def adapt(context: RecallContext) -> None:
    """Let what the session recalled before have a say (HAB-1, HAB-2, PRO-15).

    Exact identifier hits keep their scores, and so does "similarity" and "keyword_only".
    """
    options = context.options
    if options.scoring_mode == "similarity" or options.text_search_mode == "keyword_only":
        return
    slots, scores = context.found
    if not len(slots) or not (context.recent or context.returned):
        return
    factors = np.ones(len(slots))
    if context.returned and options.habituation < 1:
        times = [context.returned.get(slot, 0) for slot in slots.tolist()]
        factors = np.maximum(_LEAST_HABITUATED, options.habituation ** np.asarray(times))
    following = context.replica.learning.following(context.recent)
    if following:
        tags = context.replica.graphs.capture.tags
        share = 1.0 if options.scoring_mode == "associative" else _FOLLOWING
        factors = factors * [
            1 + share * max((following.get(tag_hash(tag), 0.0) for tag in tags(slot)), default=0.0)
            for slot in slots.tolist()
        ]
    if context.exact:
        exact = np.isin(slots, context.lists["keyword"].slots)
        least = scores[exact].min()
        adapted = np.where(exact, scores, np.minimum(scores * factors, 0.999 * least))
    else:
        adapted = scores * factors
    order = np.lexsort((slots, -adapted))
    context.found = Candidates(slots[order], adapted[order].astype(np.float32))
