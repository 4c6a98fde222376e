"""The cognitive graph (specification, section D): each layer is a store that works alone.

Memories are u32 *slots* and entities u32 *ids*, numpy arrays in and out; a single number is taken
as an array of one. Any thread may call any method: reads take no lock and see whole changes or
none, writers take turns. All methods give up the GIL for their work.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spector.graph.hebbian import (
        DecayReport,
        HebbianEdge,
        HebbianEdges,
        HebbianGraph,
        Signals,
        edge_importance,
    )

__all__ = [
    "DecayReport",
    "HebbianEdge",
    "HebbianEdges",
    "HebbianGraph",
    "Signals",
    "edge_importance",
]

# Where each name is, imported on first use.
_LAZY = {
    "DecayReport": "spector.graph.hebbian",
    "HebbianEdge": "spector.graph.hebbian",
    "HebbianEdges": "spector.graph.hebbian",
    "HebbianGraph": "spector.graph.hebbian",
    "Signals": "spector.graph.hebbian",
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
