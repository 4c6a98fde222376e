"""Running code in other processes, for tests of what several processes do to one space."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping

TIMEOUT = 60


def start(
    code: str, *arguments: object, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """A Python process running `code` with these arguments in sys.argv[1:]."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
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


def run(code: str, *arguments: object, environment: Mapping[str, str] | None = None) -> str:
    """Start and finish."""
    return finish(start(code, *arguments, environment=environment))
