"""What a tool call of the MCP server costs over the call of the library that it makes.

    python -m bench.mcp
    python -m bench.mcp --calls 200 --transport http

Four clients of the SDK make mixed calls (recall, remember, forget, inspect, browse) at one space at
the same time: over stdio each has a server process of its own, over HTTP they share one. Nothing
may fail, and the space must hold exactly what they stored and did not forget. Then the same mix is
made by the library alone, one call at a time, and by one client, one call at a time: the difference
of the medians is the overhead.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from spector import SpectorMemory

from .machine import machine

CLIENTS = 4
KINDS = ["remember", "remember", "recall", "recall", "inspect", "browse", "forget"]
SERVER = ["-c", "import sys; from spector.mcp import main; sys.exit(main())"]
Act = Callable[[str, dict[str, Any]], Awaitable[Any]]


async def mix(name: str, count: int, act: Act) -> tuple[list[str], dict[str, list[float]]]:
    """Make calls; give the ids that must remain and the seconds of each call by kind."""
    pick = random.Random(name)
    kept: list[str] = []
    took: dict[str, list[float]] = defaultdict(list)
    for number in range(count):
        kind = pick.choice(KINDS) if kept else "remember"
        given: dict[str, Any] = {}
        if kind == "remember":
            given = {"text": f"word {pick.randrange(1000)} of {name}", "id": f"{name}-{number}"}
            kept.append(given["id"])
        elif kind == "recall":
            given = {"query": f"word {pick.randrange(1000)}", "top_k": 5}
        elif kind == "inspect":
            given = {"memory_id": pick.choice(kept)}
        elif kind == "browse":
            given = {"tags": [], "limit": 5}
        else:
            given = {"memory_id": kept.pop(pick.randrange(len(kept)))}
        start = time.perf_counter()
        await act(kind, given)
        took[kind].append(time.perf_counter() - start)
    return kept, took


def by_library(memory: SpectorMemory) -> Act:
    async def act(kind: str, given: dict[str, Any]) -> None:
        if kind == "remember":
            memory.remember(given["text"], id=given["id"])
        elif kind == "recall":
            memory.recall(given["query"], k=given["top_k"])
        elif kind == "inspect":
            memory.inspect(given["memory_id"])
        elif kind == "browse":
            memory.browse(limit=given["limit"])
        else:
            memory.forget(given["memory_id"])

    return act


def by_client(client: Client) -> Act:
    async def act(kind: str, given: dict[str, Any]) -> None:
        result = await client.call_tool(f"memory_{kind}", given)
        if result.is_error:
            raise SystemExit(f"{kind} {given}: {result.content}")

    return act


class Door:
    """A transport: makes clients of one space."""

    def __init__(self, transport: str, path: Path) -> None:
        self.transport = transport
        self._path = path
        self._process: subprocess.Popen[str] | None = None
        self._url = ""

    def __enter__(self) -> Door:
        if self.transport == "http":
            options = ["--path", str(self._path), "--transport", "http", "--port", "0"]
            self._process = subprocess.Popen(
                [sys.executable, *SERVER, *options], stderr=subprocess.PIPE, text=True
            )
            assert self._process.stderr is not None
            self._url = self._process.stderr.readline().split()[-1]
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def client(self) -> Client:
        if self.transport == "http":
            return Client(self._url)
        arguments = [*SERVER, "--path", str(self._path)]
        return Client(stdio_client(StdioServerParameters(command=sys.executable, args=arguments)))


async def together(door: Door, calls: int) -> tuple[set[str], float]:
    """All clients at once; what must remain, and the calls per second."""
    kept: set[str] = set()
    ready = 0
    start = [0.0]
    go = anyio.Event()

    async def one(number: int) -> None:
        nonlocal ready
        async with door.client() as client:
            await client.call_tool("memory_status", {})
            ready += 1
            if ready == CLIENTS:
                start[0] = time.perf_counter()
                go.set()
            await go.wait()
            remain, _ = await mix(f"c{number}", calls // CLIENTS, by_client(client))
            kept.update(remain)

    async with anyio.create_task_group() as tasks:
        for number in range(CLIENTS):
            tasks.start_soon(one, number)
    return kept, calls / (time.perf_counter() - start[0])


async def alone(door: Door, calls: int) -> dict[str, list[float]]:
    async with door.client() as client:
        await client.call_tool("memory_status", {})
        return (await mix("alone", calls, by_client(client)))[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--transport", choices=["stdio", "http"], action="append")
    given = parser.parse_args()
    print(json.dumps(machine(clients=CLIENTS, calls=given.calls)))
    with tempfile.TemporaryDirectory() as folder:
        with SpectorMemory.open(Path(folder) / "library") as memory:
            base = anyio.run(mix, "alone", given.calls, by_library(memory))[1]
        for transport in given.transport or ["stdio", "http"]:
            path = Path(folder) / transport
            with Door(transport, path) as door:
                kept, rate = anyio.run(together, door, given.calls)
                with SpectorMemory.open(path) as memory:
                    there = {one.id for one in memory.browse(limit=1_000_000)}
                if there != kept:
                    lost, extra = len(kept - there), len(there - kept)
                    raise SystemExit(f"{transport}: {lost} writes lost, {extra} too many")
                print(
                    f"\n{transport}: {given.calls} calls by {CLIENTS} clients, {rate:,.0f}/s, "
                    f"no error, all {len(there)} memories that must be there are"
                )
            path = Path(folder) / f"{transport}-alone"
            with Door(transport, path) as door:
                took = anyio.run(alone, door, given.calls)
            print(f"{'one client':10} {'tool':>9} {'library':>9} {'overhead':>9}   medians, ms")
            for kind in sorted(took):
                tool, plain = median(took[kind]) * 1000, median(base[kind]) * 1000
                print(f"{kind:10} {tool:9.2f} {plain:9.2f} {tool - plain:9.2f}")
            tool = median([each for kind in took.values() for each in kind]) * 1000
            plain = median([each for kind in base.values() for each in kind]) * 1000
            print(f"{'all':10} {tool:9.2f} {plain:9.2f} {tool - plain:9.2f}")


if __name__ == "__main__":
    main()
