"""Entities by rules: `RuleEntityExtractor` and the cleaning of any extractor's answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spector import ConfigurationError, Entity, Relation, SpectorMemory
from spector.extraction import EntityExtractor, Extraction, RuleEntityExtractor
from spector.extraction.protocol import cleaned, name_of
from spector.store.values import MAX_ENTITIES


def names(text: str, **options: Any) -> list[str]:
    found = RuleEntityExtractor(**{"max_entities": 100, **options}).extract("", text)
    return [entity.name for entity in found.entities]


# --- how names are written ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yesterday Ann Lee met Bob.", ["Ann Lee", "Bob"]),
        ("Deploy failed: ERR_CONN_RESET from db-7", ["ERR_CONN_RESET", "db-7"]),
        ("The University of Copenhagen, not the Bank of America", None),
        ("He left. She stayed. It rained.", []),
        ("Running is fun. I like Running.", ["Running"]),
        ("NASA launched it.", ["NASA"]),
        ("I'm fine; It's late; We'll see.", []),
        ("George T. Solomon and St. Maurice", ["George T. Solomon", "St. Maurice"]),
        ("seen on Monday in March", []),
        ('she read "The Third Man" and "nothing much"', ["The Third Man"]),
        ("see [[Zürich|the city]] and [Alpha docs](https://x.y/z)", ["Zürich", "Alpha docs"]),
        ("ping @bob-smith, not a@b.c", ["bob-smith"]),
        ("call `connect` or os.path.join() or std::move, in MyClass.my_method", None),
        ("Ann's house", ["Ann"]),
        ("с Анной Карениной", ["Анной Карениной"]),
        ("", []),
        ("...", []),
    ],
)
def test_names_by_how_they_are_written(text: str, expected: list[str] | None) -> None:
    """EXT-1: capitals, quotes, links, handles, code."""
    found = names(text)
    if expected is None:
        expected = {
            "The": ["University of Copenhagen", "Bank of America"],
            "cal": ["connect", "os.path.join", "std::move", "MyClass.my_method"],
        }[text[:3]]
    assert found == expected


def test_types_by_the_words_of_a_name() -> None:
    """TYP-1."""
    found = RuleEntityExtractor().extract(
        "", "With Dr. Ann Lee at Acme Corp. and the Oslo University in New York City; use `f`oo_bar"
    )
    types = {entity.name: entity.type for entity in found.entities}
    assert types["Dr. Ann Lee"] == "PERSON"
    assert types["Oslo University"] == "ORGANIZATION"
    assert types["New York City"] == "LOCATION"


def test_known_names_count_in_any_case_and_the_longer_of_two() -> None:
    """EXP-1: also without a capital; a longer run that has the name in it wins."""
    extractor = RuleEntityExtractor([("connection pool", "technology"), "Ann"])
    found = extractor.extract("", "the Connection Pool is full, says Ann Lee; ann not").entities
    assert found == (Entity("connection pool", "TECHNOLOGY"), Entity("Ann Lee"))
    extractor.add("redis", "TOOL")
    assert extractor.extract("", "redis is down").entities == (Entity("redis", "TOOL"),)


def test_the_first_ones_count() -> None:
    """EXT-2."""
    text = " and ".join(f"Name{i} X" for i in range(30))
    assert len(names(text, max_entities=MAX_ENTITIES)) == MAX_ENTITIES
    assert names(text, max_entities=2) == ["Name0 X", "Name1 X"]
    with pytest.raises(ValueError, match="max_entities"):
        RuleEntityExtractor(max_entities=0)


@given(st.text(max_size=300))
def test_any_text_gives_clean_names(text: str) -> None:
    found = RuleEntityExtractor(["a", "B c"]).extract("", text)
    assert cleaned(found).entities == found.entities
    assert len(tuple(found.entities)) <= MAX_ENTITIES


@pytest.mark.parametrize(
    "text",
    [
        "A" * 200_000,
        "a_" * 100_000,
        "A " * 100_000,
        '"' * 100_000,
        "[" * 100_000,
        "a." * 100_000,
        "Aa" * 100_000,
        "A of " * 50_000,
        "\n" * 100_000,
        "A." * 100_000,
        "@" * 100_000,
    ],
    ids=lambda text: text[:4],
)
def test_long_texts_of_one_kind_end(text: str) -> None:
    """One pass: nothing that repeats makes it slow (it would not end in time)."""
    names(text)


# --- cleaning -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["i", "He", "it", "THIS", "someone", "user", "The user", "thing", "name", "source", "x", " ",
     "", "a" * 257, "<b>", "{name}", "```", "&amp;", "---", "n/a", "...", 5, None, ["a"]],
)  # fmt: skip
def test_what_is_no_name(name: Any) -> None:
    """EXT-5: pronouns, placeholders, one character, too long, markup."""
    assert name_of(name) is None


@pytest.mark.parametrize("name", ["Ann", "C++", "it-7", "X1", "東京", "The Who", "a" * 256])
def test_what_is_a_name(name: str) -> None:
    assert name_of(f"  {name} ") == name


def test_answers_of_any_form_are_cleaned() -> None:
    """EXT-2, EXT-5: the first spelling and the caps; bad items are left out."""

    class Object:
        def __init__(self, **fields: Any) -> None:
            self.__dict__.update(fields)

    ann, fact = Entity("Ann", "PERSON"), Relation("Ann", "KNOWS", "Bob")
    for found in (
        Extraction([ann], [fact]),
        ([ann], [fact]),
        {"entities": [("Ann", "person")], "relations": [["Ann", "knows", "Bob"]]},
        Object(entities=[Object(name="Ann", type="person")], relations=[fact]),
        {"entities": [{"name": "Ann", "type": "person", "relations": [("knows", "Bob")]}]},
        {"entities": [ann, "he", 5, {"type": "x"}, ("a", "b", "c", "d")],
         "relations": [fact, ("Ann", "KNOWS", "she"), ("Ann", "IS", " ANN "), 7, ("a", "b")]},
    ):  # fmt: skip
        assert cleaned(found) == ((ann, Entity("Bob")), (fact,))
    assert cleaned(None) == ((), ())
    assert cleaned([ann, "ANN", "Carl"]) == ((ann, Entity("Carl")), ())
    assert cleaned({"entities": "Ann", "relations": 5}) == ((), ())
    with pytest.raises(TypeError, match="extract must return entities"):
        cleaned("Ann")
    many = cleaned([f"n{i}" for i in range(30)])
    assert len(tuple(many.entities)) == 10


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    ["entities", "relations", "name", "type", "role", "source", "target"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_no_answer_breaks_the_cleaning(found: Any) -> None:
    try:
        entities, relations = cleaned(found)
    except TypeError as error:
        assert "extract must return" in str(error)
        return
    assert all(name_of(entity.name) == entity.name for entity in entities)
    known = {entity.name.casefold() for entity in entities}
    assert len(known) <= 50
    assert all(len(relation) == 3 for relation in relations)


# --- in a memory --------------------------------------------------------------------------------


def test_rules_in_a_memory(tmp_path: Any) -> None:
    """EXT-1, EXT-6: at once, in the same transaction; what is given bypasses them."""
    options = {"entity_extraction_mode": "custom", "entity_extractor": "rules"}
    with SpectorMemory.open(tmp_path, **options) as memory:
        memory.remember("Ann Lee runs Project Alpha", id="1")
        memory.remember("with Ann Lee", id="2", entities=["Bob"])
        memory.remember("the budget of project alpha", id="3")
        assert [entity.name for entity in memory.inspect("1").entities] == [
            "Ann Lee",
            "Project Alpha",
        ]
        assert memory.inspect("2").entities == (Entity("Bob"),)
        assert memory.inspect("3").entities == (Entity("Project Alpha"),)  # known by now
        assert {hit.id for hit in memory.recall("Project Alpha?")} >= {"1", "3"}
        stats = memory.extraction.stats()
        assert (stats.processed, stats.entities, stats.size) == (2, 3, 0)
        assert memory.extraction.drain(1)
        assert memory.status().pending_extractions == 0
    with SpectorMemory.open(tmp_path) as memory:
        assert len(memory.inspect("1").entities) == 2
        assert not memory.extraction.active
        assert memory.extraction.drain()


def test_a_batch_knows_the_names_of_its_own_memories() -> None:
    """EXT-1: the result is that of one `remember` after the other."""
    items = [
        {"text": "about the pool", "about": ["pool"], "id": "1"},
        {"text": "the pool and Ann Lee", "id": "2"},
        {"text": "ann lee, the pool", "id": "3"},
    ]
    found = []
    for several in (False, True):
        with SpectorMemory.ephemeral(
            entity_extraction_mode="custom", entity_extractor="rules"
        ) as memory:
            if several:
                memory.remember_many(items)
            else:
                for item in items:
                    memory.remember(**item)
            found.append([memory.inspect(id).entities for id in "123"])
    assert found[0] == found[1]
    assert found[0][2] == (Entity("Ann Lee"), Entity("pool"))


def test_one_extractor_for_two_memories_does_not_mix_their_names() -> None:
    """GEN-1: nothing crosses spaces, but for what the extractor itself was told."""
    extractor = RuleEntityExtractor(["shared name"])
    options: Any = {"entity_extraction_mode": "custom", "entity_extractor": extractor}
    with SpectorMemory.ephemeral(**options) as one, SpectorMemory.ephemeral(**options) as two:
        one.remember("x", about="secret plan")
        for memory in (one, two):
            memory.remember("the secret plan, a shared name", id="m")
        assert one.inspect("m").entities == (Entity("secret plan"), Entity("shared name"))
        assert two.inspect("m").entities == (Entity("shared name"),)


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"entity_extraction_mode": "some"}, ValueError, "'none', 'llm', 'custom'"),
        ({"entity_extraction_mode": 5}, ValueError, "'none', 'llm', 'custom'"),
        ({"entity_extraction_mode": "llm"}, ConfigurationError, "needs a text_generation_provider"),
        ({"entity_extraction_mode": "custom"}, ConfigurationError, "needs an entity_extractor"),
        ({"entity_extractor": "rules"}, ConfigurationError, "use 'custom'"),
        ({"text_generation_provider": str}, ConfigurationError, "use 'llm'"),
        (
            {"entity_extraction_mode": "custom", "entity_extractor": "magic"},
            ConfigurationError,
            "or 'rules', got 'magic'",
        ),
        (
            {"entity_extraction_mode": "custom", "entity_extractor": object()},
            ConfigurationError,
            "must have extract(id, text)",
        ),
        (
            {"entity_extraction_mode": "LLM", "text_generation_provider": 5},
            ConfigurationError,
            "must be a function from a prompt",
        ),
        (
            {
                "entity_extraction_mode": "custom",
                "entity_extractor": "rules",
                "text_generation_provider": str,
            },
            ConfigurationError,
            "belongs to entity_extraction_mode 'llm'",
        ),
        (
            {
                "entity_extraction_mode": "llm",
                "entity_extractor": "rules",
                "text_generation_provider": str,
            },
            ConfigurationError,
            "belongs to entity_extraction_mode 'custom'",
        ),
    ],
)
def test_options_that_do_not_fit(options: Any, kind: type[Exception], says: str) -> None:
    """EXT-1: refused when the memory is opened, by what to do instead."""
    with pytest.raises(kind) as error:
        SpectorMemory.ephemeral(**options)
    assert says in str(error.value)


def test_the_built_in_ones_are_extractors() -> None:
    assert isinstance(RuleEntityExtractor(), EntityExtractor)
