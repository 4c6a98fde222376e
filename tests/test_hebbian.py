"""HebbianGraph against the plain model, and each label on its own (HEB-1 to HEB-12, EDG-1)."""

import struct
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reference.hebbian import HebbianModel, importance
from spector import CorruptionError, StorageError, VersionError, _core
from spector.graph import HebbianGraph, Signals, edge_importance

DATA = Path(__file__).parent / "data"


def state(graph):
    """All edges, in order, with the bits of their weights."""
    edges = graph.edges()
    return [
        (a, b, weight.tobytes(), cycle, bridge, flags)
        for a, b, weight, cycle, bridge, flags in zip(
            edges.a.tolist(),
            edges.b.tolist(),
            edges.weight,
            edges.last_cycle.tolist(),
            edges.bridge_score.tolist(),
            edges.flags.tolist(),
            strict=True,
        )
    ]


def model_state(model):
    return [
        (a, b, edge.weight.tobytes(), edge.last_cycle, edge.bridge, edge.flags)
        for a, b, edge in model.edges()
    ]


def spread(graph, *arguments, **options):
    slots, strengths = graph.spread(*arguments, **options)
    return list(zip(slots.tolist(), strengths, strict=True))


slot_numbers = st.integers(0, 11)
deltas = st.sampled_from([0.3, 0.05, 1.0, 0.111, 0.7])


class Histories(RuleBasedStateMachine):
    """Every public mutation in any order: the graph and the model stay equal."""

    @initialize(max_degree=st.sampled_from([1, 2, 3, 4, 24]), n=st.integers(2, 12))
    def begin(self, max_degree, n):
        self.graph = HebbianGraph(max_degree)
        self.model = HebbianModel(max_degree)
        self.graph.resize(n)
        self.model.resize(n)

    @rule(more=st.integers(0, 2))
    def resize(self, more):
        n = min(len(self.graph) + more, 12)
        self.graph.resize(n)
        self.model.resize(n)

    @rule(a=slot_numbers, b=slot_numbers, delta=deltas, hinted=st.booleans())
    def strengthen(self, a, b, delta, hinted):
        n = len(self.graph)
        a, b = a % n, b % n
        if a == b:
            with pytest.raises(ValueError, match="differ"):
                self.graph.strengthen(a, b, delta)
            return
        done = self.graph.strengthen(a, b, delta, hinted)
        assert done is self.model.strengthen(a, b, delta, hinted)

    @rule(
        pairs=st.lists(st.tuples(slot_numbers, st.integers(1, 11), deltas), max_size=30),
        hinted=st.booleans(),
    )
    def strengthen_many(self, pairs, hinted):
        n = len(self.graph)
        pairs = [(a % n, (a % n + 1 + b % (n - 1)) % n, delta) for a, b, delta in pairs]
        a, b, delta = (list(column) for column in zip(*pairs, strict=True)) if pairs else ([],) * 3
        done = self.graph.strengthen_many(a, b, delta, hinted)
        assert done.tolist() == [self.model.strengthen(*pair, hinted) for pair in pairs]

    @rule(factor=st.sampled_from([0.9, 0.5, 1.0, 0.2]), by_arousal=st.booleans())
    def decay(self, factor, by_arousal):
        assert self.graph.decay(factor, by_arousal) == self.model.decay(factor, by_arousal)

    @rule(slot=slot_numbers)
    def remove(self, slot):
        slot %= len(self.graph)
        assert self.graph.remove(slot) == self.model.remove(slot)

    @rule(slots=st.lists(slot_numbers, max_size=4))
    def remove_several(self, slots):
        slots = [slot % len(self.graph) for slot in slots]
        assert self.graph.remove(slots) == sum(self.model.remove(slot) for slot in slots)

    @rule()
    def recompute_bridges(self):
        assert self.graph.recompute_bridges() == self.model.recompute_bridges()

    @rule(
        slot=slot_numbers,
        signals=st.builds(
            Signals,
            st.sampled_from([0.05, 3.3, 10.0]),
            st.sampled_from([0.01, 2.5, 5.0]),
            st.integers(0, 255),
            st.integers(-128, 127),
            st.booleans(),
        ),
    )
    def set_signals(self, slot, signals):
        slot %= len(self.graph)
        self.graph.set_signals(slot, *signals)
        self.model.signals[slot] = tuple(signals)

    @rule()
    def compact(self):
        self.graph.compact()

    @rule()
    def save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            self.graph.save(Path(folder) / "hebbian.graph")
            self.graph = HebbianGraph.load(Path(folder) / "hebbian.graph")
        for slot, signals in self.model.signals.items():  # not part of the file
            self.graph.set_signals(slot, *signals)

    @rule(
        seeds=st.lists(slot_numbers, max_size=4),
        depth=st.integers(1, 4),
        least=st.sampled_from([0.01, 1e-6, 0.2]),
        limit=st.sampled_from([None, 1, 3]),
    )
    def spread(self, seeds, depth, least, limit):
        seeds = [seed % len(self.graph) for seed in seeds]
        expected = self.model.spread(seeds, depth, least, limit)
        assert spread(self.graph, seeds, depth, least, limit) == expected

    @rule(seeds=st.lists(slot_numbers, max_size=4), limit=st.sampled_from([50, 2]))
    def spread_each(self, seeds, limit):
        seeds = [seed % len(self.graph) for seed in seeds]
        ends, slots, strengths = self.graph.spread_each(seeds, limit=limit)
        assert len(ends) == len(seeds)
        for seed, first, end in zip(seeds, [0, *ends.tolist()], ends.tolist(), strict=False):
            found = zip(slots[first:end].tolist(), strengths[first:end], strict=True)
            assert list(found) == self.model.spread([seed], 2, 0.01, limit)

    @invariant()
    def all_is_equal(self):
        if not hasattr(self, "graph"):
            return
        model = self.model
        assert len(self.graph) == len(model.rows)
        assert self.graph.cycle == model.cycle
        assert self.graph.max_degree == model.max_degree
        expected = model_state(model)
        assert state(self.graph) == expected
        assert self.graph.edge_count == len(expected)
        for slot, row in enumerate(model.rows):  # F-057
            slots, weights = self.graph.neighbors(slot)
            assert slots.tolist() == sorted(row)
            assert weights.tolist() == [float(row[other].weight) for other in sorted(row)]
        assert self.graph.verify() is None


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=200, stateful_step_count=100, deadline=None, derandomize=True
)


