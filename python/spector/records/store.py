"""The record store and its scorer (specification, sections B and C)."""

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spector import _core, arguments
from spector.records.cognition import DEFAULT_DECAY, Decay

__all__ = ["Answer", "RecordStore", "ScoringOptions"]

TYPES = ("working", "episodic", "semantic", "procedural")
MODALITIES = ("text", "image", "audio", "video")
SIMILARITIES = ("cosine", "dot", "euclidean")
STORAGES = ("f32", "int8")

NO_PROFILE = 255

FIRST_TIME = -62_135_596_800_000  # the year 1
LAST_TIME = 253_402_300_799_999  # the year 9999

# HDR-1.
_TYPE, _CONSOLIDATED, _PINNED, _RESOLVED, _MODALITY = 0x06, 0x08, 0x10, 0x20, 0xC0

# The 64 bytes of a header (C.1).
HEADER = np.dtype(
    {
        "names": [
            "version",
            "flags",
            "valence",
            "arousal",
            "importance",
            "timestamp",
            "explicit_recalls",
            "norm",
            "state",
            "profile",
            "strength",
            "passive_recalls",
            "alpha",
            "beta",
            "last_passive_ltp",
            "surprise",
            "last_profile",
        ],
        "formats": [
            *("u1", "u1", "i1", "u1", "<f4", "<i8", "<u4", "<f4"),
            *("u1", "u1", "<f4", "<u4", "u1", "u1", "<i8", "<f4", "u1"),
        ],
        "offsets": [0, 1, 2, 3, 4, 8, 16, 20, 34, 35, 36, 40, 44, 45, 48, 56, 60],
        "itemsize": 64,
    }
)


@dataclass(frozen=True)
class _Integer:
    """A header field of whole numbers."""

    low: int
    high: int
    bit: int  # in the core's set of fields

    def check(self, name: str, value: ArrayLike) -> NDArray[Any]:
        array = np.asarray(value)
        if array.dtype == np.bool_ or not np.issubdtype(array.dtype, np.integer):
            raise TypeError(f"{name} must be int, not {arguments.kind(value)}")
        if array.size and not (self.low <= int(array.min()) and int(array.max()) <= self.high):
            wrong = array.min() if int(array.min()) < self.low else array.max()
            raise ValueError(f"{name} must be in [{self.low}, {self.high}], not {wrong}")
        return array


@dataclass(frozen=True)
class _Real:
    """A header field of float32."""

    low: float
    high: float
    bit: int

    def check(self, name: str, value: ArrayLike) -> NDArray[Any]:
        array = np.asarray(value)
        return arguments.reals(name, array.ravel(), self.low, self.high).reshape(array.shape)


_LARGEST = float(np.finfo(np.float32).max)
_COUNT = 2**32 - 1

_FIELDS: dict[str, _Integer | _Real] = {
    "valence": _Integer(-128, 127, 1 << 1),
    "arousal": _Integer(0, 255, 1 << 2),
    "importance": _Real(0.05, 10, 1 << 3),
    "timestamp": _Integer(FIRST_TIME, LAST_TIME, 1 << 4),
    "explicit_recalls": _Integer(0, _COUNT, 1 << 5),
    "profile": _Integer(0, 255, 1 << 7),
    "strength": _Real(0.01, 5, 1 << 8),
    "passive_recalls": _Integer(0, _COUNT, 1 << 9),
    "alpha": _Integer(0, 255, 1 << 10),
    "beta": _Integer(0, 255, 1 << 10),
    "last_passive_ltp": _Integer(FIRST_TIME, LAST_TIME, 1 << 11),
    "surprise": _Real(-_LARGEST, _LARGEST, 1 << 12),
    "last_profile": _Integer(0, 255, 1 << 13),
}
_FLAGS, _STATE = 1 << 0, 1 << 6  # bits of the fields that hold the switches
_SWITCHES = {"consolidated": _CONSOLIDATED, "pinned": _PINNED, "resolved": _RESOLVED}
_CHOICES = {"type": (TYPES, 1, _TYPE), "modality": (MODALITIES, 6, _MODALITY)}

