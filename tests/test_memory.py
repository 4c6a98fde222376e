"""SpectorMemory as people use it (API-*), and against a model."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import threading
import weakref
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from spector import (
    ClosedError,
    DuplicateMemoryError,
    Memory,
    RecallOptions,
    Results,
    SpectorError,
    SpectorMemory,
    UnknownMemoryError,
)
from spector.lexical import TextIndex
from spector.store import Space, check
from spector.store.reader import Reader

NOW = 1_900_000_000_000
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon"]


@pytest.fixture(params=["disk", "ephemeral"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SpectorMemory]:
    if request.param == "disk":
        opened = SpectorMemory.open(tmp_path / "space", clock=lambda: NOW, seed=7)
    else:
        opened = SpectorMemory.ephemeral(clock=lambda: NOW, seed=7)
    with opened:
        yield opened


def ids(hits: Results) -> list[str]:
    return [hit.id for hit in hits]


# --- remember and inspect -----------------------------------------------------------------------


def test_what_is_remembered_comes_back(memory: SpectorMemory) -> None:
    memory_id = memory.remember(
        "Deploy failed",
        id="m1",
        tags=["  Data\tBase ", "DEPLOY", "deploy"],
        type="episodic",
        source="tool",
        session="s1",
        author="ann",
        context="log",
        timestamp="2031-01-07T12:00:00Z",
        metadata={"n": 1, "deep": {"list": [1.5, None, "ü"]}},
    )
    assert memory_id == "m1"
    assert memory.inspect("m1") == Memory(
        id="m1",
        text="Deploy failed",
        tags=("data base", "deploy"),
        type="episodic",
        source="tool",
        session="s1",
        author="ann",
        context="log",
        timestamp=1_925_553_600_000,
        created=NOW,
        updated=NOW,
        metadata={"n": 1, "deep": {"list": [1.5, None, "ü"]}},
        importance=5.025,
    )


def test_defaults(memory: SpectorMemory) -> None:
    memory.remember("text", id="a")
    found = memory.inspect("a")
    assert found == Memory(
        *("a", "text", (), "semantic", "user_stated", None, None, None, NOW, NOW, NOW, {}),
        importance=5.025,  # nothing said and nothing to compare with (IMP-1)
    )
    assert (found.about, found.valence, found.arousal) == ((), 0, 0)
    assert not found.pinned
    assert not found.unresolved


def test_made_ids(memory: SpectorMemory) -> None:  # API-2
    made = [memory.remember("text"), *memory.remember_many([{"text": "b"}, {"text": "c"}])]
    assert made == sorted(set(made))
    assert {len(name) for name in made} == {13}
    assert all(name in memory for name in made)


def test_a_made_id_that_exists_is_made_anew(tmp_path: Path) -> None:
    with (
        SpectorMemory.open(tmp_path, clock=lambda: NOW, seed=1) as one,
        SpectorMemory.open(tmp_path, clock=lambda: NOW, seed=1) as two,
    ):
        made = [handle.remember("text") for handle in (one, two, one, two)]
        made += two.remember_many([{"text": "text"}] * 3)
        assert len(set(made)) == len(one) == 7


def test_equal_seed_and_clock_give_equal_ids() -> None:  # GEN-2
    made = []
    for _ in range(2):
        with SpectorMemory.ephemeral(clock=lambda: NOW, seed=3) as memory:
            made.append([memory.remember("a"), memory.remember("b")])
    assert made[0] == made[1]


def test_an_update_replaces_all_but_place_and_creation(tmp_path: Path) -> None:  # API-2, GEN-4
    times = iter(range(NOW, NOW + 10))
    with SpectorMemory.open(tmp_path, clock=lambda: next(times)) as memory:
        memory.remember("red fox", id="a", tags=["x"], author="ann", metadata={"k": 1})
        memory.remember("red owl", id="b")
        memory.remember("red ant", id="a", tags=["y"])
        found = memory.inspect("a")
        assert (found.text, found.tags, found.author, found.metadata) == (
            "red ant",
            ("y",),
            None,
            {},
        )
        assert (found.created, found.updated, found.timestamp) == (NOW, NOW + 2, NOW + 2)
        assert not memory.recall("fox")
        assert ids(memory.recall("red")) == ["a", "b"]  # equal scores, older slot first
        assert not memory.browse(tags=["x"])
        assert len(memory) == 2


@pytest.mark.parametrize("many", [False, True])
def test_conflicts(memory: SpectorMemory, many: bool) -> None:
    def remember(text: str, how: str) -> None:
        if many:
            memory.remember_many([{"text": text, "id": "a"}], on_conflict=how)
        else:
            memory.remember(text, id="a", on_conflict=how)

    remember("first", "error")
    remember("second", "ignore")
    assert memory.inspect("a").text == "first"
    with pytest.raises(DuplicateMemoryError, match="a memory has the id 'a' already"):
        remember("third", "error")
    assert memory.inspect("a").text == "first"
    remember("fourth", "update")
    assert memory.inspect("a").text == "fourth"
    assert memory.status().events == 2


# --- remember_many ------------------------------------------------------------------------------


def test_many_come_lazily_and_in_batches(memory: SpectorMemory) -> None:
    pulled: list[int] = []
    stored: list[tuple[int, int, int]] = []

    def items() -> Iterator[dict[str, Any]]:
        for number in range(7):
            pulled.append(number)
            yield {"text": f"item {number}", "id": str(number), "tags": ["t"]}

    def progress(done: int) -> None:  # no lock is held: the memory may be used
        stored.append((done, len(pulled), len(memory)))
        memory.remember("seen", id=f"progress {done}")
        assert len(memory.recall("seen", k=100)) == len(stored)

    assert memory.remember_many(items(), batch_size=3, progress=progress) == list("0123456")
    assert stored == [(3, 3, 3), (6, 6, 7), (7, 7, 9)]


def test_many_of_nothing(memory: SpectorMemory) -> None:
    assert memory.remember_many([]) == []
    assert memory.remember_many(iter(()), progress=pytest.fail) == []


@pytest.mark.parametrize("batch_size", [1, 2, 100])
@pytest.mark.parametrize("how", ["update", "ignore"])
def test_many_equal_one_after_the_other(batch_size: int, how: str) -> None:  # F-075
    items = [
        {"text": "same", "id": "a", "tags": ["one"]},
        {"text": "same", "id": "b"},
        {"text": "same again", "id": "a", "tags": ["two"]},
        {"text": "other", "id": "c"},
        {"text": "other again", "id": "b"},
    ]
    with (
        SpectorMemory.ephemeral(clock=lambda: NOW) as one,
        SpectorMemory.ephemeral(clock=lambda: NOW) as many,
    ):
        names = [one.remember(**item, on_conflict=how) for item in items]
        assert many.remember_many(items, batch_size=batch_size, on_conflict=how) == names
        assert many.browse() == one.browse()
        for query in ("same", "again other"):
            assert list(many.recall(query)) == list(one.recall(query))


def test_a_bad_item_undoes_its_batch_only(memory: SpectorMemory) -> None:
    items: list[dict[str, Any]] = [{"text": f"item {number}"} for number in range(5)]
    items.insert(3, {"text": None})
    with pytest.raises(TypeError, match=r"^item 3: text must be a str, got NoneType None$"):
        memory.remember_many(items, batch_size=2)
    assert len(memory) == 2


def test_a_duplicate_item_undoes_its_batch_only(memory: SpectorMemory) -> None:
    items = [{"text": "t", "id": name} for name in ("a", "b", "c", "c", "d")]
    with pytest.raises(DuplicateMemoryError, match=r"^item 3: a memory has the id 'c' alr"):
        memory.remember_many(items, batch_size=2, on_conflict="error")
    assert sorted(found.id for found in memory.browse()) == ["a", "b"]


def test_an_iterable_that_raises_undoes_its_batch_only(memory: SpectorMemory) -> None:
    def items() -> Iterator[dict[str, Any]]:
        for number in range(5):
            yield {"text": f"item {number}"}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.remember_many(items(), batch_size=2)
    assert len(memory) == 4


# --- recall and its filters ---------------------------------------------------------------------


@pytest.fixture
def shelf(memory: SpectorMemory) -> SpectorMemory:
    day = 86_400_000
    rows = [
        ("a", ["Red", "big"], "semantic", "ann", 0),
        ("b", ["red"], "episodic", "bob", day - 1),
        ("c", ["big"], "semantic", "ann", day),
        ("d", [], "procedural", None, 2 * day),
        ("e", ["red", "big", "old"], "semantic", "ann", -day),
    ]
    memory.remember_many(
        {
            "text": "apple",
            "id": name,
            "tags": tags,
            "type": kind,
            "author": author,
            "timestamp": NOW // day * day + when,
        }
        for name, tags, kind, author, when in rows
    )
    memory.remember("pear", id="p", tags=["red"], author="ann")
    return memory


DAY = "2030-03-17"  # the day of NOW


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({}, "abcde"),
        ({"tags": ["RED"]}, "abe"),
        ({"tags": ["red", " big "]}, "ae"),
        ({"tags": ("red", "big"), "tag_match": "any"}, "abce"),
        ({"tags": {"old"}}, "e"),
        ({"tags": ["red", "green"]}, ""),
        ({"tags": ["old", "green"], "tag_match": "any"}, "e"),
        ({"type": "semantic"}, "ace"),
        ({"author": "bob"}, "b"),
        ({"author": "Bob"}, ""),
        ({"since": DAY}, "abcd"),
        ({"until": DAY}, "abe"),
        ({"since": DAY, "until": DAY}, "ab"),
        ({"since": datetime(2030, 3, 18, tzinfo=timezone.utc)}, "cd"),
        ({"until": datetime(2030, 3, 18)}, "abce"),
        ({"since": 10**12, "until": 0}, ""),
        ({"type": "semantic", "author": "ann", "tags": ["big"], "since": DAY}, "ac"),
    ],
)
def test_filters(shelf: SpectorMemory, conditions: dict[str, Any], found: str) -> None:  # F-014
    lists = {**conditions, "scoring_mode": "similarity"}  # tags would change the order of equals
    assert "".join(ids(shelf.recall("apple", **lists))) == found
    options = RecallOptions(**lists)
    assert "".join(ids(shelf.recall("apple", options=options))) == found
    assert "".join(ids(shelf.recall("apple", options=lists))) == found
    with_pear = {listed.id for listed in shelf.browse(**conditions)}
    assert with_pear - {"p"} == set(found)
    scores = {hit.id: hit.score for hit in shelf.recall("apple", scoring_mode="similarity")}
    assert all(hit.score == scores[hit.id] for hit in shelf.recall("apple", **lists))


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"k": 0}, ValueError, "k must be an int of at least 1, got 0"),
        ({"k": "5"}, TypeError, "k must be an int of at least 1, got str '5'"),
        ({"tags": "red"}, TypeError, "tags must be a list or tuple of str, got str 'red'"),
        ({"tag_match": "x"}, ValueError, "tag_match must be one of 'all', 'any', got 'x'"),
        ({"type": "x"}, ValueError, "type must be one of "),
        ({"author": ""}, ValueError, "author must be a non-empty str, got ''"),
        ({"since": "x"}, ValueError, "since must be an ISO 8601 date or time"),
        ({"until": 1.5}, TypeError, "until must be an int of milliseconds"),
    ],
)
def test_options_are_checked_when_made(
    values: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{message}"):
        RecallOptions(**values)


def test_options_keep_tags_that_can_be_read_once(shelf: SpectorMemory) -> None:
    options = RecallOptions(tags=(tag for tag in ["Red"]), scoring_mode="similarity")
    assert options == RecallOptions(tags=["red"], scoring_mode="similarity")
    for _ in range(2):
        assert "".join(ids(shelf.recall("apple", options=options))) == "abe"


def test_keywords_win_over_options(shelf: SpectorMemory) -> None:
    options = RecallOptions(k=1, tags=["red"], author="bob", scoring_mode="similarity")
    assert ids(shelf.recall("apple", options=options)) == ["b"]
    assert ids(shelf.recall("apple", options=options, author=None)) == ["a"]
    assert ids(shelf.recall("apple", options=options, author="ann", k=10)) == ["a", "e"]
    assert ids(shelf.recall("apple", options={"k": 1, "scoring_mode": "similarity"}, k=10)) == list(
        "abcde"
    )
    assert ids(shelf.recall("apple", options=options, tags=(), author=None, k=2)) == ["a", "b"]


@pytest.mark.parametrize("k", [1, 3, 5, 6, 10**9, np.int64(4)])
def test_k(shelf: SpectorMemory, k: int) -> None:
    assert ids(shelf.recall("apple", k=k, scoring_mode="similarity")) == list("abcde")[:k]


@pytest.mark.parametrize("query", ["", " ", "zzz", "\0", "?!", "\ud83c", 'NOT ( " * ; --'])
def test_no_text_of_a_query_raises(shelf: SpectorMemory, query: str) -> None:
    assert list(shelf.recall(query)) == []


def test_empty_space(memory: SpectorMemory) -> None:  # F-037
    assert list(memory.recall("anything")) == []
    assert memory.browse() == []
    assert len(memory) == 0
    assert memory
    memory.remember("", id="empty")
    assert memory.inspect("empty").text == ""
    assert list(memory.recall("empty")) == []


def test_context_is_searched(memory: SpectorMemory) -> None:  # AM-3
    memory.remember("I would rather not", id="a", context="Bartleby")
    assert ids(memory.recall("bartleby")) == ["a"]
    assert memory.inspect("a").text == "I would rather not"


def test_results(shelf: SpectorMemory) -> None:
    results = shelf.recall("apple pear", k=3)
    assert isinstance(results, Results)
    assert results.query == "apple pear"
    assert results.seconds > 0
    assert len(results) == 3
    assert [hit.id for hit in results[:2]] == ids(results)[:2]
    assert isinstance(results[1:], Results)
    hit = results[0]
    assert (hit.id, hit.text, hit.tags, hit.author) == ("p", "pear", ("red",), "ann")
    assert hit.memory == shelf.inspect("p")
    assert repr(results).startswith("<3 hits for 'apple pear' in ")
    assert "p  pear" in repr(results)
    assert len(repr(shelf.recall("apple " * 1000))) < 1000


def test_browse_pages(shelf: SpectorMemory) -> None:
    everything = shelf.browse()
    assert [found.id for found in everything] == ["d", "c", "b", "p", "a", "e"]
    pages, after = [], None
    while page := shelf.browse(limit=4, after=after):
        pages.append([found.id for found in page])
        assert page[-1].id != after
        after = page[-1].id
    assert pages == [["d", "c", "b", "p"], ["a", "e"]]
    assert [found.id for found in shelf.browse(tags=["red"], after="b", limit=1)] == ["p"]


def test_equal_times_page_without_gap_or_repeat(memory: SpectorMemory) -> None:
    memory.remember_many({"text": "t", "id": str(number)} for number in range(10))
    seen, after = [], None
    while page := memory.browse(limit=3, after=after):
        seen += [found.id for found in page]
        assert page[-1].id != after
        after = page[-1].id
    assert seen == [str(number) for number in reversed(range(10))]


def test_explain(shelf: SpectorMemory) -> None:
    hit = shelf.recall("apple pear", text_search_mode="keyword_only")[0]
    explanation = shelf.explain("p", "apple pear")
    assert explanation.id == "p"
    assert explanation.score == pytest.approx(hit.score, rel=1e-6)
    assert [term.term for term in explanation.terms] == ["pear"]
    assert explanation.score == sum(term.contribution for term in explanation.terms)
    nothing = shelf.explain("a", "pear")
    assert (nothing.score, nothing.terms) == (0, ())


def test_forget(shelf: SpectorMemory) -> None:
    shelf.forget("a")
    assert ids(shelf.recall("apple", scoring_mode="similarity")) == list("bcde")
    assert "a" not in shelf
    assert "a" not in [found.id for found in shelf.browse(tags=["red"])]
    assert len(shelf) == 5
    shelf.remember("apple", id="a")
    # A new memory, a new place.
    assert ids(shelf.recall("apple", scoring_mode="similarity")) == list("bcdea")


@pytest.mark.parametrize(
    "call",
    [
        lambda memory: memory.forget("nobody"),
        lambda memory: memory.inspect("nobody"),
        lambda memory: memory.explain("nobody", "apple"),
        lambda memory: memory.browse(after="nobody"),
    ],
    ids=["forget", "inspect", "explain", "browse"],
)
def test_unknown_ids(shelf: SpectorMemory, call: Any) -> None:
    events = shelf.status().events
    with pytest.raises(UnknownMemoryError, match=r"^no memory has the id 'nobody'$") as raised:
        call(shelf)
    assert isinstance(raised.value, KeyError)
    assert isinstance(raised.value, SpectorError)
    assert shelf.status().events == events


def test_contains_takes_anything(shelf: SpectorMemory) -> None:
    assert "a" in shelf
    assert "x" not in shelf
    assert 5 not in shelf
    assert "\ud800" not in shelf
    assert "" not in shelf
    shelf.close()
    for name in ("a", "\ud800", 5):
        with pytest.raises(ClosedError):
            _ = name in shelf


def test_status(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path, clock=lambda: NOW) as memory:
        assert memory.status().last_event is None
        memory.remember("one two three", id="a")
        memory.remember("one", id="b")
        memory.forget("b")
        status = memory.status()
        assert (status.path, status.documents, status.events) == (str(tmp_path), 1, 3)
        assert (status.terms, status.postings) >= (3, 3)
        assert status.index_bytes > 0
        assert status.journal_bytes >= (tmp_path / "journal.db").stat().st_size
        assert status.last_event == NOW
        assert status.as_dict()["documents"] == 1
        assert set(status.as_dict()) == set(status.__slots__)
    with SpectorMemory.ephemeral() as memory:
        status = memory.status()
        assert (status.path, status.journal_bytes) == (None, 0)


# --- bad input ----------------------------------------------------------------------------------

deep: list[object] = []
for _ in range(100_000):
    deep = [deep]
circle: dict[str, object] = {}
circle["self"] = circle

BAD_ITEMS = [
    ({"text": 5}, TypeError, "text must be a str, got int 5"),
    ({"text": b"bytes"}, TypeError, "text must be a str, got bytes b'bytes'"),
    ({"text": None}, TypeError, "text must be a str, got NoneType None"),
    ({"id": ""}, ValueError, "id must be a non-empty str, got ''"),
    ({"id": 7}, TypeError, "id must be a non-empty str, got int 7"),
    ({"id": True}, TypeError, "id must be a non-empty str, got bool True"),
    ({"id": "a\ud800"}, ValueError, r"id must be valid Unicode .*, got 'a\\ud800'"),
    ({"tags": "deploy"}, TypeError, "tags must be a list or tuple of str, got str 'deploy'"),
    ({"tags": 3}, TypeError, "tags must be a list or tuple of str, got int 3"),
    ({"tags": {"a": 1}}, TypeError, "tags must be a list or tuple of str, got dict"),
    ({"tags": ["a", 1]}, TypeError, "each of tags must be a str, got int 1"),
    ({"tags": ["a", ["b"]]}, TypeError, "each of tags must be a str, got list"),
    ({"tags": ["a", " \t"]}, ValueError, "tags must hold only non-empty tags, got "),
    ({"type": "semantics"}, ValueError, "type must be one of 'working', .* did you mean 'semantic"),
    ({"type": None}, TypeError, "type must be one of .*, got NoneType None"),
    ({"source": ""}, ValueError, "source must be a non-empty str, got ''"),
    ({"source": None}, TypeError, "source must be a non-empty str, got NoneType None"),
    ({"session": ""}, ValueError, "session must be a non-empty str, got ''"),
    ({"session": 1}, TypeError, "session must be a non-empty str, got int 1"),
    ({"author": ""}, ValueError, "author must be a non-empty str, got ''"),
    ({"author": ["ann"]}, TypeError, "author must be a non-empty str, got list"),
    ({"context": 1}, TypeError, "context must be a str, got int 1"),
    ({"timestamp": 1.5}, TypeError, "timestamp must be an int of milliseconds .* got float 1.5"),
    ({"timestamp": math.nan}, TypeError, "timestamp must be an int .* got float nan"),
    ({"timestamp": True}, TypeError, "timestamp must be an int .* got bool True"),
    ({"timestamp": 10**20}, ValueError, "timestamp must be milliseconds between .*10+"),
    ({"timestamp": "yesterday"}, ValueError, "timestamp must be an ISO 8601 .* got 'yesterday'"),
    ({"timestamp": ""}, ValueError, "timestamp must be an ISO 8601 .* got ''"),
    ({"metadata": []}, TypeError, "metadata must be a mapping with str keys, got list"),
    ({"metadata": {"a": math.nan}}, ValueError, "metadata must be JSON-serialisable, got .*nan"),
    ({"metadata": {"a": math.inf}}, ValueError, "metadata must be JSON-serialisable, got .*inf"),
    ({"metadata": {"a": b"x"}}, TypeError, "metadata must be JSON-serialisable, got .*bytes"),
    ({"metadata": {1: "a"}}, TypeError, "each key of metadata must be a str, got int 1"),
    ({"metadata": {"a": [{None: 1}]}}, TypeError, "each key of metadata must be a str, got Non"),
    ({"metadata": circle}, ValueError, "metadata must be JSON-serialisable, got .*ircular"),
    ({"metadata": {"a": deep}}, ValueError, "metadata must be JSON-serialisable, got .*recursion"),
]


@pytest.mark.parametrize(("bad", "error", "message"), BAD_ITEMS)
def test_bad_memories(
    memory: SpectorMemory, bad: dict[str, Any], error: type[Exception], message: str
) -> None:
    item = {"text": "t", **bad}
    with pytest.raises(error, match=f"^{message}") as raised:
        memory.remember(**item)
    assert type(raised.value) is error
    assert len(str(raised.value)) < 350
    with pytest.raises(error, match=rf"^item 1: {message}"):
        memory.remember_many([{"text": "good"}, item])
    assert memory.status().events == 0


BAD_CALLS = [
    ("remember", ("t",), {"on_conflict": "replace"}, ValueError, "on_conflict must be one of 'upd"),
    ("remember", ("t",), {"on_conflict": None}, TypeError, "on_conflict must be one of 'update"),
    ("remember", ("t",), {"tag": "x"}, TypeError, ".*unexpected keyword argument 'tag'"),
    ("remember_many", ("text",), {}, TypeError, "items must be an iterable of mappings, got str"),
    ("remember_many", ({"text": "t"},), {}, TypeError, "items must be an iterable .* got dict"),
    ("remember_many", (5,), {}, TypeError, "items must be an iterable of mappings, got int 5"),
    ("remember_many", (["t"],), {}, TypeError, r"item 0: item must be a mapping, got str 't'"),
    ("remember_many", ([{}],), {}, TypeError, r"item 0: item has no 'text'"),
    (
        "remember_many",
        ([{"text": "t", "tag": "x"}],),
        {},
        TypeError,
        r"item 0: item has the unknown key 'tag'; did you mean 'tags'\? \(known: text, id,",
    ),
    ("remember_many", ([{"text": "t", 5: 1}],), {}, TypeError, ".* has the unknown key 5 "),
    ("remember_many", ([],), {"batch_size": 0}, ValueError, "batch_size must be an int of at le"),
    ("remember_many", ([],), {"batch_size": 1.5}, TypeError, "batch_size must be an int .* got f"),
    ("remember_many", ([],), {"progress": 5}, TypeError, "progress must be callable, got 5"),
    ("remember_many", ([],), {"on_conflict": ""}, ValueError, "on_conflict must be one of 'upd"),
    ("recall", (5,), {}, TypeError, "query must be a str or a vector, got int 5"),
    ("recall", (None,), {}, TypeError, "query must be a str or a vector, got NoneType None"),
    ("recall", ("q",), {"k": 0}, ValueError, "k must be an int of at least 1, got 0"),
    ("recall", ("q",), {"k": -3}, ValueError, "k must be an int of at least 1, got -3"),
    ("recall", ("q",), {"k": True}, TypeError, "k must be an int of at least 1, got bool True"),
    ("recall", ("q",), {"k": 2.0}, TypeError, "k must be an int of at least 1, got float 2.0"),
    ("recall", ("q",), {"k": None}, TypeError, "k must be an int of at least 1, got NoneType"),
    ("recall", ("q",), {"k": "5"}, TypeError, "k must be an int of at least 1, got str '5'"),
    ("recall", ("q",), {"tags": "red"}, TypeError, "tags must be a list or tuple of str, got str"),
    ("recall", ("q",), {"tags": [""]}, ValueError, "tags must hold only non-empty tags"),
    (
        "recall",
        ("q",),
        {"tags": list(map(str, range(999)))},
        ValueError,
        "tags must be at most 256",
    ),
    ("recall", ("q",), {"tag_match": "both"}, ValueError, "tag_match must be one of 'all', 'any'"),
    ("recall", ("q",), {"type": "fact"}, ValueError, "type must be one of 'working', 'episodic'"),
    ("recall", ("q",), {"author": ""}, ValueError, "author must be a non-empty str, got ''"),
    ("recall", ("q",), {"since": "x"}, ValueError, "since must be an ISO 8601 date"),
    ("recall", ("q",), {"until": math.nan}, TypeError, "until must be an int of milliseconds"),
    ("recall", ("q",), {"options": 5}, TypeError, "options must be a RecallOptions or a mapping"),
    (
        "recall",
        ("q",),
        {"options": {"top_k": 5}},
        TypeError,
        "options has the unknown key 'top_k'",
    ),
    (
        "recall",
        ("q",),
        {"options": {"autor": "x"}},
        TypeError,
        r"options has the unknown key 'autor'; did you mean 'author'\? \(known: k, profile,",
    ),
    ("recall", ("q",), {"options": {"k": 0}}, ValueError, "k must be an int of at least 1, got 0"),
    ("forget", ("",), {}, ValueError, "id must be a non-empty str, got ''"),
    ("forget", (5,), {}, TypeError, "id must be a non-empty str, got int 5"),
    ("inspect", (None,), {}, TypeError, "id must be a non-empty str, got NoneType None"),
    ("explain", ("", "q"), {}, ValueError, "id must be a non-empty str, got ''"),
    ("explain", ("a", 5), {}, TypeError, "query must be a str, got int 5"),
    ("browse", (), {"limit": 0}, ValueError, "limit must be an int of at least 1, got 0"),
    ("browse", (), {"limit": None}, TypeError, "limit must be an int of at least 1, got NoneType"),
    ("browse", (), {"after": 5}, TypeError, "after must be a non-empty str, got int 5"),
    ("browse", (), {"type": 5}, TypeError, "type must be one of .*, got int 5"),
]


@pytest.mark.parametrize(("method", "arguments", "keywords", "error", "message"), BAD_CALLS)
def test_bad_calls(
    memory: SpectorMemory,
    method: str,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=f"^{message}"):
        getattr(memory, method)(*arguments, **keywords)
    assert memory.status().events == 0


BAD_OPTIONS = [
    ({"k1": -1}, ValueError, "k1"),
    ({"k1": 3.5}, ValueError, "k1"),
    ({"k1": math.nan}, ValueError, "k1"),
    ({"k1": "1"}, TypeError, "k1"),
    ({"k1": True}, TypeError, "k1"),
    ({"b": 1.5}, ValueError, "b"),
    ({"b": None}, TypeError, "b"),
    ({"analyzer": "words"}, ValueError, "analyzer"),
    ({"analyzer": str.split}, TypeError, "analyzer must be the name of one"),
    ({"language": "klingon"}, ValueError, "language"),
    ({"language": 5}, TypeError, "language"),
    ({"clock": 5}, TypeError, "clock must be callable, got 5"),
    ({"seed": 1.5}, TypeError, "seed must be an int, got 1.5"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD_OPTIONS)
def test_bad_options(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        SpectorMemory.open(tmp_path / "space", **options)
    with pytest.raises(error, match=message):
        SpectorMemory.ephemeral(**options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "options", "error", "message"),
    [
        (5, {}, TypeError, "path must be a str or PathLike, got int 5"),
        (None, {}, TypeError, "path must be a str or PathLike, got NoneType None"),
        (b"folder", {}, TypeError, "path must be a str or PathLike, got bytes b'folder'"),
        ("", {}, ValueError, "path must be the name of a folder, got ''"),
        ("a\0b", {}, ValueError, r"path must be the name of a folder, got 'a\\x00b'"),
        ("a\ud800", {}, ValueError, r"path must be the name of a folder, got 'a\\ud800'"),
        ("space", {"busy_timeout": -1}, ValueError, "busy_timeout must be between 0 and 2000000"),
        ("space", {"busy_timeout": math.nan}, ValueError, "busy_timeout must be between .* nan"),
        ("space", {"busy_timeout": "5"}, TypeError, "busy_timeout must be a number of seconds, g"),
        ("space", {"unknown": 5}, TypeError, "unexpected keyword argument 'unknown'"),
    ],
)
def test_bad_open(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: Any,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:  # F-048
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        SpectorMemory.open(path, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("now", [1.5, "now", None, True, 10**20])
def test_a_clock_that_gives_nonsense(now: Any) -> None:
    with SpectorMemory.ephemeral(clock=lambda: now) as memory:
        with pytest.raises((TypeError, ValueError), match="clock"):
            memory.remember("t")
        assert len(memory) == 0


# --- closing ------------------------------------------------------------------------------------


def test_a_closed_memory_says_so(memory: SpectorMemory) -> None:  # PER-11
    memory.remember("t", id="a")
    memory.close()
    memory.close()
    calls = [
        lambda: memory.remember("t"),
        lambda: memory.remember_many([{"text": "t"}]),
        lambda: memory.remember_many([]),
        lambda: memory.recall("t"),
        lambda: memory.forget("a"),
        lambda: memory.inspect("a"),
        lambda: memory.browse(),
        lambda: memory.explain("a", "t"),
        lambda: memory.status(),
        lambda: len(memory),
        lambda: "a" in memory,
        lambda: memory.__enter__(),
    ]
    for call in calls:
        with pytest.raises(ClosedError, match="is closed; open the space again"):
            call()
    assert "closed" in repr(memory)


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_copy(memory: SpectorMemory, make: Any) -> None:
    message = "^a SpectorMemory cannot be copied or pickled: open the folder again$"
    with pytest.raises(TypeError, match=message):
        make(memory)
    memory.remember("t", id="a")
    assert "a" in memory


def test_the_object_is_not_kept_alive(tmp_path: Path) -> None:  # F-083
    memory = SpectorMemory.open(tmp_path)
    memory.remember("t")
    holder = SimpleNamespace(memory=memory)
    holder.circle = holder
    gone = weakref.ref(memory)
    del memory, holder
    gc.collect()
    assert gone() is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["journal.db", "lock"]  # no log left


def test_closing_while_others_read_and_write(tmp_path: Path) -> None:
    memory = SpectorMemory.open(tmp_path)
    stored: list[str] = []
    unexpected: list[BaseException] = []

    def work(act: Any) -> None:
        try:
            while True:
                act()
        except ClosedError:
            pass
        except BaseException as error:
            unexpected.append(error)

    acts = [lambda: stored.append(memory.remember("a text")), lambda: memory.recall("text")]
    threads = [threading.Thread(target=work, args=(act,)) for act in acts * 2]
    for thread in threads:
        thread.start()
    while len(stored) < 20:
        pass
    memory.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert unexpected == []
    with SpectorMemory.open(tmp_path) as memory:
        assert all(name in memory for name in stored)


# --- threads ------------------------------------------------------------------------------------


def test_readers_see_whole_memories(memory: SpectorMemory) -> None:  # API-6, F-076, F-082
    """Each version of a memory has one word, n times: a hit's score must be that of its text."""
    versions = [f"{WORDS[n]} " * (n + 1) for n in range(5)]
    stop = threading.Event()
    wrong: list[object] = []
    seen = [0] * 4

    def write() -> None:
        try:
            for turn in range(150):
                memory.remember_many(
                    {"text": f"common {versions[(turn + n) % 5]}", "id": f"id {n}"}
                    for n in range(5)
                )
                memory.forget(f"id {turn % 5}")
        except BaseException as error:
            wrong.append(error)
        finally:
            stop.set()

    def read(number: int) -> None:
        try:
            while not stop.is_set() or not seen[number]:
                for n in range(5):
                    for hit in memory.recall(WORDS[n]):
                        seen[number] += 1
                        if hit.text != f"common {versions[n]}":
                            wrong.append((n, hit))
                if len({hit.id for hit in memory.recall("common", k=20)}) < 4:
                    wrong.append("a memory was missing")
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=write)]
    threads += [threading.Thread(target=read, args=(number,)) for number in range(4)]
    memory.remember_many({"text": f"common {versions[n]}", "id": f"id {n}"} for n in range(5))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert wrong == []
    assert all(seen)