@pytest.mark.parametrize("max_degree", [3, 24])
def test_heb7_a_change_as_large_as_the_graph_agrees_with_the_model(max_degree):
    """Bulk changes edit rows in another way than small ones do."""
    random = np.random.default_rng(max_degree)
    graph, model = HebbianGraph(max_degree), HebbianModel(max_degree)
    n = 150
    for step in range(4):
        n += 50
        graph.resize(n)
        model.resize(n)
        for size in (2500 + 1500 * step, 300):  # the second lies in the overflow for the next
            a = random.integers(0, n, size)
            b = (a + random.integers(1, n, size)) % n
            delta = random.choice([0.3, 0.04, 0.9], size)
            done = graph.strengthen_many(a, b, delta, hinted=bool(step % 2))
            expected = [
                model.strengthen(*pair, hinted=bool(step % 2))
                for pair in zip(a.tolist(), b.tolist(), delta.tolist(), strict=True)
            ]
            assert done.tolist() == expected
            assert state(graph) == model_state(model)
        graph.decay(0.8)  # leaves gaps
        model.decay(0.8)
        graph.remove(step)
        model.remove(step)
    assert state(graph) == model_state(model)
    assert graph.verify() is None


def test_a_large_change_that_is_refused_changes_nothing():
    graph = made([(0, 1)], n=10_000)
    with pytest.raises(ValueError, match="pair 8000"):
        graph.strengthen_many(
            np.arange(9000), np.r_[np.arange(1, 8001), 8000, np.arange(8002, 9001)]
        )
    assert graph.edge_count == 1
    graph.strengthen_many(np.arange(9000), np.arange(1, 9001))
    assert graph.edge_count == 9000


def made(pairs, n=None, max_degree=24):
    graph = HebbianGraph(max_degree)
    graph.resize(n or 1 + max(max(pair[:2]) for pair in pairs))
    for a, b, *delta in pairs:
        graph.strengthen(a, b, *delta)
    return graph


def test_heb4_repeated_strengthening():
    graph = made([(0, 1)])
    weights = [graph.edge(0, 1).weight]
    for _ in range(4):
        graph.strengthen(1, 0)
        weights.append(graph.edge(0, 1).weight)
    assert weights == pytest.approx([0.3, 0.51, 0.657, 0.7599, 0.83193], abs=1e-6)
    graph.strengthen(0, 1, 1.0)
    assert graph.edge(0, 1).weight == 1.0


