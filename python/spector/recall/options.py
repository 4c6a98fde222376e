"""What a caller can ask of a recall."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from typing import Any, Final

from spector import arguments
from spector.profiles import AUTO, DEFAULT, GOVERNED, PROFILES
from spector.store.filters import Filter
from spector.store.values import (
    MEMORY_TYPES,
    TAG_MATCHES,
    UNSET,
    check_choice,
    check_count,
    check_flag,
    check_keys,
    check_label,
    check_name_list,
    check_tags,
    check_time,
    nearest,
    show,
)

from .fusion import FUSIONS
from .modes import check_mode

#: How much an activation of a layer counts, where the best memory of the lists has 1 (AM-9).
GRAPH_WEIGHTS: Final = {
    "temporal": 0.3,
    "hebbian": 1.1,
    "author": 0.25,
    "about": 1.0,
    "mention": 0.9,
    "entity": 1.0,
    "hyperedge": 0.5,
    "cross_capture": 0.25,
}
LATE_INTERACTIONS = ("list", "rerank", "off")
SCORING_MODES = ("cognitive", "similarity", "associative")
RECALL_MODES = ("learn", "observe")
SCORE_COMBINES = ("multiplicative", "additive")

#: The default of what a profile may set: its value is that of the profile.
_PROFILE: Any = UNSET

_PLAIN = frozenset({str, int, float, bool, type(None)})

# Each tag becomes a condition of one SQL query, and SQLite bounds their number.
_MAX_QUERY_TAGS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """Options of `SpectorMemory.recall`, for callers who keep them; its keywords win over these.

    Attributes
    ----------
    k : int
        How many hits at most; at least 1.
    profile : str
        Sets the defaults of other options (PRO-1 to PRO-15), in any case: "balanced",
        "exploring", "debugging", "recalling", "critical", "hyperfocus", "systematizer",
        "divergent", "paranoid_sentinel", "the_executor", "highly_sensitive",
        "default_mode_network", "executive_dysfunction"; or "auto": the one that worked best for
        these tags (PAD-1).
    recall_mode : {"learn", "observe"}
        "observe" changes nothing: no counters, no credit for what was found (REC-3).
    session : str, optional
        In which session the question is asked: what was recalled in it before has a say (HAB-1,
        HAB-2).
    as_of : int, datetime, date or str, optional
        Answer as if it were this time: later memories do not exist yet, and no memory is older
        than it was then. It changes nothing, as "observe".
    tags : iterable of str
        Only memories with these tags.
    tag_match : {"all", "any"}
        Whether all of the tags must be there, or one is enough.
    type : str or several, optional
        Only memories of this type, or of these.
    author : str, optional
        Only memories of this author.
    since, until : int, datetime, date or str, optional
        Only memories whose timestamp is in this range, both ends included: milliseconds since
        1970 UTC, or a time or date in ISO 8601. Without a zone it is UTC; a date without a time
        is the whole day: its start as `since`, its end as `until`.
    min_valence, max_valence : int, optional
        Only memories whose valence is in this range, both ends included; in [-128, 127].
    min_importance : float, optional
        Only memories of at least this importance; in [0, 10].
    text_search_mode : str
        Which lists are consulted, in any case: "hybrid" (keywords, and whatever models the memory
        has), "keyword_only", "vector_only", "splade", "splade_hybrid", "li_lsr",
        "colbert_rerank", "full_stack" (TSM-4).
    enable_text_search : bool
        False leaves keywords out (TSM-2).
    gamma : float
        Weight of the keyword list, in [0, 10]; 0 leaves it out (TSM-3).
    fusion : {"relative", "rrf"}
        How lists become one (AM-4).
    rrf_k : int
        K of "rrf", in [1, 1000].
    late_interaction : {"list", "rerank", "off"}
        What "hybrid" does with token vectors.
    enable_reranker : bool
        Let token vectors order the first results, in modes that have keywords or vectors (RRK-2).
    reranker_depth : int
        How many results that orders, in [5, 100].
    scoring_mode : {"cognitive", "similarity", "associative"}
        "similarity" leaves importance, age and strength out (REC-3); "associative" keeps to
        memories whose tags follow those of the session's last recalls (PRO-15).
    score_combine : {"multiplicative", "additive"}
        How "cognitive" combines them with the match (SCO-6).
    alpha, beta : float
        Weights of the match alone and of importance and age; only their ratio counts.
    strictness : float
        How fast similarity falls with distance, in (0, 100] (SCO-5).
    habituation : float
        In (0, 1]: by which factor a memory counts less for each time that this `session` was given
        it, but not under 0.3 (HAB-1); 1, the default, is off.
    query_valence : int, optional
        In [-128, 127]: memories of other valence score less (SCO-8).
    lateral : bool
        Append some memories that share tags with the query but are far from it in meaning
        (SCO-15); needs `tags` and vectors.
    graph_expansion : bool
        False leaves the graph out: nothing is raised or added by it (EXP-1).
    graph_expansion_threshold : float
        How strongly the graph must lead to a memory that no list found, in [0, 2] (EXP-2, AM-13).
    graph_weights : mapping, optional
        How much a layer of the graph counts, each in [0, 10], where it is not to be the default;
        0 leaves it out. Layers are "temporal", "hebbian", "author", "about", "mention",
        "entity", "hyperedge", "cross_capture".
    entities : str or iterable of str
        Names of what the query is about, for the layers "entity" and "hyperedge"; by default
        names in its text that memories mention (EXP-1).
    trace : bool
        Tell of each hit how the graph reached it (EXP-9).

    Raises
    ------
    TypeError, ValueError
        A bad value, when the options are made.
    """

    k: int = 10
    profile: str = DEFAULT
    recall_mode: str = "learn"
    session: str | None = None
    as_of: int | date | str | None = None
    tags: Iterable[str] = ()
    tag_match: str = "all"
    type: str | Iterable[str] | None = _PROFILE
    author: str | None = None
    since: int | date | str | None = None
    until: int | date | str | None = None
    min_valence: int | None = _PROFILE
    max_valence: int | None = _PROFILE
    min_importance: float | None = _PROFILE
    text_search_mode: str = "hybrid"
    enable_text_search: bool = True
    gamma: float = _PROFILE
    fusion: str = "relative"
    rrf_k: int = 60
    late_interaction: str = "list"
    enable_reranker: bool = False
    reranker_depth: int = 20
    scoring_mode: str = _PROFILE
    score_combine: str = "multiplicative"
    alpha: float = _PROFILE
    beta: float = _PROFILE
    strictness: float = _PROFILE
    habituation: float = 1.0
    query_valence: int | None = _PROFILE
    lateral: bool = _PROFILE
    graph_expansion: bool = _PROFILE
    graph_expansion_threshold: float = _PROFILE
    graph_weights: Mapping[str, float] | tuple[tuple[str, float], ...] = ()
    entities: str | Iterable[str] = ()
    trace: bool = False
    _filter: Filter = field(init=False, repr=False, compare=False, default=Filter())
    _hash: int = field(init=False, repr=False, compare=False, default=0)
    _given: frozenset[str] = field(init=False, repr=False, compare=False, default=frozenset())

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("profile", check_profile(self.profile))
        of_profile = PROFILES.get(self.profile, {})
        given = set()
        for name, value in GOVERNED.items():
            if getattr(self, name) is UNSET:
                put(name, of_profile.get(name, value))
            else:
                given.add(name)
        put("_given", frozenset(given))
        put("recall_mode", check_choice("recall_mode", self.recall_mode, RECALL_MODES))
        if self.session is not None:
            put("session", check_label("session", self.session))
        if self.as_of is not None:
            put("as_of", check_time("as_of", self.as_of, end_of_day=True))
        # An iterable of tags may be one that can be read only once.
        put("tags", check_tags("tags", self.tags)[0])
        put("k", check_count("k", self.k))
        put("_filter", self._make_filter())
        put("text_search_mode", check_mode(self.text_search_mode))
        check_flag("enable_text_search", self.enable_text_search)
        if self.text_search_mode == "keyword_only" and not self.enable_text_search:
            raise ValueError(
                "enable_text_search must not be False with text_search_mode 'keyword_only'"
            )
        put("gamma", arguments.real("gamma", self.gamma, 0, 10))
        put("fusion", check_choice("fusion", self.fusion, FUSIONS))
        put("rrf_k", arguments.whole("rrf_k", self.rrf_k, 1, 1000))
        put(
            "late_interaction",
            check_choice("late_interaction", self.late_interaction, LATE_INTERACTIONS),
        )
        check_flag("enable_reranker", self.enable_reranker)
        put("reranker_depth", arguments.whole("reranker_depth", self.reranker_depth, 5, 100))
        put("scoring_mode", check_choice("scoring_mode", self.scoring_mode, SCORING_MODES))
        put("score_combine", check_choice("score_combine", self.score_combine, SCORE_COMBINES))
        put("alpha", arguments.real("alpha", self.alpha, 0, 1e6))
        put("beta", arguments.real("beta", self.beta, 0, 1e6))
        if self.alpha + self.beta <= 0:
            raise ValueError("alpha and beta must not both be 0")
        put("strictness", arguments.real("strictness", self.strictness, 0.0001, 100))
        put("habituation", arguments.real("habituation", self.habituation, 0.0001, 1))
        if self.query_valence is not None:
            put("query_valence", arguments.whole("query_valence", self.query_valence, -128, 127))
        check_flag("lateral", self.lateral)
        check_flag("graph_expansion", self.graph_expansion)
        threshold = arguments.real(
            "graph_expansion_threshold", self.graph_expansion_threshold, 0, 2
        )
        put("graph_expansion_threshold", threshold)
        check_flag("trace", self.trace)
        put("graph_weights", _check_weights(self.graph_weights))
        put("entities", check_name_list("entities", self.entities))
        if self.type is not None and not isinstance(self.type, str):
            put("type", tuple(self.type))
        # They are asked for again and again.
        put("_hash", hash(tuple(getattr(self, each.name) for each in fields(self) if each.compare)))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> RecallOptions:
        """Options from plain values, such as a configuration file's; unknown keys are refused."""
        names = [each.name for each in fields(cls) if each.init]
        return cls(**check_keys("options", options, names))

    def put_over(self, given: Mapping[str, Any]) -> RecallOptions:
        """The same with these options, which win over those of any profile (PRO-14)."""
        own = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.init and (each.name not in GOVERNED or each.name in self._given)
        }
        return RecallOptions(**{**own, **given})

    def filter(self) -> Filter:
        """The conditions in their normal form."""
        return self._filter

    def _make_filter(self) -> Filter:
        return make_filter(
            self.tags,
            self.tag_match,
            self.type,
            self.author,
            self.since,
            self.until,
            self.min_valence,
            self.max_valence,
            self.min_importance,
        )


