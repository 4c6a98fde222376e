"""Entities and relations of memories: given, stored, and what the graph makes of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spector import Entity, Relation, SpectorMemory
from spector.store.mentions import Mentions
from spector.store.model import encode_entities


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


def test_a_fact_about_merged_entities_is_there_as_long_as_one_memory_states_it(
    memory: SpectorMemory,
) -> None:
    """ENT-9, RFL-7: stated under two spellings of a name."""
    memory.remember("t", id="1", relations=[("Jonathan Miller", "KNOWS", "Bob")])
    memory.remember("t", id="2", relations=[("Jonathan Muller", "KNOWS", "Bob")])
    memory.reflect()
    assert memory._space.replica.graphs.mentions.directory.relation_count == 1
    memory.forget("1")
    assert memory._space.replica.graphs.mentions.directory.relation_count == 1
    memory.forget("2")
    assert memory._space.replica.graphs.mentions.directory.relation_count == 0


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


# --- what recall makes of it --------------------------------------------------------------------


def ids(hits: Any) -> list[str]:
    return [hit.id for hit in hits]


def check_traces(memory: SpectorMemory, query: str, hits: Any) -> None:
    """EXP-9: what the lists gave and the strongest way of each layer are the score."""
    lists = memory.recall(query, graph_expansion=False, k=50)
    base = {hit.id: hit.score for hit in lists}
    for hit in hits:
        strongest: dict[str, float] = {}
        for edge in hit.trace:
            strongest.setdefault(edge.layer, edge.gain)
            assert 0 <= edge.activation <= 1
        total = base.get(hit.id, 0.0) + sum(strongest.values())
        assert hit.score == pytest.approx(total, rel=1e-6)


def test_a_name_in_the_query_leads_to_what_mentions_it(memory: SpectorMemory) -> None:
    """EXP-1 (5e): over no word of the text; nothing without the layer."""
    memory.remember("the kitchen was painted", id="m", entities=["Zoe Lang"])
    memory.remember("a meeting about paint", id="other")
    hits = memory.recall("What did Zoe Lang do?", trace=True)
    assert ids(hits) == ["m"]
    (edge,) = hits[0].trace
    assert (edge.layer, edge.seed, edge.via) == ("entity", None, "Zoe Lang")
    assert hits[0].score == pytest.approx(edge.gain) == pytest.approx(0.5)
    assert "entity (Zoe Lang)" in hits[0].why()
    assert ids(memory.recall("What did Zoe Lang do?", graph_weights={"entity": 0})) == []
    assert ids(memory.recall("What did Zoe Lang do?", graph_expansion=False)) == []


def test_over_two_steps_of_relations(memory: SpectorMemory) -> None:
    """ENT-10, EXP-1 (5e): person, project, budget; further is weaker; three steps are too far."""
    memory.remember("x1", id="person", entities=["Ann"], relations=[("Ann", "MANAGES", "Alpha")])
    memory.remember("x2", id="project", relations=[("Alpha", "HAS", "Budget")])
    memory.remember("x3", id="budget", relations=[("Budget", "OF", "2031")])
    memory.remember("x4", id="year", relations=[("2031", "AFTER", "2030")])
    memory.remember("x5", id="before", entities=["2030"])
    hits = memory.recall("news of Ann", trace=True)
    assert ids(hits) == ["person", "project", "budget"]
    assert [hit.trace[0].via for hit in hits] == ["Ann", "Ann > Alpha", "Ann > Alpha > Budget"]
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    check_traces(memory, "news of Ann", hits)


def test_from_what_the_seeds_mention(memory: SpectorMemory) -> None:
    """EXP-1 (5e): the query names nobody; the seed's entities lead on, the rarer the stronger."""
    memory.remember("application latency is high", id="seed", entities=["Pool", "Friday"])
    memory.remember("connections are limited", id="rare", entities=["pool"])
    for i in range(8):
        memory.remember(f"note {i}", id=f"n{i}", entities=["Friday"])
    hits = memory.recall("why is the latency high?", trace=True, k=20)
    assert ids(hits)[:2] == ["seed", "rare"]
    assert hits[1].trace[0].seed == "seed"
    assert hits[1].trace[0].via == "Pool"
    assert set(ids(hits)[2:]) == {f"n{i}" for i in range(8)}
    assert hits[2].score < hits[1].score
    check_traces(memory, "why is the latency high?", hits)
    assert hits[0].id == memory.recall("why is the latency high?", graph_expansion=False)[0].id


def test_common_events_come_first(memory: SpectorMemory) -> None:
    """HYP-7, EXP-10: of two names, the memory of an event with both."""
    memory.remember("a1", id="ann", entities=["Ann", "b", "c"])
    memory.remember("a2", id="alpha", entities=["Alpha", "d", "e"])
    memory.remember("a3", id="both", entities=["Ann", "Alpha", "DatabaseService"])
    hits = memory.recall("Ann and Alpha?", trace=True)
    assert ids(hits)[0] == "both"
    layers = {edge.layer: edge for edge in hits[0].trace}
    assert layers["hyperedge"].via == "ann + alpha"
    assert hits[0].score == pytest.approx(layers["hyperedge"].gain + layers["entity"].gain)
    check_traces(memory, "Ann and Alpha?", hits)
    without = memory.recall("Ann and Alpha?", graph_weights={"hyperedge": 0})
    assert without[0].score < hits[0].score


