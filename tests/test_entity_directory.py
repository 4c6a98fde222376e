"""EntityDirectory: names, links, relations, merging, walks (ENT-1 to ENT-10, EEE-1 to EEE-3)."""

import math
import random
import threading
import unicodedata

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reference import entity_directory as reference
from spector import CorruptionError, StorageError
from spector.arguments import fold
from spector.graph import EntityDirectory, HyperGraph, TypeRegistry

names = st.sampled_from(
    [
        *("Kafka", "kafka ", "KAFKA", "Kafkaa", "Kafke", "cranel", "cranelr", "cranelrs"),
        *("Project Alpha", "project  alpha", "Project Alphas", "Project Alpah", "Project Beta"),
        *("Zoë", "Zoe\u0308", "ＡＰＩ", "api", "ASR1603", "ASR1605", "Straße", "STRASSE"),
        *("x", "y", "z", "Strasse "),
    ]
)
types = st.sampled_from([0, 0, 4, reference.OTHER])
memories = st.integers(0, 12)


def assert_same(directory, model):
    assert len(directory) == len(model.entities)
    assert directory.cycle == model.cycle
    usage = directory.memory_usage()
    n_links = sum(len(entity.links) for entity in model.entities)
    assert (usage["nodes"], usage["links"]) == (64 * len(model.entities), 8 * n_links)
    assert usage["dead"] == 8 * model.segment - usage["links"]
    assert directory.link_count == n_links
    assert directory.relation_count == len(model.triples())
    for id, entity in enumerate(model.entities):
        survivor = model.resolve(id)
        assert directory.resolve(id) == survivor
        assert directory.find_entity(entity.name) == survivor
        assert (directory.name(id), directory.type(id)) == (entity.name, entity.type)
        links = model.entities[survivor].links
        assert directory.ref_count(id) == len(links)
        found = directory.links(id)
        assert found.memories.tolist() == list(links)
        assert list(zip(found.weights, found.about, strict=True)) == [
            tuple(link) for link in links.values()
        ]
        relations = directory.relations(survivor)
        assert [
            ((target, type), {"weight": weight, "cycle": cycle, "bridge": bridge})
            for target, type, weight, cycle, bridge in zip(
                relations.entities.tolist(),
                relations.types.tolist(),
                relations.weights,
                relations.cycles.tolist(),
                relations.bridges.tolist(),
                strict=True,
            )
        ] == list(model.entities[survivor].relations.items())
        back = directory.relations(survivor, incoming=True)
        assert list(zip(back.entities.tolist(), back.types.tolist(), strict=True)) == sorted(
            (source, type) for source, target, type in model.triples() if target == survivor
        )
    for memory in range(13):
        assert directory.entities_for_memory(memory).tolist() == model.entities_for_memory(memory)


