"""Hyperedges written from HYP-1 to HYP-9 and ENT-9, with a list of dicts and nothing else."""

from math import ceil

import numpy as np


class Graph:
    def __init__(self, max_per_entity=64):
        self.max_per_entity = max_per_entity
        self.edges = {}  # id -> dict, by id
        self.next_id = 0

    def of(self, entity):
        return [id for id, edge in self.edges.items() if entity in edge["entities"]]

    def hyperedges_for(self, entity):
        return sorted(self.of(entity), key=lambda id: (-self.edges[id]["weight"], id))

    def common(self, entities):
        first, *rest = entities
        return [id for id in self.hyperedges_for(first) if all(id in self.of(e) for e in rest)]

    def same(self, type, entities, memory, but=None):
        for id, edge in self.edges.items():
            said = edge["type"], edge["memory"], set(edge["entities"])
            if id != but and said == (type, memory, set(entities)):
                return id
        return None

    def reinforce(self, id, timestamp):
        edge = self.edges[id]
        edge["weight"] = min(np.float32(edge["weight"] + np.float32(0.2)), np.float32(3))
        edge["timestamp"] = max(edge["timestamp"], timestamp)

    def make_room(self, entity, n):
        while len(self.of(entity)) + n > self.max_per_entity:
            del self.edges[min(self.of(entity), key=self.age)]

    def age(self, id):
        return self.edges[id]["timestamp"], self.edges[id]["weight"], id

    def insert(self, type, entities, roles, memory, timestamp, weight):
        self.edges[self.next_id] = {
            "type": type,
            "entities": list(entities),
            "roles": list(roles),
            "memory": memory,
            "timestamp": timestamp,
            "weight": np.float32(weight),
        }
        self.next_id += 1
        return self.next_id - 1

    def add(self, type, entities, roles, memory, timestamp, weight):
        assert 3 <= len(set(entities)) == len(entities) == len(roles) <= 8
        id = self.same(type, entities, memory)
        if id is not None:
            self.reinforce(id, timestamp)
            return id
        for entity in entities:
            self.make_room(entity, 1)
        return self.insert(type, entities, roles, memory, timestamp, weight)

    def add_event(self, type, entities, roles, memory, timestamp, weight):
        if len(entities) <= 8:
            return [self.add(type, entities, roles, memory, timestamp, weight)]
        anchor, others = (entities[0], roles[0]), list(zip(entities, roles, strict=True))[1:]
        n = ceil(len(others) / 7)
        share, larger = divmod(len(others), n)
        groups = []
        for i in range(n):
            group = [others.pop(0) for _ in range(share + (i < larger))]
            groups.append(list(zip(anchor, *group, strict=True)))
        ids = [self.same(type, members, memory) for members, _ in groups]
        for id in ids:
            if id is not None:
                self.reinforce(id, timestamp)
        self.make_room(entities[0], ids.count(None))
        for i, (members, parts) in enumerate(groups):
            if ids[i] is None:
                for entity in members[1:]:
                    self.make_room(entity, 1)
                ids[i] = self.insert(type, members, parts, memory, timestamp, weight)
        return ids

    def touch(self, ids, timestamp):
        assert all(id < self.next_id for id in ids)
        there = [self.edges[id] for id in ids if id in self.edges]
        for edge in there:
            edge["timestamp"] = max(edge["timestamp"], timestamp)
        return len(there)

    def remove(self, condition):
        gone = [id for id, edge in self.edges.items() if condition(edge)]
        for id in gone:
            del self.edges[id]
        return len(gone)

    def decay(self, factor, threshold):
        for edge in self.edges.values():
            edge["weight"] = np.float32(edge["weight"] * np.float32(factor))
        return self.remove(lambda edge: edge["weight"] < np.float32(threshold))

    def remove_memory(self, slots):
        return self.remove(lambda edge: edge["memory"] in slots)

    def merge(self, source, target):
        left = []
        for id in self.of(source):
            edge = self.edges[id]
            vertices = {}
            for entity, role in zip(edge["entities"], edge["roles"], strict=True):
                vertices.setdefault(target if entity == source else entity, role)
            edge["entities"], edge["roles"] = list(vertices), list(vertices.values())
            if len(vertices) < 3:
                left.append((id, self.edges.pop(id)))
                continue
            other = self.same(edge["type"], edge["entities"], edge["memory"], but=id)
            if other is not None:
                stays, goes = self.edges[min(id, other)], self.edges.pop(max(id, other))
                stays["weight"] = max(stays["weight"], goes["weight"])
                self.reinforce(min(id, other), goes["timestamp"])
        self.make_room(target, 0)
        return left
