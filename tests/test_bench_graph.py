"""The graph benchmark: that it measures what it says. No time is asserted."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.graph import budgets, generators, peers, timing
from bench.graph.records import result, table

ROOT = Path(__file__).parents[1]
MASK = 2**64 - 1


class Plain:
    """SplitMix64 as it is written down, one draw after the other."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = self.state + 0x9E3779B97F4A7C15 & MASK
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        return z ^ z >> 31

    def u(self):
        return (self.next() >> 11) * 2.0**-53

    def below(self, n):
        return int(self.u() * n)


def test_quick_run_gives_checked_results_as_json_lines(tmp_path):
    command = [sys.executable, "-m", "bench.graph", "--quick", "--nodes", "2000", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--dir", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert records[0]["kind"] == "machine"
    assert records[-1]["kind"] == "end"
    assert {record["kind"] for record in records} <= {
        "machine", "result", "ratio", "missing", "part", "end",
    }  # fmt: skip
    for record in records:
        if record["kind"] in ("result", "ratio"):
            assert record.get("checked", True), record
            assert record["name"] in done.stderr
            assert "target" not in record, "targets are for the full size"
    assert not list(tmp_path.iterdir())


def test_splitmix64_gives_the_published_numbers():
    random = generators.SplitMix64(42)
    first = random.next(3)
    assert first.tolist() == [0xBDD732262FEB6E95, 0x28EFE333B266F103, 0x47526757130F9F52]
    plain = Plain(42)
    assert first.tolist() == [plain.next() for _ in range(3)]
    assert random.u(5).tolist() == [plain.u() for _ in range(5)]
    assert random.below(1000, 50).tolist() == [plain.below(1000) for _ in range(50)]


def test_pairs_are_drawn_as_written(monkeypatch):
    monkeypatch.setattr(generators, "BLOCK", 64)
    a, b, delta = generators.pairs(50, 300)
    plain = Plain(42)
    for i in range(300):
        u, v = plain.below(50), plain.below(49)
        v += v >= u
        assert (a[i], b[i], delta[i]) == (u, v, np.float32(0.2 + 0.8 * plain.u()))
    sets = generators.seed_sets(1000, 3)
    plain = Plain(7)
    assert sets.tolist() == [[plain.below(1000) for _ in range(10)] for _ in range(3)]


@pytest.mark.parametrize("zipf", [False, True])
def test_hyperedges_are_drawn_as_written(zipf, monkeypatch):
    monkeypatch.setattr(generators, "BLOCK", 128)
    drawn = generators.hyperedges(30, 200, zipf)
    weights = [1 / (rank + 1) for rank in range(30)]
    cdf = [sum(weights[: rank + 1]) / sum(weights) for rank in range(30)]
    cdf[-1] = 1.0
    plain = Plain(42)

    def entity():
        if not zipf:
            return plain.below(30)
        u = plain.u()
        return next(rank for rank in range(30) if cdf[rank] > u)

    for i in range(200):
        count, members = 3 + plain.below(6), []
        while len(members) < count:
            drawn_entity = entity()
            if drawn_entity not in members:
                members.append(drawn_entity)
        part = slice(*drawn.indptr[i : i + 2])
        assert drawn.entities[part].tolist() == members
        assert drawn.roles[part].tolist() == list(range(count))
        assert drawn.weights[i] == np.float32(0.5 + 0.5 * plain.u())
        assert set(drawn.memories[part].tolist()) == {i}


def test_hyperedges_have_the_published_number_of_incidences():
    assert generators.hyperedges(100_000, 300_000).indptr[-1] == 1_649_980
    assert generators.hyperedges(100_000, 300_000, zipf=True).indptr[-1] == 1_649_174


def test_bud7_all_layers_of_100_000_memories():
    found = budgets.measured(100_000)
    assert list(found) == list(budgets.BUDGETS)
    for name, n_bytes in found.items():
        assert n_bytes <= 1e6 * budgets.SLACK * budgets.BUDGETS[name][0], name
    assert found["BUD-7 all"] >= 15e6, "a budget of nothing proves nothing"


def test_chains_and_tags_are_drawn_as_written():
    current, previous, session = generators.chain_links(120)
    links = [(i, i - 1, 1 + i // 50) for i in range(120) if i % 50]
    assert list(zip(current.tolist(), previous.tolist(), session.tolist(), strict=True)) == links
    plain = Plain(42)
    for tags in generators.tag_contexts(20):
        numbers = plain.below(200), plain.below(200), plain.below(50)
        assert tags == tuple(
            f"{kind}{n}" for kind, n in zip(("tag", "topic", "area"), numbers, strict=True)
        )


def plain_spread(n, a, b, weights, seeds):
    rows = [[] for _ in range(n)]
    for u, v, weight in zip(a.tolist(), b.tolist(), weights, strict=True):
        rows[u].append((v, weight))
        rows[v].append((u, weight))
    best = {}

    def follow(node, strength, hops):
        for other, weight in rows[node]:
            along = np.float32(strength * weight)
            if along < 0.01:
                continue
            best[other] = max(best.get(other, 0), along)
            if hops > 1:
                follow(other, along, hops - 1)

    for seed in seeds.tolist():
        follow(seed, np.float32(1), 2)
    return {node: strength for node, strength in best.items() if node not in set(seeds.tolist())}


def small_graph():
    a, b, weights = generators.pairs(60, 150)
    pairs, places = np.unique(np.sort(np.stack([a, b]), axis=0), axis=1, return_index=True)
    weights = (weights[places] * np.linspace(0.05, 1, len(places))).astype(np.float32)
    return 60, pairs[0], pairs[1], weights


@pytest.mark.parametrize("kind", peers.PEERS, ids=lambda kind: kind.name)
def test_peers_answer_as_the_specification_says(kind):
    """HEB-11 and ENT-10: else the ratio would be one of different work."""
    pytest.importorskip(kind.name)
    graph = small_graph()
    peer = kind(*graph)
    for seeds in generators.seed_sets(60, 20, 3):
        expected = plain_spread(*graph, seeds)
        nodes, strengths = peers._as_found(peer.spread(seeds))
        assert nodes.tolist() == sorted(expected)
        assert strengths.tolist() == pytest.approx([expected[n] for n in nodes.tolist()])

    drawn = generators.hyperedges(40, 25)
    ours = two_steps(drawn)
    records = peers.compare_collect("x", "y", ours, 40, drawn.indptr, drawn.entities, range(40), 1)
    compared = [record for record in records if record.get("peer") == kind.name]
    assert [record["checked"] for record in compared if record["kind"] == "ratio"] == [True]


def two_steps(drawn, steps=2):
    events = [
        set(drawn.entities[slice(*drawn.indptr[i : i + 2])].tolist())
        for i in range(len(drawn.indptr) - 1)
    ]

    def collect(start):
        reached = {start}
        for _ in range(steps):
            reached = reached.union(*(event for event in events if event & reached))
        return np.array([i for i, event in enumerate(events) if event & reached], np.uint32)

    return collect


def test_comparison_finds_what_is_wrong():
    graph = small_graph()
    sets = generators.seed_sets(60, 20, 3)
    networkx = pytest.importorskip("networkx")
    assert networkx is not None

    def ours(change):
        def spread(seeds):
            expected = plain_spread(*graph, seeds)
            nodes = np.array(sorted(expected), np.uint32)
            return change(nodes, np.array([expected[n] for n in nodes.tolist()], np.float32))

        return spread

    changes = {
        True: lambda nodes, strengths: (nodes[::-1], strengths[::-1]),
        False: lambda nodes, strengths: (nodes[1:], strengths[1:]),
        None: lambda nodes, strengths: (nodes, strengths * np.float32(1.001)),
    }
    for right, change in changes.items():
        records = list(peers.compare_spread("x", "y", ours(change), graph, sets, 1))
        ratios = [record for record in records if record["kind"] == "ratio"]
        assert ratios
        assert all(record["checked"] == bool(right) for record in ratios)

    drawn = generators.hyperedges(40, 25)
    shallow = two_steps(drawn, steps=1)
    for record in peers.compare_collect(
        "x", "y", shallow, 40, drawn.indptr, drawn.entities, range(40), 1
    ):
        assert not record.get("checked", False)


def test_peers_that_are_missing_or_too_small_are_named(monkeypatch):
    monkeypatch.setattr(peers.SciPy, "max_edges", 10)
    monkeypatch.setattr(peers.IGraph, "name", "no_such_module")
    monkeypatch.setattr(peers, "PEERS", (peers.SciPy, peers.IGraph))
    records = list(peers.compare_spread("x", "y", print, small_graph(), [], 1))
    assert [record["kind"] for record in records] == ["missing", "missing"]
    text = table(records)
    assert "scipy left out" in text
    assert "no_such_module left out: not installed" in text


def test_results_say_whether_the_target_was_met():
    met = result("x", "fast enough", 41.234567, "us", target=60, java=1260, checked=True)
    assert met["met"] is True
    assert met["value"] == 41.23
    slow = result("x", "too slow", 2.9, "M/s", target=3, at_least=True)
    assert slow["met"] is False
    assert "checked" not in slow
    text = table([met, slow])
    assert "yes" in text
    assert "NO" in text


def test_sides_are_timed_in_turn():
    order = []
    us = timing.each_us(
        {"one": lambda x: order.append((1, x)), "two": lambda x: order.append((2, x))}, [5, 6], 2
    )
    assert order == [(1, 5), (2, 5), (1, 6), (2, 6)] * 3
    assert {name: len(values) for name, values in us.items()} == {"one": 2, "two": 2}
