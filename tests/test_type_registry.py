"""TypeRegistry: names, normalisation, files (TYP-1 to TYP-3, HYP-4)."""

import struct
import threading
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from spector import CorruptionError, StorageError
from spector.graph import TypeRegistry

ENTITIES = [
    "PERSON",
    "ORGANIZATION",
    "TEAM",
    "ROLE",
    "PROJECT",
    "PRODUCT",
    "TASK",
    "CONCEPT",
    "TOPIC",
    "SKILL",
    "DECISION",
    "TECHNOLOGY",
    "TOOL",
    "API",
    "ARTIFACT",
    "EVENT",
    "LOCATION",
    "DATE_TIME",
    "PROCESS",
    "METRIC",
    "DOCUMENT",
    "OTHER",
]
RELATIONS = [
    "MANAGES",
    "REPORTS_TO",
    "KNOWS",
    "ASSIGNED_TO",
    "AUTHORED",
    "WORKS_ON",
    "CREATED_BY",
    "OWNS",
    "IMPLEMENTS",
    "PART_OF",
    "CONTAINS",
    "DEPENDS_ON",
    "USES",
    "CAUSES",
    "BLOCKS",
    "SUPERSEDES",
    "PRECEDES",
    "FOLLOWS",
    "LOCATED_AT",
    "RELATED_TO",
    "OTHER",
]
ROLES = ["UNSPECIFIED", "AGENT", "OBJECT", "CONTEXT", "INSTRUMENT", "LOCATION", "TIME", "RECIPIENT"]
KINDS = ["entities", "relations", "roles"]


def test_typ1_typ2_hyp4_built_in_names_have_the_numbers_of_the_labels():
    assert TypeRegistry.entities().names() == ENTITIES
    assert TypeRegistry.relations().names() == RELATIONS
    assert TypeRegistry.roles().names() == ROLES
    for kind, names in zip(KINDS, (ENTITIES, RELATIONS, ROLES), strict=True):
        registry = TypeRegistry(kind)
        assert [registry.id(name) for name in names] == list(range(len(names)))
        assert len(registry) == len(names)


def test_typ3_other_names_are_registered_on_first_use():
    registry = TypeRegistry.entities()
    assert registry.find("VEHICLE") is None
    assert "VEHICLE" not in registry
    assert registry.id("VEHICLE") == registry.id("vehicle") == registry.find(" Vehicle ") == 22
    assert registry.id("SHIP") == 23
    assert (registry.name(22), registry.name(23), registry.name(24)) == ("VEHICLE", "SHIP", None)
    assert "ship" in registry
    assert 3 not in registry


@pytest.mark.parametrize(
    ("given", "registered"),
    [
        ("works on", "WORKS_ON"),
        ("  Works-On\n", "WORKS_ON"),
        ("works \t on", "WORKS_ON"),
        ("deployed_on", "DEPLOYED_ON"),
        ("ＡＰＩ", "API"),  # GEN-6
        ("straße", "STRASSE"),
        ("Zoe\u0308", "ZO\u00cb"),
        ("", "RELATED_TO"),
        (" \u00a0\t", "RELATED_TO"),
    ],
)
def test_typ3_names_are_normalised(given, registered):
    registry = TypeRegistry.relations()
    assert registry.normalize(given) == registered
    assert registry.name(registry.id(given)) == registered


def test_typ3_a_blank_name_is_the_catch_all_of_its_kind():
    assert TypeRegistry.entities().id(" ") == ENTITIES.index("OTHER")
    assert TypeRegistry.relations().id(" ") == RELATIONS.index("RELATED_TO")
    assert TypeRegistry.roles().id(" ") == 0


def test_hyp4_subject_is_agent():
    roles = TypeRegistry.roles()
    assert roles.id("subject") == roles.id("AGENT") == 1
    assert roles.id("WITNESS") == 8
    assert TypeRegistry.entities().id("SUBJECT") == 22


@given(st.lists(st.text()), st.sampled_from(KINDS))
def test_typ3_numbers_are_those_of_a_plain_dict(names, kind):
    registry = TypeRegistry(kind)
    known = {name: i for i, name in enumerate(registry.names())}
    for name in names:
        try:
            folded = registry.normalize(name)
        except ValueError:  # a lone surrogate
            continue
        assert registry.normalize(folded) == folded
        assert registry.id(name) == known.setdefault(folded, len(known))
    assert registry.names() == list(known)


