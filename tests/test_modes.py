"""What each text_search_mode consults, and what is missing: TSM-1 to TSM-7, REC-3."""

import numpy as np
import pytest

from fakes import Dense, Sparse, Tokens
from spector import ConfigurationError, RecallOptions, SpectorMemory, SpectorWarning

TEXTS = {
    "m1": "the car would not start this morning",
    "m2": "fresh bread and butter",
    "m3": "connection reset by peer ERR_CONN_42",
    "m4": "automobile insurance is expensive",
    "m5": "the deploy failed with a timeout",
}


class Models:
    def __init__(self):
        self.dense = Dense(same=[("car", "automobile")])
        self.sparse = Sparse(expand={"car": ("automobile",)})
        self.tokens = Tokens()

    def open(self, **other):
        options = {
            "embedding_provider": self.dense,
            "sparse_encoder": self.sparse,
            "token_encoder": self.tokens,
            "clock": lambda: 1_000_000,
        }
        memory = SpectorMemory.ephemeral(**{**options, **other})
        for id, text in TEXTS.items():
            memory.remember(text, id=id)
        self.forget_calls()
        return memory

    def forget_calls(self):
        for model in (self.dense, self.sparse, self.tokens):
            model.calls.clear()

    def asked(self):
        named = {"dense": self.dense, "sparse": self.sparse, "late": self.tokens}
        return {name for name, model in named.items() if model.calls}


@pytest.fixture
def models():
    return Models()


def ids(results):
    return [hit.id for hit in results]


@pytest.mark.parametrize(
    ("mode", "asked"),
    [
        ("hybrid", {"dense", "sparse", "late"}),
        ("keyword_only", set()),
        ("vector_only", {"dense"}),
        ("splade", {"sparse"}),
        ("splade_hybrid", {"dense", "sparse"}),
        ("colbert_rerank", {"dense", "late"}),
        ("full_stack", {"dense", "sparse", "late"}),
    ],
)
def test_tsm_4_and_5_each_mode_asks_only_its_models(models, mode, asked):
    with models.open() as memory:
        found = memory.recall("car insurance", text_search_mode=mode.upper())
        assert models.asked() == asked
        assert "m4" in ids(found)
        assert found.degraded == ()


@pytest.mark.parametrize("mode", ["keyword_only", "splade"])
def test_tsm_5_a_provider_that_raises_is_not_noticed(models, mode):
    with models.open() as memory:
        models.dense.broken = True
        assert memory.recall("insurance", text_search_mode=mode).degraded == ()


def test_spl_1_expansion_finds_what_keywords_cannot_bm25_8(models):
    with models.open() as memory:
        assert ids(memory.recall("car", text_search_mode="keyword_only")) == ["m1"]
        assert set(ids(memory.recall("car", text_search_mode="splade"))) == {"m1", "m4"}
        assert set(ids(memory.recall("car", k=2))) == {"m1", "m4"}


def test_tsm_2_enable_text_search(models):
    with models.open() as memory:
        found = memory.recall("ERR_CONN_42", enable_text_search=False, text_search_mode="hybrid")
        assert found.degraded == ()
        with pytest.raises(ValueError, match="enable_text_search must not be False"):
            memory.recall("x", enable_text_search=False, text_search_mode="keyword_only")


def test_tsm_3_gamma_0_adds_no_score_and_no_candidates(models):
    with SpectorMemory.ephemeral() as memory:
        memory.remember("only by keywords", id="a")
        assert ids(memory.recall("keywords")) == ["a"]
        assert ids(memory.recall("keywords", gamma=0)) == []
        first = memory.recall("keywords", text_search_mode="keyword_only", gamma=0)
        second = memory.recall("keywords", text_search_mode="keyword_only", gamma=10)
        assert [(hit.id, hit.score) for hit in first] == [(hit.id, hit.score) for hit in second]