def test_heb3_both_directions_are_equal_and_self_edges_refused():
    graph = made([(0, 1), (2, 1)], n=4)
    assert graph.edge(0, 1) == graph.edge(1, 0)
    assert graph.edge(0, 2) is None
    with pytest.raises(ValueError, match="joins slot 3 to itself"):
        graph.strengthen(3, 3)
    with pytest.raises(ValueError, match="pair 1 joins slot 2 to itself"):
        graph.strengthen_many([0, 2], [3, 2])
    assert graph.edge(0, 3) is None  # all or nothing
    assert graph.edge_count == 2


def test_heb1_a_hint_marks_the_edges_it_creates():
    graph = made([(0, 1)], n=3)
    graph.strengthen(0, 1, hinted=True)
    graph.strengthen(1, 2, hinted=True)
    assert graph.edge(0, 1).flags == 0
    assert graph.edge(1, 2).flags == 1


def test_heb7_the_least_important_edge_makes_room():
    graph = made([(0, 1, 0.9), (0, 2, 0.2), (0, 3, 0.8)], n=6, max_degree=3)
    assert graph.strengthen(0, 4, 0.5)
    assert graph.neighbors(0)[0].tolist() == [1, 3, 4]
    assert graph.neighbors(2)[0].tolist() == []
    assert not graph.strengthen(0, 5, 0.1)
    assert graph.neighbors(5)[0].tolist() == []


def test_heb7_ties_the_older_edge_then_the_lower_slot_leaves():
    graph = made([(0, 2), (0, 1)], n=5, max_degree=2)
    graph.strengthen(0, 3)
    assert graph.neighbors(0)[0].tolist() == [2, 3]
    # After a decay by 1 the weights are as before, the cycle is not.
    graph = HebbianGraph(2)
    graph.resize(5)
    graph.strengthen(0, 1, 0.3)
    graph.decay(1.0)
    graph.strengthen(0, 2, 0.3)
    graph.strengthen(0, 3, 0.3)
    assert graph.neighbors(0)[0].tolist() == [2, 3]


def test_heb7_both_ends_must_accept():
    graph = made([(0, 1, 0.9), (2, 3, 0.2)], n=4, max_degree=1)
    assert not graph.strengthen(2, 0, 0.5)  # 2 would, 0 would not
    assert graph.edge(2, 3) is not None
    assert graph.edge(0, 1) is not None


def test_heb8_an_edge_of_0832_survives_20_cycles():
    graph = made([(0, 1)] * 5 + [(1, 2, 0.9), (0, 2, 0.9)])
    graph.recompute_bridges()
    assert graph.edge(0, 1).bridge_score < 224
    for _ in range(20):
        graph.decay()
    assert graph.edge(0, 1) is not None
    graph.decay()
    assert graph.edge(0, 1) is None


def test_heb8_an_only_connection_is_held_for_365_cycles():
    graph = made([(0, 1)])
    removed = []
    for cycle in range(1, 367):
        report = graph.decay()
        assert report.cycle == cycle
        removed.append(report.removed)
        if cycle == 100:
            assert graph.edge(0, 1).flags == 2
            assert graph.edge(0, 1).weight == np.float32(0.1)
    assert removed.index(1) == 364  # the 365th
    graph = made([(0, 1)])
    for _ in range(300):
        graph.decay()
    graph.strengthen(0, 1)
    assert graph.edge(0, 1).flags == 2  # until the next decay
    assert graph.decay().floored == 0
    assert graph.edge(0, 1).flags == 0
    for _ in range(299):
        graph.decay()
    assert graph.edge(0, 1) is not None


def test_heb9_arousing_memories_fade_less():
    graph = made([(0, 1, 1.0), (2, 3, 1.0)])
    graph.set_signals([0, 2], [10.0, 0.05], arousal=[255, 0], valence=[-128, 0])
    graph.decay(by_arousal=True)
    assert graph.edge(0, 1).weight == pytest.approx(0.9 ** (1 / 1.6), rel=1e-6)
    assert 0.9 < graph.edge(2, 3).weight < 0.9002
    graph.decay(1.0, by_arousal=True)
    assert graph.edge(0, 1).weight == pytest.approx(0.9 ** (1 / 1.6), rel=1e-6)


