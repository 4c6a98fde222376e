"""What is done with files besides reading and writing them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from spector.errors import LockedError


@contextlib.contextmanager
def locked(path: Path, timeout: float, doing: str) -> Iterator[None]:
    """Hold the lock file; LockedError after `timeout` seconds says what the other one is doing."""
    import fcntl

    start = time.monotonic()
    with path.open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = time.monotonic() - start
                if waited >= timeout:
                    raise LockedError(
                        f"{path} has been locked by another process, which {doing}, for the"
                        f" {waited:.1f} s that this call waited (busy_timeout); retrying is safe"
                    ) from None
                time.sleep(0.01)
        yield


def sync(path: Path) -> None:
    """Let what is in a file, or the names in a folder, be on stable storage."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
