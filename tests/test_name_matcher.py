"""NameMatcher: names in running text (AM-10, XCP-3, EXP-1 step 5e)."""

from __future__ import annotations

import threading
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.names import LONGEST, Names
from spector._core import NameMatcher
from spector.store.names import NameIndex

# Characters that were there in the Unicode of all versions in use.
characters = st.characters(
    exclude_categories=("Cs", "Cn", "Co"), max_codepoint=0x2FFF, exclude_characters="\x00"
).filter(lambda c: unicodedata.category(unicodedata.normalize("NFKC", c)[0]) != "Cn")
some_words = st.sampled_from(
    ["a", "b", "A", "B", "Straße", "STRASSE", "é", "e\u0301", "ﬁ", "x_1", "1"]
)
gaps = st.sampled_from([" ", "  ", "-", ", ", "\n"])
texts = st.one_of(
    st.lists(st.tuples(some_words, gaps), max_size=16).map(
        lambda parts: "".join(word + gap for word, gap in parts)
    ),
    st.text(characters, max_size=20),
    st.text(st.characters(max_codepoint=127), max_size=20),
)


@given(names=st.lists(texts, max_size=12), text=texts)
def test_it_finds_what_a_plain_search_finds(names: list[str], text: str) -> None:
    """AM-10: also while names come in."""
    matcher, model = NameMatcher(), Names()
    for number, name in enumerate(names):
        assert matcher.add(name, number % 5) == model.add(name, number % 5)
        assert matcher.find(text) == model.find(text)
        assert matcher.find(name) == model.find(name)
    assert matcher.size() == len(model.numbers)


def test_many_names_at_once() -> None:
    """The same as one after the other; of overlapping names the longest at the first place."""
    matcher = NameMatcher()
    names = ["New York", "New York City", "York", "city hall"]
    matcher.add_many(names, np.arange(4, dtype=np.uint32))
    assert matcher.find("In New York City Hall; york") == [("new york city", [1], 3, 16)]
    assert matcher.find("new york, York") == [("york", [2], 10, 14)]
    assert matcher.find("new york") == [("new york", [0], 0, 8)]
    with pytest.raises(ValueError, match="equal lengths"):
        matcher.add_many(names, np.arange(3, dtype=np.uint32))
    with pytest.raises(TypeError, match="name must be str"):
        matcher.add(5, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text must be str"):
        matcher.find(None)  # type: ignore[arg-type]


def test_a_hundred_thousand_names() -> None:
    """Each is found in a text of all of them; memory grows with the names only."""
    count = 100_000
    names = [f"Name{i} of{i % 300}" for i in range(count)]
    matcher = NameMatcher()
    matcher.add_many(names, np.arange(count, dtype=np.uint32))
    assert matcher.size() == count
    found = matcher.find(" and ".join(names))
    assert [numbers for _, numbers, _, _ in found] == [[i] for i in range(count)]
    assert matcher.memory_bytes() < 200 * count


def test_a_name_may_be_long_and_a_text_one_word_over_and_over() -> None:
    """A search is linear: names of the most words, none of which ends where it could."""
    matcher = NameMatcher()
    assert matcher.add("a " * (LONGEST - 1) + "b", 1)
    assert not matcher.add("a " * (LONGEST + 1), 2)
    assert matcher.find("a " * 200_000) == []
    assert matcher.find("a " * 200_000 + "b") == [
        ("a " * (LONGEST - 1) + "b", [1], 2 * (200_000 - LONGEST + 1), 400_001)
    ]


def test_threads_search_while_one_adds() -> None:
    """GEN-8: searches give up the GIL, and see a name or not."""
    matcher = NameMatcher()
    text = " ".join(f"n{i}" for i in range(500))
    problems: list[object] = []
    done = threading.Event()

    def search() -> None:
        before = 0
        while not done.is_set():
            found = matcher.find(text)
            if len(found) < before or any(name != f"n{n[0]}" for name, n, _, _ in found):
                problems.append(found)
            before = len(found)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(500):
        matcher.add(f"n{i}", i)
    done.set()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(matcher.find(text)) == 500


def test_an_index_finds_a_name_without_what_is_in_parentheses() -> None:
    """AM-10: "Inception (film)" is meant by "Inception"."""
    index = NameIndex()
    index.add("Inception (film)", 1)
    index.add("Inception (song)", 2)
    assert list(index.find("Inception")) == [("inception", [1, 2])]
    assert list(index.find("the Inception Film")) == [("inception film", [1])]
    assert index.places("see Inception") == [("inception", [1, 2], 4, 13)]
    assert len(index) == 3
    assert index.memory_usage() > 0
