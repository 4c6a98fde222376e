"""Entities and relations of memories: given, stored, and what the graph makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spector import Entity, Relation, SpectorMemory


@pytest.fixture
def memory() -> Any:
    with SpectorMemory.ephemeral(seed=1) as memory:
        yield memory


# --- what remember takes ------------------------------------------------------------------------


def test_entities_in_each_form(memory: SpectorMemory) -> None:
    """EXT-2, EXT-6, TYP-3: a name, a tuple or a mapping."""
    memory.remember(
        "Ann runs the launch with Bob in Oslo",
        id="m",
        entities=[
            "Ann",
            ("Bob", "person"),
            ["launch", "project", "subject"],
            {"name": " Oslo ", "type": "location", "role": "venue"},
            Entity("Acme", "ORGANIZATION"),
        ],
        relations=[("Ann", "reports to", "Bob"), {"source": "Bob", "type": "", "target": "Oslo"}],
    )
    found = memory.inspect("m")
    assert found.entities == (
        Entity("Ann"),
        Entity("Bob", "PERSON"),
        Entity("launch", "PROJECT", "AGENT"),
        Entity("Oslo", "LOCATION", "VENUE"),
        Entity("Acme", "ORGANIZATION"),
    )
    assert found.relations == (
        Relation("Ann", "REPORTS_TO", "Bob"),
        Relation("Bob", "RELATED_TO", "Oslo"),
    )
    assert memory.browse()[0] == found
    assert memory.recall("launch")[0].memory == found


def test_a_single_name_is_one_entity(memory: SpectorMemory) -> None:
    memory.remember("t", id="m", entities="Ann Lee")
    assert memory.inspect("m").entities == (Entity("Ann Lee"),)


def test_relations_of_an_entity_and_ends_that_are_no_entities(memory: SpectorMemory) -> None:
    """EXT-2, EXT-5: an end that nobody named is an entity of type OTHER."""
    memory.remember(
        "t",
        id="m",
        entities=[
            {"name": "Ann", "relations": [("manages", "X"), {"type": "KNOWS", "target": "b"}]}
        ],
        relations=[("ANN", "knows", "Carl")],
    )
    found = memory.inspect("m")
    assert found.entities == (Entity("Ann"), Entity("X"), Entity("b"), Entity("Carl"))
    assert found.relations == (
        Relation("Ann", "MANAGES", "X"),
        Relation("Ann", "KNOWS", "b"),
        Relation("ANN", "KNOWS", "Carl"),
    )


def test_the_first_ones_count(memory: SpectorMemory) -> None:
    """EXT-2: at most 10 entities and 20 relations; of one name the first."""
    names = [f"e{i}" for i in range(12)]
    facts = [("e0", f"T{i}", "e1") for i in range(30)]
    memory.remember("t", id="m", entities=[("E0", "TOOL"), ("e0", "API"), *names], relations=facts)
    found = memory.inspect("m")
    assert found.entities == (Entity("E0", "TOOL"), *(Entity(name) for name in names[1:10]))
    assert [fact.type for fact in found.relations] == [f"T{i}" for i in range(20)]


def test_they_survive_a_reopen_and_an_update_replaces_them(tmp_path: Path) -> None:
    """EXT-6: through the journal; remember_many takes the same keys."""
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember_many(
            [
                {
                    "text": "one",
                    "id": "1",
                    "entities": ["Zoë", "B"],
                    "relations": [("Zoë", "R", "B")],
                },
                {"text": "two", "id": "2"},
            ]
        )
        before = memory.inspect("1")
    with SpectorMemory.open(tmp_path) as memory:
        assert memory.inspect("1") == before
        assert memory.inspect("1").entities == (Entity("Zoë"), Entity("B"))
        assert memory.inspect("2").entities == memory.inspect("2").relations == ()
        memory.remember("one", id="1")
        assert memory.inspect("1").entities == ()


@pytest.mark.parametrize(
    ("fields", "kind", "says"),
    [
        ({"entities": 5}, TypeError, "entities must be a list or tuple"),
        ({"entities": {"name": "x"}}, TypeError, "entities must be a list or tuple"),
        ({"entities": [5]}, TypeError, "each of entities must be a str"),
        ({"entities": [("a", "b", "c", "d")]}, TypeError, "each of entities must be"),
        ({"entities": [{"type": "x"}]}, TypeError, "needs 'name'"),
        ({"entities": [{"name": "x", "kind": "y"}]}, TypeError, "unknown key 'kind'"),
        ({"entities": [" "]}, ValueError, "more than blanks"),
        ({"entities": [("a", 5)]}, TypeError, "the type of each of entities must be a str"),
        ({"entities": [("a", "b", 5)]}, TypeError, "the role of each of entities must be a str"),
        ({"entities": [{"name": "a", "relations": [("b",)]}]}, TypeError, "(type, target)"),
        ({"relations": "abc"}, TypeError, "relations must be a list or tuple"),
        ({"relations": [("a", "b")]}, TypeError, "(source, type, target)"),
        ({"relations": [("a", "b", "")]}, ValueError, "the target of each of relations"),
        ({"relations": [("a", "R", " A")]}, ValueError, "two different entities"),
        ({"relations": [{"source": "a", "target": "b", "kind": "x"}]}, TypeError, "unknown key"),
    ],
)
def test_bad_ones_are_refused(
    memory: SpectorMemory, fields: Any, kind: type[Exception], says: str
) -> None:
    """GEN-5: the message names the argument and what is allowed."""
    with pytest.raises(kind) as error:
        memory.remember("t", **fields)
    assert says in str(error.value)
    with pytest.raises(kind, match="item 1: "):
        memory.remember_many([{"text": "t"}, {"text": "t", **fields}])
    assert len(memory) == 0
