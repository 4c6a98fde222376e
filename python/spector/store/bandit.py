"""The bandit that learns which retrieval profile works for which topic (PAD-1 to PAD-11).

A *context* is a set of tags. For each context and each profile tried in it there are a count of
signals, a count of positive ones and their exponential moving average (EMA).
"""

from __future__ import annotations

import json
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from spector import arguments
from spector._core import hash64
from spector.profiles import DEFAULT, PROFILES

from . import envelope
from .values import check_choice, check_flag, nearest, show

__all__ = ["POLICIES", "Choice", "ProfileAdaptor", "context_key"]

POLICIES: Final = ("epsilon_greedy", "ucb1", "thompson")
FILE_NAME: Final = "coactivation.tracker"
_MAGIC: Final = b"CTRK"
_VERSION: Final = 1
_HASH_TABLE: Final = 8
_FIRST_EMA: Final = 0.5
_KNOWN_CONTEXTS: Final = 10_000  # tag tuples whose key is remembered
_GRID: Final = 257  # points of a Beta density
_BOOTSTRAP: Final = 400
_TELLING: Final = 10  # choices of a profile, below which an interval of it says nothing


class Choice(NamedTuple):
    """What the bandit suggests for one recall.

    Attributes
    ----------
    profile : str
        Its name.
    explored : bool
        Whether it came by chance and not by what is known.
    propensity : float
        With which probability this profile was to be chosen, in (0, 1].
    """

    profile: str
    explored: bool
    propensity: float


class Statistics(NamedTuple):
    """What is known of one profile in one context."""

    signals: int = 0
    positives: int = 0
    ema: float = _FIRST_EMA
    updated: int = 0

    def after(self, positive: bool, alpha: float, now: int) -> Statistics:
        """The same with one more signal (PAD-5)."""
        return Statistics(
            self.signals + 1,
            self.positives + positive,
            self.ema * (1 - alpha) + positive * alpha,
            now,
        )


def context_key(tags: Iterable[str]) -> int:
    """The key of a set of tags, whatever their order, case and number of times (PAD-2).

    >>> f"{context_key(['sql', 'Database']):016x}"
    'e35f731a0939f855'
    """
    folded = sorted(set(arguments.tags("tags", tags)))
    return hash64("".join(f"{len(tag.encode())}:{tag}" for tag in folded))


class _Context:
    """Statistics by profile, and the choice that follows from them."""

    __slots__ = ("arms", "deck", "signals", "warm")

    def __init__(self) -> None:
        self.arms: dict[str, Statistics] = {}
        self.deck: list[str] = []  # profiles that the present round of exploring has not had yet
        self.signals = 0
        self.warm: Choice | None = None  # what to exploit; None where it is to be worked out


