"""The space on disk: the journal, and the replica that each process builds from it."""

from .check import Report, check
from .filters import Filter
from .journal import FILE_NAME, Journal, SpectorWarning
from .model import Entity, Event, EventType, Memory, Relation
from .replica import Settings
from .space import Space

__all__ = [
    "FILE_NAME",
    "Entity",
    "Event",
    "EventType",
    "Filter",
    "Journal",
    "Memory",
    "Relation",
    "Report",
    "Settings",
    "Space",
    "SpectorWarning",
    "check",
]
