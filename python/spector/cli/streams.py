"""The standard streams: UTF-8 whatever the locale says, and usable whatever the caller did."""

from __future__ import annotations

import io
import os
import sys

__all__ = ["prepare", "read_stdin"]


class _Stdout(io.FileIO):
    """Standard output that fails once, by name, and takes the rest in silence.

    Python writes what is left in a buffer when it ends, and that must not fail again.
    """

    def write(self, data: object, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.close(null)
            if isinstance(error, BrokenPipeError):
                raise
            raise OSError(error.errno, error.strerror, "standard output") from None


def prepare() -> None:
    """Set up stdin, stdout and stderr.

    A descriptor that the caller closed is taken by nothing else: it is opened so that reading
    stdin or writing to stdout fails as if it were closed. Messages to a closed stderr are lost.
    """
    for descriptor, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # the lowest number that is free: this one
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Stdout(1, "wb", closefd=False)),
        encoding="utf-8",
        errors="replace",
        line_buffering=os.isatty(1),
    )
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors="replace")
    elif sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115


def read_stdin() -> bytes:
    """All of standard input."""
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard input") from None
