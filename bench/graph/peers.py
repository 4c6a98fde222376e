"""Other libraries on the same graphs and the same questions, and the ratios to them.

`compare_spread` and `compare_collect` build each peer that is installed, compare its answers with
ours, and time both in turn. A peer that is missing, or that cannot hold so large a graph, is named.
Each is used as its own documentation would have it: networkx by its dictionaries, scipy by rows of
a sparse matrix, igraph by its own traversals.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bench.graph import timing
from bench.graph.records import Record

Nodes = NDArray[np.uint32]
Found = tuple[Nodes, NDArray[np.float32]]

MIN_STRENGTH = 0.01


class Peer(ABC):
    """A graph with n nodes and weighted edges without direction, (a[i], b[i]) once each."""

    name: ClassVar[str]
    max_edges: ClassVar[int]  # what it holds in a few gigabytes

    def __init__(self, n: int, a: Nodes, b: Nodes, weights: NDArray[np.float32]) -> None:
        self.build(n, a, b, weights)

    @abstractmethod
    def build(self, n: int, a: Nodes, b: Nodes, weights: NDArray[np.float32]) -> None: ...

    @abstractmethod
    def spread(self, seeds: Nodes) -> Any:
        """The strongest path of at most two edges to each node; a mapping, or nodes and values."""

    @abstractmethod
    def within(self, start: int, steps: int) -> Any:
        """The nodes at most so many steps away."""


class NetworkX(Peer):
    name = "networkx"
    max_edges = 2_000_000

    def build(self, n: int, a: Nodes, b: Nodes, weights: NDArray[np.float32]) -> None:
        import networkx

        self.networkx = networkx
        self.graph = networkx.Graph()
        self.graph.add_nodes_from(range(n))
        self.graph.add_weighted_edges_from(
            zip(a.tolist(), b.tolist(), weights.tolist(), strict=True)
        )

    def spread(self, seeds: Nodes) -> Any:
        rows = self.graph.adj
        frontier: dict[int, float] = dict.fromkeys(seeds.tolist(), 1.0)
        starts, best = set(frontier), dict[int, float]()
        for _ in range(2):
            reached: dict[int, float] = {}
            for node, strength in frontier.items():
                for other, edge in rows[node].items():
                    along = strength * edge["weight"]
                    if along >= MIN_STRENGTH and along > reached.get(other, 0.0):
                        reached[other] = along
            for node, strength in reached.items():
                if node not in starts and strength > best.get(node, 0.0):
                    best[node] = strength
            frontier = reached
        return best

    def within(self, start: int, steps: int) -> Any:
        return self.networkx.single_source_shortest_path_length(self.graph, start, cutoff=steps)


class SciPy(Peer):
    name = "scipy"
    max_edges = 100_000_000

    def build(self, n: int, a: Nodes, b: Nodes, weights: NDArray[np.float32]) -> None:
        from scipy import sparse

        rows, columns = np.concatenate([a, b]), np.concatenate([b, a])
        both = np.concatenate([weights, weights])
        self.matrix = sparse.coo_array((both, (rows, columns)), shape=(n, n)).tocsr()
        self.ones = sparse.csr_array(
            (np.ones(len(both), np.int8), self.matrix.indices, self.matrix.indptr), shape=(n, n)
        )

    def spread(self, seeds: Nodes) -> Any:
        frontier, strengths = np.unique(seeds), np.ones(len(np.unique(seeds)), np.float32)
        starts, found = frontier, []
        for _ in range(2):
            rows = self.matrix[frontier]
            along = rows.data * np.repeat(strengths, np.diff(rows.indptr))
            frontier, strengths = _strongest(rows.indices, along)
            found.append((frontier, strengths))
        nodes, best = _strongest(*map(np.concatenate, zip(*found, strict=True)))
        kept = ~np.isin(nodes, starts, assume_unique=True)
        return nodes[kept], best[kept]

    def within(self, start: int, steps: int) -> Any:
        reached = frontier = np.array([start])
        for _ in range(steps):
            frontier = np.setdiff1d(self.ones[frontier].indices, reached)
            reached = np.union1d(reached, frontier)
        return reached


class IGraph(Peer):
    name = "igraph"
    max_edges = 30_000_000

    def build(self, n: int, a: Nodes, b: Nodes, weights: NDArray[np.float32]) -> None:
        import igraph

        self.graph = igraph.Graph(n, np.stack([a, b], axis=1))
        self.weights = weights.tolist()
        self.ends = list(zip(a.tolist(), b.tolist(), strict=True))

    def spread(self, seeds: Nodes) -> Any:
        incident, weights, ends = self.graph.incident, self.weights, self.ends
        frontier: dict[int, float] = dict.fromkeys(seeds.tolist(), 1.0)
        starts, best = set(frontier), dict[int, float]()
        for _ in range(2):
            reached: dict[int, float] = {}
            for node, strength in frontier.items():
                for edge in incident(node):
                    one, two = ends[edge]
                    other = two if one == node else one
                    along = strength * weights[edge]
                    if along >= MIN_STRENGTH and along > reached.get(other, 0.0):
                        reached[other] = along
            for node, strength in reached.items():
                if node not in starts and strength > best.get(node, 0.0):
                    best[node] = strength
            frontier = reached
        return best

    def within(self, start: int, steps: int) -> Any:
        return self.graph.neighborhood(start, order=steps)


PEERS: tuple[type[Peer], ...] = (NetworkX, SciPy, IGraph)


def _strongest(nodes: NDArray[Any], strengths: NDArray[np.float32]) -> tuple[Any, Any]:
    """Each node once, in order, with its highest strength, if that is high enough."""
    order = np.lexsort((-strengths, nodes))
    nodes, strengths = nodes[order], strengths[order]
    first = np.ones(len(nodes), bool)
    first[1:] = nodes[1:] != nodes[:-1]
    first &= strengths >= MIN_STRENGTH
    return nodes[first], strengths[first]


def _usable(part: str, n_edges: int) -> Iterator[Record | type[Peer]]:
    for peer in PEERS:
        if importlib.util.find_spec(peer.name) is None:
            yield {"kind": "missing", "part": part, "peer": peer.name, "why": "not installed"}
        elif n_edges > peer.max_edges:
            why = f"{n_edges:,} edges are more than the {peer.max_edges:,} it is given"
            yield {"kind": "missing", "part": part, "peer": peer.name, "why": why}
        else:
            yield peer


def compare_spread(
    part: str,
    name: str,
    ours: Callable[[Nodes], Found],
    graph: tuple[int, Nodes, Nodes, NDArray[np.float32]],
    seed_sets: Sequence[Nodes],
    rounds: int,
) -> Iterator[Record]:
    """Spreading to depth 2 from each set, ours and each peer's.

    Parameters
    ----------
    ours : callable
        Seeds to (slots, strengths), all that are reached, in any order.
    graph : tuple
        Number of nodes, and each edge once: ends and weight, as our store holds them now.
    """
    yield from _compare(
        part, name, ours, lambda peer: peer.spread, _as_found, graph, seed_sets, rounds
    )


def compare_collect(
    part: str,
    name: str,
    ours: Callable[[int], Nodes],
    n_entities: int,
    indptr: NDArray[np.int64],
    entities: Nodes,
    starts: Sequence[int],
    rounds: int,
) -> Iterator[Record]:
    """The memories of all entities at most 2 steps away, ours and each peer's.

    The peers have entities and events as nodes (event i, which is memory i, is n_entities + i) and
    look 5 steps far: entity, event, entity, event, entity, and its events.

    Parameters
    ----------
    ours : callable
        Entity to memories, in any order.
    indptr, entities : ndarray
        Event i has ``entities[indptr[i]:indptr[i + 1]]``, and each is linked to memory i.
    """
    n_events = len(indptr) - 1
    events = np.repeat(np.arange(n_events, dtype=np.uint32), np.diff(indptr)) + n_entities
    graph = (n_entities + n_events, entities, events, np.ones(len(entities), np.float32))

    def ask(peer: Peer) -> Callable[[int], Any]:
        def collect(start: int) -> Nodes:
            reached = np.fromiter(peer.within(start, 5), np.int64)
            return (reached[reached >= n_entities] - n_entities).astype(np.uint32)

        return collect

    def memories(answer: Any) -> Found:
        return np.sort(np.asarray(answer, np.uint32)), np.empty(0, np.float32)

    yield from _compare(part, name, ours, ask, memories, graph, starts, rounds)


def _as_found(answer: Any) -> Found:
    if isinstance(answer, dict):
        answer = list(answer), list(answer.values())
    nodes, strengths = np.asarray(answer[0], np.uint32), np.asarray(answer[1], np.float32)
    order = np.argsort(nodes)
    return nodes[order], strengths[order]


def _compare(
    part: str,
    name: str,
    ours: Callable[[Any], Any],
    ask: Callable[[Peer], Callable[[Any], Any]],
    found: Callable[[Any], Found],
    graph: tuple[int, Nodes, Nodes, NDArray[np.float32]],
    inputs: Sequence[Any],
    rounds: int,
) -> Iterator[Record]:
    for kind in _usable(part, len(graph[1])):
        if isinstance(kind, dict):
            yield kind
            continue
        theirs = ask(kind(*graph))
        equal = True
        for value in inputs:
            mine, other = found(ours(value)), found(theirs(value))
            equal &= np.array_equal(mine[0], other[0])
            equal = equal and np.allclose(mine[1], other[1], rtol=1e-5)
        us = timing.each_us({"ours": ours, "theirs": theirs}, inputs, rounds)
        mine_us, their_us = float(np.median(us["ours"])), float(np.median(us["theirs"]))
        yield {
            "kind": "ratio",
            "part": part,
            "name": name,
            "peer": kind.name,
            "value": round(mine_us, 2),
            "theirs": round(their_us, 2),
            "unit": "us",
            "ratio": round(mine_us / their_us, 4),
            "checked": bool(equal),
        }
