"""The exceptions of spector (docs/architecture.md, section 6)."""

from spector._core import CapacityError, CorruptionError, SpectorError, VersionError

__all__ = [
    "CapacityError",
    "ClosedError",
    "ConfigurationError",
    "CorruptionError",
    "DuplicateMemoryError",
    "LockedError",
    "SpectorError",
    "StorageError",
    "UnknownMemoryError",
    "VersionError",
]


class LockedError(SpectorError):
    """Another process held the journal longer than ``busy_timeout``; trying again is safe."""


class StorageError(SpectorError, OSError):
    """The disk refused (full, I/O error); the operation failed as a whole."""


class ClosedError(SpectorError):
    """The memory was closed."""


class ConfigurationError(SpectorError, ValueError):
    """Options that do not fit together, or a component that is not there."""


class DuplicateMemoryError(SpectorError, ValueError):
    """The id exists and ``on_conflict="error"`` was given."""


class UnknownMemoryError(SpectorError, KeyError):
    """No memory has this id."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument; a message should read as one.
        return str(self.args[0]) if self.args else ""