class Histories(RuleBasedStateMachine):
    """Names in any order, saved and loaded in between, have the numbers of a plain list."""

    spellings = st.sampled_from(
        [
            "ship",
            "SHIP",
            " Ship\n",
            "works on",
            "Works-On",
            "WORKS_ON",
            "agent",
            "subject",
            "straße",
        ]
    ) | st.text(max_size=3)

    @initialize(kind=st.sampled_from(KINDS))
    def begin(self, kind):
        self.registry = TypeRegistry(kind)
        self.names = self.registry.names()

    def registered(self, spelling):
        """TYP-3 in plain words; None if it is refused."""
        if any("\ud800" <= letter <= "\udfff" for letter in spelling):
            return None
        name = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", spelling).upper())
        name = "_".join(name.split()).replace("-", "_")
        if self.registry.kind == "roles":
            return {"SUBJECT": "AGENT", "": "UNSPECIFIED"}.get(name, name)
        return name or {"entities": "OTHER", "relations": "RELATED_TO"}[self.registry.kind]

    @rule(spelling=spellings)
    def id(self, spelling):
        name = self.registered(spelling)
        if name is None:
            with pytest.raises(ValueError, match="name must be text"):
                self.registry.id(spelling)
            return
        if name not in self.names:
            self.names.append(name)
        assert self.registry.id(spelling) == self.names.index(name)

    @rule(spelling=spellings)
    def find(self, spelling):
        name = self.registered(spelling)
        if name is not None:
            known = name in self.names
            assert (spelling in self.registry) is known
            assert self.registry.find(spelling) == (self.names.index(name) if known else None)

    @rule()
    def save_and_load(self):
        self.registry.save(self.folder / "types.reg")
        self.registry = TypeRegistry.load(self.folder / "types.reg", self.registry.kind)

    @invariant()
    def same(self):
        if hasattr(self, "names"):
            assert self.registry.names() == self.names
            assert self.registry.name(len(self.names)) is None


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    Histories.folder = tmp_path_factory.mktemp("types")


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=200, stateful_step_count=100, deadline=None, derandomize=True
)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_names_keep_their_numbers(tmp_path, kind):
    registry = TypeRegistry(kind)
    for name in ("Zoë", "ship", "機械", "x" * 100_000):
        registry.id(name)
    registry.save(tmp_path / "types.reg")
    loaded = TypeRegistry.load(tmp_path / "types.reg", kind)
    assert loaded.names() == registry.names()
    assert (loaded.kind, loaded.id("ship")) == (kind, registry.id("SHIP"))
    assert loaded.id("a new one") == len(registry)
    for other in KINDS:
        if other != kind:
            with pytest.raises(CorruptionError, match="holds other names"):
                TypeRegistry.load(tmp_path / "types.reg", other)
    with pytest.raises(StorageError):
        TypeRegistry.load(tmp_path / "nothing", kind)


def test_golden_file(tmp_path):
    """The bytes are those of FORMATS.md, and stay so; the header has the times of saving."""
    roles = TypeRegistry.roles()
    roles.id("Zeuge")
    path = Path(__file__).parent / "data" / "treg-1.reg"
    assert TypeRegistry.load(path, "roles").names() == roles.names()
    roles.save(tmp_path / "roles.reg")
    assert (tmp_path / "roles.reg").read_bytes()[64:] == path.read_bytes()[64:]
    assert path.read_bytes()[:16] == b"TREG" + struct.pack("<IHHI", 1, 0, 5, 0)


def test_bad_arguments_are_named():
    registry = TypeRegistry.roles()
    with pytest.raises(TypeError, match="name must be str, not int"):
        registry.id(3)
    with pytest.raises(ValueError, match="name must be text"):
        registry.find("\ud800")
    with pytest.raises(ValueError, match="id must be in"):
        registry.name(-1)
    with pytest.raises(ValueError, match="kind must be one of entities, relations, roles"):
        TypeRegistry("tags")
    with pytest.raises(TypeError, match="kind must be str"):
        TypeRegistry(0)
    assert len(registry) == 8
    assert repr(registry) == "TypeRegistry('roles', names=8)"
    assert registry.memory_usage()["names"] > 0


def test_readers_beside_a_writer_see_a_number_with_its_name():
    registry = TypeRegistry.entities()
    stop = threading.Event()
    faults = []

    def read():
        while not stop.is_set():
            for number in range(len(registry)):
                name = registry.name(number)
                if name is None or registry.find(name) != number:
                    faults.append(number)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(500):
        assert registry.id(f"TYPE_{i}") == 22 + i
    stop.set()
    for reader in readers:
        reader.join()
    assert faults == []


def test_names_of_which_only_the_hash_is_known() -> None:
    """AM-17: a registry without names gives them their numbers again when it meets them."""
    registry = TypeRegistry.relations()
    numbers = [registry.id(name) for name in ("trusts", "orbits", "feeds")]
    restored = TypeRegistry.restored("relations", registry.hashes(), ["ORBITS", "KNOWS", "HATES"])
    assert len(restored) == len(registry)
    assert [restored.name(number) for number in numbers] == [None, "ORBITS", None]
    assert restored.names()[numbers[0] :] == ["", "ORBITS", ""]
    assert restored.find("Feeds") == numbers[2]
    assert restored.hashes() == registry.hashes()
    assert [restored.id(name) for name in ("feeds", "orbits", "hates", "trusts")] == [
        numbers[2],
        numbers[1],
        numbers[2] + 1,
        numbers[0],
    ]
    assert restored.names() == [*registry.names(), "HATES"]
    assert restored.hashes()[:3] == registry.hashes()