class Histories(RuleBasedStateMachine):
    """Any history of changes gives what the plain model gives, weights to the bit."""

    @initialize(most=st.sampled_from([1, 2, 3, 48]))
    def start(self, most):
        self.directory = EntityDirectory(most)
        self.model = reference.Directory(most)

    def entity(self, data):
        return data.draw(st.integers(0, len(self.model.entities) - 1))

    @rule(name=names, type=types)
    def intern(self, name, type):
        assert self.directory.intern(name, type) == self.model.intern(name, type)

    @rule(several=st.lists(names, max_size=6), type=types)
    def intern_several(self, several, type):
        expected = [self.model.intern(name, type) for name in several]
        assert self.directory.intern(several, type).tolist() == expected

    @rule(data=st.data(), memory=memories, about=st.booleans())
    def link(self, data, memory, about):
        if self.model.entities:
            entity = self.entity(data)
            self.directory.link(entity, memory, about)
            self.model.link(entity, memory, about)

    @rule(data=st.data(), memories=st.lists(memories, max_size=12), about=st.booleans())
    def link_several(self, data, memories, about):
        if self.model.entities:
            entity = self.entity(data)
            self.directory.link(entity, memories, about)
            for memory in memories:
                self.model.link(entity, memory, about)

    @rule(data=st.data())
    def link_pairs(self, data):
        if self.model.entities:
            entity = st.integers(0, len(self.model.entities) - 1)
            links = data.draw(st.lists(st.tuples(entity, memories, st.booleans()), max_size=8))
            columns = [list(column) for column in zip(*links, strict=True)] or [[], [], False]
            self.directory.link(*columns)
            for link in links:
                self.model.link(*link)

    @rule(memories=st.lists(memories, min_size=1, max_size=3))
    def remove(self, memories):
        assert self.directory.remove_memory(memories) == self.model.remove_memory(memories)

    @rule(factor=st.sampled_from([0.95, 0.5, 0.25]), threshold=st.sampled_from([0.2, 0.6]))
    def decay_links(self, factor, threshold):
        assert self.directory.decay_adjacency_weights(factor, threshold) == self.model.decay_links(
            factor, threshold
        )

    @rule()
    def compact(self):
        assert self.directory.compact_adjacency() == self.model.compact()
        assert self.directory.compact_adjacency() == 0

    @rule(data=st.data(), type=st.integers(0, 2))
    def relate(self, data, type):
        if not self.model.entities:
            return
        source, target = self.entity(data), self.entity(data)
        if self.model.resolve(source) == self.model.resolve(target):
            with pytest.raises(ValueError, match="two entities"):
                self.directory.add_relation(source, target, type)
        else:
            assert self.directory.add_relation(source, target, type) == self.model.add_relation(
                source, target, type
            )

    @rule(data=st.data())
    def relate_several(self, data):
        if not self.model.entities:
            return
        entity = st.integers(0, len(self.model.entities) - 1)
        triples = data.draw(st.lists(st.tuples(entity, entity, st.integers(0, 2)), max_size=6))
        columns = [list(column) for column in zip(*triples, strict=True)] or [[], [], []]
        if any(self.model.resolve(a) == self.model.resolve(b) for a, b, _ in triples):
            with pytest.raises(ValueError, match="two entities"):
                self.directory.add_relations(*columns)  # none of them is added
        else:
            stored = sum(self.model.add_relation(*triple) for triple in triples)
            assert self.directory.add_relations(*columns) == stored

    @rule(
        data=st.data(),
        type=st.integers(0, 2),
        weight=st.sampled_from([0.0, 0.5, 1.25]),
        age=st.integers(0, 3),
    )
    def restate(self, data, type, weight, age):
        if not self.model.entities:
            return
        source, target = self.entity(data), self.entity(data)
        cycle = max(0, self.model.cycle - age)
        triple = ([source], [target], [type])
        if self.model.resolve(source) == self.model.resolve(target):
            with pytest.raises(ValueError, match="two entities"):
                self.directory.restate_relations(*triple, [weight], [cycle])
            return
        self.directory.restate_relations(*triple, [weight], [cycle])
        self.model.restate_relation(source, target, type, weight, cycle)
        found = self.model.entities[self.model.resolve(source)].relations.get(
            (self.model.resolve(target), type), {"weight": 0, "cycle": 0}
        )
        weights, cycles = self.directory.relation_states(*triple)
        assert (weights.tolist(), cycles.tolist()) == ([found["weight"]], [found["cycle"]])

    @rule(factor=st.sampled_from([0.95, 0.5]), threshold=st.sampled_from([0.2, 0.6]))
    def decay_relations(self, factor, threshold):
        assert self.directory.decay_relations(factor, threshold) == self.model.decay_relations(
            factor, threshold
        )

    @rule()
    def merge(self):
        assert self.directory.merge_similar().tolist() == self.model.merge_similar()
        assert len(self.directory.merge_similar()) == 0

    @rule(data=st.data())
    def unmerge(self, data):
        merged = [id for id, entity in enumerate(self.model.entities) if entity.into is not None]
        if merged:
            id = data.draw(st.sampled_from(merged))
            self.directory.unmerge(id)
            self.model.unmerge(id)

    @rule()
    def save_and_load(self):
        path = f"{self.folder}/entities.graph"
        self.directory.save(path)
        self.directory = EntityDirectory.load(path)
        assert self.directory.max_entity_edges == self.model.max_entity_edges

    @rule()
    def save_without_names(self):
        path = f"{self.folder}/hashed.graph"
        names = [self.directory.name(entity) for entity in range(len(self.directory))]
        self.directory.save(path, hashed=True)
        self.directory = EntityDirectory.load(path)
        assert not any(self.directory.find_entity(name) >= 0 for name in names)
        first = [self.directory.intern(name, 21) for name in names[:2]]
        assert first == [self.model.resolve(entity) for entity in range(len(first))]
        assert self.directory.recognise(names).tolist() == list(range(len(names)))

    @rule(data=st.data(), max_hops=st.integers(0, 3), filter=st.none() | st.sets(st.integers(0, 2)))
    def walk(self, data, max_hops, filter):
        if self.model.entities:
            starts = [self.entity(data), self.entity(data)]
            entities, hops = self.directory.traverse(starts, filter, max_hops)
            expected = self.model.traverse(starts, filter, max_hops)
            assert list(zip(entities.tolist(), hops.tolist(), strict=True)) == expected
            assert self.directory.collect_memories(
                starts, filter, max_hops
            ).tolist() == self.model.collect(starts, filter, max_hops)

    @invariant()
    def same(self):
        if hasattr(self, "model"):
            assert_same(self.directory, self.model)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    Histories.folder = tmp_path_factory.mktemp("histories")


