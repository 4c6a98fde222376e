"""HyperGraph: events, eviction, lists, files, arguments (HYP-1 to HYP-9, ENT-9, BUD-5)."""

import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bench.graph import generators
from bench.graph import hyper as bench
from reference import hyper_graph
from spector import CorruptionError, StorageError
from spector.graph import Hyperedge, HyperGraph

entity = st.integers(0, 11)
members = st.lists(entity, min_size=3, max_size=8, unique=True)
many_members = st.lists(st.integers(0, 30), min_size=3, max_size=25, unique=True)
memory = st.none() | st.integers(0, 6)
timestamp = st.integers(-5, 50)
weight = st.sampled_from([0.25, 0.5, 1.0, 1.5, 3.0])


def as_edge(id, edge):
    return Hyperedge(
        id,
        edge["type"],
        float(edge["weight"]),
        edge["memory"],
        edge["timestamp"],
        tuple(edge["entities"]),
        tuple(edge["roles"]),
    )


def assert_same(graph, model):
    edges = graph.edges().tolist()
    assert edges == [as_edge(id, edge) for id, edge in model.edges.items()]
    assert len(graph) == len(edges)
    sizes = [len(edge.entities) for edge in edges]
    assert graph.atom_counts() == (
        sum(1 + n for n in sizes),
        sum(3 * n * (n - 1) // 2 for n in sizes),
    )
    usage = graph.memory_usage()
    assert usage["nodes"] == 32 * len(edges)
    assert (usage["vertices"], usage["incidence"]) == (8 * sum(sizes), 4 * sum(sizes))


class Histories(RuleBasedStateMachine):
    """Any history of changes gives what the plain model gives, weights to the bit."""

    @initialize(max_per_entity=st.sampled_from([1, 2, 3, 5, 64]))
    def start(self, max_per_entity):
        self.graph = HyperGraph(max_per_entity)
        self.model = hyper_graph.Graph(max_per_entity)

    @rule(type=st.integers(0, 1), members=members, memory=memory, time=timestamp, weight=weight)
    def add(self, type, members, memory, time, weight):
        event = (type, members, members[::-1], memory, time, weight)
        assert self.graph.add(*event) == self.model.add(*event)

    @rule(data=st.data(), time=timestamp)
    def add_again(self, data, time):
        if self.model.edges:
            id = data.draw(st.sampled_from(sorted(self.model.edges)))
            edge = self.model.edges[id]
            shuffled = data.draw(st.permutations(edge["entities"]))
            event = (edge["type"], shuffled, shuffled, edge["memory"], time, 1.0)
            assert self.graph.add(*event) == self.model.add(*event) == id

    @rule(type=st.integers(0, 1), members=many_members, memory=memory, time=timestamp)
    def add_event(self, type, members, memory, time):
        if len(members) > 1 + 7 * self.model.max_per_entity:
            with pytest.raises(ValueError, match="entities must be 3 to"):
                self.graph.add_event(type, members)
            return
        event = (type, members, members, memory, time, 1.0)
        assert self.graph.add_event(*event).tolist() == self.model.add_event(*event)

    @rule(events=st.lists(st.tuples(members, memory, timestamp, weight), max_size=12))
    def add_many(self, events):
        ids = self.graph.add_many(
            2,
            np.cumsum([0] + [len(event[0]) for event in events]),
            [entity for event in events for entity in event[0]],
            [entity + 1 for event in events for entity in event[0]],
            [-1 if event[1] is None else event[1] for event in events],
            [event[2] for event in events],
            [event[3] for event in events],
        )
        assert ids.tolist() == [
            self.model.add(2, members, [entity + 1 for entity in members], *rest)
            for members, *rest in events
        ]

    @rule(data=st.data(), time=timestamp)
    def touch(self, data, time):
        if self.model.next_id:
            ids = data.draw(st.lists(st.integers(0, self.model.next_id - 1), max_size=5))
            assert self.graph.touch(ids, time) == self.model.touch(ids, time)

    @rule(factor=st.sampled_from([0.95, 0.5, 1.0]), threshold=st.sampled_from([0.2, 0.6, 0.0]))
    def decay(self, factor, threshold):
        assert self.graph.decay(factor, threshold) == self.model.decay(factor, threshold)

    @rule(slots=st.lists(st.integers(0, 8), max_size=2))
    def remove_memory(self, slots):
        assert self.graph.remove_memory(slots) == self.model.remove_memory(slots)

    @rule(old=entity, survivor=entity)
    def merge(self, old, survivor):
        if old != survivor:
            left = self.graph.merge(old, survivor)
            assert left == [as_edge(*pair) for pair in self.model.merge(old, survivor)]

    @rule()
    def compact(self):
        self.graph.compact()

    @rule()
    def save_and_load(self):
        self.graph.save(self.folder / "edges.graph")
        self.graph = HyperGraph.load(self.folder / "edges.graph")
        assert self.graph.max_per_entity == self.model.max_per_entity

    @rule(members=members)
    def refused_calls_change_nothing(self, members):
        with pytest.raises(ValueError, match="distinct"):
            self.graph.add(0, [*members[:2], members[0]])
        with pytest.raises(ValueError, match="hyperedge 1"):
            self.graph.add_many(0, [0, len(members), len(members) + 1], [*members, 3])

    @invariant()
    def same(self):
        assert_same(self.graph, self.model)

    @rule(first=entity, others=st.lists(entity, max_size=3))
    def read(self, first, others):
        asked = [first, *others]
        assert self.graph.hyperedges_for(first).tolist() == self.model.hyperedges_for(first)
        assert self.graph.common(asked).tolist() == self.model.common(asked)


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory):
    Histories.folder = tmp_path_factory.mktemp("hyper")


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=200, stateful_step_count=100, deadline=None, derandomize=True
)


