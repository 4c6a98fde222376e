"""The command line, `spector`.

This module imports neither typer nor rich: they belong to the extra ``cli``, and someone who
installed without it gets one line that says what to install.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from spector.cli import streams

__all__ = ["main"]

_EXTRA = ("typer", "rich")


def main() -> int:
    """Run the command line on `sys.argv`.

    Returns
    -------
    int
        The exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    streams.prepare()
    if any(find_spec(name) is None for name in _EXTRA):
        sys.stderr.write('spector: the command line needs an extra: pip install "spector[cli]"\n')
        return 1
    try:
        import spector._core  # noqa: F401  (refuses an unknown SPECTOR_SIMD)
    except ImportError as error:
        sys.stderr.write(f"spector: {error}\n")
        return 2 if os.environ.get("SPECTOR_SIMD") else 1
    try:
        from spector.cli.app import run

        return run()
    except KeyboardInterrupt:  # while modules were imported
        return 130