def test_hints_instead_of_names_in_the_text(memory: SpectorMemory) -> None:
    """EXP-1 (5e), EXT-1: names that the caller gives."""
    memory.remember("t1", id="1", entities=["Ann"])
    memory.remember("t2", id="2", entities=["Bob"])
    assert ids(memory.recall("Ann?", entities="bob")) == ["2"]
    assert ids(memory.recall("Ann?", entities=["nobody"])) == []
    assert ids(memory.recall("Ann?", entities=())) == ["1"]
    with pytest.raises(TypeError, match="each of entities must be a non-empty str"):
        memory.recall("x", entities=[5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="more than blanks"):
        memory.recall("x", entities=" ")


def test_filters_bind_it_and_what_is_forgotten_is_gone(memory: SpectorMemory) -> None:
    """EXP-3, ENT-5."""
    memory.remember("t1", id="1", entities=["Ann"], tags=["red"])
    memory.remember("t2", id="2", entities=["Ann"])
    assert ids(memory.recall("Ann?", tags=["red"])) == ["1"]
    memory.forget("1")
    assert ids(memory.recall("Ann?")) == ["2"]
    memory.remember("t2", id="2")
    assert ids(memory.recall("Ann?")) == []


def test_mentions_do_not_change_what_about_means(memory: SpectorMemory) -> None:
    """AM-10: only what is about a name is lifted by it."""
    memory.remember("t1", id="about", about="Alpha")
    memory.remember("t2", id="mentions", entities=["Alpha"])
    hits = memory.recall("Alpha?", trace=True)
    layers = {hit.id: {edge.layer for edge in hit.trace} for hit in hits}
    assert layers["about"] >= {"about"}
    assert layers["mentions"] == {"entity"}


def test_without_entities_nothing_changes(memory: SpectorMemory) -> None:
    """EXP-5: absent, the layers add nothing."""
    memory.remember("the latency of Ann", id="1", session="s", about="Ann", tags=["a", "b"])
    memory.remember("other words", id="2", session="s", tags=["b", "c"])
    hits = memory.recall("latency Ann", trace=True)
    assert not {edge.layer for hit in hits for edge in hit.trace} & {"entity", "hyperedge"}
    off = memory.recall("latency Ann", graph_weights={"entity": 0, "hyperedge": 0})
    assert [(hit.id, hit.score) for hit in off] == [(hit.id, hit.score) for hit in hits]


# --- anything that remember takes can be stored and fed -----------------------------------------

names_of_any_kind = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["\x00", "\u200b", "\ud800", "\x85a", "İ", "ﬁ", "a" * 5000, "\u3000x", "\x1c", "-", "É" * 300]
)


@settings(deadline=None, max_examples=60)
@given(
    entities=st.lists(
        st.tuples(names_of_any_kind, names_of_any_kind, names_of_any_kind), max_size=5
    ),
    relations=st.lists(
        st.tuples(names_of_any_kind, names_of_any_kind, names_of_any_kind), max_size=3
    ),
    query=names_of_any_kind,
)
def test_any_names_are_fed_or_refused(entities: Any, relations: Any, query: str) -> None:
    """EXT-8, GEN-5: what is not refused at once never fails later."""
    with SpectorMemory.ephemeral() as memory:
        try:
            memory.remember("t", id="m", entities=entities, relations=relations)
        except ValueError as error:
            assert "each of" in str(error)
            return
        stored = memory.inspect("m")
        graphs = memory._space.replica.graphs
        for entity in stored.entities:
            number = graphs.entities.find_entity(entity.name)
            assert number >= 0
            assert graphs.entities.memories_for_entity(number).tolist() == [1]
        memory.recall(query, entities=[entity.name for entity in stored.entities] or ())
        memory.remember("u", id="m")
        assert memory.status().documents == 1  # and the graph has followed
        assert graphs.entities.link_count == graphs.entities.relation_count == 0


def test_a_bad_name_in_a_row_takes_no_other_with_it() -> None:
    """EXT-8: each failure is confined to its entity."""
    mentions = Mentions()
    written = encode_entities(
        [Entity("a"), Entity(" "), Entity("b"), Entity("c")],
        [Relation(" ", "KNOWS", "a"), Relation("a", "KNOWS", "b")],
    )
    row: Any = [0] * 26
    row[19] = written
    mentions.put({7: tuple(row)})
    assert mentions.directory.entities_for_memory(7).tolist() == [0, 1, 2]
    assert mentions.directory.relation_count == 1
    assert len(mentions.hyper) == 1