def test_hyp1_an_edge_says_what_was_given():
    graph = HyperGraph()
    id = graph.add(3, [7, 2, 9], [1, 2, 5], memory=4, timestamp=-10, weight=0.5)
    assert graph.edge(id) == Hyperedge(id, 3, 0.5, 4, -10, (7, 2, 9), (1, 2, 5))
    bare = graph.add(3, [7, 2, 9])
    assert graph.edge(bare) == Hyperedge(bare, 3, 1.0, None, 0, (7, 2, 9), (0, 0, 0))
    assert graph.edges([bare, id]).ids.tolist() == [bare, id]
    assert graph.edges().memories.tolist() == [4, -1]
    highest = graph.add(2**32 - 1, [0, 1, 2**28 - 1], [2**32 - 1] * 3, memory=2**32 - 2)
    assert graph.edge(highest).memory == 2**32 - 2


@pytest.mark.parametrize("n", range(3, 9))
def test_hyp2_three_to_eight_entities(n):
    graph = HyperGraph()
    assert len(graph.edge(graph.add(0, range(n))).entities) == n


@pytest.mark.parametrize("entities", [[], [1], [1, 2], [1, 2, 1], [1, 2, 3, 1], range(9)])
def test_hyp2_other_numbers_are_refused(entities):
    graph = HyperGraph()
    with pytest.raises(ValueError, match="entities must be"):
        graph.add(0, entities)
    assert len(graph) == 0


def test_f053_an_entity_twice_in_one_event_is_refused():
    graph = HyperGraph()
    for call in (graph.add, graph.add_event):
        with pytest.raises(ValueError, match="must be distinct, but 5 comes twice"):
            call(0, [5, 6, 7, 5])
    with pytest.raises(ValueError, match="must be distinct, but 11 comes twice"):
        graph.add_event(0, [*range(12), 11])
    assert len(graph) == 0


