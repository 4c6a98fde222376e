"""The spaces of a server: the one in its folder, and one for each namespace in a folder below."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spector import SpectorMemory
from spector.configuration import load
from spector.store import FILE_NAME

__all__ = ["FOLDER", "OpenSpaces"]

#: Where namespaces are, in the folder of the server.
FOLDER: Final = "spaces"


class _Entry:
    """A space that is open or being opened; `users` and its place are guarded by `OpenSpaces`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held while it is opened
        self.memory: SpectorMemory | None = None
        self.users = 0


class OpenSpaces:
    """Opens spaces when they are used and closes those that were not used for longest.

    Any thread may use any space; a space is closed only while nobody uses it.

    Parameters
    ----------
    path : Path
        The folder of the space without a namespace. It is opened at once.
    open_at_most : int
        How many namespaces stay open.
    """

    def __init__(self, path: Path, open_at_most: int = 32) -> None:
        self._path = path
        self._config = load(True, folder=path)
        self._open_at_most = open_at_most
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._home = SpectorMemory.open(path, config=self._config)

    @contextmanager
    def use(self, namespace: str | None, *, create: bool = False) -> Iterator[SpectorMemory]:
        """The space of a namespace, for a while.

        Parameters
        ----------
        namespace : str or None
            A name that was checked: it becomes that of a folder.
        create : bool
            Make the space when it is not there.

        Raises
        ------
        ValueError
            It is not there.
        """
        if namespace is None:
            yield self._home
            return
        with self._lock:
            entry = self._entries.setdefault(namespace, _Entry())
            entry.users += 1
            self._entries.move_to_end(namespace)
        try:
            with entry.lock:
                if entry.memory is None:
                    entry.memory = self._open(namespace, create)
                memory = entry.memory
            yield memory
        finally:
            with self._lock:
                entry.users -= 1
                idle = self._take_idle()
            for each in idle:
                each.close()

    def close(self) -> None:
        """Close all."""
        with self._lock:
            entries = list(self._entries.values())
            self._entries.clear()
        for entry in entries:
            if entry.memory is not None:
                entry.memory.close()
        self._home.close()

    def _open(self, namespace: str, create: bool) -> SpectorMemory:
        folder = self._path / FOLDER / namespace
        if not create and not (folder / FILE_NAME).exists():
            raise ValueError(
                f"there is no namespace {namespace!r}; the first memory_remember with it makes one"
            )
        return SpectorMemory.open(folder, config=self._config)

    def _take_idle(self) -> list[SpectorMemory]:
        """Take out what failed to open and what is open beyond the limit."""
        for name in [
            name
            for name, entry in self._entries.items()
            if entry.memory is None and not entry.users
        ]:
            del self._entries[name]
        surplus = len(self._entries) - self._open_at_most
        idle = []
        for name, entry in list(self._entries.items()):
            if surplus <= 0:
                break
            if not entry.users and entry.memory is not None:
                idle.append(entry.memory)
                del self._entries[name]
                surplus -= 1
        return idle