def test_tsm_1_bm25_off(models):
    with models.open(bm25_enabled=False) as memory:
        assert memory.status().postings == 0
        found = memory.recall("ERR_CONN_42")
        assert [line.split(":")[0] for line in found.degraded] == ["keyword"]
        assert "m3" in ids(found)
        with pytest.raises(ConfigurationError, match="keyword search is off"):
            memory.recall("x", text_search_mode="keyword_only")


@pytest.mark.parametrize(
    ("mode", "missing", "names"),
    [
        ("vector_only", "embedding_provider", None),
        ("splade", "sparse_encoder", None),
        ("hybrid", "embedding_provider", []),
        ("splade_hybrid", "sparse_encoder", ["sparse"]),
        ("splade_hybrid", "embedding_provider", ["dense"]),
        ("full_stack", "token_encoder", ["rerank"]),
        ("colbert_rerank", "token_encoder", ["rerank"]),
        ("full_stack", "sparse_encoder", ["sparse"]),
    ],
)
def test_tsm_6_a_missing_component(models, mode, missing, names):
    with models.open(**{missing: None}) as memory:
        if names is None:
            with pytest.raises(ConfigurationError, match=missing):
                memory.recall("car", text_search_mode=mode)
            return
        found = memory.recall("car", text_search_mode=mode)
        assert [line.split(":")[0] for line in found.degraded] == names
        assert "m1" in ids(found)


@pytest.mark.parametrize("broken", ["dense", "sparse", "tokens"])
@pytest.mark.parametrize("mode", ["hybrid", "full_stack"])
def test_tsm_6_a_component_that_raises_is_skipped_and_named(models, broken, mode):
    with models.open() as memory:
        getattr(models, broken).broken = True
        found = memory.recall("car", text_search_mode=mode)
        assert len(found.degraded) == 1
        assert "out of order" in found.degraded[0]
        assert "m1" in ids(found)


def test_tsm_6_if_all_raise_the_first_error_is_raised(models):
    with models.open() as memory:
        models.dense.broken = models.sparse.broken = True
        with pytest.raises(RuntimeError, match="the dense model is out of order"):
            memory.recall("car", text_search_mode="splade_hybrid")
        with pytest.raises(RuntimeError, match="the sparse model is out of order"):
            memory.recall("car", text_search_mode="splade")


def test_tsm_7_filters_apply_to_every_list(models):
    with models.open() as memory:
        for id, text in TEXTS.items():
            memory.remember(
                text,
                id=id,
                tags=["even"] if id in ("m2", "m4") else [],
                valence=-50 if id == "m4" else 0,
                importance=9 if id == "m4" else 1,
                author="alice" if id == "m4" else "bob",
                timestamp=5 if id == "m4" else 900_000,
            )
        for only in (
            {"tags": ["even"], "min_valence": -128},
            {"max_valence": -1},
            {"min_importance": 5},
            {"author": "alice"},
            {"until": 10},
        ):
            for mode in ("hybrid", "keyword_only", "splade", "vector_only", "full_stack"):
                found = ids(memory.recall("car insurance", text_search_mode=mode, **only))
                allowed = {"m2", "m4"} if "tags" in only else {"m4"}
                assert "m4" in found
                assert set(found) <= allowed


def test_a_query_is_text_or_vector_or_both(models):
    with models.open() as memory:
        vector = models.dense.embed_query("automobile insurance")
        assert ids(memory.recall(vector, k=1)) == ["m4"]
        assert ids(memory.recall(vector, k=1, text_search_mode="vector_only")) == ["m4"]
        found = memory.recall("bread", vector=vector, k=3)
        assert {"m2", "m4"} <= set(ids(found))
        assert "keyword: the query is a vector without text" in memory.recall(vector).degraded
        with pytest.raises(ValueError, match="vector must have 32 dimensions"):
            memory.recall([1.0, 2.0], text_search_mode="vector_only")
        with pytest.raises(ValueError, match="vector must not be empty or all zeros"):
            memory.recall([0.0] * 32)
        with pytest.raises(ValueError, match=r"vector\[1\] is nan"):
            memory.recall([0.0, float("nan")])


