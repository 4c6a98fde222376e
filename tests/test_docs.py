"""The pages of docs/ and the examples do what they say."""

import contextlib
import io
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = sorted(
    path for path in (ROOT / "docs").rglob("*.md") if "```python\nimport" in path.read_text("utf-8")
)
#: What each example prints among other things.
PRINTS = {
    "agent_loop.py": [
        "deploy shop: 0 memories by 'balanced', failed",
        "deploy shop: 2 memories by",
    ],
    "chat_memory.py": ["(Ann, 2031-03-02) I moved to Lisbon last week", "She is a vegetarian."],
    "rag_over_code.py": ["definitions of json", "class JSONDecoder(object):"],
    "several_processes.py": ["60 of 60 memories", "worker1-7"],
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_run_and_are_short(path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    for line in PRINTS[path.name]:
        assert line in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert len(path.read_text("utf-8").splitlines()) < 60


def test_every_example_is_in_the_docs():
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md"))
    assert {path.name for path in EXAMPLES} == set(PRINTS)
    for path in EXAMPLES:
        assert f'--8<-- "{path.name}"' in pages


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_pages_print_what_they_say(path, tmp_path, monkeypatch):
    """The python blocks of a page are one program; a text block after one is what it prints."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|text|\w+)\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    printed = ""
    for kind, content in blocks:
        if kind == "python" and "--8<--" not in content:
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(content, str(path), "exec"), names)
            printed = output.getvalue()
        elif kind == "text":
            assert _shape(printed) == _shape(content)


def _shape(text):
    """Without the digits of scores: they move with the defaults."""
    return re.sub(r"\d+\.\d+", "0.0", text)


def test_pages_are_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = set(re.findall(r"[\w/-]+\.md", text))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert listed == pages


def test_the_site_builds(tmp_path):
    if find_spec("mkdocs") is None or find_spec("mkdocstrings") is None:
        pytest.skip("mkdocs-material and mkdocstrings belong to the extra docs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "reference" / "memory" / "index.html").read_text("utf-8")
    assert "SpectorMemory" in page and "on_conflict" in page
