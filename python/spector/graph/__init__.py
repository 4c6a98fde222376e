"""The cognitive graph (specification, section D): each layer is a store that works alone.

Memories are u32 *slots* and entities u32 *ids*, numpy arrays in and out; a single number is taken
as an array of one. Any thread may call any method: reads take no lock and see whole changes or
none, writers take turns. All methods give up the GIL for their work.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spector.graph.cross_capture import CrossCapture
    from spector.graph.entity_directory import EntityDirectory, Links, Relations
    from spector.graph.hebbian import (
        DecayReport,
        HebbianEdge,
        HebbianEdges,
        HebbianGraph,
        Signals,
        edge_importance,
    )
    from spector.graph.hyper_graph import Hyperedge, Hyperedges, HyperGraph
    from spector.graph.tag_coactivation import TagCoActivation
    from spector.graph.temporal_chain import ChainRecords, TemporalChain
    from spector.graph.type_registry import TypeRegistry

__all__ = [
    "ChainRecords",
    "CrossCapture",
    "DecayReport",
    "EntityDirectory",
    "HebbianEdge",
    "HebbianEdges",
    "HebbianGraph",
    "HyperGraph",
    "Hyperedge",
    "Hyperedges",
    "Links",
    "Relations",
    "Signals",
    "TagCoActivation",
    "TemporalChain",
    "TypeRegistry",
    "edge_importance",
]

# Where each name is, imported on first use.
_LAZY = {
    "EntityDirectory": "spector.graph.entity_directory",
    "Links": "spector.graph.entity_directory",
    "Relations": "spector.graph.entity_directory",
    "ChainRecords": "spector.graph.temporal_chain",
    "CrossCapture": "spector.graph.cross_capture",
    "DecayReport": "spector.graph.hebbian",
    "HebbianEdge": "spector.graph.hebbian",
    "HebbianEdges": "spector.graph.hebbian",
    "HebbianGraph": "spector.graph.hebbian",
    "Signals": "spector.graph.hebbian",
    "HyperGraph": "spector.graph.hyper_graph",
    "Hyperedge": "spector.graph.hyper_graph",
    "Hyperedges": "spector.graph.hyper_graph",
    "TagCoActivation": "spector.graph.tag_coactivation",
    "TemporalChain": "spector.graph.temporal_chain",
    "TypeRegistry": "spector.graph.type_registry",
    "edge_importance": "spector.graph.hebbian",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'spector.graph' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