def test_a_search_beside_a_change_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # API-6
    """The reader fixes its state, then a writer commits and stands in the middle of its change."""
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("red", id="a")
        writer = threading.Thread(
            target=lambda: (memory.remember("red fox", id="a"), memory.status())
        )
        in_the_middle, second_try = threading.Event(), threading.Event()
        newest_event, put = Reader.newest_event, TextIndex.put

        def slow_put(index: TextIndex, *arguments: Any) -> None:
            put(index, *arguments)
            in_the_middle.set()
            second_try.wait(5)

        def slow_reader(reader: Reader) -> int:
            newest = newest_event(reader)
            if threading.current_thread() is threading.main_thread():
                if in_the_middle.is_set():
                    second_try.set()
                else:
                    writer.start()
                    assert in_the_middle.wait(30)
            return newest

        monkeypatch.setattr(TextIndex, "put", slow_put)
        monkeypatch.setattr(Reader, "newest_event", slow_reader)
        (hit,) = memory.recall("red", text_search_mode="keyword_only")
        writer.join(30)
        assert hit.text == "red fox"
        assert hit.score == memory.explain("a", "red").score


def test_what_comes_between_catching_up_and_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # AM-21
    with SpectorMemory.open(tmp_path) as one, SpectorMemory.open(tmp_path) as other:
        # As if the other handle wrote right after this one had caught up.
        monkeypatch.setattr(Space, "catch_up", lambda space: None)
        one.remember("red fox", id="a")
        other.remember("red owl", id="b")
        assert ids(other.recall("red")) == ["a", "b"]
        one.remember("red ant", id="c")
        assert ids(one.recall("red")) == ["a", "b", "c"]


