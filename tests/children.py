"""Running code in other processes, for tests of what several processes do to one space."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence

TIMEOUT = 60

# Root may write everywhere (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH); what this starts may not.
_DROP = """
import ctypes, os, sys
for capability in (1, 2):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; fails for others than root
os.execv(sys.argv[1], sys.argv[1:])
"""
WITHOUT_RIGHTS = (sys.executable, "-c", _DROP)


def start(
    code: str,
    *arguments: object,
    environment: Mapping[str, str] | None = None,
    through: Sequence[str] = (),
) -> subprocess.Popen[str]:
    """A Python process running `code` with these arguments in sys.argv[1:].

    `through` is a command that starts it, such as `WITHOUT_RIGHTS`.
    """
    return subprocess.Popen(
        [*through, sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        encoding="utf-8",
    )


def finish(process: subprocess.Popen[str]) -> str:
    """What the process printed; it must end well and say nothing on stderr."""
    try:
        output, errors = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        raise AssertionError(f"hung\n{output}\n{errors}") from None
    assert process.returncode == 0, f"exit {process.returncode}\n{output}\n{errors}"
    assert errors == ""
    return output


def run(
    code: str,
    *arguments: object,
    environment: Mapping[str, str] | None = None,
    through: Sequence[str] = (),
) -> str:
    """Start and finish."""
    return finish(start(code, *arguments, environment=environment, through=through))
