"""The README's examples give the output that stands below each."""

import contextlib
import io
import json
import re
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_print_what_the_readme_says(tmp_path, monkeypatch):
    blocks = re.findall(r"```(python|text)\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert blocks
    assert [kind for kind, _ in blocks] == ["python", "text"] * (len(blocks) // 2)
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

    import spector.cli.learning  # noqa: F401  (its commands)
    from spector.cli.app import app

    commands = set(get_command(app).commands)
    text = README.read_text("utf-8")
    for name in [*re.findall(r"^spector ([\w-]+)", text, re.MULTILINE), "analyze"]:
        assert name in commands, name


def test_the_configurations_of_mcp_clients_start_a_server(tmp_path):
    pytest.importorskip("mcp", reason="the SDK belongs to the extra mcp")
    import anyio
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def names(arguments):
        run = "import sys; from spector.mcp import main; sys.exit(main())"
        command = StdioServerParameters(command=sys.executable, args=["-c", run, *arguments])
        async with Client(stdio_client(command)) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    blocks = re.findall(r"```json\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        (servers,) = json.loads(block).values()
        server = servers["memory"]
        assert server["command"].endswith("/bin/spector-mcp")
        option, folder = server["args"]
        assert folder.startswith("/home/me/")
        assert "memory_recall" in anyio.run(names, [option, str(tmp_path)])
