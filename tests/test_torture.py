"""The checks of `make torture` at a small size (R1 to R16): that they run, and find nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def torture(*arguments: str) -> str:
    """What the command printed; no check may fail."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture", *arguments],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="forks, mounts and preloads are Linux's")
def test_a_little_torture() -> None:
    chosen = "R1,R2,R4,R5w,R6,R7,R8,R10,R15,R16"
    found = torture("--scale", "0.02", "--only", chosen, "--max-skips=3")
    skipped = int(re.findall(r"([0-9]+) skipped", found)[0])
    assert found.count(" ok: ") == 10 - skipped, found
    if os.geteuid() == 0:
        assert skipped == 0, found
