"""What time, recalls and feelings make of a memory: the formulas of section C, one value at a time.

The record store applies the same functions to whole columns.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spector import _core, arguments

__all__ = [
    "FAST_FORGET",
    "SLOW_FORGET",
    "Decay",
    "Surprise",
    "arousal_factor",
    "decay_bucket",
    "importance",
    "novelty",
    "reconsolidated",
    "strength_increment",
    "tag_filter",
]

_MAX_AGE = 2**62
_MAX_COUNT = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Decay:
    """A decay table (SCO-9): bucket b keeps max(floor, (mid-point of b / 0.5 h) ** -exponent).

    Attributes
    ----------
    exponent : float
        In [0.05, 1].
    floor : float
        In [0, 0.5].
    """

    exponent: float = 0.15
    floor: float = 0.10

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", arguments.real("exponent", self.exponent, 0.05, 1))
        object.__setattr__(self, "floor", arguments.real("floor", self.floor, 0, 0.5))

    @property
    def multipliers(self) -> tuple[float, ...]:
        """What is left in each of the 12 buckets, in [floor, 1]."""
        return tuple(_core.decay_multipliers(self.exponent, self.floor).tolist())

    def multiplier(self, bucket: int) -> float:
        """What is left in bucket 0 to 11."""
        return self.multipliers[arguments.whole("bucket", bucket, 0, 11)]


DEFAULT_DECAY = Decay()
SLOW_FORGET = Decay(0.08, 0.15)
FAST_FORGET = Decay(0.30, 0.05)


def decay_bucket(age_ms: int) -> int:
    """Bucket 0 to 11 of an age in milliseconds; an age below 0 counts as 0."""
    return _core.decay_bucket(arguments.whole("age_ms", age_ms, -_MAX_AGE, _MAX_AGE))


def reconsolidated(bucket: int, explicit_recalls: int, passive_recalls: int) -> int:
    """The bucket that recalls make of `bucket` (SCO-10)."""
    return _core.reconsolidated(
        arguments.whole("bucket", bucket, 0, 11),
        arguments.whole("explicit_recalls", explicit_recalls, 0, _MAX_COUNT),
        arguments.whole("passive_recalls", passive_recalls, 0, _MAX_COUNT),
    )


def arousal_factor(arousal: int) -> float:
    """How arousal 0 to 255 slows decay: 1, 1.15, 1.35 or 1.65 (SCO-11)."""
    return _core.arousal_factor(arguments.whole("arousal", arousal, 0, 255))


def strength_increment(multiplier: float) -> float:
    """What a reinforcement adds to the storage strength, which stays at most 5 (SCO-13).

    Parameters
    ----------
    multiplier : float
        Of the record's bucket by age alone, in [0, 1].
    """
    return _core.strength_increment(arguments.real("multiplier", multiplier, 0, 1))


def tag_filter(tags: Iterable[str]) -> int:
    """The 64-bit word of folded tags, three bits each (TAG-1)."""
    word = 0
    for tag in tags:
        word |= _core.tag_filter(_core.hash64(tag))
    return word


_WEIGHTS = {"interest": 0.30, "challenge": 0.10, "novelty": 0.40, "urgency": 0.20}


def importance(
    *,
    interest: float | None = None,
    challenge: float | None = None,
    urgency: float | None = None,
    novelty: float = 0.0,
    weights: Mapping[str, float] | None = None,
) -> float:
    """The importance of a new memory, in [0.05, 10] (IMP-1).

    Parameters
    ----------
    interest, challenge, urgency : float or None
        Hints, clamped to [0, 1]. If none is given, novelty alone counts; else a missing one is 0.
    novelty : float
        Clamped to [0, 1]; see `novelty`.
    weights : mapping, optional
        Of interest, challenge, novelty and urgency, at least 0; they count by their share.
        Default .30, .10, .40 and .20.
    """
    if weights is not None and not isinstance(weights, Mapping):
        raise TypeError(f"weights must be a mapping, not {arguments.kind(weights)}")
    given = {"interest": interest, "challenge": challenge, "urgency": urgency}
    hints = {name: value for name, value in given.items() if value is not None}
    values = {**dict.fromkeys(_WEIGHTS, 0.0), **hints, "novelty": novelty}
    for name, value in values.items():
        values[name] = min(1.0, max(0.0, arguments.real(name, value, -math.inf, math.inf)))
    if not hints:
        return 0.05 + 9.95 * values["novelty"]
    shares = dict(_WEIGHTS)
    for name, value in (weights or {}).items():
        if name not in shares:
            raise ValueError(f"weights: {name!r} is not one of {', '.join(shares)}")
        shares[name] = arguments.real(f"weights[{name!r}]", value, 0, 1e6)
    total = math.fsum(shares.values())
    if total == 0:
        raise ValueError("weights must not all be 0")
    return 0.05 + 9.95 * (math.fsum(shares[name] * values[name] for name in shares) / total)


def novelty(nearest: float | None) -> float:
    """Novelty in [0, 1] by the L2 distance of the nearest working memory; None: there is none."""
    if nearest is None:
        return 1.0
    return min(1.0, arguments.real("nearest", nearest, 0, math.inf) / 2)


@dataclass(slots=True)
class Surprise:
    """Mean and spread of the distances seen so far (IMP-2, Welford).

    Attributes
    ----------
    count : int
    mean : float
    m2 : float
        Sum of squared differences from the mean.
    """

    WARM_UP = 10

    count: int = 0
    mean: float = 0.0
    m2: float = 0.0

    def observe(self, distance: float) -> float:
        """Add a distance and return its z among those before it.

        0 for the first ten, and where the earlier ones are all equal.
        """
        distance = arguments.real("distance", distance, 0, 1e18)
        z = 0.0
        if self.count >= self.WARM_UP and self.m2 > 0:
            z = (distance - self.mean) / math.sqrt(self.m2 / (self.count - 1))
        self.count += 1
        difference = distance - self.mean
        self.mean += difference / self.count
        self.m2 += difference * (distance - self.mean)
        return z
