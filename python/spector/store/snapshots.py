"""Snapshots: the stores of a replica as files, so that opening does not build them anew.

A snapshot is a folder ``snapshot-<n>`` in that of the space, n the number of the last event in it.
It is written under another name, synchronised and renamed, so it is there entirely or not at all,
and never written again. Whoever writes or deletes one holds the file ``lock``. All in it follows
from the journal: one that is damaged costs time, not data.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spector._core import crc32c
from spector.errors import CorruptionError, SpectorError, VersionError

from .files import locked, sync
from .journal import LOCK_NAME

FORMAT: Final = 2
MANIFEST: Final = "manifest.json"
KEPT: Final = 2
ASIDE: Final = ".corrupt-"
_NAME: Final = re.compile(r"snapshot-([1-9][0-9]{0,18})")
_NEW: Final = ".snapshot-*.tmp"
_CHUNK: Final = 1 << 20
_ITEMS_AT_ONCE: Final = 1000


@dataclass(frozen=True)
class Origin:
    """What a snapshot was made of: with another origin it is of no use."""

    store_id: str
    fingerprint: str
    settings: Mapping[str, Any]
    shape: Mapping[str, Any]


@dataclass(frozen=True)
class Manifest:
    """What a snapshot says of itself.

    Attributes
    ----------
    event : int
        The number of the last event in it.
    events_crc : int
        The sum of the checksums of all events up to it: whether the journal is still that one.
    built : int
        The last event of which the replica that it is of was built from rows, and not changed by
        events: nothing that was erased by then is in it (AM-20).
    origin : Origin
    """

    event: int
    events_crc: int
    built: int
    origin: Origin


def found(folder: Path) -> list[tuple[int, Path]]:
    """The snapshots of a space, the newest first."""
    numbers = [
        (int(match[1]), path)
        for path in folder.iterdir()
        if (match := _NAME.fullmatch(path.name)) is not None
    ]
    return sorted(numbers, reverse=True)


def aside(folder: Path) -> list[Path]:
    """Snapshots that were damaged and set aside."""
    return sorted(folder.glob(f"snapshot-*{ASIDE}*"))


@contextlib.contextmanager
def exclusive(folder: Path, timeout: float) -> Iterator[None]:
    """Nobody else writes or deletes a snapshot of the space, or compacts it, meanwhile."""
    with locked(folder / LOCK_NAME, timeout, "is making a snapshot of the space or compacting it"):
        yield


def write(folder: Path, manifest: Manifest, save: Callable[[Path], object]) -> Path:
    """Make a snapshot of what `save` puts into a folder. Needs `exclusive`."""
    remove_unfinished(folder)
    new = folder / f".snapshot-{os.urandom(8).hex()}.tmp"
    final = folder / f"snapshot-{manifest.event}"
    new.mkdir()
    try:
        save(new)
        files: dict[str, list[int]] = {}
        for path in sorted(new.iterdir()):
            files[path.name] = list(_measure(path))
            sync(path)
        text = json.dumps({"format": FORMAT, **asdict(manifest), "files": files})
        (new / MANIFEST).write_text(f"{text}\n{crc32c(text.encode()):08x}\n", "utf-8")
        sync(new / MANIFEST)
        sync(new)
        if final.exists():  # whoever looked did not find it sound
            set_aside(final)
        new.rename(final)
        sync(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    for _, path in found(folder)[KEPT:]:
        remove(path)
    return final


def read(path: Path) -> Manifest:
    """What a snapshot says of itself; all its files are compared with it.

    Raises
    ------
    CorruptionError
        Something is missing, or not what was written.
    VersionError
        It is of another release.
    FileNotFoundError
        Another process has deleted it.
    """
    try:
        text, crc, rest = (path / MANIFEST).read_bytes().split(b"\n")
        if rest or int(crc, 16) != crc32c(text) or len(crc) != 8:
            raise ValueError
        content = json.loads(text)
        if content.pop("format") != FORMAT:
            raise VersionError(f"{path} is a snapshot of another release")
        files = dict(content.pop("files"))
        manifest = Manifest(**{**content, "origin": Origin(**content["origin"])})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        if not path.exists():
            raise FileNotFoundError(f"{path} is gone") from None
        raise CorruptionError(f"{path / MANIFEST} is missing or damaged") from None
    if f"snapshot-{manifest.event}" != path.name:
        raise CorruptionError(f"{path} is the snapshot of event {manifest.event}")
    there = {each.name for each in path.iterdir()} - {MANIFEST}
    if there != files.keys():
        raise CorruptionError(f"{path} must hold {', '.join(sorted(files))}")
    for name, expected in files.items():
        if list(_measure(path / name)) != expected:
            raise CorruptionError(f"{path / name} does not match its checksum")
    return manifest


def notices(folder: Path) -> Iterator[str]:
    """What a user should know of the snapshots of a space; none of it is a loss."""
    for _, path in found(folder):
        try:
            read(path)
        except (SpectorError, OSError) as error:
            yield f"{error}; the space does not need it (`spector repair` makes a new one)"
    for path in aside(folder):
        yield f"{path} was damaged and set aside; the space does not need it, compacting deletes it"


def set_aside(path: Path) -> Path:
    """Rename a damaged snapshot, so that nobody opens it again."""
    return path.rename(f"{path}{ASIDE}{time.time_ns() // 1_000_000}")


def remove(path: Path) -> None:
    """Delete a snapshot; if it is interrupted what is left is no snapshot."""
    gone = path.with_name(f".snapshot-{os.urandom(8).hex()}.tmp")
    path.rename(gone)
    shutil.rmtree(gone)


def remove_unfinished(folder: Path) -> None:
    """Delete what killed processes left. Needs `exclusive`."""
    for path in folder.glob(_NEW):
        shutil.rmtree(path, ignore_errors=True)


def remove_all(folder: Path) -> None:
    """Delete all snapshots, also those that were set aside. Needs `exclusive`."""
    for path in [*(path for _, path in found(folder)), *aside(folder)]:
        remove(path)
    remove_unfinished(folder)


def _measure(path: Path) -> tuple[int, int]:
    size = crc = 0
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            size += len(part)
            crc = crc32c(part, crc)
    return size, crc


# Stores that are kept by Python.


def save_json(path: Path, value: Mapping[str, object]) -> None:
    """Write plain values."""
    with path.open("w", encoding="ascii") as file:
        file.writelines(_encoded(value))


def _encoded(value: object) -> Iterator[str]:
    """The value as JSON, its long lists in parts: no other thread runs while one is encoded."""
    if isinstance(value, Mapping):
        for place, (key, of_key) in enumerate(value.items()):
            yield f"{',' if place else '{'}{json.dumps(key)}:"
            yield from _encoded(of_key)
        yield "}" if value else "{}"
    elif isinstance(value, list) and len(value) > _ITEMS_AT_ONCE:
        for first in range(0, len(value), _ITEMS_AT_ONCE):
            part = json.dumps(value[first : first + _ITEMS_AT_ONCE], separators=(",", ":"))
            yield f"{',' if first else '['}{part[1:-1]}"
        yield "]"
    else:
        yield json.dumps(value, separators=(",", ":"))


def load_json(path: Path) -> Any:
    """The same back."""
    return json.loads(path.read_text("ascii"))


def save_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Write an array of numbers."""
    with path.open("wb") as file:
        np.save(file, array)


def load_array(path: Path) -> npt.NDArray[Any]:
    """The same back."""
    array: npt.NDArray[Any] = np.load(path)  # numpy refuses objects
    return array
