"""What the layers give to other programs, read back with networkx."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from spector import graph
from spector.graph import export

networkx = pytest.importorskip("networkx")


def tags():
    store = graph.TagCoActivation()
    store.observe(["a", "b<&>\"'", "東京"])
    store.observe(["a", "b<&>\"'"])
    store.observe(["alone"])
    store.observe_sequence(["a"], ["line\x07bell", "東京"], 1000)
    return store


def cross_capture():
    store = graph.CrossCapture()
    store.add(3, ["a", "b & c"])
    store.add(70_000, ["a"])
    return store


def hebbian():
    store = graph.HebbianGraph()
    store.resize(10)
    store.strengthen(0, 7)
    store.strengthen(7, 3, 0.5)
    return store


def temporal():
    store = graph.TemporalChain(10)
    store.link([4, 2], [1, 4], 9)
    return store


def hyperedges():
    store = graph.HyperGraph()
    store.add(5, [1, 2, 8], [0, 1, 2], 44, 1_000, 1.0)
    store.add(6, [2, 3, 9], [1, 1, 2], None, 2_000, 1.5)
    return store


def entities():
    store = graph.EntityDirectory()
    alice, alpha = store.intern("Alice <&>", "PERSON"), store.intern("Alpha", "PROJECT")
    store.intern("Alone", "PERSON")
    store.add_relation(alice, alpha, "MANAGES")
    store.add_relation(alice, alpha, "KNOWS")
    store.add_relation(alpha, alice, "KNOWS")
    store.link(alpha, 7, True)
    store.link(alice, 7)
    store.link(alice, 9)
    return store


# Store, part, (nodes, edges), one edge with some of its attributes.
CASES = [
    (tags, None, (4, 3), ("a", "b<&>\"'", {"count": 2})),
    (tags, "sequences", (3, 2), ("a", "東京", {})),
    (cross_capture, None, (4, 3), ("tag:b & c", "memory:3", {})),
    (hebbian, None, (3, 2), (0, 7, {"last_cycle": 0})),
    (temporal, None, (3, 2), (1, 4, {})),
    (hyperedges, None, (7, 6), ("event:0", "entity:8", {"role": 2})),
    (entities, None, (3, 3), (0, 1, {})),
    (entities, "links", (5, 3), ("entity:1", "memory:7", {"about": True, "weight": 1.0})),
]
NAMES = {
    "tags": "TagCoActivation",
    "cross_capture": "CrossCapture",
    "hebbian": "HebbianGraph",
    "temporal": "TemporalChain",
    "hyperedges": "HyperGraph",
    "entities": "EntityDirectory",
}
CASES = [case for case in CASES if NAMES[case[0].__name__] in graph.__all__]


def plain(graph):
    """All that a graph says, with names as text."""
    nodes = {str(node): dict(about) for node, about in graph.nodes(data=True)}
    edges = []
    for a, b, about in graph.edges(data=True):
        ends = (str(a), str(b)) if graph.is_directed() else tuple(sorted((str(a), str(b))))
        edges.append((ends, sorted(about.items())))
    return graph.is_directed(), graph.is_multigraph(), nodes, sorted(edges)


@pytest.mark.parametrize(
    ("make", "part", "size", "edge"), CASES, ids=lambda value: getattr(value, "__name__", None)
)
def test_networkx_graphml_and_json_say_the_same(make, part, size, edge, tmp_path):
    store = make()
    found = store.to_networkx(part)
    assert (found.number_of_nodes(), found.number_of_edges()) == size
    a, b, about = edge
    seen = found.get_edge_data(a, b)
    seen = seen[0] if found.is_multigraph() else seen
    assert about.items() <= seen.items()

    store.to_json(tmp_path / "layer.json", part)
    data = json.loads((tmp_path / "layer.json").read_text("utf-8"))
    assert plain(networkx.node_link_graph(data, edges="edges")) == plain(found)

    store.to_graphml(tmp_path / "layer.graphml", part)
    assert ET.parse(tmp_path / "layer.graphml").getroot().tag.endswith("graphml")
    read = networkx.read_graphml(tmp_path / "layer.graphml")
    expected = networkx.relabel_nodes(
        found, {node: str(node).replace("\x07", "\\u0007") for node in found}
    )
    assert plain(read) == plain(expected)
    assert {file.name for file in tmp_path.iterdir()} == {"layer.json", "layer.graphml"}


def test_every_store_with_edges_can_be_exported():
    for name in export._PARTS:
        if name in graph.__all__:
            assert issubclass(getattr(graph, name), export.Exportable), name


def test_empty_stores_give_empty_graphs(tmp_path):
    for make in {case[0] for case in CASES}:
        store = type(make())()
        for part in export._PARTS[type(store).__name__]:
            assert store.to_networkx(part).number_of_nodes() == 0
            store.to_graphml(tmp_path / "empty", part)
            assert networkx.read_graphml(tmp_path / "empty").number_of_nodes() == 0
            store.to_json(tmp_path / "empty", part)
            assert json.loads((tmp_path / "empty").read_text())["edges"] == []


def test_attributes_are_those_that_the_layer_names():
    for make, part, _, _ in CASES:
        layer = export.layer(make(), part)
        for _, about in layer.nodes:
            assert {name: type(value) for name, value in about.items()}.items() <= dict(
                layer.node_types
            ).items()
        for _, _, about in layer.edges:
            assert {name: type(value) for name, value in about.items()} == dict(layer.edge_types)


def test_files_need_no_networkx_and_objects_say_what_is_missing(tmp_path):
    code = f"""