def check_profile(value: object) -> str:
    """The name of a profile in any case, or "auto" (PRO-14)."""
    if not isinstance(value, str):
        raise TypeError(f"profile must be a str, got {type(value).__name__} {show(value)}")
    name = value.lower()
    if name != AUTO and name not in PROFILES:
        raise ValueError(
            f"profile must be one of {', '.join(map(repr, PROFILES))} or 'auto',"
            f" got {show(value)}{nearest(name, PROFILES)}"
        )
    return name


def _check_weights(weights: object) -> tuple[tuple[str, float], ...]:
    """The weights of all layers, as something that can be compared and hashed."""
    if isinstance(weights, tuple):  # as this function gave them
        weights = dict(weights)
    if not isinstance(weights, Mapping):
        raise TypeError(f"graph_weights must be a mapping, got {type(weights).__name__}")
    given = check_keys("graph_weights", weights, list(GRAPH_WEIGHTS))
    checked = {
        name: arguments.real(f"graph_weights[{name!r}]", value, 0, 10)
        for name, value in given.items()
    }
    return tuple((GRAPH_WEIGHTS | checked).items())


def resolve(options: object, explicit: Mapping[str, Any], defaults: RecallOptions) -> RecallOptions:
    """The options with the keywords that were given put over them."""
    if options is None:
        base = defaults
    elif isinstance(options, RecallOptions):
        base = options
    elif isinstance(options, Mapping):
        names = [each.name for each in fields(RecallOptions) if each.init]
        base = defaults.put_over(check_keys("options", options, names))
    else:
        raise TypeError(
            f"options must be a RecallOptions or a mapping, got {type(options).__name__}"
        )
    given = {name: value for name, value in explicit.items() if value is not UNSET}
    if not given:
        return base
    if isinstance(given.get("graph_weights"), Mapping):
        given["graph_weights"] = {**dict(base.graph_weights), **given["graph_weights"]}
    plain = tuple((name, value.__class__, value) for name, value in given.items())
    if all(kind in _PLAIN for _, kind, _ in plain):
        return _replaced(base, plain)  # the same options again and again
    return base.put_over(given)