Histories.TestCase.settings = settings(
    max_examples=200, stateful_step_count=100, deadline=None, derandomize=True
)
TestHistories = Histories.TestCase


def linked(*counts):
    """Entities with so many memories each."""
    directory = EntityDirectory()
    for entity, count in enumerate(counts):
        directory.intern(f"e{entity}", 0)
        directory.link(entity, np.arange(count))
    return directory


def test_ent_1_2_a_node_takes_64_bytes_and_a_link_8_in_blocks_that_double():
    directory = EntityDirectory()
    hub = directory.intern("hub", 0)
    assert directory.memory_usage()["nodes"] == 64
    # 8, then 16 beside the dead 8, then 32 beside both.
    for n, dead in ((1, 7), (8, 0), (9, 8 + 7), (16, 8), (17, 24 + 15), (1000, 1016 + 24)):
        directory.link(hub, np.arange(directory.ref_count(hub), n))
        usage = directory.memory_usage()
        assert (usage["links"], usage["dead"]) == (8 * n, 8 * dead)
    assert directory.memories_for_entity(hub).tolist() == list(range(1000))


def test_f067_one_name_is_one_entity_and_keeps_its_first_spelling():
    """ENT-3"""
    directory = EntityDirectory()
    assert directory.intern("Node.js", "TECHNOLOGY") == 0
    for session in range(4):
        assert directory.intern("QRSA", 3) == 1
        directory.link(1, session)
    assert directory.intern(" NODE.JS\t", 3) == 0
    assert directory.find_entity("node.js") == 0
    assert directory.name(0) == "Node.js"
    assert directory.ref_count(1) == 4
    assert directory.type(0) == 11  # the first type stays,
    other = directory.intern("thing", "OTHER")
    assert directory.intern("THING", "TOOL") == other
    assert directory.type(other) == 12  # unless it was OTHER
    assert directory.intern(["a", "b", "A"], [0, 0, 0]).tolist() == [3, 4, 3]
    assert len(directory) == 5


