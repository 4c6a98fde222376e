"""The memory as a server of the Model Context Protocol: `spector-mcp`, `spector mcp`.

This module imports neither the SDK nor anything that comes with it: they belong to the extra
``mcp``, and someone who installed without it gets one line that says what to install.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from spector.errors import ConfigurationError

__all__ = ["TOOLS", "TRANSPORTS", "main", "serve"]

#: What `--tools` takes: the eight that agents need, or all.
TOOLS: Final = ("default", "all")
TRANSPORTS: Final = ("stdio", "http")
PORT: Final = 8765
_EXTRA: Final = ("mcp", "pydantic", "uvicorn")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `spector-mcp`.

    Returns
    -------
    int
        The exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    parser = argparse.ArgumentParser(
        prog="spector-mcp", description="Serve a memory over the Model Context Protocol."
    )
    path = os.environ.get("SPECTOR_PATH")
    parser.add_argument(
        *("--path", "-p"),
        default=path,
        required=not path,
        metavar="DIR",
        help="folder of the space, made when absent; or SPECTOR_PATH",
    )
    parser.add_argument("--tools", choices=TOOLS, default="default", help="which tools to list")
    parser.add_argument("--transport", choices=TRANSPORTS, default="stdio", help="how to talk")
    parser.add_argument("--port", type=int, default=PORT, help=f"of http; {PORT} if not given")
    given = parser.parse_args(arguments)
    try:
        serve(Path(given.path), tools=given.tools, transport=given.transport, port=given.port)
    except KeyboardInterrupt:
        return 130
    except (OSError, ValueError) as error:
        sys.stderr.write(f"spector-mcp: {error}\n")
        return 1
    return 0


def serve(
    path: Path, *, tools: str = "default", transport: str = "stdio", port: int = PORT
) -> None:
    """Serve the space in a folder until the client leaves, or for http until it is interrupted.

    Parameters
    ----------
    path : Path
        The folder; its `spector.yml` or `spector.toml` and the environment are heeded.
    tools : {"default", "all"}
        Which tools are listed.
    transport : {"stdio", "http"}
        Standard streams, or streamable HTTP on 127.0.0.1 under ``/mcp``.
    port : int
        Of http; 0 takes a free one, and a line on stderr says which.

    Raises
    ------
    ConfigurationError
        The extra ``mcp`` is not installed.
    """
    missing = [name for name in _EXTRA if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f'the MCP server needs an extra ({", ".join(missing)}): pip install "spector[mcp]"'
        )
    from spector.mcp.server import run

    run(path, tools=tools, transport=transport, port=port)
