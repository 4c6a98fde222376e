"""What is around an entity (ENT-10, API-8, MCP-8), against searches in plain Python."""

import itertools
import random

import pytest

from shell import spector
from spector import SpectorMemory

TYPES = ["MANAGES", "USES", "KNOWS"]


@pytest.fixture
def memory():
    with SpectorMemory.ephemeral(seed=1) as memory:
        yield memory


def tell(memory, *facts, **given):
    names = dict.fromkeys(name for source, _, target in facts for name in (source, target))
    return memory.remember(
        " ".join(map(" ".join, facts)), entities=list(names), relations=list(facts), **given
    )


def test_acceptance(memory):
    """ENT-10: the budget is found from the person in one hop, not with another type."""
    tell(memory, ("Ann", "MANAGES", "Launch"), id="who")
    memory.remember("40,000 for it", id="budget", entities=[("Launch", "PROJECT")])
    found = memory.graph_recall("ann", max_hops=1)
    assert found.start == ("Ann",)
    assert [(one.name, one.hops, one.memories) for one in found.entities] == [
        ("Ann", 0, 1),
        ("Launch", 1, 2),
    ]
    assert {one.id for one in found.memories} == {"who", "budget"}
    only = memory.graph_recall("Ann", max_hops=1, relation_types=["knows"])
    assert [one.name for one in only.entities] == ["Ann"]
    assert [one.id for one in only.memories] == ["who"]
    assert only.facts == ()
    assert memory.graph_recall("Ann", max_hops=0).memories == only.memories


def test_types_of_entities(memory):
    memory.remember("x", entities=[("Ann", "PERSON"), ("Oslo", "LOCATION"), ("Go", "TOOL")])
    found = memory.graph_recall("Ann", entity_types=["location"])
    assert [one.name for one in found.entities] == ["Ann", "Oslo"]
    assert found.entities[1].type == "LOCATION"


def test_events_join_their_entities(memory):
    """HYP-7: who took part in one event is one hop away."""
    memory.remember("x", id="e", entities=["Ann", "Bob", "Oslo"])
    found = memory.graph_recall("Ann", target_entity="Oslo")
    assert [one.name for one in found.entities] == ["Ann", "Bob", "Oslo"]
    assert found.paths == ("Ann -[RELATED_TO]- Oslo",)  # not by way of Bob in the same event
    memory.remember("y", entities=["Bob", "Oslo", "Cyd"])
    found = memory.graph_recall("Ann", target_entity="Cyd")
    assert set(found.paths) == {
        f"Ann -[RELATED_TO]- {middle} -[RELATED_TO]- Cyd" for middle in ("Bob", "Oslo")
    }
    tell(memory, ("Ann", "KNOWS", "Dan"))
    memory.remember("z", entities=["Ann", "Dan", "Eve"], relations=[("Ann", "KNOWS", "Dan")])
    assert memory.graph_recall("Ann", target_entity="Dan").paths == ("Ann -KNOWS-> Dan",)


@pytest.mark.parametrize("seed", range(4))
def test_paths_are_the_shortest(memory, seed):
    pick = random.Random(seed)
    names = [f"N{number}" for number in range(9)]
    facts = set()
    for _ in range(14):
        source, target = pick.sample(names, 2)
        facts.add((source, pick.choice(TYPES), target))
    for fact in sorted(facts):
        tell(memory, fact)
    steps = {(a, f"-{kind}->", b) for a, kind, b in facts} | {
        (b, f"<-{kind}-", a) for a, kind, b in facts
    }
    ways = {
        hops: {
            " ".join([way[0][0], *(f"{label} {b}" for _, label, b in way)])
            for way in itertools.product(steps, repeat=hops)
            if all(x[2] == y[0] for x, y in itertools.pairwise(way))
            and len({way[0][0], *(each[2] for each in way)}) == hops + 1
        }
        for hops in (1, 2, 3)
    }
    for start, target in itertools.permutations(sorted({n for f in facts for n in f[::2]}), 2):
        found = memory.graph_recall(start, target_entity=target, max_hops=3, top_paths=50)
        expected = {
            way
            for of_length in ways.values()
            for way in of_length
            if way.startswith(f"{start} ") and way.endswith(f" {target}")
        }
        assert set(found.paths) == expected
        lengths = [path.count(" ") for path in found.paths]
        assert lengths == sorted(lengths)
        few = memory.graph_recall(start, target_entity=target, max_hops=3, top_paths=1)
        assert few.paths == found.paths[:1]


