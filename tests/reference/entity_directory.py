"""Entities as ENT-1 to ENT-10 and EEE-1 to EEE-3 say, with dicts and lists and nothing else."""

import re
import unicodedata
from math import exp

import numpy as np

OTHER = 21
f32 = np.float32


def fold(name):
    name = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join(name.split())


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def similar(a, b):
    """The edit distance of two folded names that are one name written differently, else None."""
    shorter = min(len(a), len(b))
    if shorter < 5 or re.findall(r"\d+", a) != re.findall(r"\d+", b):
        return None
    edits = distance(a, b)
    return edits if edits <= (1 if shorter < 10 else 2) else None


def more(weight):
    return min(f32(3), f32(weight + f32(0.2)))


class Entity:
    def __init__(self, name, type):
        self.name, self.folded, self.type = name, fold(name), type
        self.links = {}  # memory -> [weight, about], by first link
        self.capacity = 0
        self.relations = {}  # (target, type) -> dict, by first mention
        self.into = None
        self.apart = False


class Directory:
    def __init__(self, max_entity_edges=48):
        self.max_entity_edges = max_entity_edges
        self.entities = []
        self.cycle = 0
        self.segment = 0  # links that it has room for

    # Names

    def resolve(self, id):
        while self.entities[id].into is not None:
            id = self.entities[id].into
        return id

    def find(self, name):
        for id, entity in enumerate(self.entities):
            if entity.folded == fold(name):
                return self.resolve(id)
        return -1

    def intern(self, name, type):
        id = self.find(name)
        if id < 0:
            self.entities.append(Entity(name, type))
            return len(self.entities) - 1
        if self.entities[id].type == OTHER:
            self.entities[id].type = type
        return id

    # Links

    def append(self, entity, memory, link):
        if len(entity.links) == entity.capacity:
            while entity.capacity <= len(entity.links):
                entity.capacity = 8 if entity.capacity < 8 else 1 << entity.capacity.bit_length()
            self.segment += entity.capacity
        entity.links[memory] = link

    def link(self, id, memory, about=False):
        entity = self.entities[self.resolve(id)]
        if memory in entity.links:
            weight, was = entity.links[memory]
            entity.links[memory] = [more(weight), was or about]
        else:
            self.append(entity, memory, [f32(1), about])

    def entities_for_memory(self, memory):
        return [id for id, entity in enumerate(self.entities) if memory in entity.links]

    def remove_memory(self, memories):
        n = 0
        for entity in self.entities:
            n += len(entity.links.keys() & set(memories))
            entity.links = {m: link for m, link in entity.links.items() if m not in memories}
        return n

    def decay_links(self, factor, threshold):
        n = 0
        for entity in self.entities:
            links = {m: [f32(w * f32(factor)), about] for m, (w, about) in entity.links.items()}
            entity.links = {m: link for m, link in links.items() if link[0] >= f32(threshold)}
            n += len(links) - len(entity.links)
        return n

    def compact(self):
        for entity in self.entities:
            entity.capacity = len(entity.links)
        before, self.segment = self.segment, sum(len(e.links) for e in self.entities)
        return 8 * (before - self.segment)

    # Relations

    def triples(self):
        return [(s, *key) for s, e in enumerate(self.entities) for key in e.relations]

    def degree(self, id):
        return sum((s == id) + (t == id) for s, t, _ in self.triples())

    def around(self, id):
        return {t if s == id else s for s, t, _ in self.triples() if id in (s, t)}

    def shared(self, a, b):
        return len((self.around(a) & self.around(b)) - {a, b})

    def bridge(self, source, target, added):
        degree = min(self.degree(source), self.degree(target)) + added
        return int(255 * (1 - self.shared(source, target) / degree) + 0.5)

    def age(self, relation):
        return (self.cycle - relation["cycle"]) % 65536

    def importance(self, source, target, relation):
        return (
            0.15 * float(relation["weight"] / f32(3))
            + 0.10 * exp(-self.age(relation) / 72)
            + 0.20 * (relation["bridge"] / 255)
            + 0.10 * (1 / (1 + 0.3 * self.shared(source, target)))
        ) / 0.55

    def place(self, source, key, relation):
        there = self.entities[source].relations
        if len(there) >= self.max_entity_edges:

            def rank(key):
                value = self.importance(source, key[0], there[key])
                return value, -self.age(there[key]), key

            lowest = min(there, key=rank)
            if self.importance(source, key[0], relation) < rank(lowest)[0]:
                return False
            del there[lowest]
        there[key] = relation
        return True

    def add_relation(self, source, target, type):
        source, target = self.resolve(source), self.resolve(target)
        if source == target:
            raise ValueError
        there = self.entities[source].relations.get((target, type))
        if there:
            there["weight"], there["cycle"] = more(there["weight"]), self.cycle % 65536
            return True
        bridge = self.bridge(source, target, 1)
        relation = {"weight": f32(1), "cycle": self.cycle % 65536, "bridge": bridge}
        return self.place(source, (target, type), relation)

    def restate_relation(self, source, target, type, weight, cycle):
        source, target = self.resolve(source), self.resolve(target)
        relations = self.entities[source].relations
        there = relations.get((target, type))
        if weight == 0:
            relations.pop((target, type), None)
        elif there:
            there["weight"], there["cycle"] = f32(weight), cycle
        else:
            bridge = self.bridge(source, target, 1)
            relation = {"weight": f32(weight), "cycle": cycle, "bridge": bridge}
            self.place(source, (target, type), relation)

    def decay_relations(self, factor, threshold):
        self.cycle += 1
        n = 0
        for entity in self.entities:
            for key, relation in list(entity.relations.items()):
                relation["weight"] = f32(relation["weight"] * f32(factor))
                if relation["weight"] < f32(threshold):
                    if relation["bridge"] < 224 or self.age(relation) >= 365:
                        del entity.relations[key]
                        n += 1
                    else:
                        relation["weight"] = f32(threshold)
        for source, target, type in self.triples():
            relation = self.entities[source].relations[target, type]
            relation["bridge"] = self.bridge(source, target, 0)
        return n

    # Merging

    def unite(self, source, key, relation):
        there = self.entities[source].relations.get(key)
        if there is None:
            return False
        if self.age(relation) < self.age(there):
            there["cycle"] = relation["cycle"]
        there["weight"] = more(max(there["weight"], relation["weight"]))
        there["bridge"] = max(there["bridge"], relation["bridge"])
        return True

    def merge_similar(self):
        pairs = []
        for b, second in enumerate(self.entities):
            for a, first in enumerate(self.entities[:b]):
                edits = similar(first.folded, second.folded)
                if edits is not None:
                    pairs.append((edits, a, b))
        merged = []
        survivors = {entity.into for entity in self.entities} - {None}
        for _, a, b in sorted(pairs):
            first, second = self.entities[a], self.entities[b]
            if any(e.into is not None or e.apart for e in (first, second)):
                continue
            if first.type != second.type and OTHER not in (first.type, second.type):
                continue
            if a in survivors and b in survivors:
                continue
            stays = b if len(second.links) > len(first.links) else a
            if {a, b} & survivors:
                stays = a if a in survivors else b
            goes = a + b - stays
            self.merge(goes, stays)
            survivors.add(stays)
            merged.append([goes, stays])
        return merged

    def merge(self, goes, stays):
        gone, survivor = self.entities[goes], self.entities[stays]
        for memory, (weight, about) in gone.links.items():
            if memory in survivor.links:
                there, was = survivor.links[memory]
                survivor.links[memory] = [more(max(there, weight)), was or about]
            else:
                self.append(survivor, memory, [weight, about])
        gone.links, gone.capacity = {}, 0
        for source, target, type in sorted(self.triples()):
            if target != goes:
                continue
            relations = self.entities[source].relations
            relation = relations[goes, type]
            if source == stays or self.unite(source, (stays, type), relation):
                del relations[goes, type]
            else:
                self.entities[source].relations = {
                    (stays, type) if key == (goes, type) else key: value
                    for key, value in relations.items()
                }
        outgoing, gone.relations = gone.relations, {}
        for (target, type), relation in outgoing.items():
            if target != stays and not self.unite(stays, (target, type), relation):
                self.place(stays, (target, type), relation)
        if survivor.type == OTHER:
            survivor.type = gone.type
        gone.into = stays

    def unmerge(self, id):
        self.entities[id].into = None
        self.entities[id].apart = True

    # Traversal: `events` are (type, entities).

    def traverse(self, starts, types=None, max_hops=2, events=()):
        def allowed(type):
            return types is None or type in types

        hops = {self.resolve(start): 0 for start in starts}
        for hop in range(1, max_hops + 1):
            groups = [(s, t) for s, t, type in self.triples() if allowed(type)]
            groups += [members for type, members in events if allowed(type)]
            level = [group for group in groups if any(hops.get(e, hop) < hop for e in group)]
            before = len(hops)
            for group in level:
                for entity in group:
                    if entity < len(self.entities):
                        hops.setdefault(self.resolve(entity), hop)
            if len(hops) == before:
                break
        return sorted(hops.items(), key=lambda item: (item[1], item[0]))

    def collect(self, *arguments, **options):
        reached = self.traverse(*arguments, **options)
        return sorted({m for entity, _ in reached for m in self.entities[entity].links})
