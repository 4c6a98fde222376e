"""Headers and vectors of memories, and the six phases that rank them (specification, section C).

Memories are u32 *slots*, numpy arrays in and out; a single number is taken as an array of one.
Times are milliseconds since 1970, UTC. Any thread may call any method: reads take no lock and see
whole changes or none, writers take turns. All methods give up the GIL for their work.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spector.records.cognition import (
        FAST_FORGET,
        SLOW_FORGET,
        Decay,
        Surprise,
        arousal_factor,
        decay_bucket,
        importance,
        novelty,
        reconsolidated,
        strength_increment,
        tag_filter,
    )
    from spector.records.store import Answer, RecordStore, ScoringOptions

__all__ = [
    "FAST_FORGET",
    "SLOW_FORGET",
    "Answer",
    "Decay",
    "RecordStore",
    "ScoringOptions",
    "Surprise",
    "arousal_factor",
    "decay_bucket",
    "importance",
    "novelty",
    "reconsolidated",
    "strength_increment",
    "tag_filter",
]

# Where each name is, imported on first use.
_LAZY = dict.fromkeys(__all__, "spector.records.cognition") | dict.fromkeys(
    ("Answer", "RecordStore", "ScoringOptions"), "spector.records.store"
)


def __getattr__(name: str) -> Any:
    import importlib

    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'spector.records' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
