"""`spector demo`: docstrings become a space, offline, without running the code they are in."""

from __future__ import annotations

import shlex
import sysconfig
import time
from pathlib import Path

from shell import spector
from spector import SpectorMemory
from spector.cli.docstrings import Module, docstrings, modules, standard_library

ONLY = ["--only", "zipfile", "--only", "unittest"]


def read(sources: list[Module]) -> tuple[list[dict], list[tuple[str, str]]]:
    failed: list[tuple[str, str]] = []
    items = docstrings(
        sources, lambda module, why: failed.append((module.name, why)), lambda _: None
    )
    return list(items), failed


def test_docstrings_of_modules_classes_and_functions(tmp_path):
    root = tmp_path / "code"
    (root / "pack").mkdir(parents=True)
    (root / ".hidden").mkdir()
    (root / ".hidden" / "no.py").write_text('"""hidden"""')
    (root / "pack" / "__init__.py").write_text('"""The package."""\nraise SystemExit("was run")')
    (root / "pack" / "a.py").write_text(
        '"""A module."""\n'
        "class Thing:\n"
        '    """A class."""\n'
        "    async def go(self):\n"
        '        """Go.\n\n        Far."""\n'
        "        def inner():\n"
        '            "Inside."\n'
        "    def silent(self): pass\n"
        "try:\n"
        '    def twice(): "First."\n'
        "except ImportError:\n"
        '    def twice(): "Second."\n'
        "def blank(): '   '\n"
        'bad_escape = "\\d"\n'
    )
    (root / "pack" / "broken.py").write_text("def (:\n")
    (root / "pack" / "zero.py").write_bytes(b"\0")
    items, failed = read(modules(root))
    assert [(item["id"], item["text"]) for item in items] == [
        ("code.pack", "The package."),
        ("code.pack.a", "A module."),
        ("code.pack.a.Thing", "A class."),
        ("code.pack.a.Thing.go", "Go.\n\nFar."),
        ("code.pack.a.Thing.go.inner", "Inside."),
        ("code.pack.a.twice", "First."),
        ("code.pack.a.twice#2", "Second."),
    ]
    assert items[3]["context"] == "code.pack.a.Thing.go"
    assert items[3]["session"] == "code.pack.a"
    assert items[3]["tags"] == ["code"]
    assert [name for name, _ in failed] == ["code.pack.broken", "code.pack.zero"]


def test_the_standard_library_is_read_without_its_tests_and_without_other_packages():
    found = standard_library()
    root = Path(sysconfig.get_path("stdlib"))
    assert all(module.path.is_relative_to(root) for module in found)
    assert not any(
        {"site-packages", "dist-packages", "test", "tests", "idlelib"}
        & set(module.path.parts[len(root.parts) :])
        for module in found
    )
    assert {"json", "json.decoder", "zipfile"} <= {module.name for module in found}
    assert {module.name for module in standard_library(["json"])} == {
        "json", "json.decoder", "json.encoder", "json.scanner", "json.tool",
    } | {module.name for module in found if module.name.startswith("json.")}  # fmt: skip


def test_demo_twice_and_with_a_code_base(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tool.py").write_text('"""Frobnicate the zip file."""\n')
    (tmp_path / "mine" / "broken.py").write_text("def (:\n")
    first = spector("demo", *ONLY, "--json", cwd=tmp_path).json
    assert first["path"] == "spector-demo"
    assert first["stored"] > 200
    assert first["problems"] == []
    answers = {answer["query"]: answer for answer in first["queries"]}
    assert (
        answers["assertRaisesRegex"]["hits"][0]["id"] == "unittest.case.TestCase.assertRaisesRegex"
    )
    assert any("zip" in hit["text"].lower() for hit in answers["how do I read a zip file?"]["hits"])
    assert all(answer["milliseconds"] > 0 for answer in first["queries"])

    second = spector("demo", *ONLY, "--also", "mine", cwd=tmp_path)
    count = first["stored"] + 1
    assert second.out.startswith(f"Updated {count} docstrings of ")
    assert "; 1 file could not be read.\n" in second.out
    assert "broken.py: " in second.err
    assert "assertRaisesRegex   a camelCase name, " in second.out
    assert "unittest.case.TestCase.assertRaisesRegex\n" in second.out
    assert "The space is in the folder spector-demo. Try:\n" in second.out
    with SpectorMemory.open(tmp_path / "spector-demo") as memory:
        assert len(memory) == count
        assert memory.recall("frobnicate")[0].id == "mine.tool"

    commands = [line for line in second.out.splitlines() if line.startswith("  spector ")]
    assert len(commands) == 5
    for command in commands:
        spector(*shlex.split(command)[1:], cwd=tmp_path)


def test_a_module_that_is_not_there_is_wrong_usage(tmp_path):
    done = spector("demo", "--only", "jsno", "--only", "json", cwd=tmp_path, fails=True)
    assert (done.code, done.out) == (2, "")
    assert "jsno is no module of the standard library" in done.err
    assert not (tmp_path / "spector-demo").exists()


def test_the_whole_demo(tmp_path):
    start = time.perf_counter()
    done = spector("demo", "d", "--json", cwd=tmp_path)
    seconds = time.perf_counter() - start
    report = done.json
    assert report["stored"] > 5000
    assert all(answer["hits"] for answer in report["queries"])
    tops = {answer["query"]: answer["hits"][0] for answer in report["queries"]}
    assert (
        "IncompleteReadError"
        in tops["IncompleteReadError"]["context"] + tops["IncompleteReadError"]["text"]
    )
    assert seconds < 60
    with SpectorMemory.open(tmp_path / "d") as memory:
        assert len(memory) == report["stored"]