def test_heb10_bridges():
    """Two 4-cliques joined by one edge, and a chain hanging from one of them."""
    cliques = [(a, b) for c in (0, 4) for a in range(c, c + 4) for b in range(a + 1, c + 4)]
    graph = made([*cliques, (3, 4), (7, 8), (8, 9)])
    assert graph.recompute_bridges() == 3
    edges = graph.edges()
    scores = dict(zip(zip(edges.a, edges.b, strict=True), edges.bridge_score, strict=True))
    for ends in ((3, 4), (7, 8), (8, 9)):
        assert scores.pop(ends) == 255
    assert all(0 < score < 224 for score in scores.values())
    assert scores[0, 1] == 128  # half of the spanning trees of a clique have it


def test_heb10_a_long_chain_needs_no_stack():
    n = 200_000
    graph = HebbianGraph()
    graph.resize(n)
    graph.strengthen_many(np.arange(n - 1), np.arange(1, n))
    assert graph.recompute_bridges() == n - 1
    graph.strengthen(0, n - 1)
    assert graph.recompute_bridges() == 0


def test_heb11_products_maxima_and_no_start():
    graph = made([(0, 1, 0.5), (1, 2, 0.8), (0, 2, 0.3), (2, 3, 0.9), (3, 4, 0.9), (0, 5, 0.001)])
    f = np.float32
    assert spread(graph, 0) == [(1, f(0.5)), (2, f(0.5) * f(0.8)), (3, f(0.3) * f(0.9))]
    assert spread(graph, 0, depth=1) == [(1, f(0.5)), (2, f(0.3))]
    three = dict(spread(graph, 0, depth=3))
    assert three[3] == f(0.5) * f(0.8) * f(0.9)
    assert three[4] == f(0.3) * f(0.9) * f(0.9)
    assert 5 in dict(spread(graph, 0, min_strength=1e-6))


def test_heb11_am5_a_seed_that_another_reaches_is_returned():
    graph = made([(0, 1, 0.5), (1, 2, 0.5)])
    found = dict(spread(graph, [0, 1]))
    assert found == {0: 0.5, 1: 0.5, 2: 0.5}
    assert dict(spread(graph, [0])) == {1: 0.5, 2: 0.25}


@pytest.mark.parametrize("limit", [None, 1, 7, 100, 5000])
def test_heb11_order_and_limit(limit):
    """Equal strengths by slot, also where many are equal."""
    random = np.random.default_rng(3)
    n = 3000
    graph = HebbianGraph()
    graph.resize(n)
    a, b = random.integers(0, n, (2, 5 * n))
    a, b = a[a != b], b[a != b]
    delta = random.choice([0.3, 0.5, 0.50001, 0.9], len(a))
    graph.strengthen_many(a, b, delta)
    slots, strengths = graph.spread(random.integers(0, n, 50), limit=limit)
    everything, _ = graph.spread(random.integers(0, n, 50), depth=8, min_strength=1e-6)
    assert len(everything) == len(set(everything.tolist()))
    keys = list(zip((-strengths).tolist(), slots.tolist(), strict=True))
    assert keys == sorted(keys)
    assert limit is None or len(slots) <= limit


def test_heb12_f056_a_removed_slot_has_no_edges():
    graph = made([(0, 1), (1, 2), (2, 0), (2, 3)])
    assert graph.remove(2) == 3
    assert graph.remove(2) == 0
    graph.resize(5)
    for step in (graph.compact, lambda: None):
        step()
        assert graph.neighbors(2)[0].tolist() == []
        assert graph.neighbors(4)[0].tolist() == []
        assert graph.neighbors(3)[0].tolist() == []
        assert [slot for slot, _ in spread(graph, 0)] == [1]
    with pytest.raises(ValueError, match="never taken back"):
        graph.resize(4)
    assert graph.remove([0, 1]) == 1


