"""Calls of everything public with arguments of any kind (R12)."""

from __future__ import annotations

import contextlib
import inspect
import os
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import spector
from spector import SpectorError, SpectorMemory, graph, lexical, records, sparse
from torture.harness import Failed, Outcome, fork, patched

#: What a wrong argument may raise (architecture.md, 6). Others would say nothing to the caller.
_ALLOWED = (TypeError, ValueError, LookupError, OSError, SpectorError)
#: They end what is called after them, or work for long.
_LEFT_OUT = frozenset(("close", "open", "ephemeral", "drain"))
_PER_CHILD = 2000


class _Lies:
    """Not what it says it is."""

    def __len__(self) -> int:
        return 5

    def __index__(self) -> int:
        raise ValueError("no number")

    def __iter__(self) -> Iterator[Any]:
        yield self

    def __getitem__(self, key: Any) -> Any:
        return self

    def __eq__(self, other: object) -> bool:
        raise TypeError("not compared")

    def __hash__(self) -> int:
        return 1


class _Number:
    def __index__(self) -> int:
        return 3

    def __float__(self) -> float:
        return float("nan")


class _Text(str):
    """A text that is one."""


def _endless() -> Iterator[str]:
    yield from ("a", "b")
    raise ValueError("a generator that fails")


def anything(rng: random.Random, memory: SpectorMemory, depth: int = 0) -> Any:
    """A value of any type; numbers are small, or far too large, so that none asks for gigabytes."""
    texts = [
        "",
        "m1",
        "fox",
        "\ud800",
        "\0",
        "a" * 5000,
        "İ\u0301",
        "../x",
        "2020-01-01",
        _Text("a"),
    ]
    choice = rng.randrange(30 if depth < 2 else 22)
    if choice < 5:
        return rng.choice(texts)
    if choice < 9:
        return rng.choice([-1, 0, 1, 2, 3, 7, 300, 1 << 63, 1 << 64, -(1 << 70), 10**40])
    if choice < 12:
        return rng.choice([0.0, -0.0, 0.5, 1.5, -1.0, 1e308, 1e-320, float("nan"), float("inf")])
    if choice < 15:
        return rng.choice(
            [None, True, False, ..., NotImplemented, object(), int, _Lies(), _Number()]
        )
    if choice < 17:
        return rng.choice([b"", b"fox", bytearray(b"m1"), memoryview(b"abcd"), 1j, range(3)])
    if choice < 20:
        array = np.asarray(rng.choices([0, 1, 2, 3, 5], k=rng.randrange(5)))
        dtype = rng.choice(["u4", "i8", "f4", "f8", "u1", "?", "O", "S2", "U2", ">u4", "M8[s]"])
        with contextlib.suppress(ValueError, TypeError):
            array = array.astype(dtype)
        return rng.choice(
            [array, array[::-1], array[::2], array.reshape(-1, 1), array.reshape(1, -1)]
        )
    if choice == 20:
        return rng.choice(
            [
                lambda *_, **__: memory.remember("from within"),
                lambda *_, **__: memory.recall("fox"),
                lambda *_, **__: [],
                _endless(),
                float,
            ]
        )
    if choice == 21:
        return Path(rng.choice(["there", "m1.jsonl"]))
    if choice < 27:
        made = [anything(rng, memory, depth + 1) for _ in range(rng.randrange(4))]
        kind = rng.choice([list, tuple, iter, np.asarray if depth == 5 else list])
        return kind(made)
    keys = ["text", "id", "tags", "session", "name", "type", 1, None, "timestamp"]
    return {rng.choice(keys): anything(rng, memory, depth + 1) for _ in range(rng.randrange(4))}


def objects(memory: SpectorMemory) -> list[Any]:
    """One of everything that is public, with something in it."""
    found: list[Any] = [memory, memory.space, memory.bandit, memory.extraction]
    index = lexical.BM25Index()
    index.add("m1", "a fox")
    hebbian = graph.HebbianGraph()
    hebbian.resize(8)
    temporal = graph.TemporalChain()
    temporal.resize(8)
    return [
        *[one for one in found if not isinstance(one, str)],
        index,
        hebbian,
        temporal,
        graph.HyperGraph(),
        graph.EntityDirectory(),
        graph.TagCoActivation(),
        graph.CrossCapture(),
        graph.TypeRegistry.entities(),
        records.RecordStore(2),
        sparse.SparseIndex(),
        lexical,
        records,
        graph,
        spector,
    ]


