"""The one place where errors of SQLite and of the operating system become ours."""

from __future__ import annotations

import errno
import sqlite3
import time
from types import TracebackType
from typing import Final

from spector.errors import CorruptionError, LockedError, SpectorError, StorageError

RESTORE: Final = "restore it from a copy"
#: How errors about damage end; `check` leaves it out, as it is what lists all that is wrong.
SEE_DOCTOR: Final = " (`spector doctor` lists all that is wrong)"
_DAMAGED: Final = f"{RESTORE}{SEE_DOCTOR}"

_BUSY: Final = (5, 6)
READONLY: Final = 8
_IO_ERROR: Final = 10
_CORRUPT: Final = (11, 26)
_FULL: Final = 13
CANNOT_OPEN: Final = 14
_TOO_BIG: Final = 18
# Python 3.10 gives the message only.
_CODES_BY_MESSAGE: Final = (
    ("locked", 5),
    ("readonly", 8),
    ("disk I/O error", 10),
    ("malformed", 11),
    ("is full", 13),
    ("unable to open", 14),
    ("too big", 18),
    ("not a database", 26),
)
_ERRNO_BY_CODE: Final = {
    _IO_ERROR: errno.EIO,
    _FULL: errno.ENOSPC,
    CANNOT_OPEN: errno.EIO,
}


def sqlite_code(error: sqlite3.Error) -> int:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF
    message = str(error)
    return next((code for text, code in _CODES_BY_MESSAGE if text in message), 1)


def _translate(error: Exception, where: str, waited: float) -> Exception:
    if isinstance(error, UnicodeDecodeError):  # a text, or SQLite's message about one
        return CorruptionError(f"{where} is damaged ({error}); {_DAMAGED}")
    if isinstance(error, OSError):
        return StorageError(error.errno or errno.EIO, f"{where}: {error.strerror or error}")
    assert isinstance(error, sqlite3.Error)
    code = sqlite_code(error)
    if code in _BUSY:
        return LockedError(
            f"{where} has been locked by another process for the {waited:.1f} s that this call"
            " waited (busy_timeout); nothing was changed and retrying is safe"
        )
    if code == READONLY:
        return StorageError(
            errno.EROFS, f"{where} may not be written any more ({error}); nothing was changed"
        )
    if code in _ERRNO_BY_CODE:
        return StorageError(
            _ERRNO_BY_CODE[code], f"{where}: {error}; the operation was undone as a whole"
        )
    if code == _TOO_BIG:
        return ValueError(f"{where}: a value is larger than SQLite can store ({error})")
    if isinstance(error, sqlite3.ProgrammingError):
        return SpectorError(f"{where}: {error}")
    return CorruptionError(f"{where} is damaged ({error}); {_DAMAGED}")


class translated:
    """Turn errors of SQLite and of the operating system into ours, naming the file."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._start = time.monotonic()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, SpectorError):
            return
        if isinstance(error, (sqlite3.Error, OSError, UnicodeDecodeError)):
            waited = time.monotonic() - self._start
            raise _translate(error, self._where, waited) from error


def damaged(where: str, problem: str) -> CorruptionError:
    """The error for a journal that holds something it never wrote."""
    return CorruptionError(f"{where} is damaged: {problem}; {_DAMAGED}")
