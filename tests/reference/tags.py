"""Tag co-activation and cross-capture as the specification states them, in dicts and sets."""

import math

import numpy as np


class TagCoActivation:
    """COA-1, COA-2, STDP-1, STDP-2; tags are folded already."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.n = {}
        self.counts = {}  # (lower name, higher name) -> [count, last use]
        self.weights = {}  # (from, to) -> [weight, last use]
        self.observations = 0

    def observe(self, tags):
        tags = list(dict.fromkeys(tags))
        self.observations += 1
        for j, b in enumerate(tags):
            self.n[b] = self.n.get(b, 0) + 1
            for a in tags[:j]:
                pair = min(a, b), max(a, b)
                if pair not in self.counts:
                    self._make_room(self.counts)
                    self.counts[pair] = [0, 0]
                self.counts[pair][0] += 1
                self.counts[pair][1] = self.observations

    def forget(self, tags):
        tags = list(dict.fromkeys(tags))
        for j, b in enumerate(tags):
            self.n[b] -= 1
            if self.n[b] == 0:
                del self.n[b]
            for a in tags[:j]:
                pair = min(a, b), max(a, b)
                if pair in self.counts:
                    self.counts[pair][0] -= 1
                    if self.counts[pair][0] == 0:
                        del self.counts[pair]

    def observe_sequence(self, earlier, later, dt_ms):
        if not 0 < dt_ms <= 120_000:
            return False
        self.observations += 1
        up = np.float32(0.1 * math.exp(-dt_ms / 30_000))
        down = np.float32(0.05 * math.exp(-dt_ms / 30_000))
        for a in dict.fromkeys(earlier):
            for b in dict.fromkeys(later):
                if a == b:
                    continue
                if (a, b) in self.weights:
                    weight = min(np.float32(1), self.weights[a, b][0] + up)
                else:
                    self._make_room(self.weights)
                    weight = up
                self.weights[a, b] = [weight, self.observations]
                if (b, a) in self.weights:
                    self.weights[b, a][0] -= down
                    if self.weights[b, a][0] <= 0:
                        del self.weights[b, a]
        return True

    def _make_room(self, table):
        if len(table) == self.capacity:
            weakest = sorted(table, key=lambda pair: (*table[pair], pair))
            for pair in weakest[: max(1, self.capacity // 10)]:
                del table[pair]

    def pairs(self):
        return sorted((a, b, count) for (a, b), (count, _) in self.counts.items())

    def edges(self):
        return sorted((a, b, float(weight)) for (a, b), (weight, _) in self.weights.items())

    def associated(self, tag):
        found = {
            (set(pair) - {tag}).pop(): c for pair, (c, _) in self.counts.items() if tag in pair
        }
        return sorted(found.items(), key=lambda item: (-item[1], item[0]))

    def predict(self, tag):
        found = {b: float(weight) for (a, b), (weight, _) in self.weights.items() if a == tag}
        return sorted(found.items(), key=lambda item: (-item[1], item[0]))


class CrossCapture:
    """XCP-1, XCP-2, XCP-4, XCP-5."""

    def __init__(self):
        self.memories = {}  # slot -> tags

    def update(self, slot, tags):
        self.memories.pop(slot, None)
        if tags:
            self.memories[slot] = list(dict.fromkeys(tags))

    def slots(self, tag):
        return sorted((slot for slot, tags in self.memories.items() if tag in tags), reverse=True)

    def match(self, tags, mode):
        held = all if mode == "all" else any
        return sorted(
            slot for slot, own in self.memories.items() if held(tag in own for tag in tags)
        )

    def expand(self, query, best, counts, attenuation, neighbors, memories, allow=None):
        """Slot -> (score, pair), from the best."""
        query, found = list(dict.fromkeys(query)), {}
        for t in query:
            related = counts.associated(t)
            if t not in counts.n:
                continue
            for u, count in [one for one in related if one[0] not in query][:neighbors]:
                affinity = min(1.0, count / counts.n[t])
                score = np.float32(
                    float(np.float32(best)) * float(np.float32(attenuation)) * affinity
                    / math.sqrt(len(related))
                )  # fmt: skip
                allowed = [slot for slot in self.slots(u) if allow is None or slot in allow]
                for slot in allowed[:memories]:
                    if slot not in found or score > found[slot][0]:
                        found[slot] = score, (t, u)
        return sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
