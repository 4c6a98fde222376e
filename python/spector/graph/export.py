"""Layers of the graph for other programs: networkx objects, GraphML and JSON files.

Every store of `spector.graph` with nodes and edges has `to_networkx`, `to_graphml` and `to_json`.
Slots and entity ids are ints, tags are str; where two kinds of nodes meet, they are named
``memory:7``, ``entity:3``, ``event:12`` and ``tag:deploy``. Files are written as they are made, so
that a layer of any size needs no memory for it; only `to_networkx` needs networkx.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO
from xml.sax.saxutils import escape, quoteattr

import numpy as np

if TYPE_CHECKING:
    from spector.graph.cross_capture import CrossCapture
    from spector.graph.entity_directory import EntityDirectory
    from spector.graph.hebbian import HebbianGraph
    from spector.graph.hyper_graph import HyperGraph
    from spector.graph.tag_coactivation import TagCoActivation
    from spector.graph.temporal_chain import TemporalChain

Attributes = dict[str, int | float | str | bool]
Id = int | str

_INSTALL: Final = "to_networkx needs networkx: pip install networkx"
# What XML 1.0 cannot hold in any way, and the backslash of a text that spells such a character, so
# that two names never become one.
_NOT_XML: Final = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]|\\(?=u[0-9a-f]{4})"
)
_XML_TYPES: Final = {int: "long", float: "double", str: "string", bool: "boolean"}


class Layer(NamedTuple):
    """What is exported. The types name all attributes that a node or an edge may have."""

    name: str
    directed: bool
    multigraph: bool  # two nodes may have several edges
    node_types: Mapping[str, type]
    edge_types: Mapping[str, type]
    nodes: Iterable[tuple[Id, Attributes]]
    edges: Iterable[tuple[Id, Id, Attributes]]


class Exportable:
    """`to_networkx`, `to_graphml` and `to_json` of a store."""

    __slots__ = ()

    def to_networkx(self, part: str | None = None) -> Any:
        """The layer as a networkx graph.

        Parameters
        ----------
        part : str, optional
            Of a `TagCoActivation` "pairs" (the default) or "sequences", of an `EntityDirectory`
            "relations" (the default) or "links"; other stores have one part.

        Returns
        -------
        networkx.Graph, DiGraph or MultiDiGraph

        Raises
        ------
        ImportError
            networkx is not installed.
        """
        return to_networkx(layer(self, part))

    def to_graphml(self, path: str | os.PathLike[str], part: str | None = None) -> None:
        """Write the layer as GraphML, which Gephi, yEd, igraph and networkx read.

        Characters that XML cannot hold are spelled out, as ``\\u0007``, and so is the backslash of
        a text that reads like that. `part` is as in `to_networkx`; an existing file is replaced as
        a whole.
        """
        _replace(path, layer(self, part), _write_graphml)

    def to_json(self, path: str | os.PathLike[str], part: str | None = None) -> None:
        """Write the layer as JSON, which ``networkx.node_link_graph(data, edges="edges")`` reads.

        An object with "directed", "multigraph", "graph", and the lists "nodes" (each with "id")
        and "edges" (each with "source" and "target"). `part` is as in `to_networkx`; an existing
        file is replaced as a whole.
        """
        _replace(path, layer(self, part), _write_json)


def layer(store: object, part: str | None = None) -> Layer:
    """What `store` exports: `TypeError` if it is no store, `ValueError` if it has no such part."""
    names = (kind.__name__ for kind in type(store).__mro__)
    parts = next((_PARTS[name] for name in names if name in _PARTS), None)
    if parts is None:
        raise TypeError(f"store must be one of {', '.join(_PARTS)}, not {type(store).__name__}")
    if part is None:
        return next(iter(parts.values()))(store)
    if part not in parts:
        allowed = ", ".join(filter(None, parts)) or "None"
        raise ValueError(f"part must be {allowed}, not {part!r}")
    return parts[part](store)


def to_networkx(exported: Layer) -> Any:
    """A layer as a networkx graph."""
    try:
        import networkx
    except ImportError as error:
        raise ImportError(_INSTALL) from error
    kinds = {
        (False, False): networkx.Graph,
        (True, False): networkx.DiGraph,
        (True, True): networkx.MultiDiGraph,
    }
    graph = kinds[exported.directed, exported.multigraph](name=exported.name)
    graph.add_nodes_from(exported.nodes)
    graph.add_edges_from(exported.edges)
    return graph


def _hebbian(store: "HebbianGraph") -> Layer:
    edges = store.edges()
    columns = (edges.a, edges.b, edges.weight, edges.last_cycle, edges.bridge_score, edges.flags)

    def rows() -> Iterator[tuple[Id, Id, Attributes]]:
        for a, b, weight, cycle, bridge, flags in _rows(*columns):
            yield (
                a,
                b,
                {"weight": weight, "last_cycle": cycle, "bridge_score": bridge, "flags": flags},
            )

    types = {"weight": float, "last_cycle": int, "bridge_score": int, "flags": int}
    nodes = np.unique(np.concatenate([edges.a, edges.b]))
    return Layer("hebbian", False, False, {}, types, _plain(nodes), rows())


def _temporal(store: "TemporalChain") -> Layer:
    records = store.records()
    linked = np.flatnonzero((records.prev >= 0) | (records.next >= 0))
    first = np.flatnonzero(records.next >= 0)

    def nodes() -> Iterator[tuple[Id, Attributes]]:
        for slot, session, time in _rows(linked, records.session[linked], records.time[linked]):
            yield slot, {"session": session, "time": time}

    def edges() -> Iterator[tuple[Id, Id, Attributes]]:
        for slot, after in _rows(first, records.next[first]):
            yield slot, after, {}

    types = {"session": int, "time": int}
    return Layer("temporal", True, False, types, {}, nodes(), edges())


def _tag_pairs(store: "TagCoActivation") -> Layer:
    memories = dict(store.tags())
    nodes = ((tag, Attributes(memories=n)) for tag, n in memories.items())
    # Without those of tags that came after `tags`.
    pairs = (pair for pair in store.pairs() if memories.keys() >= set(pair[:2]))
    edges = ((a, b, Attributes(count=n)) for a, b, n in pairs)
    return Layer("tag pairs", False, False, {"memories": int}, {"count": int}, nodes, edges)


def _tag_sequences(store: "TagCoActivation") -> Layer:
    found = store.edges()
    nodes = ((tag, Attributes()) for tag in sorted({tag for edge in found for tag in edge[:2]}))
    edges = ((a, b, Attributes(weight=weight)) for a, b, weight in found)
    return Layer("tag sequences", True, False, {}, {"weight": float}, nodes, edges)


def _cross_capture(store: "CrossCapture") -> Layer:
    tags = store.tags()
    held = [(tag, store.slots(tag)[::-1]) for tag in tags]

    def nodes() -> Iterator[tuple[Id, Attributes]]:
        for tag in tags:
            yield f"tag:{tag}", {"kind": "tag"}
        for slot in np.unique(np.concatenate([np.empty(0, np.uint32), *(s for _, s in held)])):
            yield f"memory:{slot}", {"kind": "memory"}

    def edges() -> Iterator[tuple[Id, Id, Attributes]]:
        for tag, slots in held:
            for slot in slots.tolist():
                yield f"tag:{tag}", f"memory:{slot}", {}

    return Layer("cross-capture", False, False, {"kind": str}, {}, nodes(), edges())


def _hyperedges(store: "HyperGraph") -> Layer:
    events = store.edges()
    ends = events.indptr.tolist()

    def nodes() -> Iterator[tuple[Id, Attributes]]:
        for entity in np.unique(events.entities).tolist():
            yield f"entity:{entity}", {"kind": "entity"}
        columns = (events.ids, events.types, events.weights, events.memories, events.timestamps)
        for id, type, weight, memory, timestamp in _rows(*columns):
            about: Attributes = {"kind": "event", "type": type, "weight": weight}
            if memory >= 0:
                about["memory"] = memory
            yield f"event:{id}", about | {"timestamp": timestamp}

    def edges() -> Iterator[tuple[Id, Id, Attributes]]:
        for place, id in enumerate(events.ids.tolist()):
            members = slice(ends[place], ends[place + 1])
            for entity, role in _rows(events.entities[members], events.roles[members]):
                yield f"event:{id}", f"entity:{entity}", {"role": role}

    types = {"kind": str, "type": int, "weight": float, "memory": int, "timestamp": int}
    return Layer("hyperedges", False, False, types, {"role": int}, nodes(), edges())


def _living(store: "EntityDirectory") -> list[int]:
    return [entity for entity in range(len(store)) if store.resolve(entity) == entity]


def _relations(store: "EntityDirectory") -> Layer:
    entities = _living(store)
    known = set(entities)

    def nodes() -> Iterator[tuple[Id, Attributes]]:
        for entity in entities:
            yield entity, {"name": store.name(entity), "type": store.type(entity)}

    def edges() -> Iterator[tuple[Id, Id, Attributes]]:
        for entity in entities:
            found = store.relations(entity)
            columns = (found.entities, found.types, found.weights, found.cycles, found.bridges)
            for other, type, weight, cycle, bridge in _rows(*columns):
                if other not in known:  # it came after `entities`
                    continue
                about = {"type": type, "weight": weight, "last_cycle": cycle}
                yield entity, other, about | {"bridge_score": bridge}

    edge_types = {"type": int, "weight": float, "last_cycle": int, "bridge_score": int}
    node_types = {"name": str, "type": int}
    return Layer("relations", True, True, node_types, edge_types, nodes(), edges())


def _links(store: "EntityDirectory") -> Layer:
    links = [(entity, store.links(entity)) for entity in _living(store)]

    def nodes() -> Iterator[tuple[Id, Attributes]]:
        for entity, _ in links:
            about: Attributes = {"kind": "entity", "name": store.name(entity)}
            yield f"entity:{entity}", about | {"type": store.type(entity)}
        slots = np.concatenate([np.empty(0, np.uint32), *(found.memories for _, found in links)])
        for slot in np.unique(slots).tolist():
            yield f"memory:{slot}", {"kind": "memory"}

    def edges() -> Iterator[tuple[Id, Id, Attributes]]:
        for entity, found in links:
            for slot, weight, about in _rows(found.memories, found.weights, found.about):
                yield f"entity:{entity}", f"memory:{slot}", {"weight": weight, "about": about}

    types = {"kind": str, "name": str, "type": int}
    edge_types = {"weight": float, "about": bool}
    return Layer("links", False, False, types, edge_types, nodes(), edges())


# By the name of the class, so that no store is imported for another one's sake.
_PARTS: Final[dict[str, dict[str | None, Callable[[Any], Layer]]]] = {
    "HebbianGraph": {None: _hebbian},
    "TemporalChain": {None: _temporal},
    "TagCoActivation": {"pairs": _tag_pairs, "sequences": _tag_sequences},
    "EntityDirectory": {"relations": _relations, "links": _links},
    "HyperGraph": {None: _hyperedges},
    "CrossCapture": {None: _cross_capture},
}


def _rows(*columns: Any) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _plain(nodes: Any) -> Iterator[tuple[Id, Attributes]]:
    return ((node, Attributes()) for node in nodes.tolist())


def _replace(
    path: str | os.PathLike[str], exported: Layer, write: Callable[[Layer, TextIO], None]
) -> None:
    final = Path(os.fsdecode(path))
    temporary = final.with_name(f".spector-{os.urandom(8).hex()}.tmp")
    try:
        with temporary.open("x", encoding="utf-8") as out:
            write(exported, out)
        temporary.replace(final)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_json(exported: Layer, out: TextIO) -> None:
    head = {
        "directed": exported.directed,
        "multigraph": exported.multigraph,
        "graph": {"name": exported.name},
    }
    out.write(json.dumps(head)[:-1] + ', "nodes": [')
    for number, (id, about) in enumerate(exported.nodes):
        out.write(",\n" if number else "\n")
        out.write(json.dumps({"id": id} | about))
    out.write('\n], "edges": [')
    for number, (source, target, about) in enumerate(exported.edges):
        out.write(",\n" if number else "\n")
        out.write(json.dumps({"source": source, "target": target} | about))
    out.write("\n]}\n")


def _write_graphml(exported: Layer, out: TextIO) -> None:
    keys: dict[tuple[str, str], str] = {}
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    out.write('<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
    for kind, types in (("node", exported.node_types), ("edge", exported.edge_types)):
        for name, type in types.items():
            key = keys[kind, name] = f"d{len(keys)}"
            form = f'attr.name="{name}" attr.type="{_XML_TYPES[type]}"'
            out.write(f'<key id="{key}" for="{kind}" {form}/>\n')
    direction = "directed" if exported.directed else "undirected"
    out.write(f'<graph edgedefault="{direction}">\n')

    def data(kind: str, about: Attributes) -> str:
        return "".join(
            f'<data key="{keys[kind, name]}">{escape(_xml(value))}</data>'
            for name, value in about.items()
        )

    for id, about in exported.nodes:
        out.write(f"<node id={_quoted(id)}>{data('node', about)}</node>\n")
    for source, target, about in exported.edges:
        ends = f"source={_quoted(source)} target={_quoted(target)}"
        out.write(f"<edge {ends}>{data('edge', about)}</edge>\n")
    out.write("</graph>\n</graphml>\n")


def _xml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _NOT_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", str(value))


def _quoted(id: Id) -> str:
    # A reader would make blanks of line ends and tabs in an attribute.
    return quoteattr(_xml(id), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