import sys
sys.modules["networkx"] = None
from spector.graph import TagCoActivation
store = TagCoActivation()
store.observe(["a", "b"])
store.to_graphml({str(tmp_path / "a.graphml")!r})
store.to_json({str(tmp_path / "a.json")!r})
try:
    store.to_networkx()
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install networkx" in done.stdout
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failed_export_leaves_the_old_file(tmp_path):
    file = tmp_path / "layer.json"
    tags().to_json(file)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=r"part must be pairs, sequences, not 'links'"):
        tags().to_json(file, "links")
    with pytest.raises(ValueError, match="part must be None"):
        cross_capture().to_graphml(file, "pairs")
    with pytest.raises(TypeError, match="store must be one of"):
        export.layer([1])
    with pytest.raises(OSError, match="No such file"):
        tags().to_graphml(tmp_path / "nowhere" / "layer.graphml")
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_names_that_differ_stay_apart_in_graphml(tmp_path):
    store = graph.TagCoActivation()
    names = ["\x07", "\\u0007", "\\u005cu0007", "\\user", "c:\\u", "\ufffe", "\\ufffe"]
    store.observe(names)
    store.to_graphml(tmp_path / "tags")
    read = networkx.read_graphml(tmp_path / "tags")
    assert set(read) == {
        "\\u0007",
        "\\u005cu0007",
        "\\u005cu005cu0007",
        "\\user",
        "c:\\u",
        "\\ufffe",
        "\\u005cufffe",
    }
    assert read.number_of_edges() == 21


def test_a_store_of_ones_own_class_is_exported_as_what_it_is():
    class Mine(graph.TagCoActivation):
        pass

    store = Mine()
    store.observe(["a", "b"])
    assert set(store.to_networkx()) == {"a", "b"}


def test_an_edge_never_names_a_node_that_came_after_the_nodes():
    """A writer may go on while a layer is read."""
    directory = graph.EntityDirectory()
    alice, alpha = directory.intern(["Alice", "Alpha"], "OTHER").tolist()
    directory.add_relation(alice, alpha, "KNOWS")
    exported = export.layer(directory)
    nodes = [node for node, _ in exported.nodes]
    directory.add_relation(alice, directory.intern("Late", "OTHER"), "KNOWS")
    assert nodes == [alice, alpha]
    assert [edge[:2] for edge in exported.edges] == [(alice, alpha)]

    class Busy(graph.TagCoActivation):
        def pairs(self):
            self.observe(["a", "late"])
            return super().pairs()

    tags = Busy()
    tags.observe(["a", "b"])
    exported = export.layer(tags)
    assert [tag for tag, _ in exported.nodes] == ["a", "b"]
    assert [edge[:2] for edge in exported.edges] == [("a", "b")]