class ProfileAdaptor:
    """Chooses a profile for a context and learns from what comes of it.

    Any thread may use it. Equal seed and order of calls give equal choices.

    Parameters
    ----------
    policy : {"epsilon_greedy", "ucb1", "thompson"}
        How it explores. The first takes the highest EMA, but one of all profiles in a share
        `epsilon` of the choices (PAD-4): each is as likely as any other, and a context has tried
        all of them before it tries one again. The second and third go by counts (Auer et al. 2002;
        Thompson 1933, with a uniform prior).
    epsilon : float
        In [0, 1].
    alpha : float
        Weight of the newest signal in the EMA, in (0, 1].
    minimum : int
        With fewer signals a context gets `default` (PAD-3), or, with `back_off`, what is known of
        its tags one by one, else of all contexts together.
    back_off : bool
    default : str
        The profile of who knows nothing.
    profiles : sequence of str
        What to choose from, in the order that breaks ties (PAD-4).
    seed : int or random.Random, optional

    Examples
    --------
    >>> bandit = ProfileAdaptor(seed=1)
    >>> for _ in range(10):
    ...     bandit.record(["database"], "debugging", True)
    >>> bandit.suggest(["database"]).profile
    'debugging'
    """

    def __init__(
        self,
        *,
        policy: str = "epsilon_greedy",
        epsilon: float = 0.1,
        alpha: float = 0.15,
        minimum: int = 10,
        back_off: bool = False,
        default: str = DEFAULT,
        profiles: Sequence[str] = tuple(PROFILES),
        seed: int | random.Random | None = None,
    ) -> None:
        self._policy = check_choice("policy", policy, POLICIES)
        self._epsilon = arguments.real("epsilon", epsilon, 0, 1)
        self._alpha = arguments.real("alpha", alpha, 0, 1)
        if self._alpha == 0:
            raise ValueError("alpha must be in (0, 1], not 0.0")
        self._minimum = arguments.whole("minimum", minimum, 0, 2**31)
        self._back_off = check_flag("back_off", back_off)
        if isinstance(profiles, str) or not profiles:
            raise ValueError(f"profiles must be a sequence of names, got {show(profiles)}")
        self._profiles = tuple(dict.fromkeys(profiles))
        self._known = frozenset(self._profiles)
        self._order = {name: place for place, name in enumerate(self._profiles)}
        self._cold = Choice(self._check(default), False, 1.0)
        if seed is not None and not isinstance(seed, random.Random):
            seed = arguments.whole("seed", seed, -(2**63), 2**63 - 1)
        self._random = seed if isinstance(seed, random.Random) else random.Random(seed)
        self._contexts: dict[int, _Context] = {}
        self._tags: dict[int, _Context] = {}  # of one tag each, over all contexts that have it
        self._all = _Context()
        self._keys: dict[Any, tuple[int, tuple[int, ...]]] = {}
        self._parts: dict[str, tuple[str, str, int]] = {}
        self._lock = threading.Lock()  # held by those who record

    def _check(self, profile: object) -> str:
        if not isinstance(profile, str):
            raise TypeError(f"profile must be a str, got {type(profile).__name__} {show(profile)}")
        name = profile.lower()
        if name not in self._known:
            raise ValueError(
                f"profile must be one of {', '.join(map(repr, self._profiles))},"
                f" got {show(profile)}{nearest(name, self._profiles)}"
            )
        return name

    # Choosing

    def suggest(self, tags: Iterable[str] = ()) -> Choice:
        """The profile for a recall with these tags; it changes nothing but the random numbers."""
        context = self._contexts.get(self.key(tags)[0])
        if context is None or context.signals < self._minimum:
            if not self._back_off:
                return self._cold
            context = self._wider(self.key(tags)[1])
            if context is None:
                return self._cold
        if self._policy == "epsilon_greedy":
            if self._random.random() < self._epsilon:
                return self._explore(context)
            return context.warm or self._exploit(context)
        return self._ucb1(context) if self._policy == "ucb1" else self._thompson(context)

    def exploit(self, tags: Iterable[str] = ()) -> Choice:
        """What `suggest` gives where it does not explore (PAD-8)."""
        context = self._contexts.get(self.key(tags)[0])
        if context is None or context.signals < self._minimum:
            return self._cold
        return context.warm or self._exploit(context)

    def _key(self, tags: Iterable[str]) -> tuple[int, tuple[int, ...]]:
        """The key of the context, and those of each of its tags."""
        if not isinstance(tags, (tuple, frozenset)):
            tags = tuple(arguments.tags("tags", tags))
        parts = [self._parts.get(tag) or self._part(tag) for tag in tags]
        if len(parts) > 1:
            parts = sorted(set(parts))
        known = hash64("".join([part[1] for part in parts])), tuple([part[2] for part in parts])
        if len(self._keys) >= _KNOWN_CONTEXTS:
            self._keys = {}
        self._keys[tags] = known
        return known

    def _part(self, tag: str) -> tuple[str, str, int]:
        """A tag folded, as `context_key` writes it, and its H64."""
        folded = arguments.tag("each of tags", tag)
        part = folded, f"{len(folded.encode())}:{folded}", hash64(folded)
        if len(self._parts) >= _KNOWN_CONTEXTS:
            self._parts = {}
        self._parts[tag] = part
        return part

    def key(self, tags: Iterable[str]) -> tuple[int, tuple[int, ...]]:
        """The key of a context (PAD-2), and the H64 of each of its tags."""
        try:
            known = self._keys.get(tags)
        except TypeError:  # a list, say
            known = None
        return known or self._key(tags)

    def _wider(self, tags: tuple[int, ...]) -> _Context | None:
        """All that is known of the tags one by one, else of all contexts, if it is enough."""
        pooled = _Context()
        for tag in tags:
            context = self._tags.get(tag)
            for name, arm in tuple(context.arms.items()) if context else ():
                before = pooled.arms.get(name, Statistics())
                signals = before.signals + arm.signals
                pooled.arms[name] = Statistics(
                    signals,
                    before.positives + arm.positives,
                    (before.ema * before.signals + arm.ema * arm.signals) / signals,
                )
                pooled.signals += arm.signals
        if pooled.signals >= self._minimum:
            return pooled
        return self._all if self._all.signals >= self._minimum else None

    def _exploit(self, context: _Context) -> Choice:
        arms = [(name, arm) for name, arm in tuple(context.arms.items()) if name in self._known]
        if not arms:
            return self._cold
        best = min(arms, key=lambda one: (-one[1].ema, -one[1].signals, self._order[one[0]]))[0]
        among = len(self._profiles)
        choice = Choice(best, False, 1 - self._epsilon + self._epsilon / among)
        context.warm = choice
        return choice

    def _explore(self, context: _Context) -> Choice:
        best = (context.warm or self._exploit(context)).profile
        among = len(self._profiles)
        # Dealt from a shuffled deck, so that no profile waits for its turn beyond one round. The
        # order of a deck knows nothing of outcomes: each draw is uniform, as its propensity says.
        try:
            drawn = context.deck.pop()
        except IndexError:
            deck = self._random.sample(self._profiles, among)
            drawn = deck.pop()
            context.deck = deck
        share = self._epsilon / among
        return Choice(drawn, True, 1 - self._epsilon + share if drawn == best else share)

    def _ucb1(self, context: _Context) -> Choice:
        arms = context.arms
        for name in self._profiles:  # each once, in their order
            if name not in arms:
                return Choice(name, True, 1.0)
        total = 2 * math.log(max(context.signals, 1))

        def bound(name: str) -> float:
            arm = arms[name]
            return arm.positives / arm.signals + math.sqrt(total / arm.signals)

        best = max(self._profiles, key=bound)  # the first of equals
        greedy = max(self._profiles, key=lambda name: arms[name].positives / arms[name].signals)
        return Choice(best, best != greedy, 1.0)

    def _thompson(self, context: _Context) -> Choice:
        arms = [context.arms.get(name, Statistics()) for name in self._profiles]
        draws = [
            self._random.betavariate(1 + arm.positives, 1 + arm.signals - arm.positives)
            for arm in arms
        ]
        place = max(range(len(draws)), key=draws.__getitem__)
        means = [(1 + arm.positives) / (2 + arm.signals) for arm in arms]
        greedy = max(range(len(means)), key=means.__getitem__)
        return Choice(self._profiles[place], place != greedy, _chance_of_best(arms, place))

    # Learning

    def record(self, tags: Iterable[str], profile: str, positive: bool) -> None:
        """One signal: `profile`, used in this context, was good or was not (PAD-5, PAD-6)."""
        name = self._check(profile)
        good = check_flag("positive", positive)
        key, singles = self.key(tags)
        self.record_key(key, singles, name, good, time.time_ns() // 1_000_000)

    def record_key(
        self, key: int, tags: Sequence[int], profile: str, positive: bool, now: int
    ) -> None:
        """`record` for a context by its key and the H64 of each of its tags.

        A profile of another release is kept and never chosen (PAD-10).
        """
        with self._lock:
            contexts = [self._contexts.setdefault(key, _Context()), self._all]
            contexts += [self._tags.setdefault(tag, _Context()) for tag in tags]
            for context in contexts:
                before = context.arms.get(profile, Statistics())
                context.arms[profile] = before.after(positive, self._alpha, now)
                context.signals += 1
                context.warm = None

    # What is known

    def stats(self) -> dict[str, dict[str, dict[str, Any]]]:
        """By context key (in hexadecimal) and profile: signals, positives, ema and updated."""
        return {
            f"{key:016x}": {
                name: arm._asdict() for name, arm in sorted(context.arms.copy().items())
            }
            for key, context in sorted(self._contexts.copy().items())
        }

    def __len__(self) -> int:
        """Contexts with at least one signal."""
        return len(self._contexts)

    def __bool__(self) -> bool:
        return True

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to a file (``coactivation.tracker``).

        Raises
        ------
        StorageError
            The file cannot be written; an old one is as it was.
        """

        def plain(contexts: Mapping[int, _Context]) -> dict[str, Any]:
            return {
                f"{key:016x}": {name: list(arm) for name, arm in sorted(context.arms.items())}
                for key, context in sorted(contexts.items())
            }

        with self._lock:
            payload = json.dumps(
                {
                    "contexts": plain(self._contexts),
                    "tags": plain(self._tags),
                    "all": plain({0: self._all}),
                },
                separators=(",", ":"),
            ).encode()
            count = len(self._contexts)
        envelope.write(path, _MAGIC, _VERSION, _HASH_TABLE, count, payload)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Have the statistics that `save` wrote, instead of one's own.

        Raises
        ------
        CorruptionError, VersionError, StorageError
            The file is damaged, of a newer release, or cannot be read; nothing has changed.
        """
        stored = json.loads(envelope.read(path, _MAGIC, _VERSION))

        def contexts(plain: Mapping[str, Mapping[str, list[Any]]]) -> dict[int, _Context]:
            made: dict[int, _Context] = {}
            for key, arms in plain.items():
                context = made[int(key, 16)] = _Context()
                context.arms = {name: Statistics(*arm) for name, arm in arms.items()}
                context.signals = sum(arm.signals for arm in context.arms.values())
            return made

        everything = contexts(stored["all"]).get(0, _Context())
        with self._lock:
            self._contexts = contexts(stored["contexts"])
            self._tags = contexts(stored["tags"])
            self._all = everything

    @classmethod
    def load(cls, path: str | os.PathLike[str], **options: Any) -> ProfileAdaptor:
        """A new one with the statistics of a file and these options; see `restore`."""
        adaptor = cls(**options)
        adaptor.restore(path)
        return adaptor

    def __repr__(self) -> str:
        return (
            f"ProfileAdaptor({self._policy!r}, {len(self)} contexts, {self._all.signals} signals)"
        )


def _chance_of_best(arms: Sequence[Statistics], place: int) -> float:
    """The probability that a draw from this arm's Beta posterior is above those of all others."""
    at = (np.arange(_GRID) + 0.5) / _GRID
    a = np.asarray([1 + arm.positives for arm in arms], np.float64)[:, None]
    b = np.asarray([1 + arm.signals - arm.positives for arm in arms], np.float64)[:, None]
    logs = (a - 1) * np.log(at) + (b - 1) * np.log1p(-at)
    density = np.exp(logs - logs.max(axis=1, keepdims=True))
    density /= density.sum(axis=1, keepdims=True)
    below = np.cumsum(density, axis=1) - density / 2
    others = np.delete(below, place, axis=0)
    return float(max((density[place] * others.prod(axis=0)).sum(), 1e-6))


class Logged(NamedTuple):
    """One choice and what came of it."""

    context: int
    profile: str
    propensity: float
    positive: bool


class Estimate(NamedTuple):
    """The reward that a policy would have earned: a mean and its 95% interval, in [0, 1].

    With fewer than ten choices of its profiles in the log the intervals are all of that.
    """

    profile: str
    ips: float
    ips_low: float
    ips_high: float
    doubly_robust: float
    doubly_robust_low: float
    doubly_robust_high: float
    support: int  # choices of this profile in the log


def evaluate(
    log: Sequence[Logged], policy: Callable[[int], str], name: str, seed: int = 0
) -> Estimate:
    """What a policy (context to profile) would have earned, from the log of another one.

    Inverse propensity scores (self-normalised) and the doubly robust estimate (Dudik et al. 2011)
    with the mean reward of the profile in the context, else overall, as its model; intervals by
    bootstrap over choices.
    """
    if not log:
        raise ValueError("log must hold at least one choice")
    sums: dict[tuple[int, str], list[float]] = {}
    overall: dict[str, list[float]] = {}
    for one in log:
        for total in (
            sums.setdefault((one.context, one.profile), [0.0, 0.0]),
            overall.setdefault(one.profile, [0.0, 0.0]),
        ):
            total[0] += one.positive
            total[1] += 1
    every = sum(one.positive for one in log) / len(log)

    def model(context: int, profile: str) -> float:
        good, count = sums.get((context, profile)) or overall.get(profile) or [every, 1.0]
        return good / count

    weights = np.zeros(len(log))
    rewards = np.asarray([one.positive for one in log], np.float64)
    predicted = np.zeros(len(log))
    residual = np.zeros(len(log))
    for place, one in enumerate(log):
        wanted = policy(one.context)
        predicted[place] = model(one.context, wanted)
        if wanted == one.profile:
            weights[place] = 1 / one.propensity
            residual[place] = weights[place] * (one.positive - predicted[place])
    robust = predicted + residual

    def means(chosen: Any) -> tuple[float, float]:
        total = max(float(weights[chosen].sum()), 1e-12)
        return float((weights[chosen] * rewards[chosen]).sum()) / total, float(
            robust[chosen].mean()
        )

    rng = np.random.default_rng(seed)
    drawn = [means(rng.integers(0, len(log), len(log))) for _ in range(_BOOTSTRAP)]
    (low, robust_low), (high, robust_high) = np.quantile(drawn, [0.025, 0.975], axis=0)
    support = int((weights > 0).sum())
    if support < _TELLING:
        low, high, robust_low, robust_high = 0.0, 1.0, 0.0, 1.0

    def within(value: Any) -> float:
        return min(1.0, max(0.0, float(value)))

    return Estimate(
        name,
        within(means(slice(None))[0]),
        within(low),
        within(high),
        within(robust.mean()),
        within(robust_low),
        within(robust_high),
        support,
    )
