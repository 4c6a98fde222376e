"""Agents that use a memory and report what helped."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.quality.measures import measure
from bench.quality.sets import Collection
from spector import SpectorMemory

START = 1_900_000_000_000
MINUTE = 60_000


class Clock:
    """A clock that an agent moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


#: What a topic asks for: the profile that finds it, and the valence of what helps.
TOPICS = {"incident": ("debugging", -80), "praise": ("recalling", 80), "note": ("balanced", 0)}


def topics(profile: str, policy: str, signals: int, seed: int) -> dict[str, list[float]]:
    """Three topics, each with a profile that suits it; the rewards of each topic, in order.

    Every question has one memory that helps and two decoys of other valence with the same words.
    """
    rng = random.Random(seed)
    clock = Clock()
    with SpectorMemory.ephemeral(clock=clock, seed=seed, bandit={"policy": policy}) as memory:
        rewards: dict[str, list[float]] = {topic: [] for topic in TOPICS}
        for number in range(signals):
            for topic, (best, helpful) in TOPICS.items():
                for valence in (0, -80, 80):
                    memory.remember(
                        f"{topic} report about service{number}",
                        id=f"{topic} {number} {valence}",
                        tags=[topic],
                        valence=valence,
                    )
                chosen = best if profile == "oracle" else profile
                found = memory.recall(f"report service{number}", tags=[topic], profile=chosen, k=1)
                clock.now += rng.randrange(1, 10) * MINUTE
                good = bool(found) and found[0].id == f"{topic} {number} {helpful}"
                rewards[topic].append(float(good))
                if found:
                    memory.reinforce(found[0].id, good, recall=found.token)
        return rewards


#: How an agent learns from what it finds.
LEARNERS: Mapping[str, Mapping[str, Any]] = {
    "no learning": {},
    "outcomes": {"reinforce": True},
    "outcomes, associations": {"reinforce": True, "associate": True},
    "outcomes, bandit": {"reinforce": True, "profile": "auto"},
    "all": {"reinforce": True, "associate": True, "profile": "auto"},
}


def conversations(
    collections: Sequence[Collection], learner: Mapping[str, Any], rounds: int
) -> list[dict[str, dict[str, float]]]:
    """After each round the figures of the questions that are asked, and of those that never are.

    Of each conversation every second question is asked once a round; what is evidence among its
    ten hits is reported as helpful, and the first hit as misleading if it is none.
    """
    memories = []
    for collection in collections:
        clock = Clock()
        memory = SpectorMemory.ephemeral(
            clock=clock, seed=1, strengthen_on_reinforce=bool(learner.get("associate"))
        )
        memory.remember_many(collection.documents)
        memories.append((memory, clock, collection))
    profile = str(learner.get("profile", "balanced"))
    curve = []
    for number in range(rounds + 1):
        if number:
            for memory, clock, collection in memories:
                _use(memory, clock, collection, learner, profile)
        curve.append(
            {
                kind: _figures(memories, profile, first)
                for kind, first in (("asked", 0), ("never asked", 1))
            }
        )
    for memory, _, _ in memories:
        memory.close()
    return curve


def _use(
    memory: SpectorMemory,
    clock: Clock,
    collection: Collection,
    learner: Mapping[str, Any],
    profile: str,
) -> None:
    for query in collection.queries[::2]:
        clock.now += 10 * MINUTE
        found = memory.recall(query.text, k=10, profile=profile)
        if not learner.get("reinforce"):
            continue
        helpful = [hit.id for hit in found if hit.id in query.relevant]
        for id in helpful:
            memory.reinforce(id, True, recall=found.token)
        if found and found[0].id not in query.relevant:
            memory.reinforce(found[0].id, False, recall=found.token)


def _figures(memories: Iterable[Any], profile: str, first: int) -> dict[str, float]:
    sums: dict[str, float] = {}
    count = 0
    for memory, _, collection in memories:
        for query in collection.queries[first::2]:
            chosen = profile
            if profile == "auto":  # what is known, not what is tried
                tags = memory._space.replica.graphs.tags_in(query.text)
                chosen = memory.bandit.exploit(tags).profile
            hits = memory.recall(query.text, k=20, profile=chosen, recall_mode="observe")
            for name, value in measure([hit.id for hit in hits], query.relevant).items():
                sums[name] = sums.get(name, 0.0) + value
            count += 1
    return {name: value / count for name, value in sums.items()}