_DEFAULTS: dict[str, Any] = {
    "type": "semantic",
    "modality": "text",
    "consolidated": False,
    "pinned": False,
    "resolved": True,
    "contradicted": False,
    "valence": 0,
    "importance": 1.0,
    "timestamp": 0,
    "explicit_recalls": 0,
    "passive_recalls": 0,
    "strength": 1.0,
    "profile": NO_PROFILE,
    "alpha": 0,
    "beta": 0,
    "last_passive_ltp": 0,
    "surprise": 0.0,
    "last_profile": NO_PROFILE,
}


def _choice(name: str, value: Any, known: Sequence[str]) -> int:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be str, not {arguments.kind(value)}")
    if value.lower() not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    return known.index(value.lower())


def _switch(name: str, value: ArrayLike) -> NDArray[np.bool_]:
    array = np.asarray(value)
    if array.dtype != np.bool_:
        raise TypeError(f"{name} must be bool, not {arguments.kind(value)}")
    return array


#: The columns of `RecordStore.put_table`.
COLUMNS = (
    "valence",
    "arousal",
    "importance",
    "timestamp",
    "explicit_recalls",
    "strength",
    "passive_recalls",
    "last_passive_ltp",
    "surprise",
)
_LOWEST = tuple(_FIELDS[name].low for name in COLUMNS)
_HIGHEST = tuple(_FIELDS[name].high for name in COLUMNS)
_TABLE = HEADER[list(COLUMNS)]  # the same bytes, of which only these are fields
#: Those of them that recalls and outcomes change.
LEARNED = (
    "valence",
    "importance",
    "explicit_recalls",
    "strength",
    "passive_recalls",
    "last_passive_ltp",
)
_LEARNED_BITS = sum(_FIELDS[name].bit for name in LEARNED)


def flags_of(type: str, *, consolidated: bool, pinned: bool, resolved: bool) -> int:
    """The flags of a record of text, for `RecordStore.put_table` (HDR-1)."""
    return (
        (_choice("type", type, TYPES) << 1)
        | (_CONSOLIDATED if consolidated else 0)
        | (_PINNED if pinned else 0)
        | (_RESOLVED if resolved else 0)
    )


def _headers(n: int, values: Mapping[str, Any]) -> tuple[NDArray[np.uint8], int, int]:
    """Headers as bytes, the fields that are set, and the bits of the flags."""
    headers = np.zeros(n, HEADER)
    for name in ("version", "importance", "strength"):
        headers[name] = 1  # what an update does not touch is valid
    fields = flags = 0

    def put(name: str, column: str, array: NDArray[Any]) -> None:
        if array.ndim > 1 or (array.ndim == 1 and len(array) != n):
            raise ValueError(f"{name} must be one value or {n}, not of shape {array.shape}")
        if column in _FIELDS:
            headers[column] = array
        else:
            headers[column] |= array.astype(np.uint8)

    for name, value in values.items():
        if name in _FIELDS:
            put(name, name, _FIELDS[name].check(name, value))
            fields |= _FIELDS[name].bit
        elif name in _SWITCHES:
            put(name, "flags", _switch(name, value) * np.uint8(_SWITCHES[name]))
            flags |= _SWITCHES[name]
        elif name in _CHOICES:
            known, shift, bits = _CHOICES[name]
            many = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)
            codes = [_choice(name, one, known) for one in (value if many else [value])]
            array = np.array(codes if many else codes[0], np.uint8)
            put(name, "flags", array << np.uint8(shift))
            flags |= bits
        elif name == "contradicted":
            put(name, "state", _switch(name, value) * np.uint8(1))
            fields |= _STATE
        else:
            known_names = ", ".join(sorted({*_FIELDS, *_SWITCHES, *_CHOICES, "contradicted"}))
            raise TypeError(f"{name!r} is not a field of a header: {known_names}")
    return headers.view(np.uint8), fields | (_FLAGS if flags else 0), flags


def _table_headers(n: int, rows: Sequence[tuple[float, ...]]) -> NDArray[np.void]:
    """Headers with these `COLUMNS`, all else zero, checked."""
    for row in rows:  # NaN is in no range
        if not (all(map(operator.le, _LOWEST, row)) and all(map(operator.ge, _HIGHEST, row))):
            for name, low, value, high in zip(COLUMNS, _LOWEST, row, _HIGHEST, strict=True):
                arguments.real(name, value, low, high)
    headers = np.zeros(n, HEADER)
    headers.view(_TABLE)[:] = rows
    headers["version"] = 1
    return headers