@pytest.mark.parametrize("n", [*range(3, 40), 449])
def test_hyp3_many_entities_share_the_first_and_nothing_is_dropped(n):
    graph = HyperGraph()
    roles = [100 + entity for entity in range(n)]
    ids = graph.add_event(2, range(n), roles, memory=1)
    edges = [graph.edge(id) for id in ids]
    assert len(ids) == (1 if n <= 8 else -(-(n - 1) // 7))
    assert all(edge.entities[0] == 0 for edge in edges)
    others = [entity for edge in edges for entity in edge.entities[1:]]
    assert others == list(range(1, n))
    assert all(edge.roles == tuple(100 + entity for entity in edge.entities) for edge in edges)
    sizes = [len(edge.entities) for edge in edges]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)
    assert graph.add_event(2, range(n), roles, memory=1).tolist() == ids.tolist()
    assert len(graph) == len(ids)


def test_hyp3_an_event_older_than_all_others_is_kept_whole():
    graph = HyperGraph(max_per_entity=3)
    for i in range(3):
        graph.add(0, [0, 100 + i, 200 + i], timestamp=50)
    ids = graph.add_event(1, range(20), timestamp=1)
    assert graph.hyperedges_for(0).tolist() == ids.tolist() == [3, 4, 5]
    with pytest.raises(ValueError, match="entities must be 3 to 22, not 23"):
        graph.add_event(1, range(23))


def test_hyp5_the_same_again_is_reinforced_up_to_3():
    graph = HyperGraph()
    id = graph.add(0, [1, 2, 3], [4, 5, 6], memory=9, timestamp=10)
    expected = np.float32(1)
    for i in range(12):
        assert graph.add(0, [3, 1, 2], [0, 0, 0], memory=9, timestamp=11 + i) == id
        expected = min(np.float32(expected + np.float32(0.2)), np.float32(3))
        assert graph.edge(id) == Hyperedge(id, 0, float(expected), 9, 11 + i, (1, 2, 3), (4, 5, 6))
    assert len(graph) == 1
    others = [
        graph.add(1, [1, 2, 3], memory=9),
        graph.add(0, [1, 2, 3], memory=8),
        graph.add(0, [1, 2, 3]),
        graph.add(0, [1, 2, 4], memory=9),
        graph.add(0, [1, 2, 3, 4], memory=9),
    ]
    assert others == [1, 2, 3, 4, 5]


def test_hyp5_decay_removes_below_the_threshold():
    """A fresh edge survives 31 cycles and goes at the 32nd."""
    graph = HyperGraph()
    graph.add(0, [1, 2, 3])
    strong = graph.add(0, [1, 2, 4], weight=3.0)
    assert [graph.decay() for _ in range(32)] == [0] * 31 + [1]
    assert graph.hyperedges_for(1).tolist() == [strong]
    assert graph.hyperedges_for(3).tolist() == []


def test_f055_weights_stay_finite_after_a_million_uses():
    graph = HyperGraph()
    n = 10**6
    graph.add_many(0, np.arange(n + 1) * 3, np.tile([1, 2, 3], n))
    assert graph.edge(0).weight == 3.0
    for _ in range(200):
        graph.decay(threshold=0)
    assert 0 < graph.edge(0).weight < 1e-3
    assert graph.decay() == 1


def test_hyp6_the_65th_evicts_the_least_recently_used():
    graph = HyperGraph()
    ids = [graph.add(0, [0, 2 * i + 1, 2 * i + 2], timestamp=i) for i in range(64)]
    assert graph.touch([ids[0]], 1000) == 1  # used in a recall
    graph.add(0, [0, 3, 4], timestamp=1001)  # event 1 again
    graph.add(1, [0, 1, 2], timestamp=64)
    left = set(graph.edges().ids.tolist())
    assert set(ids) - left == {ids[2]}
    assert len(graph.hyperedges_for(0)) == 64
    for entity in (5, 6):  # all its entities' lists
        assert graph.hyperedges_for(entity).tolist() == []
    with pytest.raises(IndexError, match="no hyperedge of the id 2"):
        graph.edge(ids[2])


def test_hyp6_ties_go_by_weight_then_id():
    graph = HyperGraph(max_per_entity=3)
    weights = [1.0, 0.5, 0.5]
    for i, weight in enumerate(weights):
        graph.add(i, [0, 1, 2], weight=weight)
    graph.add(9, [0, 3, 4], weight=0.25)
    assert graph.edges().ids.tolist() == [0, 2, 3]
    graph.add(10, [0, 3, 4], weight=3.0)  # now the weakest of the old ones is the new one
    assert graph.edges().ids.tolist() == [0, 2, 4]


def test_hyp6_an_old_time_never_makes_an_edge_older():
    graph = HyperGraph()
    id = graph.add(0, [1, 2, 3], timestamp=100)
    graph.touch([id], 5)
    graph.add(0, [1, 2, 3], timestamp=7)
    assert graph.edge(id).timestamp == 100


def test_hyp6_touch_passes_over_what_is_gone_and_refuses_what_never_was():
    graph = HyperGraph()
    a, b = graph.add(0, [1, 2, 3], memory=1), graph.add(0, [1, 2, 3], memory=2)
    graph.remove_memory(1)
    assert graph.touch([a, b, b], 9) == 2
    with pytest.raises(IndexError, match="ids must be of edges that were added, below 2, not 2"):
        graph.touch([b, 2], 10)
    assert graph.edge(b).timestamp == 9


def test_hyp6_a_full_hub_leaves_the_other_members_their_lists():
    """What one entity evicts is nobody else's loss: 200 events of a hub, each with two others."""
    graph = HyperGraph()
    for i in range(200):
        graph.add(0, [0, 1 + i, 1000 + i % 10], memory=i, timestamp=i)
    assert graph.hyperedges_for(0).tolist() == list(range(136, 200))
    for i in range(200):
        assert graph.hyperedges_for(1 + i).tolist() == ([i] if i >= 136 else [])


def test_hyp6_space_of_evicted_edges_is_used_again_and_ids_are_not():
    graph = HyperGraph(max_per_entity=4)
    for i in range(200):
        graph.add(0, [0, 1, 2], memory=i, timestamp=i)
    used = graph.memory_usage()["overhead"]
    n = 50_000
    ids = graph.add_many(
        0, np.arange(n + 1) * 3, np.tile([0, 1, 2], n), None, np.arange(n) + 200, np.arange(n) + 200
    )
    assert ids.tolist() == list(range(200, 200 + n))
    assert graph.edges().ids.tolist() == ids[-4:].tolist()
    assert graph.memory_usage()["overhead"] <= used + 200_000


def test_hyp7_hyperedges_for_and_common_are_in_order():
    graph = HyperGraph()
    weights = [0.5, 2.0, 1.0, 2.0, 1.0]
    for i, weight in enumerate(weights):
        graph.add(0, [1, 2, 10 + i], memory=i, weight=weight)
    graph.add(0, [1, 20, 21])
    assert graph.hyperedges_for(2).tolist() == [1, 3, 2, 4, 0]
    assert graph.common([2, 1]).tolist() == [1, 3, 2, 4, 0]
    assert graph.common([1, 2, 12]).tolist() == [2]
    assert graph.common([1, 1]).tolist() == graph.hyperedges_for(1).tolist()
    assert graph.common(1).tolist() == graph.hyperedges_for(1).tolist()
    assert graph.common([1, 999]).tolist() == []
    assert graph.hyperedges_for(999).tolist() == []
    with pytest.raises(ValueError, match="entities must hold one at least"):
        graph.common([])


def test_hyp8_atoms_of_three_entities_are_4_against_9():
    graph = HyperGraph()
    graph.add(0, [1, 2, 3])
    assert graph.atom_counts() == (4, 9)
    graph.add(0, range(8))
    assert graph.atom_counts() == (4 + 9, 9 + 84)


def test_hyp9_events_are_kept_once():
    """No pairs beside the hyperedges: what is stored is a node and its vertices."""
    graph = HyperGraph()
    n = 1000
    graph.add_many(0, np.arange(n + 1) * 5, np.arange(5 * n))
    usage = graph.memory_usage()
    assert (usage["nodes"], usage["vertices"], usage["incidence"]) == (32 * n, 40 * n, 20 * n)


def test_f058_forgetting_a_memory_leaves_what_others_say_of_the_same_entities():
    graph = HyperGraph()
    redis, cache, api, db = range(4)
    graph.add(0, [redis, cache, api], memory=1)
    kept = graph.add(0, [redis, cache, api], memory=2)
    also = graph.add(0, [redis, cache, db], memory=2)
    assert graph.remove_memory(1) == 1
    assert graph.remove_memory(1) == 0
    assert graph.hyperedges_for(redis).tolist() == [kept, also]
    assert graph.common([redis, cache]).tolist() == [kept, also]
    assert graph.remove_memory([2, 3, 2]) == 2
    assert len(graph) == 0


def test_f056_a_new_edge_never_has_the_id_of_an_old_one(tmp_path):
    graph = HyperGraph()
    old = graph.add(0, [1, 2, 3], memory=1)
    graph.remove_memory(1)
    graph.compact()
    graph.save(tmp_path / "edges.graph")
    for opened in (graph, HyperGraph.load(tmp_path / "edges.graph")):
        assert opened.add(0, [1, 2, 4], memory=1) != old
        assert opened.hyperedges_for(3).tolist() == []
        with pytest.raises(IndexError):
            opened.edge(old)


def test_ent9_merge_points_vertices_to_the_survivor():
    graph = HyperGraph()
    moved = graph.add(0, [1, 2, 3], [7, 8, 9], memory=1)
    both = graph.add(0, [1, 5, 2, 6], [7, 8, 9, 10], memory=2)
    assert graph.merge(1, 2) == [Hyperedge(moved, 0, 1.0, 1, 0, (2, 3), (7, 9))]
    assert graph.edges().tolist() == [Hyperedge(both, 0, 1.0, 2, 0, (2, 5, 6), (7, 8, 10))]
    assert graph.hyperedges_for(1).tolist() == []
    assert graph.hyperedges_for(2).tolist() == [both]
    assert graph.hyperedges_for(3).tolist() == []
    assert graph.merge(6, 40) == []
    assert graph.edge(both).entities == (2, 5, 40)
    assert graph.merge(777, 778) == []
    with pytest.raises(ValueError, match="from and to must be two entities"):
        graph.merge(2, 2)


def test_ent9_edges_that_come_to_say_the_same_are_joined():
    graph = HyperGraph()
    a = graph.add(0, [1, 2, 3], [7, 7, 7], memory=1, timestamp=5, weight=0.5)
    graph.add(0, [4, 2, 3], [8, 8, 8], memory=1, timestamp=9, weight=2.0)
    other = graph.add(0, [4, 2, 3], memory=2)
    assert graph.merge(4, 1) == []
    weight = float(np.float32(2.0) + np.float32(0.2))
    assert graph.edge(a) == Hyperedge(a, 0, weight, 1, 9, (1, 2, 3), (7, 7, 7))
    assert graph.hyperedges_for(1).tolist() == [a, other]
    assert graph.add(0, [1, 2, 3], memory=2) == other  # found by what it says now


def test_ent9_merge_evicts_what_is_too_much_for_the_survivor():
    graph = HyperGraph(max_per_entity=3)
    for i in range(6):
        graph.add(0, [i % 2, 10 + i, 20 + i], timestamp=(i * 5) % 6)
    assert graph.merge(0, 1) == []
    assert sorted(graph.hyperedges_for(1).tolist()) == [1, 2, 3]


def zipf_events(n, n_entities, seed):
    """Events of 3 to 8 entities of which a few take part in most (1 / rank)."""
    random = np.random.default_rng(seed)
    law = 1 / np.arange(1, n_entities + 1)
    for i in range(n):
        size = random.integers(3, 9)
        entities = random.choice(n_entities, size, replace=False, p=law / law.sum()).tolist()
        yield 0, entities, list(range(size)), i, i, float(random.choice([0.5, 1.0]))


def test_hyp6_survivors_of_skewed_events_are_those_of_the_plain_model():
    graph, model = HyperGraph(8), hyper_graph.Graph(8)
    for event in zipf_events(3000, 400, 5):
        assert graph.add(*event) == model.add(*event)
    assert_same(graph, model)
    assert 0 < len(graph) < 3000
    for entity in range(400):
        assert graph.hyperedges_for(entity).tolist() == model.hyperedges_for(entity)


def test_hyp6_survivors_of_300_000_skewed_hyperedges_are_those_of_the_rule():
    """Every edge, its members and weight, and the list of each of 100,000 entities."""
    events = generators.hyperedges(100_000, 300_000, zipf=True)
    graph = bench.filled(events)
    assert bench.keeps(graph, events)
    assert 0 < len(graph) < 300_000


def test_bud5_bytes_of_100_000_memories():
    """32 B an edge, 8 B a vertex, 4 B an incidence entry; heads of lists and pages within 15%."""
    n = 50_000
    random = np.random.default_rng(3)
    sizes = random.integers(3, 9, n)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    entities = np.concatenate([random.choice(15_000, size, replace=False) for size in sizes])
    graph = HyperGraph()
    graph.add_many(0, indptr, entities, None, np.arange(n))
    usage = graph.memory_usage()
    needed = 32 * n + 12 * len(entities)
    assert usage["nodes"] + usage["vertices"] + usage["incidence"] == needed
    slack = 4 * len(entities)  # lists double
    assert usage["overhead"] <= 0.15 * needed + slack
    assert usage["indexes"] <= 20 * n


def test_bulk_calls_are_whole_or_not_at_all():
    graph = HyperGraph(max_per_entity=2)
    for i in range(4):
        graph.add(0, [i, i + 1, i + 2], memory=i, timestamp=i)
    before = graph.edges().tolist()
    with pytest.raises(ValueError, match="hyperedge 2: entities must be distinct"):
        graph.add_many(0, [0, 3, 6, 9], [1, 2, 3, 4, 5, 6, 7, 7, 8])
    assert graph.edges().tolist() == before
    assert graph.add(0, [5, 4, 3], memory=3) == 3  # what was added is found as before
    assert graph.add(5, [7, 8, 9]) == 4


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((-1, [1, 2, 3]), ValueError, "type must be in"),
        ((0, [1, 2, 3], [1, 2]), ValueError, "roles must be one for each of the 3 entities, not 2"),
        ((0, [1, 2, -3]), ValueError, "entities must be between 0"),
        ((0, [1, 2, 2**28]), ValueError, "entities must be at most 268435455, not 268435456"),
        ((0, [[1, 2, 3]]), ValueError, "entities must have 1 dimension"),
        ((0, [1.0, 2.0, 3.0]), TypeError, "entities must hold integers"),
        ((0, [1, 2, 3], None, -1), ValueError, "memory must be in"),
        ((0, [1, 2, 3], None, 2**32 - 1), ValueError, "memory must be in"),
        ((0, [1, 2, 3], None, 1, 2**63), ValueError, "timestamp must be in"),
        ((0, [1, 2, 3], None, 1, 0.5), TypeError, "timestamp must be int"),
        ((0, [1, 2, 3], None, 1, 0, 0.0), ValueError, "weight must be above 0"),
        ((0, [1, 2, 3], None, 1, 0, 3.5), ValueError, "weight must be in"),
        ((0, [1, 2, 3], None, 1, 0, float("nan")), ValueError, "weight must be in"),
    ],
)
def test_bad_events_are_refused_with_the_argument_named(arguments, error, message):
    graph = HyperGraph()
    for call in (graph.add, graph.add_event):
        with pytest.raises(error, match=message):
            call(*arguments)
    assert len(graph) == 0


