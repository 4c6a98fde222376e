"""The server: lists the tools, checks their arguments, runs them in worker threads."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Final

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import ValidationError

from spector import SpectorError, __version__
from spector.mcp.spaces import OpenSpaces
from spector.mcp.tools import Tools, available
from spector.store.values import nearest, show

__all__ = ["make_server", "run"]

_INSTRUCTIONS: Final = (
    "A memory that lasts. Recall before you answer from memory or start a task; remember facts, "
    "decisions, preferences and outcomes, one per call, as full sentences with names; reinforce "
    "what helped or misled."
)
_HOST: Final = "127.0.0.1"


class _CheckedTool(Tool):
    """A tool whose errors say what to do: they are read by a model."""

    async def run(
        self, arguments: dict[str, Any], context: Any, convert_result: bool = False
    ) -> Any:
        known = self.parameters["properties"]
        for name in arguments:
            if name not in known:
                raise ToolError(
                    f"{self.name} has no argument {show(name)}{nearest(name, known)}"
                    f" (it has: {', '.join(known)})"
                )
        try:
            return await super().run(arguments, context, convert_result)
        except UnexpectedToolError as error:
            cause = error.__cause__
            if isinstance(cause, (SpectorError, OSError, ValueError, TypeError)):
                # The memory refused; its messages name the argument and what is allowed.
                raise ToolError(f"{self.name}: {cause}") from cause
            raise
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(self._wrong(error.__cause__)) from None
            raise

    def _wrong(self, error: ValidationError) -> str:
        problems: dict[str, list[str]] = {}
        for each in error.errors(include_url=False):
            name = str(each["loc"][0]) if each["loc"] else ""
            if each["type"] == "missing":
                needed = ", ".join(self.parameters["required"])
                problems[name] = [f"argument {name} is missing (needed: {needed})"]
            else:
                what = f"{each['msg'][:1].lower()}{each['msg'][1:]}"
                problems.setdefault(name, []).append(what)
                shown = show(each["input"])
                problems[name].append(f"got {shown}")
        texts = []
        for name, said in problems.items():
            distinct = list(dict.fromkeys(said))
            text = " or ".join(one for one in distinct if not one.startswith("got "))
            got = next((one for one in distinct if one.startswith("got ")), "")
            texts.append(text if not got else f"argument {name}: {text}, {got}")
        return f"{self.name}: {'; '.join(texts)}"


def make_server(spaces: OpenSpaces, *, all_tools: bool = False) -> MCPServer[Any]:
    """Make a server over some spaces.

    Parameters
    ----------
    spaces : OpenSpaces
        The caller closes them when the server has ended.
    all_tools : bool
        List all tools, not only the eight that agents need.
    """
    tools = Tools(spaces)
    listed: list[Tool] = []
    for spec in available(all_tools):
        tool = _CheckedTool.from_function(
            getattr(tools, spec.name),
            title=spec.title,
            annotations=ToolAnnotations(
                read_only_hint=spec.read_only,
                destructive_hint=spec.destructive,
                idempotent_hint=spec.idempotent or spec.read_only,
                open_world_hint=False,
            ),
        )
        _shorten(tool.parameters)
        tool.parameters["additionalProperties"] = False
        listed.append(tool)
    return MCPServer(
        "spector",
        version=__version__,
        instructions=_INSTRUCTIONS,
        tools=listed,
        log_level="WARNING",
    )


def _shorten(schema: Any) -> None:
    """Leave out of a schema what models need not pay for: titles that repeat names, and null.

    An argument that is null still counts as not given.
    """
    if isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        choices = [one for one in schema.get("anyOf", []) if one != {"type": "null"}]
        if len(choices) == 1:
            del schema["anyOf"]
            schema.update(choices[0])
        if "default" in schema and schema["default"] is None:
            del schema["default"]
        for inner in schema.values():
            _shorten(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _shorten(inner)


def run(path: Path, *, tools: str, transport: str, port: int) -> None:
    """Serve until the client leaves or the process is interrupted."""
    spaces = OpenSpaces(path)
    try:
        server = make_server(spaces, all_tools=tools == "all")
        if transport == "stdio":
            _leave_on_signals(spaces)
            if sys.stdin.isatty():
                sys.stderr.write(
                    "spector-mcp: waits for a client on standard input; clients start this command"
                    " themselves (ctrl-C ends it)\n"
                )
            server.run("stdio")
        else:
            _serve_http(server, port)
    finally:
        spaces.close()


def _leave_on_signals(spaces: OpenSpaces) -> None:
    """End at once on ctrl-C or SIGTERM: a thread waits for input, and nothing else would end it."""

    def leave(number: int, _: object) -> None:
        spaces.close()  # the calls run in other threads, so this one holds nothing
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)


def _serve_http(server: MCPServer[Any], port: int) -> None:
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # asyncio sends small answers at once only where the socket says that it is TCP.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            raise OSError(f"port {port} of {_HOST} cannot be used: {error}") from None
        listening.listen(128)
        taken = listening.getsockname()[1]
        app = server.streamable_http_app(host=_HOST, json_response=True, stateless_http=True)
        web = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        sys.stderr.write(f"spector-mcp: listening on http://{_HOST}:{taken}/mcp\n")
        sys.stderr.flush()
        anyio.run(web.serve, [listening])