def callables(memory: SpectorMemory) -> list[tuple[str, Callable[..., Any]]]:
    """Everything that is public and can be called, by name."""
    found: list[tuple[str, Callable[..., Any]]] = []
    for one in objects(memory):
        names = getattr(one, "__all__", None) or [name for name in dir(one) if name[0] != "_"]
        of = one.__name__ if inspect.ismodule(one) else type(one).__name__
        for name in sorted(names):
            value = getattr(one, name, None)
            exception = isinstance(value, type) and issubclass(value, BaseException)
            if (
                callable(value)
                and not exception
                and name not in _LEFT_OUT
                and not (
                    isinstance(value, type) and issubclass(value, (SpectorMemory, spector.Spaces))
                )
            ):
                found.append((f"{of}.{name}", value))
    return found


def _one_call(rng: random.Random, call: Callable[..., Any], memory: SpectorMemory) -> None:
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    required = sum(p.default is p.empty for p in positional)
    count = rng.randrange(required, len(positional) + 1) if rng.random() < 0.9 else rng.randrange(5)
    arguments = [anything(rng, memory) for _ in range(count)]
    chosen = rng.sample(keywords, min(len(keywords), rng.randrange(3)))
    found = call(*arguments, **{name: anything(rng, memory) for name in chosen})
    if isinstance(found, Iterator):
        for _, _ in zip(range(3), found, strict=False):
            pass


def _calls(folder: Path, first: int, count: int, write: Callable[[str], object]) -> None:
    """In a child, in its own folder: calls, and before each its number."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    warnings.simplefilter("ignore")
    place = os.open(folder / "at", os.O_RDWR | os.O_CREAT)
    memory = SpectorMemory.open(folder / "space", busy_timeout=0.2, reflect_every=None)
    memory.remember_many({"text": f"fox {n}", "id": f"m{n}", "tags": ["a"]} for n in range(5))
    every = callables(memory)
    for number in range(first, first + count):
        rng = random.Random(number)
        name, call = every[rng.randrange(len(every))]
        os.pwrite(place, f"{number} {name}".ljust(80).encode(), 0)
        try:
            _one_call(rng, call, memory)
        except _ALLOWED:
            pass
        except BaseException as error:
            write(f"call {number}, {name}: {type(error).__name__}: {str(error)[:120]!r}\n")
    if "m1" not in memory:
        memory.remember("fox", id="m1")
    if not memory.recall("fox"):
        write(f"calls {first} to {first + count}: nothing is found any more\n")
    memory.close()


def any_arguments(folder: Path, rounds: int, seed: int) -> Outcome:
    """R12: every call is answered, or refused by an error that says why; no crash, no hang."""
    problems: list[str] = []

    def run(place: Path, first: int, count: int) -> list[str]:
        child = fork(lambda write: _calls(place, first, count, write))
        try:
            ended = child.finish(300) == 0
        except Failed:
            ended = False
        found = child.output.splitlines()
        if not ended:
            at = (place / "at").read_text().strip() if (place / "at").exists() else "nothing"
            found.append(f"ended with {child.status} at call {at}")
        return found

    for first in range(0, rounds, _PER_CHILD):
        count = min(_PER_CHILD, rounds - first)
        problems += run(folder / f"r12-{first}", seed * 10**9 + first, count)

    def broken(*_: Any, **__: Any) -> None:
        raise AttributeError("planted")

    with patched(SpectorMemory, "recall", broken):
        planted = run(folder / "control", seed * 10**9, min(rounds, _PER_CHILD))
    return Outcome(
        rounds,
        problems,
        f"{len(callables_of_a_memory())} functions and methods",
        f"a recall that raises AttributeError: noticed {len(planted)} times",
    )


def callables_of_a_memory() -> list[str]:
    """The names of what is called."""
    with SpectorMemory.ephemeral() as memory:
        return [name for name, _ in callables(memory)]