@pytest.mark.parametrize(
    "one, other",
    [
        ("Delivery", "delivery"),
        ("Node.js", "node.js"),
        ("ＡＰＩ", "API"),
        ("Zoë", "Zoe\u0308"),
        ("two  words", " Two\tWords "),
        ("Straße", "STRASSE"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
    ],
)
def test_f068_case_width_composition_and_space_never_split_an_entity(one, other):
    """ENT-3, GEN-6"""
    directory = EntityDirectory()
    assert directory.intern(one, 0) == directory.intern(other, 0) == 0
    assert directory.name(0) == one


def test_f068_an_underscore_is_not_a_space():
    """GEN-6"""
    directory = EntityDirectory()
    assert directory.intern("5 business days", 0) != directory.intern("5_business_days", 0)


@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u3000"])
def test_f069_a_blank_name_is_no_entity(blank):
    """ENT-3"""
    directory = EntityDirectory()
    with pytest.raises(ValueError, match="name"):
        directory.intern(blank, 0)
    with pytest.raises(ValueError, match=r"name\[1\]|name must"):
        directory.intern(["Kafka", blank], 0)
    with pytest.raises(TypeError, match="name must be str"):
        directory.intern(None, 0)
    with pytest.raises(TypeError, match="name must be str"):
        directory.intern(["Kafka", None], 0)
    assert len(directory) == 0
    assert directory.find_entity(blank) == -1
    assert directory.intern("Kafka", 0) == 0


def test_gen_6_folding_is_that_of_the_rest_of_the_package():
    characters = [
        chr(c) for c in range(0x30000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")
    ]
    random.Random(3).shuffle(characters)
    directory = EntityDirectory()
    expected = {}
    for begin in range(0, len(characters), 5):
        name = "".join(characters[begin : begin + 5])
        if not fold(name):
            continue
        id = directory.intern(name, 0)
        assert expected.setdefault(fold(name), id) == id == directory.find_entity(fold(name))
    assert len(expected) == len(directory)


def test_ent_4_a_link_that_comes_again_gains_and_keeps_its_place():
    directory = linked(3)
    weights = []
    for _ in range(12):
        directory.link(0, 1)
        weights.append(directory.memory_ref_weight(0, 1))
    assert weights[:2] == pytest.approx([1.2, 1.4])
    assert weights[-1] == 3.0
    assert directory.memories_for_entity(0).tolist() == [0, 1, 2]
    assert directory.memory_ref_weight(0, 3) == directory.memory_ref_weight(0, -1) == 0.0


def test_am_10_a_link_is_about_or_mentions_and_stays_about(tmp_path):
    directory = linked(3)
    directory.link(0, [1, 4], about=True)
    directory.link(0, 1)
    directory.decay_adjacency_weights(0.5)
    directory.compact_adjacency()
    directory.save(tmp_path / "e")
    for each in (directory, EntityDirectory.load(tmp_path / "e")):
        links = each.links(0)
        assert links.memories.tolist() == [0, 1, 2, 4]
        assert links.about.tolist() == [False, True, False, True]
        assert links.weights == pytest.approx([0.5, 0.7, 0.5, 0.5])


def test_f058_a_forgotten_memory_leaves_what_others_share():
    """ENT-5"""
    directory = EntityDirectory()
    redis, kafka = directory.intern(["Redis", "Kafka"], 11)
    directory.link([redis, redis, kafka], [1, 2, 1])
    assert directory.remove_memory(1) == 2
    assert directory.find_entity("redis") == redis
    assert directory.memories_for_entity(redis).tolist() == [2]
    assert directory.entities_for_memory(2).tolist() == [redis]
    assert directory.entities_for_memory(1).tolist() == []
    assert directory.ref_count(kafka) == 0
    assert directory.collect_memories([redis, kafka]).tolist() == [2]
    assert directory.remove_memory([1, 77]) == 0


def test_ent_6_fan_factor():
    directory = linked(0, 1, 4, 100)
    assert [directory.fan_factor(e) for e in range(4)] == pytest.approx([1, 1, 0.5, 0.1])


def test_ent_7_a_fresh_link_survives_31_cycles_and_both_directions_go_at_the_32nd():
    directory = linked(2)
    for _ in range(31):
        assert directory.decay_adjacency_weights() == 0
    assert directory.decay_adjacency_weights() == 2
    assert directory.ref_count(0) == 0
    assert directory.entities_for_memory(0).tolist() == []


def test_ent_8_compaction_changes_nothing_but_space():
    directory = linked(5, 0, 9, 40)
    directory.remove_memory([0, 3])
    before = [directory.links(e) for e in range(4)]
    dead = directory.memory_usage()["dead"]
    assert directory.compact_adjacency() == dead > 0
    assert directory.compact_adjacency() == directory.memory_usage()["dead"] == 0
    for entity, links in enumerate(before):
        after = directory.links(entity)
        assert after.memories.tolist() == links.memories.tolist()
        assert after.weights.tolist() == links.weights.tolist()
    directory.link(3, 99)
    assert directory.memories_for_entity(3).tolist()[-1] == 99


def test_ent_9_a_merged_name_resolves_to_the_survivor_until_it_is_unmerged():
    directory = EntityDirectory()
    a, b, c = directory.intern(["PostgreSQL", "Postgressql", "Redis"], ["OTHER", 11, 11])
    directory.link(a, [1, 2])
    directory.link(b, [2, 3, 4], about=True)
    directory.link(b, 2)
    directory.add_relation(c, a, "USES")
    directory.add_relation(c, b, "USES")
    directory.add_relation(a, b, "PART_OF")
    assert directory.merge_similar().tolist() == [[a, b]]
    assert directory.find_entity("postgresql") == directory.intern("POSTGRESQL", 0) == b
    assert directory.name(a) == "PostgreSQL"
    links = directory.links(a)
    assert links.memories.tolist() == [2, 3, 4, 1]
    assert links.weights == pytest.approx([1.4, 1, 1, 1])  # the maximum + 0.2 where both had it
    assert links.about.tolist() == [True, True, True, False]
    assert directory.entities_for_memory(2).tolist() == [b]
    assert directory.relations(c).entities.tolist() == [b]
    assert directory.relations(c).weights == pytest.approx([1.2])
    assert directory.relation_count == 1  # the relation of the two is none any more
    assert directory.traverse(c, max_hops=1)[0].tolist() == [c, b]
    directory.unmerge(a)
    assert directory.find_entity("postgresql") == a
    assert directory.ref_count(a) == 0
    assert directory.merge_similar().tolist() == []  # what was undone stays so
    with pytest.raises(ValueError, match="not merged"):
        directory.unmerge(a)


@pytest.mark.parametrize(
    "one, other",
    [
        ("Java", "JavaScript"),
        ("Anna", "Anne"),
        ("ASR1603", "ASR1605"),
        ("Go", "Gob"),
        ("PostgreSQL 15", "PostgreSQL 16"),
        ("release 1 12", "release 11 2"),
        ("abcdefghi", "abcdefgxy"),  # two edits need 10 characters
    ],
)
def test_f066_similar_spelling_of_different_things_is_not_merged(one, other):
    """ENT-9"""
    directory = EntityDirectory()
    directory.intern([one, other], 0)
    assert directory.merge_similar().tolist() == []


def test_ent_9_types_that_differ_keep_entities_apart_and_other_takes_the_known_type():
    directory = EntityDirectory()
    directory.intern(["cranel", "cranelr"], ["PERSON", "TOOL"])
    assert directory.merge_similar().tolist() == []
    known, unknown = directory.intern(["Kubernetes", "Kubernettes"], ["TOOL", "OTHER"])
    directory.link(unknown, 1)
    assert directory.merge_similar().tolist() == [[known, unknown]]
    assert directory.type(unknown) == 12


def test_ent_9_names_are_not_merged_by_way_of_a_third():
    directory = EntityDirectory()
    directory.intern(["alphas", "alphax", "alphaxy"], 0)
    assert directory.merge_similar().tolist() == [[1, 0]]
    assert directory.merge_similar().tolist() == []
    # The one in the middle has more links than the first and fewer than the last.
    chained = EntityDirectory()
    first, middle, last = chained.intern(["abcdef", "abcdefg", "abcdefgh"], "PERSON")
    chained.link(middle, [1])
    chained.link(last, [2, 3, 4])
    assert chained.merge_similar().tolist() == [[first, middle], [last, middle]]
    assert chained.name(chained.find_entity("abcdef")) == "abcdefg"


def test_ent_9_the_survivor_takes_the_place_in_hyperedges():
    directory, hyper = EntityDirectory(), HyperGraph()
    entities = directory.intern(["cranel", "cranelr", "Kafka", "Redis"], 5)
    directory.link(entities[2], 9)
    hyper.add(7, entities[1:], [1, 2, 3], memory=4)
    for merged, survivor in directory.merge_similar().tolist():
        # Before other stores follow, the survivor is meant as well.
        assert directory.traverse(entities[2], max_hops=1, hyper=hyper)[0].tolist() == [2, 0, 3]
        hyper.merge(merged, survivor)
    assert directory.collect_memories(entities[0], max_hops=1, hyper=hyper).tolist() == [9]


def test_ent_10_acceptance():
    directory = EntityDirectory()
    person = directory.intern("Alice", "PERSON")
    project = directory.intern("Alpha", "PROJECT")
    directory.add_relation(person, project, "MANAGES")
    directory.link(project, 5)
    assert directory.collect_memories(person, max_hops=1).tolist() == [5]
    assert directory.collect_memories(person, {"KNOWS"}, 1).tolist() == []
    assert directory.collect_memories(person, max_hops=0).tolist() == []
    assert directory.collect_memories(project, max_hops=0).tolist() == [5]
    entities, hops = directory.traverse(project)  # against the direction (EEE-1)
    assert (entities.tolist(), hops.tolist()) == ([project, person], [0, 1])


@pytest.mark.parametrize("seed", range(4))
def test_ent_10_collection_is_complete_over_relations_and_hyperedges(seed):
    draw = random.Random(seed)
    n = 300
    directory, model = EntityDirectory(), reference.Directory()
    hyper = HyperGraph()
    for i in range(n):
        directory.intern(f"entity {i}", 0)
        model.intern(f"entity {i}", 0)
    events = []
    for memory in range(250):
        type, members = draw.randrange(3), draw.sample(range(n), draw.randrange(3, 9))
        hyper.add(type, members, [0] * len(members), memory=memory)
        events.append((type, members))
        directory.link(members, memory)
        for entity in members:
            model.link(entity, memory)
    for _ in range(60):
        source, target = draw.sample(range(n), 2)
        directory.add_relation(source, target, draw.randrange(100))
        type = directory.relations(source).types[-1]
        model.entities[source].relations[target, int(type)] = {}
    for max_hops in range(4):
        for types in (None, {0, 2}, {1, 70, 80}, set()):
            start = draw.randrange(n)
            entities, hops = directory.traverse(start, types, max_hops, hyper)
            expected = model.traverse([start], types, max_hops, events)
            assert list(zip(entities.tolist(), hops.tolist(), strict=True)) == expected
            collected = directory.collect_memories(start, types, max_hops, hyper)
            assert collected.tolist() == model.collect([start], types, max_hops, events)
            assert collected.dtype == np.uint32


def test_typ_3_with_registries_any_type_can_be_used_by_name(tmp_path):
    entities, relations = TypeRegistry.entities(), TypeRegistry.relations()
    directory = EntityDirectory(entity_types=entities, relation_types=relations)
    car = directory.intern("Herbie", "vehicle")
    assert directory.type(car) == entities.find("VEHICLE") == 22
    plant = directory.intern("Wolfsburg", "LOCATION")
    directory.add_relation(car, plant, "built-at")
    directory.save(tmp_path / "e")
    directory = EntityDirectory.load(tmp_path / "e", relation_types=relations)
    assert directory.traverse(car, {"BUILT_AT"})[0].tolist() == [car, plant]
    assert directory.traverse(car, {"CAUSES"})[0].tolist() == [car]
    with pytest.raises(ValueError, match="registry of entities, not of relations"):
        EntityDirectory(entity_types=relations)
    with pytest.raises(TypeError, match="relation_types must be a TypeRegistry"):
        EntityDirectory(relation_types=["x"])


def test_eee_2_relations_gain_are_capped_and_a_self_relation_is_refused():
    directory = linked(0, 0)
    for n in range(12):
        assert directory.add_relation(0, 1, 2)
        expected = min(3, 1 + 0.2 * n)
        assert directory.relations(0).weights == pytest.approx([expected], rel=1e-6)
    with pytest.raises(ValueError, match="two entities"):
        directory.add_relation(1, 1, 0)
    assert directory.relation_count == 1


def test_eee_2_at_most_48_relations_from_an_entity_and_any_number_to_it():
    directory = linked(*[0] * 120)
    for target in range(1, 120):
        directory.add_relation(0, target, 0)
        directory.add_relation(target, 0, 0)
    assert len(directory.relations(0)) == 48
    assert len(directory.relations(0, incoming=True)) == 119


def test_eee_3_relations_decay_but_only_connections_stay():
    directory = linked(*[0] * 6)
    for a, b in ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3), (3, 4)):
        directory.add_relation(a, b, 0)
    directory.decay_relations()
    assert directory.relations(3).bridges.tolist() == [255]
    assert directory.relations(0).bridges.max() < 224  # a 4-clique
    for _ in range(31):
        directory.decay_relations()
    assert directory.relations(0).weights.tolist() == []
    assert directory.relations(3).weights.tolist() == pytest.approx([0.2])
    assert directory.relations(4, incoming=True).entities.tolist() == [3]


