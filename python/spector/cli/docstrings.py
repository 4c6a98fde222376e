"""Docstrings of a folder of Python code as memories. Code is parsed, never imported."""

from __future__ import annotations

import ast
import os
import sysconfig
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from spector.cli.readers import Item

__all__ = ["Module", "docstrings", "modules", "standard_library"]

#: Folders that hold other people's code or no code at all.
_NEVER = frozenset({"site-packages", "dist-packages", "__pycache__"})
#: In the standard library, the tests of the interpreter and its editor.
_NOT_LIBRARY = frozenset({"test", "tests", "idlelib", "idle_test"})

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """One source file and the dotted name it is known by."""

    path: Path
    name: str
    tag: str


def standard_library(only: Collection[str] = ()) -> list[Module]:
    """List the modules of the standard library that runs this code.

    Parameters
    ----------
    only : collection of str
        Top modules to keep, such as ``json``; empty keeps all.
    """
    root = Path(sysconfig.get_path("stdlib"))
    found = []
    for path in _sources(root, _NEVER | _NOT_LIBRARY):
        name = _dotted(path.relative_to(root))
        top = name.partition(".")[0]
        if not only or top in only:
            found.append(Module(path, name, top))
    return found


def modules(root: Path) -> list[Module]:
    """List the modules of a code base. Names start with the folder's name, so that two code bases
    do not meet in one name."""
    root = root.resolve()
    if root.is_file():
        return [Module(root, root.stem, root.stem)]
    return [
        Module(path, _dotted(Path(root.name) / path.relative_to(root)), root.name)
        for path in _sources(root, _NEVER)
    ]


def docstrings(
    sources: list[Module],
    failed: Callable[[Module, str], None],
    done: Callable[[int], None],
) -> Iterator[Item]:
    """Yield one memory per docstring of every module, class and function.

    The id is the qualified name; a name that comes twice gets ``#2``, ``#3`` and so on.

    Parameters
    ----------
    sources : list of Module
    failed : callable
        Called with the module and the reason when a file can not be read or parsed.
    done : callable
        Called after each file with the number of files read so far.
    """
    seen: dict[str, int] = {}
    for count, module in enumerate(sources, 1):
        try:
            tree = _parse(module.path)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            failed(module, str(error) or type(error).__name__)
        else:
            for name, text in _documented(tree, module.name):
                times = seen[name] = seen.get(name, 0) + 1
                yield {
                    "id": name if times == 1 else f"{name}#{times}",
                    "text": text,
                    "tags": [module.tag],
                    "session": module.name,
                    "context": name,
                }
        done(count)


def _parse(path: Path) -> ast.Module:
    source = path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _documented(tree: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """Walk the statements in the order of the source. A stack, because code may nest deeply."""
    stack: list[tuple[ast.AST, str]] = [(tree, module)]
    while stack:
        node, name = stack.pop()
        if isinstance(node, _Documented):
            if not isinstance(node, ast.Module):
                name = f"{name}.{node.name}"
            text = ast.get_docstring(node)
            if text and text.strip():
                yield name, text
        inner: list[ast.AST] = []
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            inner.extend(getattr(node, field, ()))
        stack.extend((child, name) for child in reversed(inner))


def _sources(root: Path, skip: frozenset[str]) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if name not in skip
            and not name.startswith(".")
            and not Path(folder, name, "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            if name.endswith(".py") and not name.startswith("."):
                yield Path(folder, name)


def _dotted(relative: Path) -> str:
    parts = list(relative.with_suffix("").parts)
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return ".".join(parts)