def test_a_change_that_broke_off_is_made_good(
    memory: SpectorMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("red owl", id="b")
    put = TextIndex.put

    def failing_put(index: TextIndex, *arguments: Any) -> None:
        monkeypatch.undo()
        put(index, [77], ["red half of a change"], None)
        raise MemoryError

    monkeypatch.setattr(TextIndex, "put", failing_put)
    memory.remember("red fox", id="a")
    with pytest.raises(MemoryError):
        memory.recall("red")
    assert ids(memory.recall("red")) == ["b", "a"]  # it was committed, so it is there
    assert memory.status().documents == 2


@pytest.mark.parametrize("at_once", [1, 3, 10_000])
def test_a_replay_analyses_each_memory_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("spector.store.space._EVENTS_AT_ONCE", at_once)
    monkeypatch.setattr("spector.store.space._SLOTS_AT_ONCE", at_once)
    with SpectorMemory.open(tmp_path) as watcher, SpectorMemory.open(tmp_path) as memory:
        assert not watcher.recall("common")
        for turn in range(3):
            memory.remember_many(
                {"text": f"common {WORDS[(turn + n) % 5]}", "id": str(n)} for n in range(8)
            )
        for name in "50":
            memory.forget(name)
        memory.remember("common again", id="5")
        queries = ["common", *WORDS]
        expected = [list(memory.recall(query)) for query in queries]
        assert ids(memory.recall("common"))[-1] == "5"
        put: list[int] = []
        real_put = TextIndex.put

        def counting_put(index: TextIndex, slots: Any, *rest: Any) -> None:
            put.extend(slots)
            real_put(index, slots, *rest)

        monkeypatch.setattr(TextIndex, "put", counting_put)
        assert [list(watcher.recall(query)) for query in queries] == expected  # another's events
        assert put == [2, 3, 4, 5, 7, 8, 9]
        put.clear()
        with SpectorMemory.open(tmp_path) as fresh:
            assert [list(fresh.recall(query)) for query in queries] == expected
        assert put == [2, 3, 4, 5, 7, 8, 9]


# --- the model ----------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
ITEMS = st.fixed_dictionaries(
    {
        "id": NAMES,
        "text": TEXTS,
        "tags": st.lists(st.sampled_from(["x", "y", "z"]), max_size=3),
        "type": st.sampled_from(["semantic", "episodic"]),
        "author": st.sampled_from([None, "ann", "bob"]),
        "timestamp": st.integers(0, 3),
        "context": st.none() | TEXTS,
    }
)
CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.lists(st.sampled_from(["x", "y", "z"]), max_size=3),
        "tag_match": st.sampled_from(["all", "any"]),
        "type": st.sampled_from(["semantic", "episodic"]),
        "author": st.sampled_from(["ann", "bob"]),
        "since": st.integers(0, 3),
        "until": st.integers(0, 3),
    },
)


