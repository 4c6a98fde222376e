"""spector: an embedded memory engine for AI agents.

>>> import spector
>>> memory = spector.SpectorMemory.ephemeral()
>>> memory.remember("Deploy failed: ERR_CONN_RESET from db-7", id="m1", tags=["deploy"])
'm1'
>>> [hit.id for hit in memory.recall("ERR_CONN_RESET")]
['m1']
>>> memory.close()
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spector import lexical
    from spector._core import simd_level
    from spector.errors import (
        CapacityError,
        ClosedError,
        ConfigurationError,
        CorruptionError,
        DuplicateMemoryError,
        LockedError,
        SpectorError,
        StorageError,
        UnknownMemoryError,
        VersionError,
    )
    from spector.memory import Explanation, Memory, SpectorMemory, Status
    from spector.recall.fusion import rrf
    from spector.recall.options import RecallOptions
    from spector.recall.results import Hit, Results
    from spector.spaces import Spaces
    from spector.store import Entity, Relation, SpectorWarning
    from spector.store.bandit import ProfileAdaptor

__version__ = "0.1.0"

__all__ = [
    "CapacityError",
    "ClosedError",
    "ConfigurationError",
    "CorruptionError",
    "DuplicateMemoryError",
    "Entity",
    "Explanation",
    "Hit",
    "LockedError",
    "Memory",
    "ProfileAdaptor",
    "RecallOptions",
    "Relation",
    "Results",
    "Spaces",
    "SpectorError",
    "SpectorMemory",
    "SpectorWarning",
    "Status",
    "StorageError",
    "UnknownMemoryError",
    "VersionError",
    "__version__",
    "lexical",
    "rrf",
    "simd_level",
]

# Imported on first use, so that `import spector` costs little, and so that the command line can
# say in one line why the extension does not load.
_LAZY = {
    "simd_level": "spector._core",
    "ProfileAdaptor": "spector.store.bandit",
    "CapacityError": "spector.errors",
    "ClosedError": "spector.errors",
    "ConfigurationError": "spector.errors",
    "CorruptionError": "spector.errors",
    "DuplicateMemoryError": "spector.errors",
    "LockedError": "spector.errors",
    "SpectorError": "spector.errors",
    "StorageError": "spector.errors",
    "UnknownMemoryError": "spector.errors",
    "VersionError": "spector.errors",
    "Entity": "spector.store",
    "Relation": "spector.store",
    "SpectorWarning": "spector.store",
    "Explanation": "spector.memory",
    "Memory": "spector.memory",
    "SpectorMemory": "spector.memory",
    "Status": "spector.memory",
    "RecallOptions": "spector.recall.options",
    "Spaces": "spector.spaces",
    "Hit": "spector.recall.results",
    "Results": "spector.recall.results",
    "rrf": "spector.recall.fusion",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "lexical":
        return importlib.import_module("spector.lexical")
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'spector' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
