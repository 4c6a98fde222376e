"""HNSW beside the exact scan: DEN-2, DEN-3 (extra ``ann``)."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import spector.store.nearby as nearby
from spector import ConfigurationError, SpectorMemory
from spector.ann import HnswIndex
from spector.records import RecordStore, ScoringOptions


def clustered(n, dimensions, clusters, seed=0):
    random = np.random.default_rng(seed)
    centres = random.standard_normal((clusters, dimensions), np.float32)
    near = centres[random.integers(clusters, size=n)]
    return near + 0.5 * random.standard_normal((n, dimensions), np.float32)


def test_den_2_a_missing_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(ConfigurationError, match=r"spector\[ann\]"):
        HnswIndex(4)
    with pytest.raises(ConfigurationError, match=r"spector\[ann\]"):
        SpectorMemory.open(tmp_path / "s", ann=True)
    assert not (tmp_path / "s").exists()


class TestIndex:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("usearch", reason="the extra ann is not installed")

    def test_den_2_arguments(self):
        for name, bad in (("m", 3), ("m", 65), ("ef_construction", 15), ("ef_search", 501)):
            with pytest.raises(ValueError, match=name):
                HnswIndex(4, **{name: bad})
        with pytest.raises(ValueError, match="similarity"):
            HnswIndex(4, similarity="hamming")
        index = HnswIndex(2)
        assert index.search([1, 0]).tolist() == []
        with pytest.raises(ValueError, match="shape"):
            index.put([1], [[1, 2, 3]])
        with pytest.raises(ValueError, match="finite"):
            index.put([1], [[np.nan, 2]])
        with pytest.raises(ValueError, match="2 dimensions"):
            index.search([1, 2, 3])

    def test_den_3_removed_and_updated_vectors(self):
        index = HnswIndex(2)
        index.put([1, 2, 3, 3], [[1, 0], [0, 1], [5, 5], [-1, 0]])
        assert len(index) == 3 and 2 in index and 9 not in index and "x" not in index
        assert index.search([-1, 0.1], 1).tolist() == [3]
        index.put([1], [[-1, 0.1]])
        assert index.search([-1, 0.1], 1).tolist() == [1]
        assert index.search([1, 0], 1).tolist() == [2]
        assert index.remove([1, 7, 1]) == 1
        assert sorted(index.search([-1, 0.1], 9).tolist()) == [2, 3]
        assert index.memory_usage() > 0

    def test_den_2_recall_of_a_small_set(self):
        vectors = clustered(5000, 32, 50)
        index = HnswIndex(32)
        index.put(np.arange(5000), vectors)
        store = RecordStore(32, storage="f32")
        store.put(np.arange(5000), vectors)
        options = ScoringOptions(now=0, staleness=False)
        found = 0
        for query in clustered(100, 32, 50):
            exact = set(store.similar(query, options, 10).slots.tolist())
            found += len(exact & set(index.search(query, 10).tolist()))
        assert found >= 900


@pytest.fixture
def many(monkeypatch):
    pytest.importorskip("usearch", reason="the extra ann is not installed")
    monkeypatch.setattr(nearby, "EXACT_UP_TO", 300)


def items(vectors, **fields):
    return [
        {
            "text": f"number {i}",
            "id": f"m{i}",
            "vector": vector,
            "timestamp": 0,
            "importance": 5,
            **fields,
        }
        for i, vector in enumerate(vectors)
    ]


def ask(memory, vector, **options):
    hits = memory.recall(
        vector, text_search_mode="vector_only", scoring_mode="similarity", **options
    )
    return [hit.id for hit in hits]


def test_den_2_and_den_3_in_a_memory(many, tmp_path):
    vectors = clustered(500, 16, 20)
    with (
        SpectorMemory.open(tmp_path / "ann", ann=True) as memory,
        SpectorMemory.open(tmp_path / "exact") as exact,
    ):
        for each in (memory, exact):
            each.remember_many(items(vectors))
            each.remember(
                "procedure", id="p", type="procedural", vector=vectors[7], timestamp=0, importance=5
            )
            each.remember(
                "tagged", id="t", tags=["rare"], vector=-vectors[7], timestamp=0, importance=5
            )
        assert memory._space.replica.nearby.active
        same = 0
        for query in clustered(20, 16, 20, seed=5):
            same += len(set(ask(memory, query)) & set(ask(exact, query)))
        assert same >= 190
        # Measured exactly, other types included, and a rare filter is answered by a scan.
        assert set(ask(memory, vectors[7], k=2)) == {"m7", "p"}
        assert ask(memory, vectors[7], tags=["rare"]) == ["t"]
        assert ask(memory, vectors[7], type="procedural") == ["p"]
        memory.forget("m7")
        memory.remember(
            "moved", id="p", type="semantic", vector=-vectors[7], timestamp=0, importance=5
        )
        assert "m7" not in ask(memory, vectors[7]) and "p" not in ask(memory, vectors[7], k=3)
        assert set(ask(memory, -vectors[7], k=2)) == {"p", "t"}
    with SpectorMemory.open(tmp_path / "ann", ann=True) as again:  # rebuilt from the records
        assert again._space.replica.nearby.active and len(again._space.replica.nearby) == 501
        assert set(ask(again, -vectors[7], k=2)) == {"p", "t"}
        again.remember_many([{"text": "x", "id": f"m{i}"} for i in range(300)])
        assert not again._space.replica.nearby.active  # few are left: a scan is exact
        assert set(ask(again, -vectors[7], k=2)) == {"p", "t"}
