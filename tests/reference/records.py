"""The record store and its scorer, written from the specification: dicts, loops and no shortcut.

Floats are float32 in the order that the specification and the store name, so results are equal.
"""

import math
from dataclasses import dataclass, field

import numpy as np

F = np.float32

HOUR = 3_600_000
DAY = 24 * HOUR
ENDS = [
    *(HOUR, 6 * HOUR, 24 * HOUR, 3 * DAY, 7 * DAY, 28 * DAY),
    *(90 * DAY, 180 * DAY, 365 * DAY, 2 * 365 * DAY, 5 * 365 * DAY),
]
MIDDLES = [0.5, 3.5, 15, 48, 120, 420, 1440, 3240, 6480, 13140, 30660, 61320]

DEFAULTS = {
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
    "profile": 255,
    "alpha": 0,
    "beta": 0,
    "last_passive_ltp": 0,
    "surprise": 0.0,
    "last_profile": 255,
}
FLOATS = ("importance", "strength", "surprise")


def bucket(age_ms):
    return sum(age_ms >= end for end in ENDS)


def multipliers(exponent, floor):
    return [F(max(floor, (middle / 0.5) ** -exponent)) for middle in MIDDLES]


def reconsolidated(raw, explicit, passive):
    return max(0, (raw >> min(explicit, 5)) - min(passive // 3, 2))


def arousal_factor(arousal):
    return F([1.0, 1.15, 1.35, 1.65][arousal // 64])


def lanes_of(vector, lanes):
    """Rows of `lanes` numbers, zeros at the end."""
    padded = np.zeros(-(-len(vector) // lanes) * lanes, np.asarray(vector).dtype)
    padded[: len(vector)] = vector
    return padded.reshape(-1, lanes)


def sum_of_squares(vector):
    sums = np.zeros(8)
    for row in lanes_of(np.asarray(vector, np.float64), 8):
        sums += row * row
    total = 0.0
    for lane in sums:
        total += float(lane)
    return total


def fold(lanes):
    lanes = lanes.copy()
    half = 8
    while half:
        lanes[:half] += lanes[half : 2 * half]
        half //= 2
    return lanes[0]


def dot(a, b):
    sums = np.zeros(16, F)
    for x, y in zip(lanes_of(a, 16), lanes_of(b, 16), strict=True):
        sums += x * y
    return fold(sums)


def l2(a, b):
    sums = np.zeros(16, F)
    for x, y in zip(lanes_of(a, 16), lanes_of(b, 16), strict=True):
        sums += (x - y) * (x - y)
    return np.sqrt(fold(sums))


def quantised(vector):
    """Codes and scale of DEN-4."""
    scale = F(np.abs(vector).max()) / F(127)
    if scale == 0:
        return np.zeros(len(vector), np.int8), F(0)
    return np.clip(np.rint(vector / scale), -127, 127).astype(np.int8), scale


@dataclass
class Record:
    fields: dict
    norm: float = 0.0
    stored: np.ndarray | None = None


@dataclass
class Options:
    now: int
    include_contradictions: bool = False
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    allow: list | None = None
    tags: list = field(default_factory=list)
    tag_match: str = "all"
    hyperfocus: list | None = None
    boost: float = 1.5
    min_valence: int = -128
    max_valence: int = 127
    min_importance: float = 0.0
    types: list | None = None
    staleness: bool = True
    strictness: float = 1.0
    alpha: float = 0.6
    beta: float = 0.4
    score_combine: str = "multiplicative"
    decay: tuple = (0.15, 0.10)
    query_valence: int | None = None
    lateral_distance: float | None = None


class Records:
    def __init__(self, dimensions, similarity="cosine", storage="int8"):
        self.dimensions, self.similarity, self.storage = dimensions, similarity, storage
        self.records = {}

    def prepared(self, vector):
        vector = np.asarray(vector, F)
        norm = math.sqrt(sum_of_squares(vector))
        if self.similarity == "cosine":
            vector = (vector.astype(np.float64) / norm).astype(F)
        return vector, F(norm)

    def put(self, slot, vector=None, **given):
        fields = DEFAULTS | given
        fields.setdefault("arousal", min(255, 2 * abs(fields["valence"])))
        for name in FLOATS:
            fields[name] = F(fields[name])
        record = Record(fields)
        if vector is not None:
            record.stored, record.norm = self.prepared(vector)
            if self.storage == "int8":
                codes, scale = quantised(record.stored)
                record.stored = codes.astype(F) * scale
        self.records[slot] = record

    def update(self, slot, **given):
        for name, value in given.items():
            self.records[slot].fields[name] = F(value) if name in FLOATS else value

    def remove(self, slot):
        return self.records.pop(slot, None) is not None

    def header(self, slot):
        record = self.records[slot]
        return record.fields | {"norm": record.norm}

    # The phases.

    def matches(self, slot, options):
        return sum(slot in tag for tag in options.tags)

    def passes(self, slot, options):
        """Phases 1 to 4 without staleness."""
        f = self.records[slot].fields
        if f["contradicted"] and not options.include_contradictions:  # SCO-1
            return False
        if options.min_timestamp is not None and f["timestamp"] < options.min_timestamp:
            return False
        if options.max_timestamp is not None and f["timestamp"] > options.max_timestamp:
            return False
        if options.allow is not None and slot not in options.allow:
            return False
        if options.tags:  # SCO-2, TAG-2
            need = len(options.tags) if options.tag_match == "all" else 1
            if self.matches(slot, options) < need:
                return False
        if options.hyperfocus is not None and slot not in options.hyperfocus:
            return False
        if not options.min_valence <= f["valence"] <= options.max_valence:  # SCO-3
            return False
        if f["importance"] < F(options.min_importance):  # SCO-4
            return False
        return options.types is None or f["type"] in options.types

    def bucket(self, slot, options):
        f = self.records[slot].fields
        focused = options.hyperfocus is not None and slot in options.hyperfocus
        if not f["resolved"] or f["pinned"] or focused:  # SCO-12
            return 0
        raw = bucket(options.now - f["timestamp"])
        return reconsolidated(raw, f["explicit_recalls"], f["passive_recalls"])

    def stale(self, slot, options):
        f = self.records[slot].fields
        old = self.bucket(slot, options) == 11 and f["importance"] < 1
        return options.staleness and old and not f["pinned"] and f["resolved"]

    def weight(self, slot, options):
        """Factor of SCO-6, d, and I * d."""
        f = self.records[slot].fields
        alpha, beta = F(options.alpha), F(options.beta)
        alpha, beta = alpha / (alpha + beta), beta / (alpha + beta)
        left = multipliers(*options.decay)[self.bucket(slot, options)]
        d = min(F(1), left * arousal_factor(f["arousal"]))
        importance = f["importance"] / F(10) * d
        value = importance * F(float(f["strength"]) ** 0.3)
        return alpha, beta, value, d, importance

    def factor(self, slot, options):
        alpha, beta, value, d, _ = self.weight(slot, options)
        return alpha + beta * value, d

    def distance(self, query, slot):
        stored = self.records[slot].stored
        if self.similarity != "dot":
            return l2(query, stored)
        d = dot(query, stored)
        return F(1) / (F(1) + d) if d >= 0 else F(1) - d

    def ranked(self, query, options, k, cognitive):
        """Standard and lateral rows (slot, score, similarity, distance, decay), and counts."""
        query, _ = self.prepared(query)
        standard, lateral = [], []
        counts = {"important": 0, "vectors": 0}
        if all(record.stored is None for record in self.records.values()):
            return [], [], counts  # nobody is asked
        for slot, record in self.records.items():
            if not self.passes(slot, options) or self.stale(slot, options):
                continue
            counts["important"] += 1
            if record.stored is None:
                continue
            counts["vectors"] += 1
            distance = self.distance(query, slot)
            similarity = F(1) / (F(1) + F(options.strictness) * distance)
            alpha, beta, value, d, importance = self.weight(slot, options)
            overlap = F(1)
            if options.tags:
                overlap = F(self.matches(slot, options)) / F(len(options.tags))
            far = options.lateral_distance is not None and distance > F(options.lateral_distance)
            if far and overlap >= 0.5:  # SCO-15
                score = distance / (F(1) + distance) * overlap * importance
                lateral.append((slot, score, similarity, distance, d))
                continue
            score = similarity
            if cognitive:
                if options.score_combine == "additive":
                    score = alpha * similarity + beta * value
                else:
                    score = similarity * (alpha + beta * value)
                if options.tags:
                    score = score * (F(1) + F(0.3) * overlap)
                if options.hyperfocus is not None:
                    score = score * F(options.boost)
                if options.query_valence is not None:  # SCO-8
                    difference = abs(options.query_valence - record.fields["valence"])
                    score = score * (F(1) - F(difference) / F(255))
            standard.append((slot, score, similarity, distance, d))
        order = lambda one: (-one[1], one[0])  # noqa: E731
        return sorted(standard, key=order)[:k], sorted(lateral, key=order)[: max(1, k // 3)], counts

    def nearest(self, vector, types):
        query, _ = self.prepared(vector)
        found = [
            (l2(query, record.stored), slot)
            for slot, record in self.records.items()
            if record.stored is not None and record.fields["type"] in types
        ]
        return min(found)[::-1] if found else None
