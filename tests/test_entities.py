"""Entities and relations of memories: given, stored, and what the graph makes of them."""

from __future__ import annotations

import random
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


# --- the graph that follows from them -----------------------------------------------------------


def state(memory: SpectorMemory) -> dict[str, Any]:
    """Everything that rows say of entities, by name: numbers depend on the order of coming."""
    graphs = memory._space.replica.graphs
    mentions = graphs.mentions
    directory = graphs.entities
    name = [directory.name(entity).casefold() for entity in range(len(directory))]
    links, relations = {}, {}
    for entity in range(len(directory)):
        found = directory.links(entity)
        for slot, weight, about in zip(
            found.memories.tolist(), found.weights.tolist(), found.about.tolist(), strict=True
        ):
            links[name[entity], slot] = (weight, about)
        out = directory.relations(entity)
        for target, kind, weight in zip(
            out.entities.tolist(), out.types.tolist(), out.weights.tolist(), strict=True
        ):
            fact = (name[entity], mentions.relation_types.name(kind), name[target])
            relations[fact] = round(weight, 5)
    events = sorted(
        (
            edge.memory,
            tuple(name[entity] for entity in edge.entities),
            tuple(mentions.roles.name(role) for role in edge.roles),
            mentions.relation_types.name(edge.type),
            round(edge.weight, 5),
            edge.timestamp,
        )
        for edge in mentions.hyper.edges().tolist()
    )
    return {"links": links, "relations": relations, "events": events}


@pytest.mark.parametrize("seed", range(5))
def test_a_replay_gives_the_live_graph(tmp_path: Path, seed: int) -> None:
    """EXT-6, EXT-8, ENT-5, EEE-2, HYP-3: equal after any history, also in another handle."""
    chance = random.Random(seed)
    names = ["Ann", "Bob", "Carl", "ANN", "Oslo", "Acme", "x1", "x2", "x3", "x4", "x5", "x6"]
    with SpectorMemory.open(tmp_path) as live, SpectorMemory.open(tmp_path) as other:
        present: set[str] = set()
        for step in range(100):
            if present and chance.random() < 0.2:
                gone = chance.choice(sorted(present))
                present.discard(gone)
                live.forget(gone)
                continue
            items = []
            for _ in range(chance.choice([1, 1, 4])):
                id = f"m{chance.randrange(30)}"
                present.add(id)
                ends = [
                    chance.sample(names[:3] + names[4:6], 2) for _ in range(chance.randrange(4))
                ]
                items.append(
                    {
                        "text": f"{id} at {step}",
                        "id": id,
                        "about": chance.sample(["Ann", "Oslo"], chance.randrange(2)),
                        "entities": chance.sample(names, chance.randrange(11)),
                        "relations": [(a, chance.choice(["KNOWS", "likes"]), b) for a, b in ends],
                    }
                )
            live.remember_many(items)
            if step == 50:
                assert state(other) != state(live)
                other.recall("x")
                assert state(other) == state(live)
        expected = state(live)
        assert expected["events"] and expected["relations"] and expected["links"]
    with SpectorMemory.open(tmp_path) as again:
        assert state(again) == expected
        for id in present:
            again.forget(id)
        assert state(again) == {"links": {}, "relations": {}, "events": []}
        assert not again._space.replica.graphs.mentions._stated


def test_what_a_memory_says_is_linked_related_and_an_event(memory: SpectorMemory) -> None:
    """EXT-8, AM-10, HYP-4: mentions, relations, one event with a role for each."""
    memory.remember(
        "Ann moved Alpha to Oslo",
        id="m",
        about="Alpha",
        timestamp=5,
        entities=[
            ("Ann", "PERSON"),
            ("Alpha", "PROJECT"),
            ("Oslo", "LOCATION"),
            ("2031", "DATE_TIME"),
            ("git", "TOOL"),
            ("Bob", "PERSON", "witness"),
            "rain",
        ],
        relations=[("Ann", "manages", "alpha")],
    )
    found = state(memory)
    slot = 1
    assert found["links"] == {
        ("alpha", slot): (1.0, True),
        **{(name, slot): (1.0, False) for name in ("ann", "oslo", "2031", "git", "bob", "rain")},
    }
    assert found["relations"] == {("ann", "MANAGES", "alpha"): 1.0}
    ((memory_slot, names, roles, kind, weight, _),) = found["events"]
    assert (memory_slot, kind, weight) == (slot, "MANAGES", 1.0)
    assert names == ("ann", "alpha", "oslo", "2031", "git", "bob", "rain")
    assert roles == ("AGENT", "OBJECT", "LOCATION", "TIME", "INSTRUMENT", "WITNESS", "CONTEXT")


def test_relations_weigh_as_often_as_they_are_stated(memory: SpectorMemory) -> None:
    """EEE-2: +0.2 for each further memory, at most 3; gone with the last one."""
    for i in range(15):
        memory.remember("t", id=f"{i}", relations=[("a", "KNOWS", "b")])
    fact = ("a", "KNOWS", "b")
    expected = {14: 3.0, 11: 3.0, 10: 2.8, 5: 1.8, 1: 1.0}
    for left in range(14, 0, -1):
        memory.forget(f"{left}")
        weight = state(memory)["relations"][fact]
        assert left not in expected or weight == pytest.approx(expected[left])
    memory.forget("0")
    assert state(memory)["relations"] == {}


def test_two_entities_are_no_event_and_nine_are_two(memory: SpectorMemory) -> None:
    """HYP-2, HYP-3, HYP-9: pairs are relations only; more than 8 share their first entity."""
    memory.remember("t", id="a", entities=["a", "b"])
    assert state(memory)["events"] == []
    memory.remember("t", id="a", entities=list("abcdefghi"))
    events = [names for _, names, *_ in state(memory)["events"]]
    assert events == [tuple("abcde"), tuple("afghi")]
    assert state(memory)["relations"] == {}


def test_several_types_of_relations_make_an_event_of_none(memory: SpectorMemory) -> None:
    """HYP-4: the single type, else RELATED_TO."""
    memory.remember("t", relations=[("a", "KNOWS", "b"), ("b", "OWNS", "c")])
    ((_, _, roles, kind, _, _),) = state(memory)["events"]
    assert kind == "RELATED_TO"
    assert roles == ("AGENT", "AGENT", "OBJECT")


def test_the_memory_of_the_graph_is_reported(memory: SpectorMemory) -> None:
    """BUD-7: directory and events."""
    before = memory._space.replica.bytes()
    memory.remember("t", entities=["a", "b", "c"])
    after = memory._space.replica.bytes()
    assert after["entities"] > before["entities"]
    assert after["hyperedges"] > before["hyperedges"] >= 0
    assert after["names"] >= 0
