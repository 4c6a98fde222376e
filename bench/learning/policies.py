"""Policies of the bandit against those of MABWiser, where it is installed, by regret."""

from __future__ import annotations

import contextlib
import random
import statistics
from collections.abc import Callable
from typing import Any

from spector import ProfileAdaptor
from spector.profiles import PROFILES

ARMS = tuple(PROFILES)
ROUNDS = 2000
Chooser = tuple[Callable[[], str], Callable[[str, bool], None]]


def ours(policy: str, seed: int) -> Chooser:
    """One of our policies, in one context and without a cold start.

    Each arm begins with one failure, which is what MABWiser wants to begin with.
    """
    bandit = ProfileAdaptor(policy=policy, seed=seed, minimum=0)
    for arm in ARMS:
        bandit.record((), arm, False)
    return (
        lambda: bandit.suggest(()).profile,
        lambda arm, good: bandit.record((), arm, good),
    )


def theirs(policy: str, seed: int) -> Chooser | None:
    """The same algorithm of MABWiser."""
    with contextlib.suppress(ImportError):
        from mabwiser.mab import MAB, LearningPolicy

        chosen: Any = {
            "epsilon_greedy": LearningPolicy.EpsilonGreedy(epsilon=0.1),
            "ucb1": LearningPolicy.UCB1(alpha=1.4142135),
            "thompson": LearningPolicy.ThompsonSampling(),
        }[policy]
        mab = MAB(list(ARMS), chosen, seed=seed)
        mab.fit(list(ARMS), [0] * len(ARMS))
        return mab.predict, lambda arm, good: mab.partial_fit([arm], [int(good)])
    return None


def regret(chooser: Chooser, seed: int) -> float:
    """What was missed in a world of 13 profiles of which one is best, over all rounds."""
    rng = random.Random(seed)
    worth = {arm: rng.uniform(0.2, 0.6) for arm in ARMS}
    best = rng.choice(ARMS)
    worth[best] = 0.75
    suggest, record = chooser
    missed = 0.0
    for _ in range(ROUNDS):
        arm = suggest()
        missed += worth[best] - worth[arm]
        record(arm, rng.random() < worth[arm])
    return missed


def compare(seeds: int) -> list[dict[str, Any]]:
    """Mean regret of each policy, ours and theirs."""
    found = []
    for policy in ("epsilon_greedy", "ucb1", "thompson"):
        own = statistics.mean(regret(ours(policy, seed), seed) for seed in range(seeds))
        other = None
        if theirs(policy, 0) is not None:
            made = [theirs(policy, seed) for seed in range(seeds)]
            other = statistics.mean(
                regret(chooser, seed) for seed, chooser in enumerate(made) if chooser
            )
        found.append({"policy": policy, "regret": own, "mabwiser": other})
    return found