@dataclass(frozen=True)
class ScoringOptions:
    """What the six phases let pass and how they weigh it; made once, used for any query.

    Attributes
    ----------
    now : int
        Milliseconds UTC; ages are counted from it.
    include_contradictions : bool
        Contradicted records pass as well (SCO-1).
    min_timestamp, max_timestamp : int or None
        Milliseconds, both inclusive (SCO-1).
    allow : array_like of int or None
        Only these slots, ascending, each once.
    tags : sequence of array_like of int
        For each query tag the slots of its records, ascending (TAG-2).
    tag_match : {"all", "any"}
    hyperfocus : array_like of int or None
        The records that have all tags of the mask, ascending: only they pass, their score is
        multiplied by `boost` and they do not decay (SCO-2, SCO-12, SCO-14).
    boost : float
        In [1, 10].
    min_valence, max_valence : int
        In [-128, 127], both inclusive (SCO-3).
    min_importance : float
        In [0, 10] (SCO-4).
    types : sequence of str or None
        Of "working", "episodic", "semantic", "procedural"; None: all (SCO-4).
    staleness : bool
        Leave out old, unimportant, resolved records that nobody recalls (SCO-4).
    strictness : float
        In (0, 100] (SCO-5).
    alpha, beta : float
        At least 0; they count by their share (SCO-6).
    score_combine : {"multiplicative", "additive"}
        SCO-6.
    decay : Decay
        SCO-9.
    query_valence : int or None
        In [-128, 127]; aligns valences (SCO-8).
    lateral_distance : float or None
        The distance above which a record with an overlap of at least 0.5 is lateral (SCO-15), 1.2
        in the specification; None: lateral mode is off.
    """

    now: int
    include_contradictions: bool = False
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    allow: ArrayLike | None = None
    tags: Sequence[ArrayLike] = ()
    tag_match: str = "all"
    hyperfocus: ArrayLike | None = None
    boost: float = 1.5
    min_valence: int = -128
    max_valence: int = 127
    min_importance: float = 0.0
    types: Iterable[str] | None = None
    staleness: bool = True
    strictness: float = 1.0
    alpha: float = 0.6
    beta: float = 0.4
    score_combine: str = "multiplicative"
    decay: Decay = DEFAULT_DECAY
    query_valence: int | None = None
    lateral_distance: float | None = None
    _core: "_core.ScoringOptions" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        whole, real = arguments.whole, arguments.real
        if not isinstance(self.decay, Decay):
            raise TypeError(f"decay must be a Decay, not {arguments.kind(self.decay)}")
        for name in ("include_contradictions", "staleness"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be bool, not {arguments.kind(getattr(self, name))}")
        if isinstance(self.tags, (str, bytes)):
            raise TypeError(f"tags must be a sequence of slots, not {arguments.kind(self.tags)}")
        types = 15
        if self.types is not None:
            if isinstance(self.types, str):
                raise TypeError(
                    f"types must be a sequence of str, not {arguments.kind(self.types)}"
                )
            types = sum(1 << code for code in {_choice("types", one, TYPES) for one in self.types})
        strictness = real("strictness", self.strictness, 0, 100)
        if strictness == 0:
            raise ValueError("strictness must be in (0, 100], not 0.0")
        alpha, beta = real("alpha", self.alpha, 0, 1e6), real("beta", self.beta, 0, 1e6)
        if alpha + beta == 0:
            raise ValueError("alpha and beta must not both be 0")
        limit = 2**63 - 1
        low, high = self.min_timestamp, self.max_timestamp
        match = _choice("tag_match", self.tag_match, ("all", "any"))
        combine = _choice("score_combine", self.score_combine, ("multiplicative", "additive"))
        core = _core.ScoringOptions(
            now=whole("now", self.now, FIRST_TIME, LAST_TIME),
            include_contradictions=self.include_contradictions,
            min_timestamp=-limit - 1 if low is None else whole("min_timestamp", low, -limit, limit),
            max_timestamp=limit if high is None else whole("max_timestamp", high, -limit, limit),
            allow=None if self.allow is None else _slots("allow", self.allow),
            tags=[_slots("tags", one) for one in self.tags],
            any_tag=match == 1,
            hyperfocus=None if self.hyperfocus is None else _slots("hyperfocus", self.hyperfocus),
            boost=real("boost", self.boost, 1, 10),
            min_valence=whole("min_valence", self.min_valence, -128, 127),
            max_valence=whole("max_valence", self.max_valence, -128, 127),
            min_importance=real("min_importance", self.min_importance, 0, 10),
            types=types,
            staleness=self.staleness,
            strictness=strictness,
            alpha=alpha,
            beta=beta,
            additive=combine == 1,
            decay_exponent=self.decay.exponent,
            decay_floor=self.decay.floor,
            query_valence=None
            if self.query_valence is None
            else whole("query_valence", self.query_valence, -128, 127),
            lateral_distance=None
            if self.lateral_distance is None
            else real("lateral_distance", self.lateral_distance, 0, 1e6),
        )
        object.__setattr__(self, "_core", core)

    def at(self, now: int, allow: NDArray[np.uint32] | None) -> "ScoringOptions":
        """The same at another time and for other slots (uint32, ascending, each once)."""
        whole = arguments.whole("now", now, FIRST_TIME, LAST_TIME)
        other = object.__new__(ScoringOptions)
        other.__dict__.update(self.__dict__)
        core = self._core.at(whole, allow)
        other.__dict__.update(now=whole, allow=allow, _core=core)
        return other


def _slots(name: str, value: ArrayLike) -> NDArray[np.uint32]:
    return arguments.slots(name, np.atleast_1d(np.asarray(value)))


@dataclass(frozen=True, eq=False)
class Answer:
    """Ranked records, best first; lateral ones (SCO-15) after the others, in an order of their own.

    Attributes
    ----------
    slots : ndarray of uint32, shape (n,)
    scores : ndarray of float32, shape (n,)
        By which they are ranked; equal scores by slot (GEN-4).
    similarities : ndarray of float32, shape (n,)
        1 / (1 + strictness * distance), in (0, 1] (SCO-5).
    distances : ndarray of float32, shape (n,)
        L2. Where the similarity is the dot product d: 1 / (1 + d), and 1 - d below 0.
    decays : ndarray of float32, shape (n,)
        d of SCO-6, in (0, 1].
    lateral : ndarray of bool, shape (n,)
    counts : dict
        Records left after each step (SCO-7): ``candidates`` (what `allow`, tags and hyperfocus
        leave, phase 2), ``in_time`` (phase 1), ``in_valence`` (3), ``important`` (4), ``vectors``
        (5: their vectors were read), and ``exact``, how many of these were measured exactly; all 0
        where no record has a vector.
    """

    slots: NDArray[np.uint32]
    scores: NDArray[np.float32]
    similarities: NDArray[np.float32]
    distances: NDArray[np.float32]
    decays: NDArray[np.float32]
    lateral: NDArray[np.bool_]
    counts: dict[str, int]

    def __len__(self) -> int:
        return len(self.slots)


_COUNTS = ("candidates", "in_time", "in_valence", "important", "vectors", "exact")

_Ranked = tuple[
    NDArray[np.uint32],
    NDArray[np.float32],
    NDArray[np.float32],
    NDArray[np.float32],
    NDArray[np.float32],
    int,
    tuple[int, ...],
]


def _answer(found: _Ranked) -> Answer:
    slots, scores, similarities, distances, decays, n_lateral, counts = found
    lateral = np.zeros(len(slots), np.bool_)
    lateral[len(slots) - n_lateral :] = True
    named = dict(zip(_COUNTS, counts, strict=True))
    return Answer(slots, scores, similarities, distances, decays, lateral, named)


# Tags as inverted lists: H64 of each, ends, and slots.
Tags = tuple[ArrayLike, ArrayLike, ArrayLike]


def _tags(
    tags: Tags | None,
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint32]]:
    if tags is None:
        return np.empty(0, np.uint64), np.zeros(1, np.int64), np.empty(0, np.uint32)
    hashes, ends, slots = tags
    return (
        arguments.integers("tags", hashes, np.uint64),
        arguments.integers("ends of tags", ends, np.int64),
        arguments.slots("slots of tags", slots),
    )