def test_f057_degrees_and_both_directions_agree_after_any_operations():
    """ENT-5, EEE-1"""
    draw = random.Random(5)
    directory = linked(*[0] * 40)
    for _ in range(3000):
        a, b = draw.sample(range(40), 2)
        kind = draw.randrange(8)
        if kind < 3:
            directory.link(a, draw.randrange(100))
        elif kind < 6:
            directory.add_relation(a, b, draw.randrange(3))
        elif kind == 6:
            directory.remove_memory(draw.randrange(100))
        elif draw.random() < 0.2:
            directory.decay_adjacency_weights(0.9)
            directory.decay_relations(0.9)
    pairs = {(e, m) for e in range(40) for m in directory.memories_for_entity(e).tolist()}
    assert pairs == {(e, m) for m in range(100) for e in directory.entities_for_memory(m).tolist()}
    assert directory.link_count == len(pairs) == sum(map(directory.ref_count, range(40)))
    out = {(e, t) for e in range(40) for t in directory.relations(e).entities.tolist()}
    back = {(s, e) for e in range(40) for s in directory.relations(e, True).entities.tolist()}
    assert out == back


def test_f075_equal_items_of_one_batch_are_one_link():
    """ENT-3, ENT-4"""
    directory = EntityDirectory()
    assert directory.intern(["same", "same"], 0).tolist() == [0, 0]
    directory.link([0, 0], [3, 3])
    assert directory.links(0).weights == pytest.approx([1.2])


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda d: d.intern(7, 0), TypeError, "name must be str"),
        (lambda d: d.intern("\ud800", 0), ValueError, "Unicode"),
        (lambda d: d.intern("x", -1), ValueError, r"type must be in \[0"),
        (lambda d: d.intern("x", "VEHICLE"), ValueError, "'VEHICLE' needs a TypeRegistry"),
        (lambda d: d.intern(["x", "y"], np.zeros(3, np.uint32)), ValueError, "type must be one"),
        (lambda d: d.link(5, 0), IndexError, "entity 5 is not known"),
        (lambda d: d.link([0, 5], [1, 1]), IndexError, "entity 5 is not known"),
        (lambda d: d.link(-1, 0), ValueError, "entity must be in"),
        (lambda d: d.link(0, 2**32 - 1), ValueError, "memory must be"),
        (lambda d: d.link([0], [2**32 - 1]), ValueError, "memory must be at most"),
        (lambda d: d.link([0, 1], [1, 2, 3]), ValueError, "equal lengths"),
        (lambda d: d.link(0, [1.5]), TypeError, "memory must hold integers"),
        (lambda d: d.link(0, 1, about=1), TypeError, "about must hold bool"),
        (lambda d: d.find_entity(3), TypeError, "name must be str"),
        (lambda d: d.memories_for_entity(3), IndexError, "entity 3 is not known: there are 3"),
        (lambda d: d.memory_ref_weight(9, 0), IndexError, "not known"),
        (lambda d: d.ref_count(9), IndexError, "not known"),
        (lambda d: d.fan_factor(9), IndexError, "not known"),
        (lambda d: d.name(9), IndexError, "not known"),
        (lambda d: d.type(9), IndexError, "not known"),
        (lambda d: d.resolve(9), IndexError, "not known"),
        (lambda d: d.links(9), IndexError, "not known"),
        (lambda d: d.relations(9), IndexError, "not known"),
        (lambda d: d.unmerge(9), IndexError, "not known"),
        (lambda d: d.entities_for_memory(-1), ValueError, "memory must be in"),
        (lambda d: d.decay_adjacency_weights(1.1), ValueError, "factor must be in"),
        (lambda d: d.decay_adjacency_weights(math.nan), ValueError, "factor must be in"),
        (lambda d: d.decay_adjacency_weights(0.9, 0), ValueError, "threshold must be in"),
        (lambda d: d.decay_relations(-0.1), ValueError, "factor must be in"),
        (lambda d: d.add_relation(0, 9, 0), IndexError, "not known"),
        (lambda d: d.add_relation(0, 1, "LIKES"), ValueError, "'LIKES' needs a TypeRegistry"),
        (lambda d: d.remove_memory([-1]), ValueError, "slot must be between"),
        (lambda d: d.traverse(9), IndexError, "not known"),
        (lambda d: d.traverse(0, max_hops=-1), ValueError, "max_hops must be in"),
        (lambda d: d.traverse(0, filter="KNOWS"), TypeError, "filter must be a collection"),
        (lambda d: d.traverse(0, filter=[1.5]), TypeError, "each of filter must be int"),
        (lambda d: d.collect_memories(0, hyper=3), TypeError, "hyper must be a HyperGraph"),
        (lambda d: EntityDirectory(0), ValueError, "max_entity_edges must be in"),
    ],
)
def test_gen_5_bad_arguments_name_themselves_and_change_nothing(call, error, message):
    directory = linked(2, 3, 0)
    model = reference.Directory()
    for entity, count in enumerate((2, 3, 0)):
        model.intern(f"e{entity}", 0)
        for memory in range(count):
            model.link(entity, memory)
    with pytest.raises(error, match=message):
        call(directory)
    assert_same(directory, model)