@functools.lru_cache(maxsize=256)
def _replaced(base: RecallOptions, given: tuple[tuple[str, type, Any], ...]) -> RecallOptions:
    return base.put_over({name: value for name, _, value in given})


def make_filter(
    tags: object,
    tag_match: object,
    type: object,
    author: object,
    since: object,
    until: object,
    min_valence: int | None = None,
    max_valence: int | None = None,
    min_importance: float | None = None,
) -> Filter:
    """Check the conditions that a recall and a listing share."""
    folded, _ = check_tags("tags", tags)
    if len(folded) > _MAX_QUERY_TAGS:
        raise ValueError(f"tags must be at most {_MAX_QUERY_TAGS} in a query, got {len(folded)}")
    return Filter(
        tags=folded,
        tag_match=check_choice("tag_match", tag_match, TAG_MATCHES),
        types=_check_types(type),
        author=None if author is None else check_label("author", author),
        since=None if since is None else check_time("since", since),
        until=None if until is None else check_time("until", until, end_of_day=True),
        min_valence=(
            None if min_valence is None else arguments.whole("min_valence", min_valence, -128, 127)
        ),
        max_valence=(
            None if max_valence is None else arguments.whole("max_valence", max_valence, -128, 127)
        ),
        min_importance=(
            None
            if min_importance is None
            else arguments.real("min_importance", min_importance, 0, 10)
        ),
    )


def _check_types(types: object) -> tuple[str, ...]:
    if types is None:
        return ()
    if isinstance(types, (list, tuple, set, frozenset)):
        if not types:
            raise ValueError("type must be one or several types of memories, got none")
        return tuple(sorted({check_choice("each of type", one, MEMORY_TYPES) for one in types}))
    return (check_choice("type", types, MEMORY_TYPES),)
