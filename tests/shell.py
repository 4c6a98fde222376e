"""Running the command line as a user does: as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SPECTOR = [sys.executable, "-m", "spector"]


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


def environment(**changes: str) -> dict[str, str]:
    """Return this process's environment without what would change the command's output."""
    drop = ("SPECTOR_PATH", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONUTF8", "PYTHONIOENCODING")
    kept = {name: value for name, value in os.environ.items() if name not in drop}
    return kept | changes


def spector(
    *arguments: str | Path,
    stdin: bytes = b"",
    cwd: Path | None = None,
    fails: bool = False,
    **variables: str,
) -> Done:
    """Run `spector`; unless it is expected to fail, it must not, and never with a traceback."""
    process = subprocess.run(
        [*SPECTOR, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=environment(**variables),
        timeout=120,
    )
    done = Done(process.returncode, process.stdout.decode(), process.stderr.decode())
    assert "Traceback" not in done.err, done.err
    assert fails == (done.code != 0), done
    return done
