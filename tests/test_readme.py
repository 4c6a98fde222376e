"""The README's examples give the output that stands below each."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_print_what_the_readme_says(tmp_path, monkeypatch):
    blocks = re.findall(r"```(python|text)\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "text"] * 3
    monkeypatch.chdir(tmp_path)
    for (_, code), (_, output) in zip(blocks[::2], blocks[1::2], strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(README), "exec"), {})
        assert printed.getvalue() == output


def test_the_files_it_names_exist():
    text = README.read_text("utf-8")
    named = set(re.findall(r"`((?:docs/)?[\w.-]+\.md)`", text))
    assert named
    for name in named:
        assert (README.parent / name).is_file(), name


def test_whoever_is_told_to_run_spector_is_told_to_install_it():
    for line in README.read_text("utf-8").splitlines():
        if line.startswith("pip install") and "spector " in line.partition("#")[0]:
            assert "cli" in line, line


def test_the_commands_it_names_exist():
    pytest.importorskip("typer", reason="the command line is an extra")
    from typer.main import get_command

    from spector.cli.app import app

    commands = set(get_command(app).commands)
    text = README.read_text("utf-8")
    for name in [*re.findall(r"^spector (\w+)", text, re.MULTILINE), "analyze"]:
        assert name in commands, name