def test_edg1_is_the_formula():
    assert edge_importance(1.0, 0, 255, 0) == pytest.approx(1.0)
    assert edge_importance(0.5, 72, 0, 10) == importance(0.5, 72, 0, 10)
    full = Signals(10.0, 5.0, 255, 3, True)
    assert edge_importance(1.0, 0, 255, 0, full, full) == pytest.approx(1.0)
    low = Signals(0.05, 0.01, 0, -128, False)
    assert edge_importance(0.2, 5, 17, 3, full, low) == importance(
        np.float32(0.2), 5, 17, 3, tuple(full), tuple(low)
    )
    # Without those of one end, those of the other say nothing.
    assert edge_importance(0.5, 3, 4, 5, full) == edge_importance(0.5, 3, 4, 5)
    with pytest.raises(ValueError, match=r"b\.importance must be in \[0.05, 10\]"):
        edge_importance(0.5, 3, 4, 5, full, Signals(11.0))
    with pytest.raises(TypeError, match="a must be Signals"):
        edge_importance(0.5, 3, 4, 5, (1.0,))  # type: ignore[arg-type]


def test_heb2_bud1_bytes_of_a_node_at_degree_2():
    n = 100_000
    random = np.random.default_rng(1)
    graph = HebbianGraph()
    graph.resize(n)
    a = random.integers(0, n, n)
    graph.strengthen_many(a, (a + random.integers(1, n, n)) % n)
    graph.compact()
    assert graph.edge_count > 0.99 * n
    assert graph.memory_usage() <= 1.1 * (4 * n + 24 * graph.edge_count)
    assert graph.memory_usage() <= 1.1 * 28 * n


def test_f053_no_edge_from_a_memory_to_itself():
    graph = made([(0, 1)])
    for call in (graph.strengthen, graph.strengthen_many):
        with pytest.raises(ValueError):
            call(1, 1)
    assert spread(graph, 0, depth=4) == [(1, np.float32(0.3))]


def test_f054_a_long_session_stays_bounded():
    n, window = 20_000, 8
    graph = HebbianGraph()
    graph.resize(n)
    for distance in range(1, window + 1):
        graph.strengthen_many(np.arange(n - distance), np.arange(distance, n), 0.3)
    assert max(len(graph.neighbors(slot)[0]) for slot in range(0, n, 97)) <= 24
    assert graph.edge_count <= window * n
    hub = np.zeros(n - 1, np.uint32)
    graph.strengthen_many(hub, np.arange(1, n))
    assert len(graph.neighbors(0)[0]) <= 24


def test_f055_weights_stay_bounded():
    graph = made([(0, 1), (2, 3)])
    graph.strengthen_many(np.full(10**6, 0), np.full(10**6, 1), 0.3)
    assert 1 - 2**-23 <= graph.edge(0, 1).weight <= 1.0  # the cap, within a bit
    for _ in range(200):
        graph.decay()
    assert graph.edges().weight.tolist() == [np.float32(0.1)] * 2