def test_bad_arguments_of_other_calls():
    graph = HyperGraph()
    graph.add(0, [1, 2, 3])
    for call, error, message in [
        (lambda: HyperGraph(0), ValueError, "max_per_entity must be in"),
        (lambda: graph.decay(0.0), ValueError, "factor must be above 0"),
        (lambda: graph.decay(1.5), ValueError, "factor must be in"),
        (lambda: graph.decay(0.5, -1), ValueError, "threshold must be in"),
        (lambda: graph.add_many([0, 0], [0, 3], [1, 2, 3]), ValueError, "one for each"),
        (lambda: graph.add_many(0, [0, 3, 2], [1, 2, 3]), ValueError, "indptr must rise"),
        (lambda: graph.add_many(0, [1, 3], [1, 2, 3]), ValueError, "indptr must rise"),
        (lambda: graph.add_many(0, [], [1]), ValueError, "indptr must rise"),
        (lambda: graph.add_many(0, [0, 3], [1, 2, 3], memories=[-2]), ValueError, "memories"),
        (lambda: graph.add_many(0, [0, 3], [1, 2, 3], weights=[4]), ValueError, "weights"),
        (lambda: graph.edge(1), IndexError, "no hyperedge of the id 1"),
        (lambda: graph.edges([0, 5]), IndexError, "no hyperedge of the id 5"),
        (lambda: graph.remove_memory(-1), ValueError, "slot must be between"),
    ]:
        with pytest.raises(error, match=message):
            call()
        assert graph.edges().tolist() == [Hyperedge(0, 0, 1.0, None, 0, (1, 2, 3), (0, 0, 0))]
    assert repr(graph) == "HyperGraph(max_per_entity=64, hyperedges=1)"
    assert HyperGraph(3).max_per_entity == 3


