"""What an open handle makes of memories before they are stored: IMP-1, IMP-2, HEB-6, AM-16."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from fakes import Dense, Sparse
from spector import SpectorMemory, SpectorWarning
from spector.records.cognition import Surprise, importance
from spector.store.ingestion import WORKING_MEMORY, tags_in
from spector.store.space import Space


def plain(vectors):
    """Nearest distance to the memories before each, one after the other."""
    unit = [np.asarray(v, np.float64) / np.linalg.norm(v) for v in vectors]
    found = []
    for place, vector in enumerate(unit):
        before = unit[max(0, place - WORKING_MEMORY) : place]
        found.append(min((float(np.linalg.norm(vector - each)) for each in before), default=None))
    return found


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_imp_1_and_imp_2_novelty_is_the_distance_to_the_nearest_before(batch):
    random = np.random.default_rng(0)
    vectors = random.standard_normal((400, 8)).astype(np.float32)
    vectors[350] = vectors[349] * 2
    surprise = Surprise()
    expected = []
    for distance in plain(vectors):
        new = 0.5 if distance is None else min(1.0, distance / 2)
        z = 0.0 if distance is None else surprise.observe(distance)
        expected.append((10.0 if z >= 3 else importance(novelty=new), z, z >= 3))
    with SpectorMemory.ephemeral() as memory:
        items = [{"text": f"t{i}", "id": f"m{i}", "vector": v} for i, v in enumerate(vectors)]
        memory.remember_many(items, batch_size=batch)
        stored = [memory.inspect(f"m{i}") for i in range(len(vectors))]
    for each, (value, z, flashbulb) in zip(stored, expected, strict=True):
        assert each.importance == pytest.approx(value, abs=2e-3)
        assert each.surprise == pytest.approx(z, abs=5e-3)
        assert each.pinned == flashbulb
    assert stored[350].importance == pytest.approx(0.05, abs=1e-2)  # nothing new


def test_imp_2_a_flash_is_pinned_and_most_important():
    random = np.random.default_rng(1)
    base = random.standard_normal(16)
    with SpectorMemory.ephemeral() as memory:
        for i in range(30):
            near = base + 0.05 * random.standard_normal(16)
            memory.remember(f"usual {i}", id=f"m{i}", vector=near, urgency=0.5)
        preview = memory.compute_importance("strange", vector=-base)
        assert preview.flashbulb and preview.importance == 10 and preview.surprise >= 3
        assert preview == memory.compute_importance("strange", vector=-base)  # nothing changed
        memory.remember("strange", id="flash", vector=-base)
        memory.remember("stated", id="stated", vector=-3 * base, importance=2)
        flash, stated = memory.inspect("flash"), memory.inspect("stated")
        assert (flash.importance, flash.pinned) == (10, True)
        assert stated.importance == 2  # explicit importance wins (IMP-1)
        first = memory.inspect("m9")
        assert first.surprise == 0 and not first.pinned  # warming up
    with SpectorMemory.ephemeral(flashbulb_threshold=100) as memory:
        for i in range(30):
            near = base + 0.5 * random.standard_normal(16)
            memory.remember(f"usual {i}", vector=near)
        memory.remember("strange", id="flash", vector=-base)
        assert not memory.inspect("flash").pinned
    with pytest.raises(ValueError, match="flashbulb_threshold"):
        SpectorMemory.ephemeral(flashbulb_threshold=-1)


def test_imp_1_preview_and_hints():
    with SpectorMemory.ephemeral(embedding_provider=Dense()) as memory:
        assert memory.compute_importance("alpha").novelty == 0.5  # nothing to compare with
        memory.remember("alpha beta", id="a", interest=1.0, challenge=1.0, urgency=1.0)
        assert memory.inspect("a").importance == pytest.approx(0.05 + 9.95 * (0.6 + 0.4 * 0.5))
        same = memory.compute_importance("alpha beta", interest=1.0)
        assert same.novelty == pytest.approx(0, abs=1e-3)
        assert same.importance == pytest.approx(0.05 + 9.95 * 0.3, abs=1e-2)
        with pytest.raises(ValueError, match="urgency"):
            memory.compute_importance("x", urgency=2)
    with SpectorMemory.ephemeral() as memory:  # no vectors: nothing is known
        memory.remember("alpha", id="a")
        assert memory.inspect("a").importance == pytest.approx(5.025)


def test_am_16_what_was_decided_is_in_the_row(tmp_path):
    random = np.random.default_rng(2)
    with SpectorMemory.open(tmp_path / "s") as memory:
        for i in range(15):
            memory.remember(f"m{i}", id=f"m{i}", vector=random.standard_normal(8))
        before = [memory.inspect(f"m{i}") for i in range(15)]
        headers = memory._space.replica.records.headers(list(range(1, 16)))
    with SpectorMemory.open(tmp_path / "s") as memory:
        assert [memory.inspect(f"m{i}") for i in range(15)] == before
        again = memory._space.replica.records.headers(list(range(1, 16)))
        assert again.tobytes() == headers.tobytes()


def test_auto_tags_are_known_tags_in_the_text():
    assert tags_in("The C++ deploy of db-7 failed", {"deploy": 3, "db 7": 2, "fail": 9}) == (
        "deploy",
        "db 7",
    )
    with SpectorMemory.ephemeral(auto_tags=True) as memory:
        for i in range(2):
            memory.remember("x", tags=["deploy", "data base"], id=f"k{i}")
        memory.remember("x", tags=["once"])
        memory.remember("Deploy of the data-base, once", id="a")
        memory.remember("deploy", id="b", tags=["own"])
        memory.remember("redeployed", id="c")
        assert set(memory.inspect("a").tags) == {"deploy", "data base"}
        assert memory.inspect("b").tags == ("own",)
        assert memory.inspect("c").tags == ()
        assert [hit.id for hit in memory.recall("base once", tags=["data base"], k=1)] == ["a"]
    with SpectorMemory.ephemeral() as memory:
        memory.remember_many([{"text": "x", "tags": ["deploy"]}] * 3)
        memory.remember("deploy", id="a")
        assert memory.inspect("a").tags == ()


def test_am_21_missing_vectors_are_made_later(tmp_path):
    dense, sparse = Dense(), Sparse()
    with SpectorMemory.open(tmp_path / "s") as memory:
        memory.remember_many({"text": f"alpha w{i}", "id": f"m{i}"} for i in range(5))
        assert memory.status().without_vectors == 0  # no model is asked for
        assert memory.encode_missing() == 0
    with SpectorMemory.open(
        tmp_path / "s", embedding_provider=dense, sparse_encoder=sparse
    ) as memory:
        assert memory.status().without_vectors == 5
        dense.broken = True
        with pytest.warns(SpectorWarning, match="out of order"):
            memory.remember("alpha late", id="late")
        with pytest.raises(RuntimeError, match="out of order"):
            memory.encode_missing()
        dense.broken = False
        seen = []
        assert memory.encode_missing(batch_size=4, progress=seen.append) == 6
        assert seen[-1] == 6 and memory.status().without_vectors == 0
        found = memory.recall("w3", text_search_mode="vector_only")
        assert found[0].id == "m3"
        assert memory.recall("w4", text_search_mode="splade")[0].id == "m4"
        assert memory.encode_missing() == 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            memory.remember("alpha w9", id="m9")
    with SpectorMemory.open(tmp_path / "s", embedding_provider=dense) as again:
        assert again.status().without_vectors == 0
        assert again.recall("w3", text_search_mode="vector_only")[0].id == "m3"
        with pytest.raises(TypeError, match="progress"):
            again.encode_missing(progress=3)


def test_recall_many_is_recall_of_each_from_one_state():
    class Many(Dense):
        def embed_queries(self, texts):
            self.batches = [*getattr(self, "batches", ()), list(texts)]
            return self.embed_documents(texts)

    dense = Many()
    with SpectorMemory.ephemeral(embedding_provider=dense, clock=lambda: 1_000) as memory:
        memory.remember_many({"text": f"alpha w{i}", "id": f"m{i}"} for i in range(20))
        queries = ["w3", "w4 alpha", dense.embed_query("w5")]
        together = memory.recall_many(queries, k=3)
        assert dense.batches == [["w3", "w4 alpha"]]
        for query, found in zip(queries, together, strict=True):
            alone = memory.recall(query, k=3)
            assert [(hit.id, hit.score) for hit in found] == [(h.id, h.score) for h in alone]
            assert found.query == alone.query
        assert memory.recall_many([]) == []
        read = Space.read
        calls = []
        Space.read = lambda self, work, **how: calls.append(1) or read(self, work, **how)
        try:
            memory.recall_many(queries, text_search_mode="keyword_only", tags=["none"])
        finally:
            Space.read = read
        assert len(calls) == 1
        for bad, kind in ((["a", 3], TypeError), ("text", TypeError), (None, TypeError)):
            with pytest.raises(kind, match="quer"):
                memory.recall_many(bad)
        with pytest.raises(TypeError, match="unknown key"):
            memory.recall_many(["a"], kk=3)


def test_near_duplicates_become_one() -> None:
    """IMP-3: by option, of the same type, up to an L2 distance of 0.05; ids that are given stay."""
    base = np.asarray([1, 0, 0, 0], np.float32)
    near = np.asarray([1, 0.02, 0, 0], np.float32)
    far = np.asarray([1, 0.2, 0, 0], np.float32)
    for merges in (False, True):
        with SpectorMemory.ephemeral(merge_near_duplicates=merges) as memory:
            first = memory.remember(
                "one",
                tags=["a"],
                vector=base,
                importance=7,
                valence=10,
                timestamp=1000,
                pinned=True,
            )
            memory.reinforce(first, True)
            second = memory.remember(
                "one again", tags=["b"], vector=near, importance=3, valence=-5, timestamp=2000
            )
            assert (first == second) == merges
            memory.remember("far", vector=far)
            memory.remember("other type", vector=near, type="episodic")
            memory.remember("own id", vector=near, id="mine")
            assert len(memory) == (4 if merges else 5)
            if merges:
                found = memory.inspect(first)
                assert found.text == "one again"
                assert found.tags == ("a", "b")
                assert (found.importance, found.valence, found.timestamp) == (7, -5, 2000)
                assert (found.recall_count, found.pinned) == (1, True)
                older = memory.remember("older", vector=base, valence=99, timestamp=500)
                assert older == first
                assert memory.inspect(first).valence == -5
                assert memory.inspect(first).timestamp == 2000