class Model:
    """What a memory should do, by brute force: a dict, and BM25 as the formula says (BM25-1)."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, Any]] = {}  # in slot order: an update keeps its place

    def remember(self, item: dict[str, Any]) -> None:
        self.items[item["id"]] = item

    def allows(self, item: dict[str, Any], wanted: dict[str, Any]) -> bool:
        tags = wanted.get("tags", [])
        how = all if wanted.get("tag_match", "all") == "all" or not tags else any
        return (
            how(tag in item["tags"] for tag in tags)
            and wanted.get("type", item["type"]) == item["type"]
            and wanted.get("author", item["author"]) == item["author"]
            and wanted.get("since", 0) <= item["timestamp"] <= wanted.get("until", 3)
        )

    def scores(self, query: str) -> dict[str, float]:
        documents = {
            name: f"{item['context'] or ''} {item['text']}".split()
            for name, item in self.items.items()
        }
        count = len(documents)
        average = sum(map(len, documents.values())) / count if count else 0
        scores = dict.fromkeys(documents, 0.0)
        for term in query.split():
            having = sum(term in words for words in documents.values())
            idf = math.log((count - having + 0.5) / (having + 0.5) + 1)
            for name, words in documents.items():
                if f := words.count(term):
                    length = 1 - 0.75 + 0.75 * len(words) / average
                    scores[name] += idf * f * 2.2 / (f + 1.2 * length)
        return scores

    def check_recall(self, found: Results, query: str, k: int, wanted: dict[str, Any]) -> None:
        scores = self.scores(query)
        order = list(self.items)
        expected = [
            score
            for name, score in sorted(scores.items(), key=lambda entry: -entry[1])
            if score and self.allows(self.items[name], wanted)
        ]
        assert [hit.score for hit in found] == pytest.approx(expected[:k], rel=1e-6)
        for hit in found:
            item = self.items[hit.id]
            assert hit.score == pytest.approx(scores[hit.id], rel=1e-6)
            assert self.allows(item, wanted)
            assert (hit.text, hit.context, hit.author) == (
                item["text"],
                item["context"],
                item["author"],
            )
        places = [(-hit.score, order.index(hit.id)) for hit in found]
        assert places == sorted(places)  # equal scores: the older first (GEN-4)


class Histories(RuleBasedStateMachine):
    """Two handles on one space, and the model; any history gives equal answers (R13)."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()

    @initialize()
    def start(self) -> None:
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.handles = [self.open(), self.open()]

    def open(self) -> SpectorMemory:
        return SpectorMemory.open(self.folder.name, analyzer="whitespace", language=None)

    @rule(handle=st.integers(0, 1), item=ITEMS)
    def remember(self, handle: int, item: dict[str, Any]) -> None:
        assert self.handles[handle].remember(**item) == item["id"]
        self.model.remember(item)

    @rule(handle=st.integers(0, 1), items=st.lists(ITEMS, max_size=5), size=st.integers(1, 4))
    def remember_many(self, handle: int, items: list[dict[str, Any]], size: int) -> None:
        stored = self.handles[handle].remember_many(items, batch_size=size)
        assert stored == [item["id"] for item in items]
        for item in items:
            self.model.remember(item)

    @rule(handle=st.integers(0, 1), name=NAMES)
    def forget(self, handle: int, name: str) -> None:
        if self.model.items.pop(name, None):
            self.handles[handle].forget(name)
        else:
            with pytest.raises(UnknownMemoryError):
                self.handles[handle].forget(name)

    @rule(handle=st.integers(0, 1))
    def reopen(self, handle: int) -> None:
        self.handles[handle].close()
        self.handles[handle] = self.open()

    @rule(
        handle=st.integers(0, 1),
        query=st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=4).map(" ".join),
        k=st.integers(1, 5),
        wanted=CONDITIONS,
    )
    def recall(self, handle: int, query: str, k: int, wanted: dict[str, Any]) -> None:
        found = self.handles[handle].recall(query, k=k, scoring_mode="similarity", **wanted)
        self.model.check_recall(found, query, k, wanted)
        listed = self.handles[handle].browse(**wanted)
        order = list(self.model.items)
        expected = [
            name
            for name in sorted(
                order,
                key=lambda name: (self.model.items[name]["timestamp"], order.index(name)),
                reverse=True,
            )
            if self.model.allows(self.model.items[name], wanted)
        ]
        assert [memory.id for memory in listed] == expected

    @invariant()
    def both_handles_know_the_same(self) -> None:
        for memory in getattr(self, "handles", []):
            assert len(memory) == len(self.model.items)
            assert {name for name in "abcd" if name in memory} == self.model.items.keys()

    def teardown(self) -> None:
        if hasattr(self, "handles"):
            for memory in self.handles:
                memory.close()
            report = check(self.folder.name)
            self.folder.cleanup()
            assert report.ok, report.problems