def test_gen2_equal_calls_give_equal_files(tmp_path):
    for name in ("a", "b"):
        graph = HyperGraph(4)
        for event in zipf_events(500, 50, 1):
            graph.add(*event)
        graph.save(tmp_path / name)
    head = 64  # has the time of saving
    assert (tmp_path / "a").read_bytes()[head:] == (tmp_path / "b").read_bytes()[head:]


def test_golden_file(tmp_path):
    """The bytes are those of FORMATS.md, and stay so; the header has the times of saving."""
    graph = HyperGraph(3)
    for i in range(5):
        graph.add(i, [i, i + 1, 9, i + 2], [1, 2, 3, 4], i or None, -i, 0.5 * (i + 1))
    graph.add_event(7, range(10), memory=8)
    path = Path(__file__).parent / "data" / "hyeg-2.graph"
    assert HyperGraph.load(path).edges().tolist() == graph.edges().tolist()
    graph.save(tmp_path / "edges.graph")
    assert (tmp_path / "edges.graph").read_bytes()[64:] == path.read_bytes()[64:]
    assert path.read_bytes()[:16] == b"HYEG" + struct.pack("<IHHI", 2, 0, 2, 32)


def test_f059_a_cut_or_missing_file_is_an_error_that_names_it(tmp_path):
    graph = HyperGraph()
    graph.add(0, [1, 2, 3])
    path = tmp_path / "edges.graph"
    graph.save(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match=r"edges\.graph is damaged"):
        HyperGraph.load(path)
    with pytest.raises(StorageError, match="cannot read"):
        HyperGraph.load(tmp_path / "nothing")
    with pytest.raises(StorageError, match="cannot write"):
        graph.save(tmp_path / "no" / "folder")
    HyperGraph().save(path)
    assert len(HyperGraph.load(path)) == 0


def test_readers_beside_a_writer_see_whole_events():
    """An edge is in the lists of all its entities or of none, whatever is evicted meanwhile."""
    graph = HyperGraph(max_per_entity=4)
    stop = threading.Event()
    faults = []

    def read():
        while not stop.is_set():
            columns = graph.edges()
            members = np.diff(columns.indptr)
            if len(members) and not (members.min() == 3 == members.max()):
                faults.append("an edge without its vertices")
            if np.bincount(columns.entities, minlength=1).max() > 4:
                faults.append("more than an entity may have")
            if (np.diff(columns.ids.astype(np.int64)) <= 0).any():
                faults.append("ids out of order")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(3000):
        graph.add(0, [i % 5, 5 + i % 7, 12 + i % 11], memory=i, timestamp=i)
    stop.set()
    for reader in readers:
        reader.join()
    assert faults == []
