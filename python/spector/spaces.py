"""Many spaces under one folder: one for each agent, user or tenant (API-1)."""

from __future__ import annotations

import errno
import os
import re
import shutil
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spector.errors import StorageError
from spector.store.files import sync
from spector.store.journal import FILE_NAME
from spector.store.snapshots import exclusive
from spector.store.sqlite_errors import translated
from spector.store.values import check_id, check_path, check_seconds, show

if TYPE_CHECKING:
    from spector.memory import SpectorMemory

__all__ = ["Spaces", "folder_name", "space_name"]

#: Bytes of a name; a byte takes up to three characters of the folder's name, which may have 255.
LONGEST: Final = 80
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_FOLDER: Final = re.compile(r"(?:[a-z0-9_-]|%[0-9a-f]{2})+")
_DELETED: Final = ".deleted-"


def folder_name(name: object) -> str:
    """The folder of a space: lower-case letters, digits, "_" and "-" as they are, every other byte
    as ``%`` and two digits. No two names have one folder, on no file system.

    Raises
    ------
    TypeError, ValueError
        The name is not a str of 1 to 80 bytes without control characters.
    """
    label = unicodedata.normalize("NFC", check_id("name", name))
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") for letter in label):
        raise ValueError(f"name must not have control or format characters, got {show(name)}")
    if label != label.strip():
        raise ValueError(f"name must not begin or end with blanks, got {show(name)}")
    data = label.encode()
    if len(data) > LONGEST:
        raise ValueError(
            f"name must have at most {LONGEST} bytes in UTF-8, got {len(data)}: {show(name)}"
        )
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in data)


def space_name(folder: str) -> str | None:
    """The name of the space in a folder; None if no space has such a folder."""
    if not _FOLDER.fullmatch(folder):
        return None
    data = re.sub(rb"%(..)", lambda found: bytes([int(found[1], 16)]), folder.encode())
    try:
        name = data.decode()
        return name if folder_name(name) == folder else None
    except ValueError:
        return None


class Spaces:
    """The spaces under one folder, by name.

    Nothing crosses from one to another, statistics included. Names may be any text of 1 to 80
    bytes; they differ if their letters do, "Ann" from "ann", on every file system.

    Parameters
    ----------
    root : str or PathLike
        The folder; made when the first space is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     spaces = Spaces(root)
    ...     with spaces.open("Ann") as memory:
    ...         _ = memory.remember("prefers tea")
    ...     names = list(spaces)
    ...     spaces.delete("Ann")
    ...     names, list(spaces)
    (['Ann'], [])
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root: Path = check_path(root)

    def path(self, name: str) -> Path:
        """The folder of a space, whether it is there or not."""
        return self.root / folder_name(name)

    def open(self, name: str, **options: Any) -> SpectorMemory:
        """Open the space of this name, which is made when absent.

        The options are those of `SpectorMemory.open`.
        """
        from spector.memory import SpectorMemory

        return SpectorMemory.open(self.path(name), **options)

    def delete(self, name: str, *, busy_timeout: float = 5.0) -> None:
        """Delete a space with all that is in it; who has it open gets errors from then on.

        Raises
        ------
        StorageError
            There is none of this name, or the disk refused.
        LockedError
            Another process writes a snapshot of it, or compacts it.
        """
        path = self.path(name)
        timeout = check_seconds("busy_timeout", busy_timeout)
        with translated(str(path)):
            if not (path / FILE_NAME).exists():
                raise StorageError(errno.ENOENT, f"there is no space {show(name)} in {self.root}")
            with exclusive(path, timeout):
                gone = self.root / f"{_DELETED}{os.urandom(8).hex()}"
                path.rename(gone)
                sync(self.root)
            for left in self.root.glob(f"{_DELETED}*"):  # also of a deletion that was interrupted
                shutil.rmtree(left, ignore_errors=left != gone)

    def __iter__(self) -> Iterator[str]:
        """The names, in their order."""
        if not self.root.is_dir():
            return iter(())
        names = [
            space_name(path.name) for path in self.root.iterdir() if (path / FILE_NAME).exists()
        ]
        return iter(sorted(name for name in names if name is not None))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        try:
            return (self.root / folder_name(name) / FILE_NAME).exists()
        except (TypeError, ValueError):  # no space can have it
            return False

    def __repr__(self) -> str:
        return f"Spaces({str(self.root)!r})"