class RecordStore:
    """Headers of memories, with a vector each if they have one, and the scorer over both.

    Parameters
    ----------
    dimensions : int
        Of the vectors, in [0, 65536]; 0 for a store without vectors.
    similarity : {"cosine", "dot", "euclidean"}
        Cosine normalises what it is given and refuses zero vectors (DEN-1).
    storage : {"int8", "f32"}
        int8 keeps a vector in a quarter of the memory: codes and a scale of its own, each value
        at most half a step off (DEN-4). Rankings are those of a plain scan of what is stored.

    Examples
    --------
    >>> store = RecordStore(3)
    >>> store.put([0, 1], [[1, 0, 0], [0, 1, 0]], timestamp=1_000, importance=[5, 9])
    >>> options = ScoringOptions(now=2_000)
    >>> store.similar([1, 0.1, 0], options, k=1).slots.tolist()
    [0]
    """

    def __init__(self, dimensions: int, similarity: str = "cosine", storage: str = "int8") -> None:
        self._core = _core.RecordStore(
            arguments.whole("dimensions", dimensions, 0, 65_536),
            _choice("similarity", similarity, SIMILARITIES),
            _choice("storage", storage, STORAGES),
        )

    @property
    def dimensions(self) -> int:
        return self._core.settings()[0]

    @property
    def similarity(self) -> str:
        return SIMILARITIES[self._core.settings()[1]]

    @property
    def storage(self) -> str:
        return STORAGES[self._core.settings()[2]]

    def put(self, slots: ArrayLike, vectors: ArrayLike | None = None, **fields: Any) -> None:
        """Store records, new or instead of what their slots hold; of equal slots the last wins.

        Parameters
        ----------
        slots : array_like of int, shape (n,)
        vectors : array_like of float, shape (n, dimensions), optional
            None: these records have no vector.
        **fields
            One value, or n of them:

            - ``type``: "working", "episodic", "semantic" (default) or "procedural"; ``modality``:
              "text" (default), "image", "audio" or "video"
            - ``consolidated``, ``pinned``, ``contradicted``: bool, default False; ``resolved``:
              bool, default True (HDR-1, HDR-2)
            - ``valence``: in [-128, 127], default 0; ``arousal``: in [0, 255], default
              min(255, 2 * abs(valence)) (HDR-3)
            - ``importance``: in [0.05, 10], default 1; ``strength``: in [0.01, 5], default 1
            - ``timestamp``, ``last_passive_ltp``: milliseconds UTC, default 0
            - ``explicit_recalls``, ``passive_recalls``: default 0
            - ``surprise``: z at encoding, default 0
            - ``profile``, ``last_profile``, ``alpha``, ``beta``: in [0, 255]; 255 is no profile

        Raises
        ------
        ValueError
            A value out of its range, a vector of other dimensions, not finite, longer than 1e18,
            or zero where the similarity is cosine. Nothing has changed.
        """
        numbers = _slots("slots", slots)
        if "arousal" not in fields:
            valence = _FIELDS["valence"].check("valence", fields.get("valence", 0))
            fields["arousal"] = np.minimum(255, 2 * np.abs(valence.astype(np.int64)))
        headers, _, _ = _headers(len(numbers), {**_DEFAULTS, **fields})
        self._core.put(numbers, headers, self._vectors(vectors, len(numbers)))

    def put_table(
        self,
        slots: ArrayLike,
        rows: Sequence[tuple[float, ...]],
        flags: Sequence[int],
        contradicted: Sequence[bool],
        vectors: ArrayLike | None = None,
    ) -> None:
        """`put` of records as rows, in a fraction of the time where they are few.

        Parameters
        ----------
        slots, vectors : array_like
            As `put` takes them.
        rows : sequence of tuple, length n
            Fields of the headers in the order of `COLUMNS`; the others have their defaults.
        flags : sequence of int, length n
            What `flags_of` gives.
        contradicted : sequence of bool, length n
        """
        numbers = _slots("slots", slots)
        headers = _table_headers(len(numbers), rows)
        headers["profile"] = headers["last_profile"] = NO_PROFILE
        headers["flags"] = flags
        headers["state"] = contradicted
        self._core.put(numbers, headers.view(np.uint8), self._vectors(vectors, len(numbers)))

    def _vectors(self, vectors: ArrayLike | None, n: int) -> NDArray[np.float32] | None:
        if vectors is None:
            return None
        array = np.asarray(vectors)
        if array.ndim == 1 and n == 1:
            array = array[np.newaxis]
        if array.shape != (n, self.dimensions):
            raise ValueError(
                f"vectors must have the shape ({n}, {self.dimensions}), not {array.shape}"
            )
        return _floats("vectors", array).ravel()

    def update_header(self, slots: ArrayLike, **fields: Any) -> None:
        """Change the given fields (see `put`) of records that there are; vectors stay.

        Raises
        ------
        IndexError
            A slot without a record; nothing has changed.
        """
        numbers = _slots("slots", slots)
        for one, other in (("alpha", "beta"), ("beta", "alpha")):
            if one in fields and other not in fields:
                raise ValueError(f"{one} and {other} change together")
        headers, bits, flags = _headers(len(numbers), fields)
        self._core.update(numbers, headers, bits, flags)

    def update_table(self, slots: ArrayLike, rows: Sequence[tuple[float, ...]]) -> None:
        """`update_header` of the fields in `LEARNED`, from rows as `put_table` takes them.

        Raises
        ------
        IndexError
            A slot without a record; nothing has changed.
        """
        numbers = _slots("slots", slots)
        headers = _table_headers(len(numbers), rows)
        self._core.update(numbers, headers.view(np.uint8), _LEARNED_BITS, 0)

    def remove(self, slots: ArrayLike) -> int:
        """Remove records; return how many of them there were."""
        return self._core.remove(_slots("slots", slots))

    def compact(self) -> None:
        """Free what replaced and removed vectors hold; it happens by itself beyond a quarter."""
        self._core.compact()

    def slots(self) -> NDArray[np.uint32]:
        """Slots with a record, ascending."""
        return self._core.slots()

    def contains(self, slots: ArrayLike) -> NDArray[np.bool_]:
        """Which of these slots have a record."""
        numbers, there = _slots("slots", slots), self._core.slots()
        if not len(there):
            return np.zeros(len(numbers), bool)
        place = np.minimum(np.searchsorted(there, numbers), len(there) - 1)
        found: NDArray[np.bool_] = there[place] == numbers
        return found

    def headers(self, slots: ArrayLike) -> NDArray[np.void]:
        """Headers as a structured array of dtype `HEADER`.

        Raises
        ------
        IndexError
            A slot without a record.
        """
        return self._core.headers(_slots("slots", slots)).view(HEADER)

    def header(self, slot: int) -> dict[str, Any]:
        """One header by field name, as `put` takes them, and the ``norm`` of the vector given.

        Raises
        ------
        IndexError
            There is no record in the slot.
        """
        row = self.headers([slot])[0]
        flags = int(row["flags"])
        values: dict[str, Any] = {name: row[name].item() for name in _FIELDS}
        for name, bits in _SWITCHES.items():
            values[name] = bool(flags & bits)
        for name, (known, shift, bits) in _CHOICES.items():
            values[name] = known[(flags & bits) >> shift]
        return values | {"contradicted": bool(row["state"] & 1), "norm": row["norm"].item()}

    def vector(self, slot: int) -> NDArray[np.float32] | None:
        """The vector as it is stored: normalised for cosine, rounded for int8; None if none.

        Raises
        ------
        IndexError
            There is no record in the slot.
        """
        return self._core.vector(arguments.whole("slot", slot, 0, arguments.MAX_SLOT))

    def similar(self, query: ArrayLike, options: ScoringOptions, k: int = 10) -> Answer:
        """The best `k` records by similarity, of those that pass phases 1 to 4 (AM-11).

        Parameters
        ----------
        query : array_like of float, shape (dimensions,)
        options : ScoringOptions
        k : int
            At least 1.
        """
        return _answer(self._core.similar(_query("query", query), _k(k), _options(options)))

    def search(self, query: ArrayLike, options: ScoringOptions, k: int = 10) -> Answer:
        """The best `k` records by all six phases (SCO-6); see `similar`."""
        return _answer(self._core.search(_query("query", query), _k(k), _options(options)))

    def ranked(
        self, query: NDArray[np.float32], options: ScoringOptions, k: int, by: str
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Slots and scores of what `similar` finds, or `search`, as a list of a fusion.

        Parameters
        ----------
        query : ndarray of float32, shape (dimensions,)
        options : ScoringOptions
        k : int
        by : {"cosine", "similarity", "score"}
            What scores are: of `similar` the cosines or its own, or those of `search`.
        """
        return self._core.ranked(
            np.ascontiguousarray(query), k, _options(options), by == "score", by == "cosine"
        )

    def weigh(
        self,
        slots: NDArray[np.int64],
        scores: NDArray[np.float32],
        options: ScoringOptions,
        share: float | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Any list's scores times their `factors`, best first, then by slot (AM-11).

        With the `share` of the match scores are additive: its share of them, and what the factor
        has beside it.

        Raises
        ------
        IndexError
            A slot without a record.
        """
        return self._core.weigh(slots, scores, _options(options), share)

    def factors(
        self, slots: ArrayLike, options: ScoringOptions
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What phase 6 multiplies any list's score by, alpha + beta * I * d * s, and decay d.

        Raises
        ------
        IndexError
            A slot without a record.
        """
        return self._core.factors(_slots("slots", slots), _options(options))

    def passes(self, slots: ArrayLike, options: ScoringOptions) -> NDArray[np.bool_]:
        """Whether phases 1 to 4 let each slot's record pass, staleness aside (TSM-7)."""
        return self._core.passes(_slots("slots", slots), _options(options))

    def nearest(
        self, vector: ArrayLike, types: Iterable[str] | None = None
    ) -> tuple[int, float] | None:
        """Slot and L2 distance of the nearest record of the given types; None if there is none.

        By L2 whatever the similarity is; contradicted records count (IMP-1, IMP-3).
        """
        known = TYPES if types is None else types
        if isinstance(known, str):
            known = [known]
        mask = sum(1 << code for code in {_choice("types", one, TYPES) for one in known})
        return self._core.nearest(_query("vector", vector), mask)

    def touch(self) -> int:
        """Read every vector once, in order; return how many bytes that was.

        It brings them into memory after a load.
        """
        return self._core.touch()

    def memory_usage(self) -> dict[str, int]:
        """Bytes held in all, and of these bytes of vectors in use and dead."""
        return self._core.memory_usage()

    def save(self, path: str | os.PathLike[str], tags: Tags | None = None) -> None:
        """Write the records to a file, which then is there entirely or not at all.

        Changes and searches go on meanwhile; the file has the state at the call.

        Parameters
        ----------
        path : path-like
        tags : tuple of (hashes, ends, slots), optional
            The records' tags as inverted lists, for the headers' tag words (TAG-1): the slots of
            tag hashes[i] (H64) are slots[ends[i]:ends[i + 1]].

        Raises
        ------
        StorageError
            The file cannot be written (an OSError with its errno); the old one is as it was.
        """
        self._core.save(os.fsencode(path), *_tags(tags))

    @classmethod
    def load(cls, path: str | os.PathLike[str], tags: Tags | None = None) -> "RecordStore":
        """Read what `save` wrote; all of it is checked before anything is used.

        Parameters
        ----------
        path : path-like
        tags : tuple of (hashes, ends, slots), optional
            If given, the headers' tag words must be those of these tags.

        Raises
        ------
        CorruptionError
            The file is damaged, not one of `save`, or of other tags.
        VersionError
            The file is of a newer release.
        StorageError
            The file cannot be read (an OSError with its errno).
        """
        file = _core.RecordFile(os.fsencode(path))
        if tags is not None:
            file.check_tags(*_tags(tags))
        store = cls.__new__(cls)
        store._core = _core.RecordStore.load(file)
        return store

    def __len__(self) -> int:
        return self._core.size()

    def __contains__(self, slot: object) -> bool:
        if isinstance(slot, (bool, np.bool_)) or not isinstance(slot, (int, np.integer)):
            return False
        number = int(slot)
        return 0 <= number <= arguments.MAX_SLOT and self._core.contains(number)

    def __repr__(self) -> str:
        return (
            f"RecordStore({len(self)} records, {self.dimensions} dimensions, "
            f"{self.similarity}, {self.storage})"
        )


def _floats(name: str, array: NDArray[Any]) -> NDArray[np.float32]:
    """float32 in C order; the core looks at the values."""
    if array.dtype == np.bool_ or not (
        np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)
    ):
        raise TypeError(f"{name} must hold real numbers, not {array.dtype}")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, np.float32)


def _query(name: str, value: ArrayLike) -> NDArray[np.float32]:
    array = np.asarray(value)
    if array.ndim != 1:
        raise ValueError(f"{name} must have 1 dimension, not {array.ndim}")
    return _floats(name, array)


def _k(k: int) -> int:
    return arguments.whole("k", k, 1, 2**32)


def _options(options: ScoringOptions) -> "_core.ScoringOptions":
    if not isinstance(options, ScoringOptions):
        raise TypeError(f"options must be ScoringOptions, not {arguments.kind(options)}")
    return options._core
