"""The graphs that are measured, drawn from SplitMix64: the same for every implementation.

Each function takes a seed and gives the same arrays for the same arguments. Draws are as a program
would make them one after the other, but computed side by side: the generator's state is its seed
plus a multiple of a constant, so draw i needs no draw before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 20  # draws made at a time, so that no list of all of them is held

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class SplitMix64:
    def __init__(self, seed: int) -> None:
        self._state = np.uint64(seed)

    def next(self, n: int) -> NDArray[np.uint64]:
        """The next n draws, of 64 bits."""
        with np.errstate(over="ignore"):
            z = np.arange(1, n + 1, dtype=np.uint64)
            z *= _GAMMA
            z += self._state
            self._state += np.uint64(n) * _GAMMA
            z ^= z >> np.uint64(30)
            z *= _MIX_1
            z ^= z >> np.uint64(27)
            z *= _MIX_2
            z ^= z >> np.uint64(31)
        return z

    def u(self, n: int) -> NDArray[np.float64]:
        """The next n draws as numbers in [0, 1)."""
        return (self.next(n) >> np.uint64(11)) * 2.0**-53

    def below(self, limit: int, n: int) -> NDArray[np.int64]:
        """The next n draws as integers in [0, limit)."""
        return (self.u(n) * limit).astype(np.int64)


class Zipf:
    """Ranks from 0, drawn with weights 1 / (rank + 1) ** exponent."""

    def __init__(self, n: int, exponent: float) -> None:
        self._cdf = np.cumsum(1.0 / np.arange(1, n + 1) ** exponent)
        self._cdf /= self._cdf[-1]
        self._cdf[-1] = 1.0

    def ranks(self, u: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.searchsorted(self._cdf, u, side="right")


def pairs(
    n_nodes: int, n_pairs: int, seed: int = 42
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float32]]:
    """Pairs of different nodes and what each is strengthened by, in [0.2, 1)."""
    random = SplitMix64(seed)
    a, b = np.empty(n_pairs, np.uint32), np.empty(n_pairs, np.uint32)
    delta = np.empty(n_pairs, np.float32)
    for first in range(0, n_pairs, BLOCK):
        part = slice(first, min(first + BLOCK, n_pairs))
        draws = random.u(3 * (part.stop - first)).reshape(-1, 3)
        a[part] = (draws[:, 0] * n_nodes).astype(np.int64)
        other = (draws[:, 1] * (n_nodes - 1)).astype(np.int64)
        b[part] = other + (other >= a[part])
        delta[part] = 0.2 + 0.8 * draws[:, 2]
    return a, b, delta


def seed_sets(n_nodes: int, n: int = 200, size: int = 10, seed: int = 7) -> NDArray[np.uint32]:
    """Sets of nodes to spread from; shape (n, size)."""
    return SplitMix64(seed).below(n_nodes, n * size).astype(np.uint32).reshape(n, size)


def starts(limit: int, n: int, seed: int = 7) -> NDArray[np.uint32]:
    """Nodes or entities to begin at."""
    return SplitMix64(seed).below(limit, n).astype(np.uint32)


def entity_names(n: int) -> list[str]:
    return [f"Entity-{i}" for i in range(n)]


def entity_types(n: int) -> NDArray[np.uint32]:
    return np.arange(n, dtype=np.uint32) % 21


@dataclass
class Hyperedges:
    """Events of 3 to 8 entities. Event i has ``entities[indptr[i]:indptr[i + 1]]`` and memory i.

    Attributes
    ----------
    indptr : ndarray of int64, shape (n + 1,)
    entities : ndarray of uint32, shape (indptr[-1],)
        Distinct within an event.
    roles : ndarray of uint32, shape (indptr[-1],)
        The place in the event.
    weights : ndarray of float32, shape (n,)
        In [0.5, 1).
    """

    indptr: NDArray[np.int64]
    entities: NDArray[np.uint32]
    roles: NDArray[np.uint32]
    weights: NDArray[np.float32]

    @property
    def memories(self) -> NDArray[np.uint32]:
        """The memory of each of `entities`."""
        counts = np.diff(self.indptr)
        return np.repeat(np.arange(len(counts), dtype=np.uint32), counts)


def hyperedges(n_entities: int, n: int, zipf: bool = False, seed: int = 42) -> Hyperedges:
    """Entities are drawn evenly or by Zipf's law; an entity that is drawn again is drawn anew."""
    random = SplitMix64(seed)
    law = Zipf(n_entities, 1.0) if zipf else None

    def draws() -> Iterator[tuple[int, int, float]]:
        """What each draw would be as a count, as an entity, and as itself."""
        while True:
            u = random.u(BLOCK)
            entity = (u * n_entities).astype(np.int64) if law is None else law.ranks(u)
            count = 3 + (u * 6).astype(np.int64)
            yield from zip(count.tolist(), entity.tolist(), u.tolist(), strict=True)

    counts, entities, weights = [], [], []
    stream = draws()
    for _ in range(n):
        count = next(stream)[0]
        members: dict[int, None] = {}
        while len(members) < count:
            members[next(stream)[1]] = None
        counts.append(count)
        entities.extend(members)
        weights.append(0.5 + 0.5 * next(stream)[2])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    roles = np.arange(indptr[-1]) - np.repeat(indptr[:-1], counts)
    return Hyperedges(
        indptr,
        np.array(entities, np.uint32),
        roles.astype(np.uint32),
        np.array(weights, np.float32),
    )


def chain_links(
    n: int, length: int = 50
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """(current, previous, session) of chains of `length` nodes, in order."""
    current = np.arange(n, dtype=np.uint32)
    current = current[current % length != 0]
    return current, current - np.uint32(1), 1 + current // np.uint32(length)


def tag_contexts(n: int = 1000, seed: int = 42) -> list[tuple[str, str, str]]:
    """Sets of three tags: of 200 tags, of 200 topics, of 50 areas."""
    u = SplitMix64(seed).u(3 * n).reshape(n, 3)
    numbers = (u * [200, 200, 50]).astype(np.int64).tolist()
    return [(f"tag{tag}", f"topic{topic}", f"area{area}") for tag, topic, area in numbers]
