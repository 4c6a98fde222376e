"""The Hebbian graph as plain dicts, from the labels HEB-1 to HEB-12 and EDG-1."""

import math
from dataclasses import dataclass, replace

import numpy as np

F = np.float32
FLOOR = F(0.1)


@dataclass(frozen=True)
class Edge:
    weight: np.float32
    last_cycle: int
    bridge: int
    hinted: bool
    floored: bool

    @property
    def flags(self):
        return int(self.hinted) + 2 * int(self.floored)


def importance(weight, age, bridge, shared, a=None, b=None):
    """EDG-1; a and b are (importance, storage strength, arousal, valence, open)."""
    total = 0.15 * float(weight)
    total += 0.10 * math.exp(-age / 72)
    total += 0.20 * (bridge / 255)
    total += 0.10 * (1 / (1 + 0.3 * shared))
    if a is None or b is None:
        return total / 0.55
    total += 0.15 * ((float(F(a[0])) + float(F(b[0]))) / 2 / 10)
    total += 0.10 * (max(a[2], b[2]) / 255)
    total += 0.05 * (1 - abs(a[3] - b[3]) / 255)
    mean = (float(F(a[1])) + float(F(b[1]))) / 2
    total += 0.05 * min(max((mean - 1) / 4, 0.0), 1.0)
    return total + 0.10 if a[4] or b[4] else total


class HebbianModel:
    def __init__(self, max_degree=24):
        self.max_degree = max_degree
        self.cycle = 0
        self.rows = []  # of each slot: {neighbour: Edge}
        self.signals = {}

    def resize(self, n):
        self.rows += [{} for _ in range(n - len(self.rows))]

    def _put(self, a, b, edge):
        self.rows[a][b] = edge
        self.rows[b][a] = edge

    def _drop(self, a, b):
        del self.rows[a][b]
        del self.rows[b][a]

    def _importance(self, a, b, edge):
        shared = len(self.rows[a].keys() & self.rows[b].keys())
        age = (self.cycle - edge.last_cycle) % 65536
        return importance(
            edge.weight, age, edge.bridge, shared, self.signals.get(a), self.signals.get(b)
        )

    def _weakest(self, a):
        """Importance of the edge that makes room first, and its other end (HEB-7)."""
        ranked = [
            (self._importance(a, b, edge), -((self.cycle - edge.last_cycle) % 65536), b)
            for b, edge in self.rows[a].items()
        ]
        lowest = min(ranked)
        return lowest[0], lowest[2]

    def strengthen(self, a, b, delta, hinted=False):
        delta = F(delta)
        cycle = self.cycle % 65536
        if b in self.rows[a]:
            edge = self.rows[a][b]
            weight = min(F(1), edge.weight + delta * (F(1) - edge.weight))
            self._put(a, b, replace(edge, weight=weight, last_cycle=cycle))
            return True
        shared = len(self.rows[a].keys() & self.rows[b].keys())
        degree = min(len(self.rows[a]) + 1, len(self.rows[b]) + 1, self.max_degree)
        bridge = math.floor(255 * (degree - shared) / degree + 0.5)
        edge = Edge(delta, cycle, bridge, hinted, False)
        leaving = []
        for end in (a, b):
            if len(self.rows[end]) < self.max_degree:
                continue
            least, other = self._weakest(end)
            if self._importance(a, b, edge) < least:
                return False
            leaving.append((end, other))
        for end, other in leaving:
            self._drop(end, other)
        self._put(a, b, edge)
        return True

    def decay(self, factor=0.9, by_arousal=False):
        self.cycle += 1
        removed = floored = 0

        def factor_of(slot):
            if not by_arousal or slot not in self.signals:
                return F(factor)
            i, _, arousal, valence, _ = self.signals[slot]
            m = 1 + 0.3 * (float(F(i)) / 10) + 0.2 * (arousal / 255) + 0.1 * (abs(valence) / 128)
            return F(math.pow(float(F(factor)), 1 / m))

        for a, b, edge in self.edges():
            weight = edge.weight * max(factor_of(a), factor_of(b))
            age = (self.cycle - edge.last_cycle) % 65536
            if weight >= FLOOR:
                self._put(a, b, replace(edge, weight=weight, floored=False))
            elif edge.bridge >= 224 and age < 365:
                self._put(a, b, replace(edge, weight=FLOOR, floored=True))
                floored += 1
            else:
                self._drop(a, b)
                removed += 1
        return self.cycle, len(self.edges()), removed, floored

    def remove(self, slot):
        others = list(self.rows[slot])
        for other in others:
            self._drop(slot, other)
        return len(others)

    def _connected(self, a, b):
        seen, todo = {a}, [a]
        while todo:
            for other in self.rows[todo.pop()]:
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return b in seen

    def recompute_bridges(self):
        scores = {}
        for a, b, edge in self.edges():
            degrees = len(self.rows[a]), len(self.rows[b])
            share = 1 / degrees[0] + 1 / degrees[1]
            if sum(degrees) <= 16:
                shared = len(self.rows[a].keys() & self.rows[b].keys())
                share = min(share, 1 / (1 + shared / 2))
            self._drop(a, b)
            connected = self._connected(a, b)
            self._put(a, b, edge)
            scores[a, b] = min(223, math.floor(255 * share + 0.5)) if connected else 255
        for a, b, edge in self.edges():
            self._put(a, b, replace(edge, bridge=scores[a, b]))
        return sum(score == 255 for score in scores.values())

    def spread(self, seeds, depth=2, min_strength=0.01, limit=None):
        best = {}
        for seed in seeds:
            level = {seed: F(1)}
            for _ in range(depth):
                following = {}
                for slot, strength in level.items():
                    for other, edge in self.rows[slot].items():
                        product = strength * edge.weight
                        if other != seed and product >= F(min_strength):
                            following[other] = max(following.get(other, F(0)), product)
                for slot, strength in following.items():
                    best[slot] = max(best.get(slot, F(0)), strength)
                level = following
        return sorted(best.items(), key=lambda item: (-item[1], item[0]))[:limit]

    def edges(self):
        return [
            (a, b, edge)
            for a, row in enumerate(self.rows)
            for b, edge in sorted(row.items())
            if a < b
        ]
