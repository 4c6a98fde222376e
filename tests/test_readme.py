"""The README's example gives the output that stands below it."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_example_prints_what_the_readme_says(tmp_path, monkeypatch):
    blocks = re.findall(r"```(python|text)\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "text"]
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(blocks[0][1], str(README), "exec"), {})
    assert printed.getvalue() == blocks[1][1]


def test_the_files_it_names_exist():
    text = README.read_text("utf-8")
    named = set(re.findall(r"`((?:docs/)?[\w.-]+\.md)`", text))
    assert named
    for name in named:
        assert (README.parent / name).is_file(), name


def test_the_commands_it_names_exist():
    pytest.importorskip("typer", reason="the command line is an extra")
    from typer.main import get_command

    from spector.cli.app import app

    commands = set(get_command(app).commands)
    text = README.read_text("utf-8")
    for name in [*re.findall(r"^spector (\w+)", text, re.MULTILINE), "analyze"]:
        assert name in commands, name