def test_f057_rows_degrees_and_audit_agree():
    random = np.random.default_rng(57)
    graph = HebbianGraph(5)
    graph.resize(200)
    gone = set()
    for step in range(10_000):
        a, b = random.choice(200, 2, replace=False)
        if a not in gone and b not in gone:
            graph.strengthen(int(a), int(b), float(random.uniform(0.05, 1)))
        if step % 500 == 499:
            graph.remove(int(a))
            gone.add(a)
        if step % 1000 == 0:
            graph.decay()
        if step % 100 == 0:
            assert graph.verify() is None
            edges = graph.edges()
            assert ((edges.weight > 0) & (edges.weight <= 1)).all()
            assert not gone & set(edges.a.tolist() + edges.b.tolist())
            degrees = np.bincount(np.concatenate([edges.a, edges.b]), minlength=200)
            rows = [graph.neighbors(slot)[0] for slot in range(200)]
            assert [len(row) for row in rows] == degrees.tolist()
            assert degrees.max() <= 5


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: g.strengthen(0, 3), IndexError, "slot 3: there are 3"),
        (lambda g: g.strengthen(0, 2**32), ValueError, "b must be in"),
        (lambda g: g.strengthen(0, 1.5), TypeError, "b must be int"),
        (lambda g: g.strengthen(0, 1, 0.0), ValueError, r"delta must be in \[1e-06, 1\]"),
        (lambda g: g.strengthen(0, 1, 1.1), ValueError, "delta must be in"),
        (lambda g: g.strengthen(0, 1, float("nan")), ValueError, "delta must be in"),
        (lambda g: g.strengthen_many([0, 1], [2]), ValueError, "same length, not 2 and 1"),
        (lambda g: g.strengthen_many([0, 1], [1, 2], [0.3] * 3), ValueError, "not 3"),
        (lambda g: g.strengthen_many([0, 1], [1, 9]), IndexError, "slot 9"),
        (lambda g: g.strengthen_many([0, 1], [1, 2], [0.3, -1]), ValueError, r"delta\[1\] is -1"),
        (lambda g: g.strengthen_many([[0]], [1]), ValueError, "1 dimension"),
        (lambda g: g.neighbors(3), IndexError, "slot 3"),
        (lambda g: g.neighbors(-1), ValueError, "slot must be in"),
        (lambda g: g.edge(0, 3), IndexError, "slot 3"),
        (lambda g: g.spread([0, 3]), IndexError, "slot 3"),
        (lambda g: g.spread([0.5]), TypeError, "seeds must hold integers"),
        (lambda g: g.spread(0, depth=0), ValueError, r"depth must be in \[1, 16\]"),
        (lambda g: g.spread(0, min_strength=0), ValueError, "min_strength must be in"),
        (lambda g: g.spread(0, limit=0), ValueError, "limit must be in"),
        (lambda g: g.decay(0.0), ValueError, "factor must be in"),
        (lambda g: g.decay(1.5), ValueError, "factor must be in"),
        (lambda g: g.remove([0, 3]), IndexError, "slot 3"),
        (lambda g: g.resize(2), ValueError, r"n must be in \[3, "),
        (lambda g: g.set_signals(3, 1.0), IndexError, "slot 3"),
        (lambda g: g.set_signals(0, 11.0), ValueError, "importance must be in"),
        (lambda g: g.set_signals(0, 1.0, arousal=256), ValueError, "arousal must be in"),
        (lambda g: g.set_signals([0, 1], [1.0]), ValueError, "as many as the slots"),
        (lambda g: g.set_signals(0, 1.0, open=1), TypeError, "open must hold bools"),
        (lambda _: HebbianGraph(0), ValueError, "max_degree must be in"),
        (lambda _: HebbianGraph(257), ValueError, "max_degree must be in"),
    ],
)
def test_bad_arguments_change_nothing(call, error, message):
    graph = made([(0, 1), (1, 2)])
    before = state(graph)
    with pytest.raises(error, match=message):
        call(graph)
    assert state(graph) == before
    assert (len(graph), graph.cycle) == (3, 0)


def test_scalars_and_empty_arrays_are_taken():
    graph = HebbianGraph()
    graph.resize(3)
    assert graph.strengthen_many(0, 1).tolist() == [True]
    assert graph.strengthen_many([], []).tolist() == []
    assert [part.tolist() for part in graph.spread([])] == [[], []]
    assert graph.remove([]) == 0
    assert repr(graph) == "HebbianGraph(3 slots, 1 edges)"


def test_an_empty_graph_does_everything(tmp_path):
    graph = HebbianGraph()
    for _ in range(2):
        assert graph.decay() == (graph.cycle, 0, 0, 0)
        assert graph.recompute_bridges() == 0
        graph.compact()
        assert graph.verify() is None
        graph.save(tmp_path / "g")
        loaded = HebbianGraph.load(tmp_path / "g")
        assert (len(loaded), loaded.cycle) == (len(graph), graph.cycle)
        graph.resize(10)


def sample():
    graph = HebbianGraph(4)
    graph.resize(9)
    graph.strengthen_many([0, 1, 2, 3, 0], [1, 2, 3, 0, 5], [0.9, 0.8, 0.7, 0.6, 0.12])
    graph.strengthen(5, 6, 0.4, hinted=True)
    graph.recompute_bridges()
    graph.decay()
    graph.decay()
    graph.strengthen(7, 1)
    return graph


def test_per2_a_saved_graph_is_the_loaded_one(tmp_path):
    graph = sample()
    graph.save(tmp_path / "hebbian.graph")
    loaded = HebbianGraph.load(tmp_path / "hebbian.graph")
    assert state(loaded) == state(graph)
    assert (len(loaded), loaded.cycle, loaded.max_degree) == (9, 2, 4)
    header = (tmp_path / "hebbian.graph").read_bytes()[:64]
    magic, version, flags, shape, stride, count = struct.unpack_from("<4sIHHIQ", header)
    assert (magic, version, flags, shape, stride, count) == (b"HCSR", 3, 0, 2, 12, 14)


def test_per2_the_golden_file_loads():
    assert state(HebbianGraph.load(DATA / "hebbian-3.graph")) == state(sample())