Histories.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestHistories = Histories.TestCase


def test_rows_kept_for_the_next_recall_are_never_those_of_another_state(tmp_path):
    """AM-15: a recall sees what this handle and others have changed meanwhile."""
    with SpectorMemory.open(tmp_path / "s") as one, SpectorMemory.open(tmp_path / "s") as two:
        one.remember("alpha first", id="a")
        one.remember("alpha other", id="b", tags=["x"])
        for _ in range(2):  # the second time from what was kept
            assert {hit.text for hit in one.recall("alpha")} == {"alpha first", "alpha other"}
        for _ in range(2):
            assert [hit.id for hit in one.recall("alpha", tags=["x"])] == ["b"]
            assert [hit.id for hit in one.recall("alpha", tags=["y"])] == []
        two.remember("alpha second", id="a", tags=["y"])
        assert [hit.id for hit in one.recall("alpha", tags=["y"])] == ["a"]
        found = {hit.id: hit.memory for hit in one.recall("alpha")}
        assert found["a"].text == "alpha second" and found["a"].tags == ("y",)
        found["b"].metadata["changed"] = True
        assert one.recall("other")[0].metadata == {}
        two.forget("b")
        assert [hit.id for hit in one.recall("alpha")] == ["a"]
        one.remember("alpha third", id="a")
        assert [hit.text for hit in one.recall("alpha")] == ["alpha third"]
        assert [hit.text for hit in two.recall("alpha")] == ["alpha third"]