def test_rrf_5_exact_identifier_hits_precede_all_others(models):
    with models.open() as memory:
        for i in range(30):
            memory.remember(f"connection reset by peer again {i}", id=f"x{i}")
        for fusion in ("relative", "rrf"):
            assert ids(memory.recall("ERR_CONN_42", fusion=fusion))[0] == "m3"
        # Not an identifier that the index knows: nothing is lifted.
        assert ids(memory.recall("ERR_CONN_43"))[0] != "m2"


def test_am_12_both_fusions_scale_the_best_to_1_and_relative_is_the_default(models):
    with models.open() as memory:
        for query in ("the deploy failed", "ERR_CONN_42"):
            for options in ({"fusion": "relative"}, {"fusion": "rrf"}, {}):
                found = memory.recall(query, **options)
                assert found[0].score == 1 and all(hit.score <= 1 for hit in found)
            assert [(h.id, h.score) for h in memory.recall(query)] == [
                (h.id, h.score) for h in memory.recall(query, fusion="relative")
            ]


def test_spl_3_without_an_encoder_there_is_no_effect(models):
    with models.open(sparse_encoder=None) as memory:
        assert len(memory._space.replica.sparse) == 0
        assert memory.recall("the deploy failed").degraded == ()
        with pytest.raises(ConfigurationError, match="sparse_encoder"):
            memory.recall("the deploy failed", text_search_mode="splade")


def test_spl_3_off_leaves_the_encoder_out(models):
    with models.open(splade_enabled=False) as memory:
        assert len(memory._space.replica.sparse) == 0
        assert memory.recall("the deploy failed").degraded == ()
        assert models.asked() == {"dense", "late"}
        with pytest.raises(ConfigurationError, match="sparse_encoder"):
            memory.recall("the deploy failed", text_search_mode="splade")
    with pytest.raises(TypeError, match="splade_enabled must be True or False"):
        SpectorMemory.ephemeral(splade_enabled="no")


def test_rec_1_and_rec_2_lists_then_fusion_then_rerank_then_the_cut(models):
    with models.open() as memory:
        for k in (1, 3, 50):
            found = memory.recall("the deploy failed", k=k, late_interaction="rerank")
            assert len(found) == min(k, len(found)) and len({hit.id for hit in found}) == len(found)
            scores = [hit.score for hit in found]
            assert scores == sorted(scores, reverse=True)
        assert len(memory.recall("the deploy failed")) <= 10  # REC-2


def test_rrk_2_rerank_orders_the_first_results_only(models):
    with models.open() as memory:
        plain = ids(memory.recall("the deploy failed", late_interaction="off"))
        reranked = ids(memory.recall("the deploy failed", late_interaction="rerank"))
        assert reranked[0] == "m5"
        assert set(plain) == set(reranked)


def test_rec_3_similarity_leaves_importance_out(models):
    with SpectorMemory.ephemeral(embedding_provider=models.dense) as memory:
        memory.remember("alpha beta gamma", id="a", importance=0.05)
        memory.remember("alpha beta delta", id="b", importance=10)
        memory.remember("something else", id="c")
        assert ids(memory.recall("alpha beta gamma", scoring_mode="similarity"))[0] == "a"
        weighty = {"alpha": 0.1, "beta": 0.9}
        assert ids(memory.recall("alpha beta gamma", **weighty))[0] == "b"
        assert (
            ids(memory.recall("alpha beta gamma", scoring_mode="similarity", **weighty))[0] == "a"
        )


