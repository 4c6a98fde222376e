"""Where output goes: data to stdout, messages and progress to stderr.

On a terminal data is a table with colours; anywhere else it is lines of tab-separated fields, and
with ``--json`` one JSON document. rich is imported when something is drawn with it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from spector.cli.highlight import Piece, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = [
    "Bar",
    "fail",
    "note",
    "print_json",
    "print_table",
    "progress_bar",
    "stdout_console",
]

_MATCH_STYLE = "bold yellow"

#: A cell is text, or pieces of text of which some matched.
Cell = str | list[Piece]


def print_json(document: object) -> None:
    """Write one JSON document on one line."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")


def note(text: str) -> None:
    """Tell a person something; never part of the data."""
    sys.stdout.flush()
    with suppress(OSError):  # there is nobody to tell that messages cannot be written
        sys.stderr.write(text + "\n")


def fail(text: str) -> None:
    """Report an error on one line."""
    with suppress(OSError):  # when stdout fails, too, this error came first
        sys.stdout.flush()
    note("spector: " + plain(text))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], right: str = "") -> None:
    """Print rows as a table on a terminal and as tab-separated lines elsewhere.

    Parameters
    ----------
    columns : sequence of str
        Headings; only a terminal shows them.
    rows : sequence of sequences of Cell
    right : str
        Names of the columns to align right, separated by spaces.
    """
    if not sys.stdout.isatty():
        for row in rows:
            sys.stdout.write("\t".join(plain(_text(cell)) for cell in row) + "\n")
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=any(columns))
    numbers = right.split()
    for name in columns:
        last = name == columns[-1]
        table.add_column(
            name,
            justify="right" if name in numbers else "left",
            no_wrap=name in numbers,
            overflow="fold",
            ratio=1 if last and name not in numbers else None,
        )
    for row in rows:
        table.add_row(*(styled(cell) for cell in row))
    stdout_console().print(table)


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else "".join(text for text, _ in cell)


def styled(cell: Cell) -> Any:
    """Return a cell as rich text, with its matches marked."""
    from rich.text import Text

    if isinstance(cell, str):
        return Text(plain(cell))
    return Text.assemble(*((text, _MATCH_STYLE if hit else "") for text, hit in cell))


def stdout_console() -> Console:
    """Return a rich console on stdout; it honours NO_COLOR and knows a pipe from a terminal."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, emoji=False, markup=False)


class Bar(Protocol):
    """A progress bar, drawn or not."""

    def update(self, done: float, memories: int) -> None:
        """Show how much of the total is done and how many memories are stored."""

    def note(self, text: str) -> None:
        """Print a line above the bar."""


class _NoBar:
    def update(self, done: float, memories: int) -> None:
        pass

    def note(self, text: str) -> None:
        note(text)


class _RichBar:
    def __init__(self, progress: Progress, label: str, total: float) -> None:
        self._progress = progress
        self._task = progress.add_task(label, total=total or None, stored="0", rate="")
        self._start = time.perf_counter()

    def update(self, done: float, memories: int) -> None:
        seconds = time.perf_counter() - self._start
        rate = f"{memories / seconds:,.0f}/s" if seconds > 0.2 else ""
        self._progress.update(self._task, completed=done, stored=f"{memories:,}", rate=rate)

    def note(self, text: str) -> None:
        self._progress.console.print(text, soft_wrap=True)


@contextmanager
def progress_bar(label: str, total: float) -> Iterator[Bar]:
    """Show progress on stderr with rate and time left, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield _NoBar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=sys.stderr, highlight=False, emoji=False, markup=False)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[stored]} stored"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console,
    ) as progress:
        yield _RichBar(progress, label, total)
