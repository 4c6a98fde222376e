"""Files in the common envelope (PER-2, PER-3), for what Python keeps; the core has its own.

The header is the one of `cpp/FORMATS.md`: 64 bytes, little-endian.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from pathlib import Path
from typing import Final

from spector._core import crc32c
from spector.errors import CorruptionError, StorageError, VersionError

_HEADER: Final = struct.Struct("<4sIHHIQQQqqI")
_CRC: Final = struct.Struct("<I")
HEADER_BYTES: Final = _HEADER.size + _CRC.size
assert HEADER_BYTES == 64


def write(
    path: str | os.PathLike[str], magic: bytes, version: int, shape: int, count: int, payload: bytes
) -> None:
    """Write a file that then is there entirely or not; an old one stays until it is.

    Raises
    ------
    StorageError
        The disk refused.
    """
    target = Path(path)
    now = time.time_ns() // 1_000_000
    header = _HEADER.pack(
        magic, version, 0, shape, 0, count, count, len(payload), now, now, crc32c(payload)
    )
    temporary = target.parent / f".spector-{os.urandom(8).hex()}.tmp"
    try:
        with temporary.open("xb") as file:
            file.write(header + _CRC.pack(crc32c(header)) + payload)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise StorageError(error.errno or 0, f"{target}: {error.strerror or error}") from error


def read(path: str | os.PathLike[str], magic: bytes, version: int) -> bytes:
    """The payload of a file that `write` made, checked (PER-4).

    Raises
    ------
    CorruptionError
        It is damaged, or of another kind.
    VersionError
        It is of a newer release.
    StorageError
        It cannot be read.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise StorageError(error.errno or 0, f"{path}: {error.strerror or error}") from error
    if len(data) < HEADER_BYTES or data[:4] != magic:
        raise CorruptionError(f"{path} does not begin as a {magic.decode()} file does")
    header, (header_crc,) = data[: _HEADER.size], _CRC.unpack_from(data, _HEADER.size)
    if crc32c(header) != header_crc:
        raise CorruptionError(f"{path} is damaged: its header does not match its checksum")
    _, found, _, _, _, _, _, size, _, _, payload_crc = _HEADER.unpack(header)
    if found > version:
        raise VersionError(
            f"{path} has version {found}; this spector knows versions up to {version}"
        )
    payload = data[HEADER_BYTES:]
    if len(payload) != size or crc32c(payload) != payload_crc:
        raise CorruptionError(
            f"{path} is damaged: {len(payload)} bytes after its header do not match its checksum"
            f" or its length of {size}"
        )
    return payload