def test_per_2_files(tmp_path):
    directory = linked(3, 12)
    path = tmp_path / "entity-directory.graph"
    directory.save(path)
    data = path.read_bytes()
    assert data[:8] == b"EDIR" + (2).to_bytes(4, "little")
    assert data[10:16] == (2).to_bytes(2, "little") + (64).to_bytes(4, "little")
    path.write_bytes(data[:-1])
    with pytest.raises(CorruptionError, match=r"entity-directory\.graph"):
        EntityDirectory.load(path)
    with pytest.raises(StorageError):
        EntityDirectory.load(tmp_path / "none")
    with pytest.raises(StorageError):
        directory.save(tmp_path)


def test_gen_2_equal_histories_give_equal_files(tmp_path):
    for name in ("a", "b"):
        directory = linked(3, 9, 17)
        directory.decay_adjacency_weights(0.5)
        directory.add_relation(0, 2, 4)
        directory.save(tmp_path / name)
    a, b = ((tmp_path / name).read_bytes() for name in ("a", "b"))
    assert a[:40] + a[64:] == b[:40] + b[64:]  # but for the times


def test_bud_4_100_000_entities(tmp_path):
    n = 100_000
    directory = EntityDirectory()
    directory.intern([f"Entity-{i}" for i in range(n)], 0)
    directory.link(np.arange(n), np.arange(n))
    directory.compact_adjacency()
    usage = directory.memory_usage()
    assert usage["nodes"] + usage["links"] + usage["dead"] <= 7_200_000
    assert set(usage) == {"nodes", "links", "dead", "names", "overhead"}
    assert sum(usage.values()) < 30_000_000


def test_readers_see_whole_changes_beside_a_writer():
    directory = linked(0, 0, 0)
    done = threading.Event()
    faults = []

    def read():
        while not done.is_set():
            for memory in range(20):
                if len(directory.entities_for_memory(memory)) not in (0, 3):
                    faults.append(memory)
            n = len(directory.collect_memories([0, 1, 2], max_hops=1))
            if n > 20:
                faults.append(n)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    draw = random.Random(1)
    for _ in range(2000):
        memory = draw.randrange(20)
        if draw.random() < 0.5:
            directory.link([0, 1, 2], memory)
        else:
            directory.remove_memory(memory)
    done.set()
    for thread in threads:
        thread.join()
    assert faults == []