def test_what_is_about_comes_before_what_mentions_and_k_cuts(memory):
    for number in range(5):
        memory.remember(f"mentions {number}", id=f"m{number}", entities=["Ann"])
    memory.remember("about", id="about", about="Ann", entities=["Ann"])
    assert [one.id for one in memory.graph_recall("Ann", k=3).memories] == ["about", "m4", "m3"]
    memory.forget("m4")
    assert [one.id for one in memory.graph_recall("Ann", k=2).memories] == ["about", "m3"]


def test_a_text_that_names_entities(memory):
    tell(memory, ("Ann", "KNOWS", "Bob"), id="x")
    assert memory.graph_recall(query="does Bob know Ann?").start == ("Bob", "Ann")
    nothing = memory.graph_recall(query="who?")
    assert nothing.as_dict() == {
        "start": (),
        "entities": (),
        "facts": (),
        "paths": (),
        "memories": (),
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give start_entity or query"),
        ({"start_entity": "Ann", "query": "Ann"}, "not both"),
        ({"start_entity": "Bobb"}, "no entity is called 'Bobb'; did you mean 'Bob'"),
        ({"start_entity": "Ann", "target_entity": "x"}, "target_entity: no entity is called 'x'"),
        ({"start_entity": "Ann", "max_hops": 7}, "max_hops must be in"),
        ({"start_entity": "Ann", "relation_types": ["KNOW"]}, "did you mean 'KNOWS'"),
        ({"start_entity": "Ann", "entity_types": ["PERSONS"]}, "did you mean 'PERSON'"),
        ({"start_entity": "Ann", "top_paths": 0}, "top_paths must be an int of at least 1"),
        ({"start_entity": ""}, "start_entity must be a non-empty str"),
    ],
)
def test_bad_arguments(memory, arguments, message):
    with pytest.raises(ValueError, match="no memory names any: give entities="):
        memory.graph_recall("Ann")
    tell(memory, ("Ann", "KNOWS", "Bob"))
    with pytest.raises(ValueError, match=message):
        memory.graph_recall(**arguments)
    before = len(memory._space.replica.graphs.mentions.relation_types)
    with pytest.raises(ValueError, match="there is no type"):
        memory.graph_recall("Ann", relation_types=["NEW_TYPE"])
    assert len(memory._space.replica.graphs.mentions.relation_types) == before


def test_the_command_line_shows_it(tmp_path):
    pytest.importorskip("typer", reason="the command line is an extra")
    with SpectorMemory.open(tmp_path) as memory:
        tell(memory, ("Ann", "MANAGES", "Launch"), id="m")
    lines = spector("graph", "ann", "--to", "launch", "--path", tmp_path).out.splitlines()
    assert lines == [
        "Ann -MANAGES-> Launch",
        "Ann -MANAGES-> Launch",
        "Ann\tOTHER\t0\t1",
        "Launch\tOTHER\t1\t1",
        "m\tAnn MANAGES Launch",
    ]
    found = spector("graph", "ann", "--path", tmp_path, "--json").json
    assert found["start"] == ["Ann"]
    assert found["memories"] == [{"id": "m", "text": "Ann MANAGES Launch"}]
    done = spector("graph", "Anne", "--path", tmp_path, fails=True)
    assert (done.code, done.err) == (
        2,
        "spector: start_entity: no entity is called 'Anne'; did you mean 'Ann'?\n",
    )