def test_vectors_survive_reopening_and_are_not_made_twice(models, tmp_path):
    def opened():
        return SpectorMemory.open(
            tmp_path,
            embedding_provider=models.dense,
            sparse_encoder=models.sparse,
            token_encoder=models.tokens,
            clock=lambda: 1_000_000,
        )

    with opened() as memory:
        for id, text in TEXTS.items():
            memory.remember(text, id=id)
        before = [(hit.id, hit.score) for hit in memory.recall("car insurance")]
    models.forget_calls()
    with opened() as memory:
        assert models.asked() == set()
        assert [(hit.id, hit.score) for hit in memory.recall("car insurance")] == before
        models.forget_calls()
        memory.remember(TEXTS["m1"], id="again")  # an equal text: from the journal
        assert models.asked() == set()
        memory.forget("m4")
        assert "m4" not in ids(memory.recall("automobile insurance"))
    with SpectorMemory.open(tmp_path) as memory:  # without models: what it has
        assert ids(memory.recall("insurance")) == []
        with pytest.raises(ConfigurationError, match="embedding_provider"):
            memory.recall("insurance", text_search_mode="vector_only")
    with pytest.raises(ConfigurationError, match="'fake-dense', not of 'other'"):
        SpectorMemory.open(tmp_path, embedding_provider=Dense(name="other"))


def test_den_3_an_updated_vector_is_found_under_the_new_value_only(models):
    with models.open() as memory:
        memory.remember("wild geese fly south", id="m2")
        assert ids(memory.recall("geese", text_search_mode="vector_only", k=1)) == ["m2"]
        best = memory.recall("fresh bread and butter", text_search_mode="vector_only")
        assert best[0].score < memory.recall("wild geese fly south", k=1)[0].score


def test_a_model_that_fails_does_not_lose_the_memory(models):
    with models.open() as memory:
        models.dense.broken = True
        with pytest.warns(SpectorWarning, match="the dense model failed"):
            memory.remember("a text without a vector", id="m6")
        assert ids(memory.recall("without a vector", text_search_mode="keyword_only")) == ["m6"]
        models.dense.broken = False
        assert "m6" in ids(memory.recall("without a vector"))


class _Gives:
    """A model of every kind that gives what it was made with."""

    name = "gives"

    def __init__(self, value, dimensions=4):
        self.value = value
        self.dimensions = dimensions

    def embed_documents(self, texts):
        return np.asarray([self.value] * len(texts), np.float64)

    def encode_documents(self, texts):
        return [self.value] * len(texts)

    def encode_token_documents(self, texts):
        return [self.value] * len(texts)

    def embed_query(self, text):
        return self.value

    encode_query = encode_token_query = embed_query


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        *(("embedding_provider", [size] * 4) for size in (np.nan, np.inf, 1e30, 0.0, 1e-60)),
        ("embedding_provider", [1.0] * 3),
        *(("sparse_encoder", {"a": weight}) for weight in (np.nan, np.inf, -1.0, 1e39, "x", None)),
        ("sparse_encoder", {"a\0b": 1.0}),
        ("sparse_encoder", {3: 1.0}),
        ("sparse_encoder", None),
        *(("token_encoder", np.full((2, 4), size)) for size in (np.nan, np.inf, -1e30)),
        ("token_encoder", np.ones((2, 3))),
        ("token_encoder", np.ones(4)),
        ("token_encoder", "text"),
    ],
)
def test_nothing_that_a_model_gives_keeps_a_space_from_opening(tmp_path, keyword, value):
    with SpectorMemory.open(tmp_path, **{keyword: _Gives(value)}) as memory:
        with pytest.warns(SpectorWarning, match="model failed"):
            memory.remember("hello world", id="a")
        # Nor does it spoil a query.
        found = memory.recall("hello")
        assert ids(found) == ["a"]
    with SpectorMemory.open(tmp_path) as memory:
        assert ids(memory.recall("hello")) == ["a"]
        memory.remember("and more", id="b")


def test_a_model_that_gives_too_few_results_loses_nothing():
    with SpectorMemory.ephemeral(sparse_encoder=lambda texts: []) as memory:
        with pytest.warns(SpectorWarning, match="gave 0 results for 1 texts"):
            memory.remember("hello world", id="a")
        # The other lists go on.
        assert ids(memory.recall("hello", text_search_mode="keyword_only")) == ["a"]


