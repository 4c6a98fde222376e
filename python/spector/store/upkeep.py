"""Copies of a space, and what makes it smaller or takes something out of it for good."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from spector.errors import CorruptionError, StorageError

from .check import Report, check_journal
from .files import sync
from .journal import FILE_NAME, Journal, raw
from .sqlite_errors import translated
from .values import check_path

_NEW: Final = f"{FILE_NAME}.new"
#: A name or text shorter than this is found by chance in any file.
SHORTEST_MARK: Final = 8
_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Compaction:
    """What compacting a space did.

    Attributes
    ----------
    bytes_before, bytes_after : int
        Size of the journal with its log.
    """

    bytes_before: int
    bytes_after: int

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def back_up(journal: Journal, dest: object) -> Report:
    """Copy a journal into a new folder and check the copy; see `SpectorMemory.backup`."""
    folder = check_path(dest)
    with translated(str(folder)):
        if folder.exists() and not folder.is_dir():
            raise StorageError(errno.ENOTDIR, f"{folder} is a file; a backup needs a folder")
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        others = [name for name in os.listdir(folder) if not name.startswith(_NEW)]  # noqa: PTH208
        if others:
            raise StorageError(
                errno.ENOTEMPTY, f"{folder} is not empty; a backup needs a new or an empty folder"
            )
        new = folder / _NEW
        _remove_new(folder)
        try:
            journal.copy_to(new)
            report = check_journal(Journal(new))
            if not report.ok:
                raise CorruptionError(
                    f"the copy of {journal.where} is damaged, as the space may be:"
                    f" {report.problems[0]} (`spector doctor` lists all that is wrong)"
                )
            sync(new)
            new.rename(folder / FILE_NAME)
            sync(folder)
            sync(folder.parent)
        except BaseException:
            _remove_new(folder)
            if made:
                folder.rmdir()
            raise
    return replace(report, path=str(folder / FILE_NAME))


def _remove_new(folder: Path) -> None:
    for path in folder.glob(f"{_NEW}*"):
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class ErasureReport:
    """Whether a memory is gone from the files of a space.

    Attributes
    ----------
    id : str
        The memory.
    found : list of str
        What is left of it or may be, one sentence each; empty when it is gone.
    """

    id: str
    found: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is left."""
        return not self.found

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {"id": self.id, "ok": self.ok, "found": list(self.found)}


def check_erased(path: object, memory_id: str, text: str | None = None) -> ErasureReport:
    """Look for what is left of a memory that was erased, without changing anything.

    Parameters
    ----------
    path : str or PathLike
        The folder of the space.
    memory_id : str
    text : str, optional
        A text, or a part of one, to look for in all files.
    """
    folder = check_path(path)
    found: list[str] = []
    journal = Journal.existing(folder)
    try:
        with journal.reader(whole=False) as reader:
            if reader.has(memory_id):
                found.append(f"the memory {memory_id!r} is there")
            free = reader.free_pages()
            if free:
                found.append(
                    f"{journal.where} has {free} free pages, which may hold what was deleted:"
                    " compact the space"
                )
    finally:
        journal.close()
    found += [
        f"{log} is the log of a lost journal; what it holds is not known"
        for log in journal.set_aside()
    ]
    marks = [("id", memory_id)] + ([] if text is None else [("text", text)])
    for kind, mark in marks:
        if len(mark.encode()) < SHORTEST_MARK:
            if kind == "text":
                raise ValueError(f"text must have at least {SHORTEST_MARK} bytes, got {mark!r}")
            continue
        found += [f"{file} holds the {kind}" for file in files_with(folder, mark.encode())]
    return ErasureReport(memory_id, found)


def files_with(folder: Path, mark: bytes) -> Iterator[Path]:
    """The files under a folder that hold these bytes."""
    for path in sorted(folder.rglob("*")):
        # The index of the log has numbers of pages, no content, and SQLite has locks on it.
        if not path.is_file() or path.name == f"{FILE_NAME}-shm":
            continue
        with raw(path) as descriptor:
            before = b""
            while part := os.read(descriptor, _CHUNK):
                if mark in before + part:
                    yield path
                    break
                before = (before + part)[-len(mark) :]