def legacy(nodes, max_degree=24, capacity=None):
    """A file of the legacy format: of each node its edges (neighbour, weight, cycle, bridge)."""
    data = struct.pack("<4sIII", b"HGPH", 2, capacity or len(nodes), max_degree)
    for node in nodes:
        edges = b"".join(struct.pack("<IfHBB", *edge, 0) for edge in node)
        data += struct.pack("<I", len(node)) + edges.ljust(288, b"\0")
    return data


def test_per8_the_legacy_format_is_read(tmp_path):
    path = tmp_path / "hebbian.graph"
    nodes = [
        [(2, 3.0, 7, 9), (1, 0.5, 1, 2)],
        [(0, 0.5, 1, 2)],
        [(0, 3.0, 7, 9), (1, 2.5, 3, 4)],  # the last is not in row 1: that end refused it
        [],
    ]
    path.write_bytes(legacy(nodes))
    graph = HebbianGraph.load(path)
    assert [graph.neighbors(slot)[0].tolist() for slot in range(4)] == [[1, 2], [0], [0], []]
    assert graph.edge(0, 1) == (0.5, 1, 2, 0)
    assert graph.edge(2, 0) == (pytest.approx(1 - 0.7**3), 7, 9, 0)
    assert (graph.cycle, graph.max_degree, graph.verify()) == (7, 24, None)
    graph.save(path)
    assert path.read_bytes()[:8] == b"HCSR" + struct.pack("<I", 3)
    assert state(HebbianGraph.load(path)) == state(graph)


@pytest.mark.parametrize(
    "nodes",
    [
        [[(5, 0.5, 0, 0)], []],
        [[(1, float("nan"), 0, 0)], [(0, float("nan"), 0, 0)]],
        [[(1, -0.5, 0, 0)], [(0, -0.5, 0, 0)]],
    ],
)
def test_per8_a_damaged_legacy_file_is_refused(tmp_path, nodes):
    path = tmp_path / "hebbian.graph"
    path.write_bytes(legacy(nodes))
    with pytest.raises(CorruptionError):
        HebbianGraph.load(path)


def test_per8_legacy_sizes_and_versions(tmp_path):
    path = tmp_path / "hebbian.graph"
    good = legacy([[(1, 0.5, 0, 0)], [(0, 0.5, 0, 0)]])
    for data in (good[:-1], good + b"x", good[:12], legacy([[]], capacity=2), legacy([[]], 25)):
        path.write_bytes(data)
        with pytest.raises(CorruptionError):
            HebbianGraph.load(path)
    path.write_bytes(good[:4] + struct.pack("<I", 1) + good[8:])
    with pytest.raises(VersionError):
        HebbianGraph.load(path)


def test_per3_files_that_cannot_be(tmp_path):
    with pytest.raises(StorageError):
        HebbianGraph.load(tmp_path / "absent")
    with pytest.raises(StorageError):
        sample().save(tmp_path / "no" / "folder")
    (tmp_path / "other").write_bytes(b"something else" * 10)
    with pytest.raises(CorruptionError):
        HebbianGraph.load(tmp_path / "other")


def test_readers_beside_a_writer_see_whole_changes():
    """Each call joins a pair or parts it: the edges seen are always pairs of 2 i and 2 i + 1."""
    n = 64
    graph = HebbianGraph(4)
    graph.resize(2 * n)
    stop = threading.Event()
    faults = []

    def read():
        while not stop.is_set():
            fault = graph.verify()
            edges = graph.edges()
            slots, _ = graph.spread(np.arange(0, 2 * n, 2))
            if fault or (edges.a + 1 != edges.b).any() or (slots % 2 == 0).any():
                faults.append(fault)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    random = np.random.default_rng(0)
    for step in range(1500):
        i = 2 * int(random.integers(n))
        if step % 50 == 49:
            graph.decay()
            graph.recompute_bridges()
        elif step % 3 == 0:
            graph.remove(i)
        else:
            graph.strengthen(i, i + 1)
    stop.set()
    for reader in readers:
        reader.join()
    assert not faults


@pytest.mark.parametrize("level", _core.available_simd_levels())
def test_gen3_a_decay_is_the_same_on_every_instruction_set(level):
    before = _core.simd_level()
    try:
        _core.set_simd_level("scalar")
        expected = sample()
        expected.decay(0.77)
        _core.set_simd_level(level)
        graph = sample()
        graph.decay(0.77)
        assert state(graph) == state(expected)
    finally:
        _core.set_simd_level(before)
