"""The command line, `spector`.

This module imports neither typer nor rich: they belong to the extra ``cli``, and someone who
installed without it gets one line that says what to install.
"""

from __future__ import annotations

import io
import sys
from importlib.util import find_spec

__all__ = ["main"]

_EXTRA = ("typer", "rich")


def main() -> int:
    """Run the command line on `sys.argv`.

    Returns
    -------
    int
        The exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    _use_utf8()
    if any(find_spec(name) is None for name in _EXTRA):
        sys.stderr.write('spector: the command line needs an extra: pip install "spector[cli]"\n')
        return 1
    try:
        from spector.cli.app import run

        return run()
    except KeyboardInterrupt:  # while modules were imported
        return 130


def _use_utf8() -> None:
    """Write UTF-8 whatever the locale says; what has no UTF-8 form is replaced, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