def test_weights_that_float32_loses_are_left_out(tmp_path):
    encoder = _Gives({"a": 1e-60, "b": 1.0, "": 2.0})
    with SpectorMemory.open(tmp_path, sparse_encoder=encoder) as memory:
        memory.remember("hello world", id="a")
    with SpectorMemory.open(tmp_path, sparse_encoder=encoder) as memory:
        assert ids(memory.recall("x", text_search_mode="splade")) == ["a"]


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([1e18] * 4, "vector must be finite with a norm in"),
        ([1.0] * 70_000, "vector must have 1 dimension of 1 to 65536"),
    ],
)
def test_a_given_vector_that_no_store_takes_is_refused(tmp_path, vector, message):
    with SpectorMemory.open(tmp_path) as memory:
        with pytest.raises(ValueError, match=message):
            memory.remember("hello", vector=vector)
        assert len(memory) == 0
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("hello", vector=[1e-40, 0, 0], id="tiny")
    with SpectorMemory.open(tmp_path) as memory:
        assert ids(memory.recall([1.0, 0, 0])) == ["tiny"]
    with pytest.raises(ValueError, match="dimensions of embedding_provider must be in"):
        SpectorMemory.ephemeral(embedding_provider=_Gives([1.0], dimensions=100_000))


def test_given_vectors(models):
    with SpectorMemory.ephemeral() as memory:
        memory.remember("one", id="a", vector=[1, 0, 0])
        memory.remember("two", id="b", vector=[0, 1, 0])
        assert ids(memory.recall([0.9, 0.1, 0], k=1)) == ["a"]
        with pytest.raises(ValueError, match="vector must have 3 dimensions"):
            memory.remember("three", vector=[1, 0])
        assert len(memory) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_search_mode": "hybird"}, "did you mean 'hybrid'"),
        ({"gamma": -1}, r"gamma must be in \[0, 10\]"),
        ({"gamma": float("nan")}, r"gamma must be in \[0, 10\]"),
        ({"rrf_k": 0}, r"rrf_k must be in \[1, 1000\]"),
        ({"fusion": "sum"}, "fusion must be one of 'relative', 'rrf'"),
        ({"reranker_depth": 4}, r"reranker_depth must be in \[5, 100\]"),
        ({"min_valence": -129}, r"min_valence must be in \[-128, 127\]"),
        ({"min_importance": 11}, r"min_importance must be in \[0, 10\]"),
        ({"alpha": 0, "beta": 0}, "alpha and beta must not both be 0"),
        ({"strictness": 0}, "strictness must be in"),
    ],
)
def test_bad_options_name_what_is_allowed(options, message):
    with pytest.raises(ValueError, match=message):
        RecallOptions(**options)


@pytest.mark.parametrize(
    ("traits", "error", "message"),
    [
        ({"valence": 200}, ValueError, r"valence must be in \[-128, 127\], not 200"),
        ({"arousal": -1}, ValueError, r"arousal must be in \[0, 255\]"),
        ({"importance": 0}, ValueError, r"importance must be in \[0.05, 10\]"),
        ({"urgency": 2}, ValueError, r"urgency must be in \[0, 1\]"),
        ({"pinned": "yes"}, TypeError, "pinned must be True or False"),
        ({"about": [""]}, ValueError, "each of about"),
        ({"vector": [[1.0]]}, ValueError, "vector must have 1 dimension"),
        ({"vector": [float("inf")]}, ValueError, r"vector\[0\] is inf"),
    ],
)
def test_gen_9_traits_out_of_range_are_refused(traits, error, message):
    with SpectorMemory.ephemeral() as memory:
        with pytest.raises(error, match=message):
            memory.remember("x", **traits)
        assert len(memory) == 0


def test_traits_are_kept(tmp_path):
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember(
            "x", id="a", about=["Alice", "Bob"], valence=-40, pinned=True, unresolved=True
        )
        memory.remember("y", id="b", importance=7, arousal=9)
    with SpectorMemory.open(tmp_path) as memory:
        found = memory.inspect("a")
        assert (found.about, found.valence, found.arousal) == (("Alice", "Bob"), -40, 80)
        assert found.pinned
        assert found.unresolved
        other = memory.inspect("b")
        assert (other.importance, other.arousal, other.pinned) == (7, 9, False)
        assert np.isfinite(found.importance)
