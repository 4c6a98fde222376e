"""Many spaces under one folder (API-1)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spector
from spector import CorruptionError, LockedError, Spaces, SpectorMemory, StorageError
from spector.spaces import folder_name, space_name
from spector.store import snapshots

HOSTILE = ["..", ".", "../x", "/etc/passwd", "a/b", "a\\b", "C:", "con", "nul.txt", "~", "%2e", "*"]


def test_spaces_are_apart(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path / "root")
    assert (list(spaces), len(spaces), bool(spaces)) == ([], 0, True)
    for name in ("Ann", "ann", "Zoë", *HOSTILE):
        with spaces.open(name) as memory:
            memory.remember(f"told by {name}", id="x")
    assert list(spaces) == sorted(["Ann", "ann", "Zoë", *HOSTILE])
    for name in spaces:
        assert name in spaces
        with spaces.open(name) as memory:
            assert memory.inspect("x").text == f"told by {name}"
            assert len(memory) == 1
    inside = {path.name for path in (tmp_path / "root").iterdir()}
    assert len({name.lower() for name in inside}) == len(spaces)  # also where case is nothing
    assert {path.name for path in tmp_path.iterdir()} == {"root"}
    assert "none" not in spaces
    assert 7 not in spaces
    assert "" not in spaces


def test_equal_texts_are_one_name(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path)
    with spaces.open("Zoe\u0308") as memory:
        memory.remember("x")
    assert "Zo\u00eb" in spaces
    assert len(spaces) == 1


@pytest.mark.parametrize(
    "name", ["", " a", "a ", "a\0b", "a\nb", "a\u202eb", "\ud800", "x" * 81, "é" * 41]
)
def test_names_that_are_refused(tmp_path: Path, name: str) -> None:
    spaces = Spaces(tmp_path)
    with pytest.raises(ValueError, match=r"^name must"):
        spaces.open(name)
    with pytest.raises(ValueError, match=r"^name must"):
        spaces.delete(name)
    with pytest.raises(TypeError, match=r"^name must be"):
        spaces.open(7)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_two_names_have_one_folder(a: str, b: str) -> None:
    folders = []
    for name in (a, b):
        try:
            folder = folder_name(name)
        except ValueError:
            return
        assert space_name(folder) is not None
        assert folder_name(space_name(folder)) == folder
        assert os.path.basename(folder) == folder not in (".", "..")  # noqa: PTH119
        assert len(folder) <= 240
        folders.append(folder)
    same = space_name(folders[0]) == space_name(folders[1])
    assert (folders[0].lower() == folders[1].lower()) == same


@pytest.mark.parametrize("folder", ["Ann", ".x", "%2E", "%41%", "%zz", "a b", "%ff", "%20a", ""])
def test_folders_of_no_space(tmp_path: Path, folder: str) -> None:
    assert space_name(folder) is None
    SpectorMemory.open(tmp_path / "sub" / folder).close()
    assert list(Spaces(tmp_path / "sub")) == []


def test_deleting_one_whole(tmp_path: Path) -> None:
    spaces = Spaces(tmp_path)
    for name in ("a", "b"):
        with spaces.open(name) as memory:
            memory.remember(f"of {name}")
            memory.snapshot()
    with spaces.open("a") as memory, SpectorMemory.open(spaces.path("b")) as other:
        spaces.delete("a")
        with pytest.raises(CorruptionError, match="removed or replaced while it was open"):
            memory.recall("of")
        assert len(other.recall("of")) == 1
    assert list(spaces) == ["b"]
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    with pytest.raises(StorageError, match="there is no space 'a'") as raised:
        spaces.delete("a")
    assert raised.value.errno == errno.ENOENT
    with spaces.open("a") as memory:
        assert len(memory) == 0
    with (
        snapshots.exclusive(spaces.path("b"), 0),
        pytest.raises(LockedError, match="making a snapshot"),
    ):
        spaces.delete("b", busy_timeout=0.05)
    assert "b" in spaces


def test_a_space_beside_another(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path / "one") as memory:
        memory.remember("of one")
        with memory.space("Two", k1=0.9) as other:
            assert len(other) == 0
            assert other.status().path == str(tmp_path / "%54wo")
            assert other.status().k1 == 0.9
        assert list(Spaces(tmp_path)) == ["Two", "one"]
    with SpectorMemory.ephemeral() as memory, memory.space("Two") as other:
        assert other.status().path is None


def test_it_is_public() -> None:
    assert spector.Spaces is Spaces
    assert repr(Spaces("/x")) == "Spaces('/x')"
    with pytest.raises(ValueError, match="path must be the name of a folder"):
        Spaces("")
