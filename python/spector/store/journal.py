"""journal.db: the only source of truth of a space.

One SQLite file in WAL mode. Every change is one transaction that writes the rows, the events that
tell other replicas of it, and the totals row with the count and checksum sum of each table. What
is asked is in `reader.py` and `filters.py`, what is changed in `transaction.py`, the tables in
`schema.py`; here are the file, its connections and its locks.

A space that this process may not write to is open for reading only. SQLite needs files beside a
journal in WAL mode and cannot make them there, so it is told that the file does not change
(`immutable`), and each call looks whether that is still true.

Threads: a `Journal` may be used by any number of threads. Readers each borrow a connection of
their own; there is one connection for writing, and the caller sees to it that one thread at a time
uses it. An ephemeral journal has a single connection, which a lock passes from one to the next.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from spector.errors import (
    ClosedError,
    CorruptionError,
    LockedError,
    SpectorError,
    StorageError,
    VersionError,
)

from .files import locked, sync
from .reader import Reader
from .schema import APPLICATION_ID, SCHEMA, SCHEMA_VERSION, TABLES
from .sqlite_errors import CANNOT_OPEN, READONLY, RESTORE, damaged, sqlite_code, translated
from .transaction import Tail, Transaction

FILE_NAME: Final = "journal.db"
LOCK_NAME: Final = "lock"
_IDLE_READERS: Final = 8  # connections kept open for the next recall
CLOSE_TIMEOUT: Final = 5.0  # seconds
_HEADER_BYTES: Final = 100
# A commit writes each page that it touches whole, and one memory touches nine.
_PAGE_BYTES: Final = 2048
_IMMUTABLE: Final = "immutable=1"
_ORPHAN: Final = ".orphan-"


class SpectorWarning(UserWarning):
    """Something about a space that nobody asked for but should know."""


class FileIdentity(NamedTuple):
    """Which file a path means."""

    device: int
    inode: int


_open_journals: weakref.WeakSet[Journal] = weakref.WeakSet()
_busy_at_fork: set[FileIdentity] = set()
_raw_lock = threading.Lock()  # guards changes of the sets
_left_open: list[tuple[FileIdentity, int]] = []


def _used() -> set[FileIdentity | None]:
    return {journal._identity for journal in _open_journals}


def _file(status: os.stat_result) -> FileIdentity:
    return FileIdentity(status.st_dev, status.st_ino)


@contextlib.contextmanager
def raw(path: Path) -> Iterator[int]:
    """A descriptor to read the bytes of a journal by, beside SQLite.

    A process that closes any descriptor of a file loses all its POSIX locks on that file, those
    that SQLite took included. Another process would then take the journal for one that nobody
    uses, and remove the log that this one goes on writing to. So a descriptor stays open while a
    journal of this process may have the file open, for the next one who asks.
    """
    with _raw_lock:
        used = _used()
        for unused in [left for left in _left_open if left[0] not in used]:
            _left_open.remove(unused)
            os.close(unused[1])
        identity = _file(path.stat())
        left = next((left for left in _left_open if left[0] == identity), None)
        if left is not None:
            _left_open.remove(left)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if left is None else left[1]
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        with _raw_lock:
            identity = _file(os.fstat(descriptor))
            if identity in _used():
                _left_open.append((identity, descriptor))
            else:
                os.close(descriptor)


class _Reading:
    """`Journal.reader`: each recall has one, and a generator would cost more than what it does."""

    __slots__ = ("_begin", "_connection", "_journal", "_translated")

    def __init__(self, journal: Journal, begin: bool) -> None:
        self._journal = journal
        # The one connection of an ephemeral space is all the reader's until it is given back.
        self._begin = begin and journal.path is not None
        self._translated = translated(journal.where)

    def __enter__(self) -> Reader:
        journal = self._journal
        with self._translated:
            journal.check_usable()
            self._connection = journal.borrow()
            reader = Reader(self._connection, journal.where)
            if self._begin:
                try:
                    reader.begin()
                except BaseException:
                    journal.give_back(self._connection)
                    raise
            return reader

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._translated:
            try:
                if error is None:
                    self._journal.check_unchanged()
            finally:
                self._journal.give_back(self._connection)
        self._translated.__exit__(kind, error, traceback)


class Journal:
    """The journal of one open space; see the top of this file for threads."""

    def __init__(self, path: Path | None, busy_timeout: float = 5.0) -> None:
        self.path = path
        self.where = "the ephemeral space" if path is None else str(path)
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()  # guards the three below
        self._all_back = threading.Condition(self._lock)
        self._idle: list[sqlite3.Connection] = []
        self._borrowed = 0
        self._closed = False
        self._pid = os.getpid()
        self._broken = False
        self.sound = path is None  # see `check_whole`
        # What this connection committed last: `PRAGMA data_version` and the end of the journal.
        self._known: tuple[int, Tail] | None = None
        # Held while the write connection is in use; with one connection for all, readers too.
        self._turn = threading.Lock()
        self.newly_set_aside: list[Path] = []
        with self._turn:
            self._identity = None if path is None else self._check_file(path)
            with _raw_lock:  # before the first lock is taken: see `raw`
                _open_journals.add(self)
            self._access = "" if path is None else _access(path)
            self._state = self._file_state() if _IMMUTABLE in self._access else None
            try:
                self._writer = self._connect()
            except BaseException:
                self._closed = True
                raise

    @classmethod
    def ephemeral(cls, meta: Mapping[str, Any]) -> Journal:
        """A journal in memory, gone when it is closed."""
        journal = cls(None)
        _fill(journal._writer, meta)
        return journal

    @classmethod
    def open(cls, folder: Path, meta: Mapping[str, Any], busy_timeout: float) -> Journal:
        """The journal in a folder; both are created, with these settings, when absent."""
        path = folder / FILE_NAME
        with translated(str(path)):
            _check_folder(folder)
            orphans = [] if path.exists() else _create(folder, meta, busy_timeout)
            journal = cls(path, busy_timeout)
            journal.newly_set_aside = orphans
            return journal

    @classmethod
    def existing(cls, folder: Path, busy_timeout: float = 5.0) -> Journal:
        """The journal in a folder; a StorageError when there is none."""
        path = folder / FILE_NAME
        with translated(str(path)):
            _check_folder(folder)
            return cls(path, busy_timeout)

    def check_whole(self) -> None:
        """Once: raise what is wrong with the tables as a whole (AM-18). Opening a space from a
        snapshot leaves it to the first who depends on it."""
        if self.sound or self._closed:
            return
        with self.reader(whole=False) as reader:
            for problem in itertools.chain(reader.problems(), reader.quick_problems()):
                raise damaged(self.where, problem)
        self.sound = True

    # Connections

    def _check_file(self, path: Path) -> FileIdentity:
        """Refuse what is not a journal of ours before SQLite may touch it."""
        with raw(path) as descriptor:
            header = os.read(descriptor, _HEADER_BYTES)
            identity = _file(os.fstat(descriptor))
        if identity in _busy_at_fork:
            raise SpectorError(
                f"{path} was in use by another thread when this process was forked, so it cannot"
                " be opened here; fork while no call is running, or start processes by spawn"
            )
        application_id = int.from_bytes(header[68:72], "big")
        if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\0"):
            raise CorruptionError(
                f"{path} is not a journal of spector: its first {_HEADER_BYTES} bytes are not those"
                f" of an SQLite file ({len(header)} bytes read); {RESTORE}, or remove it to start"
                " an empty space"
            )
        if application_id != APPLICATION_ID:
            raise CorruptionError(
                f"{path} is an SQLite file, but not a journal of spector (application id"
                f" {application_id:#010x} at offset 68, expected {APPLICATION_ID:#010x}); open"
                " another folder"
            )
        self._check_version(int.from_bytes(header[60:64], "big"), path)
        return identity

    def _check_version(self, version: int, path: Path | str) -> None:
        if version > SCHEMA_VERSION:
            raise VersionError(
                f"{path} has format version {version}; this spector knows versions up to"
                f" {SCHEMA_VERSION}. Install a newer spector; the file is untouched"
            )
        if version in (1, 2, 3):
            raise VersionError(
                f"{path} has format version {version}, which no release of spector wrote; remember"
                " its texts again in a new space. The file is untouched"
            )
        if version < 1:
            raise CorruptionError(
                f"{path} has the impossible format version {version} at offset 60; {RESTORE}"
            )

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = _connect(self.path, self._busy_timeout, self._access)
            try:
                if self.path is not None:
                    self._prepare(connection, self.path)
            except BaseException:
                connection.close()
                raise
        except sqlite3.OperationalError as error:
            if not self.read_only or sqlite_code(error) not in (READONLY, CANNOT_OPEN):
                raise
            raise StorageError(
                errno.EROFS,
                f"{self.where} cannot be read: its last changes are in a log beside it, which can"
                " be read only where SQLite may write, and this process may not write to its"
                " folder; open the space once with the permission to write, or copy the folder"
                " and open the copy",
            ) from error
        return connection

    def _prepare(self, connection: sqlite3.Connection, path: Path) -> None:
        if not self.read_only and connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            connection.execute("PRAGMA journal_mode = WAL")
        self._check_version(connection.execute("PRAGMA user_version").fetchone()[0], path)

    def _file_state(self) -> tuple[int, int]:
        """What changes when another process writes to the file."""
        assert self.path is not None
        status = self.path.stat()
        return status.st_mtime_ns, status.st_size

    def check_unchanged(self) -> None:
        """Raise if the file was changed although it was opened as one that nobody changes."""
        if self._state is None or self.path is None:
            return
        if self._state != self._file_state() or _has_content(f"{self.path}-wal"):
            raise StorageError(
                errno.ESTALE,
                f"{self.where} was changed by another process while it was open for reading only;"
                " close this object and open the space again",
            )

    @property
    def busy_timeout(self) -> float:
        """Seconds to wait for other processes."""
        return self._busy_timeout

    @property
    def read_only(self) -> bool:
        """Whether this process may not write to the folder or the file."""
        return bool(self._access)

    def check_usable(self) -> None:
        """Raise if this object is closed, is a fork's, or its file is no longer there."""
        if self.forked:
            raise SpectorError(
                f"{self.where} was opened by process {self._pid} and this is its fork"
                f" {os.getpid()}; open the space again here"
            )
        if self._closed:
            raise ClosedError(f"{self.where} is closed; open the space again")
        if self.path is None:
            return
        try:
            status = os.stat(self.path)  # noqa: PTH116  (this is on the way of each call)
        except FileNotFoundError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._identity:
            raise CorruptionError(
                f"{self.where} was removed or replaced while it was open;"
                " close this object and open the space again"
            )
        self.check_unchanged()

    def reader(self, *, begin: bool = True, whole: bool = True) -> _Reading:
        """A read transaction, begun here or later by the caller.

        `whole`: the tables have been looked at as a whole (`check_whole`). Who asks for rows by
        their slots or for the next events need not: each is verified.
        """
        if whole:
            self.check_whole()
        return _Reading(self, begin)

    def borrow(self) -> sqlite3.Connection:
        """A connection to read by, until `give_back`."""
        if self.path is None:
            self._turn.acquire()
            if self._closed:
                self._end_turn()
                self.check_usable()
            return self._writer
        with self._lock:
            if self._closed:
                self.check_usable()
            self._borrowed += 1
            if self._idle:
                return self._idle.pop()
        try:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            return connection
        except BaseException:
            with self._lock:
                self._borrowed -= 1
                self._all_back.notify_all()
            raise

    def give_back(self, connection: sqlite3.Connection) -> None:
        """End what was read, and let others have the connection."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        finally:
            if self.path is None:
                self._end_turn()
            else:
                with self._lock:
                    self._borrowed -= 1
                    self._all_back.notify_all()
                    keep = not self._closed and len(self._idle) < _IDLE_READERS
                    if keep:
                        self._idle.append(connection)
                if not keep:
                    connection.close()

    @contextlib.contextmanager
    def transaction(self, *, whole: bool = True) -> Iterator[Transaction]:
        """A write transaction: committed at the end of the block, undone if anything is raised;
        `whole` as for a `reader`."""
        if whole:
            self.check_whole()
        with translated(self.where):
            self._turn.acquire()
            try:
                self.check_writable()
                self._writer.execute("BEGIN IMMEDIATE")
                known, self._known = self._known, None
                try:
                    # It changes with what another connection commits, and with nothing else.
                    (version,) = self._writer.execute("PRAGMA data_version").fetchone()
                    before = known[1] if known is not None and known[0] == version else None
                    transaction = Transaction(self._writer, self.where, before)
                    yield transaction
                    after = transaction.finish()
                    self._writer.execute("COMMIT")
                    self._known = version, after
                except BaseException as error:
                    self._note_failed_sync(error)
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                    raise
            finally:
                self._end_turn()

    def others_wrote(self) -> bool:
        """Whether another connection committed after this object's last transaction, or may have;
        cheaper than to look."""
        with translated(self.where), self._turns():
            if self._known is None or self._closed or self.forked:
                return True
            (version,) = self._writer.execute("PRAGMA data_version").fetchone()
            return bool(version != self._known[0])

    def check_writable(self) -> None:
        """Raise if this object may not be written to."""
        self.check_usable()
        if self.path is not None and self.read_only:
            raise StorageError(
                errno.EROFS,
                f"{self.where} is open for reading only, because this process may not write to"
                f" it or to {self.path.parent}; nothing was changed. Permit it, or copy the"
                " folder, and open the space again",
            )
        if self._broken:
            raise StorageError(
                errno.EIO,
                f"{self.where}: an earlier sync to disk failed, so what is on it is unknown;"
                " close this object and open the space again",
            )

    def _note_failed_sync(self, error: BaseException) -> None:
        # After a failed fsync the kernel may have dropped the pages: no retry proves them.
        # Python 3.10 does not tell it from other I/O errors.
        reason = getattr(error, "sqlite_errorname", str(error))
        self._broken = self._broken or "FSYNC" in reason or reason == "disk I/O error"

    def copy_to(self, path: Path) -> None:
        """Copy one state of the journal into a new file, while others go on writing."""
        with translated(self.where):
            self.check_usable()
            connection = self.borrow()
            try:
                with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as copy:
                    connection.backup(copy)
                    copy.execute("PRAGMA journal_mode = WAL")
                    _empty_log(copy)
            finally:
                self.give_back(connection)

    def compact(self) -> None:
        """Write the file anew without free space, and empty its log: what was deleted is gone."""
        with translated(self.where), self._turns():
            self.check_writable()
            try:
                self._writer.execute("PRAGMA secure_delete = ON")
                self._writer.execute("VACUUM")
                emptied = _empty_log(self._writer)
            except BaseException as error:
                self._note_failed_sync(error)
                raise
        if not emptied:
            raise LockedError(
                f"{self.where} was written anew, but its log was in use by another reader or writer"
                f" for longer than {self._busy_timeout:g} s (busy_timeout), so what was deleted may"
                " still be in it; compact again"
            )

    @contextlib.contextmanager
    def _turns(self) -> Iterator[None]:
        self._turn.acquire()
        try:
            yield
        finally:
            self._end_turn()

    def refuse_calls(self) -> None:
        """Let every call that starts from now on raise `ClosedError`."""
        self._closed = True

    def close(self) -> None:
        """Close all connections once the calls in progress have ended. May be called again.

        It waits for them, so that at exit no thread is left inside the core; but not for ever,
        as the call may be the one that a signal handler interrupted. Whoever uses a connection
        then closes it.
        """
        if self.forked:
            return
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self._turn.acquire(timeout=CLOSE_TIMEOUT):
            self._end_turn()
        with self._all_back:
            self._all_back.wait_for(lambda: not self._borrowed, CLOSE_TIMEOUT)

    def _end_turn(self) -> None:
        try:
            if self._closed:
                with translated(self.where):
                    self._writer.close()
        finally:
            self._turn.release()

    @property
    def forked(self) -> bool:
        """Whether this is the copy in a child of the process that opened the journal."""
        return self._pid != os.getpid()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def size(self) -> int:
        """Bytes on disk, the write-ahead log included; 0 for an ephemeral journal."""
        if self.path is None:
            return 0
        size = 0
        for suffix in ("", "-wal"):
            with translated(self.where), contextlib.suppress(FileNotFoundError):
                size += Path(f"{self.path}{suffix}").stat().st_size
        return size

    def set_aside(self) -> list[Path]:
        """Logs of lost journals that `_create` found in the folder, at any time."""
        if self.path is None:
            return []
        return sorted(self.path.parent.glob(f"{FILE_NAME}-*{_ORPHAN}*"))

    def _leave_to_parent(self) -> None:
        """In a forked child: drop the parent's connections, so that SQLite forgets their locks.

        The locks in the file are the parent's and stay. Connections in use at the moment of the
        fork cannot be dropped; then the child must not open this file.
        """
        if self._identity is None or self._closed:
            return
        if self._borrowed or self._turn.locked() or self._lock.locked():
            _busy_at_fork.add(self._identity)
            return
        for connection in (*self._idle, self._writer):
            connection.close()


def _leave_all_to_parent() -> None:
    global _raw_lock
    _raw_lock = threading.Lock()  # a thread that is not here may have held it
    for journal in list(_open_journals):
        journal._leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise StorageError(
            errno.ENOTDIR, f"{folder} is a file; a space is a folder that holds {FILE_NAME}"
        )


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _has_content(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0  # noqa: PTH116  (this is on the way of each call)
    except FileNotFoundError:
        return False


def _access(path: Path) -> str:
    """How SQLite is to open the file: parameters of a URI for reading only, else nothing."""
    if _may_write(path.parent) and _may_write(path):
        return ""
    log = f"{path}-wal"
    in_use = Path(log).exists() and Path(f"{path}-shm").exists()
    if in_use or _has_content(log) or _may_write(path.parent):
        return "mode=ro"
    return f"mode=ro&{_IMMUTABLE}"


def set_aside_notice(log: Path) -> str:
    """What a user should know of a log that was set aside."""
    return (
        f"{log} is the log of a journal that was lost or moved away; nothing of that journal is in"
        " this space. Put the journal and its log back together under their old names, or remove"
        " this file"
    )


def _connect(path: Path | None, busy_timeout: float, access: str = "") -> sqlite3.Connection:
    place: str | Path = ":memory:" if path is None else path
    connection = sqlite3.connect(
        f"{path.as_uri()}?{access}" if path is not None and access else place,
        timeout=busy_timeout,
        isolation_level=None,
        check_same_thread=False,
        uri=bool(access),
    )
    try:
        for pragma in (
            "foreign_keys = ON",
            "synchronous = FULL",
            "trusted_schema = OFF",
            "cell_size_check = ON",
            "mmap_size = 0",
        ):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def _fill(connection: sqlite3.Connection, meta: Mapping[str, Any]) -> None:
    """Make an empty journal."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in SCHEMA.split(";"):
        connection.execute(statement)
    connection.executemany("INSERT INTO totals VALUES(?, 0, 0)", [(name,) for name in TABLES])
    transaction = Transaction(connection, "a new journal")
    transaction.set_meta(meta)
    transaction.finish()
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _create(folder: Path, meta: Mapping[str, Any], busy_timeout: float) -> list[Path]:
    """Make journal.db whole under another name, then rename it: it exists complete or not at all.

    So a journal.db of zero bytes is always damage. A write-ahead log that lies beside an absent
    journal belongs to a lost one and SQLite would replay it into ours: it is set aside. Returns
    what was.
    """
    orphans: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    with locked(folder / LOCK_NAME, busy_timeout, "is making the space"):
        if path.exists():
            return orphans
        new = folder / (FILE_NAME + ".new")
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{new}{suffix}").unlink(missing_ok=True)
            orphan = Path(f"{path}{suffix}")
            if suffix and orphan.exists():
                aside = f"{orphan}{_ORPHAN}{time.time_ns() // 1_000_000}"
                orphans.append(orphan.rename(aside))
        with contextlib.closing(_connect(new, busy_timeout)) as connection:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            _fill(connection, meta)
            _empty_log(connection)
        sync(new)
        new.rename(path)
        sync(folder)
        sync(folder.parent)
    return orphans


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Have all that is in the log in the file itself, where a rename takes it along; False if
    others are using the log. Closing does this, too, but says nothing when it fails."""
    busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return not busy
