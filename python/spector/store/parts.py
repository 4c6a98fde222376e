"""Attributes that are read from a snapshot when somebody first uses them.

Opening a space thus takes what its checksums take, and a recall what it uses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

#: Reads some attributes: their values by name.
Load = Callable[[], Mapping[str, Any]]


class Parts:
    """See the top of this file. Any thread may use an attribute that is not there yet."""

    def __init__(self) -> None:
        #: What is not there yet, and who reads it.
        self.absent: dict[str, Load] = {}
        self._loading = threading.Lock()
        #: Why a part could not be read; whoever has this object must make another one.
        self.failed: Exception | None = None

    def leave(self, load: Load, *names: str) -> None:
        """Let `load` read these attributes when one of them is first used. There are no readers."""
        for name in names:
            self.__dict__.pop(name, None)
            self.absent[name] = load

    def load_all(self) -> None:
        """Read what is not there yet."""
        for name in list(self.absent):
            self._load(name)

    def _load(self, name: str) -> Any:
        with self._loading:
            if name in self.__dict__:  # another thread was first
                return self.__dict__[name]
            load = self.absent[name]
            try:
                values = load()
            except Exception as error:
                self.failed = error
                raise
            self.__dict__.update(values)
            for other in values:
                del self.absent[other]
            return values[name]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What is not there, or not there yet."""
            if name in self.__dict__.get("absent", ()):
                return self._load(name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
