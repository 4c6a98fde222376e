"""`spector demo`: a space made of the docstrings of the standard library that runs it."""

from __future__ import annotations

import platform
import shlex
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spector.cli import console
from spector.cli.docstrings import Module, docstrings, modules, standard_library
from spector.cli.highlight import plain
from spector.cli.hits import hit_as_dict, snippets
from spector.cli.loading import Loaded, load
from spector.cli.readers import Place, Problem, readable_path

if TYPE_CHECKING:
    from spector import SpectorMemory

__all__ = ["QUERIES", "Demo", "build", "find", "show_answers", "show_next"]

#: What a person might ask: a kind of question and one of it.
QUERIES = (
    ("an error name", "IncompleteReadError"),
    ("a camelCase name", "assertRaisesRegex"),
    ("a dotted name", "os.path"),
    ("a question", "how do I read a zip file?"),
    ("a question", "what happens when a worker process dies?"),
    ("a few words", "wait for several tasks with a timeout"),
)

_SHOWN_HITS = 3
_SNIPPET_CHARACTERS = 150
_INDENT = " " * 10


@dataclass(slots=True)
class Demo:
    """What was read and stored."""

    files: int = 0
    loaded: Loaded = field(default_factory=Loaded)
    problems: list[Problem] = field(default_factory=list)


def find(only: Sequence[str], also: Sequence[Path]) -> list[Module]:
    """List the files to read.

    Raises
    ------
    LookupError
        If a name of `only` is no module of the standard library.
    """
    sources = standard_library(only)
    for name in only:
        if not any(module.tag == name for module in sources):
            raise LookupError(f"{name} is no module of the standard library that is Python code")
    for root in also:
        sources.extend(modules(root))
    return sources


def build(memory: SpectorMemory, sources: list[Module]) -> Demo:
    """Fill a space with docstrings; what is there already is updated."""
    demo = Demo(files=len(sources))
    done_files = 0
    with console.progress_bar("Reading docstrings", len(sources)) as bar:

        def failed(module: Module, why: str) -> None:
            demo.problems.append(Problem(Place(readable_path(module.path)), why))

        def done(count: int) -> None:
            nonlocal done_files
            done_files = count
            if count % 16 == 0:
                bar.update(count, demo.loaded.stored)

        def stored(loaded: Loaded) -> None:
            bar.update(done_files, loaded.stored)

        place = Place("docstring")
        load(
            memory,
            ((item, place) for item in docstrings(sources, failed, done)),
            demo.problems.append,
            stored,
            demo.loaded,
        )
    return demo


def source_name() -> str:
    """Name the code that is read, for a person."""
    return f"Python {platform.python_version()} in {sysconfig.get_path('stdlib')}"


def answers_as_dicts(memory: SpectorMemory) -> list[dict[str, Any]]:
    """Ask every query, for ``--json``."""
    answers = []
    for _, query in QUERIES:
        hits = memory.recall(query, k=_SHOWN_HITS)
        answers.append(
            {
                "query": query,
                "milliseconds": round(hits.seconds * 1000, 3),
                "hits": [hit_as_dict(hit) for hit in hits],
            }
        )
    return answers


def show_answers(memory: SpectorMemory) -> None:
    """Ask every query and print the best hits."""
    from rich.text import Text

    out = console.stdout_console()
    for kind, query in QUERIES:
        hits = memory.recall(query, k=_SHOWN_HITS)
        out.print()
        asked = Text.assemble((query, "bold"), f"   {kind}, {hits.seconds * 1000:.2f} ms")
        out.print(asked, soft_wrap=True)
        if not hits:
            out.print("  nothing found")
        for hit, shown in zip(hits, snippets(memory, hits, _SNIPPET_CHARACTERS), strict=True):
            out.print(Text(f"  {hit.score:6.2f}  {plain(hit.id)}"), soft_wrap=True)
            for line in console.styled(shown).wrap(out, out.width - len(_INDENT)):
                line.rstrip()
                out.print(Text(_INDENT) + line, soft_wrap=True)


def show_next(path: Path) -> None:
    """Print where the space is and what to try on it."""
    folder = readable_path(path)
    option = f"--path {shlex.quote(folder)}"
    sys.stdout.write(
        f"\nThe space is in the folder {folder}. Try:\n"
        f'  spector recall {option} "parse a date from a string"\n'
        f"  spector recall {option} --tag json -k 3 decoder\n"
        f'  spector explain {option} zipfile.ZipFile "read a zip file"\n'
        f'  spector remember {option} "zipfile reads it all into memory"\n'
        f"  spector status {option}\n"
    )
