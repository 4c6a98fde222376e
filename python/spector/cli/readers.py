"""Reading what `spector import` is given: JSONL, Markdown and plain text, files and folders.

Files are read line by line, so memory is bounded by the longest line, and that by
`LONGEST_LINE_BYTES`.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import stat
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from spector.store.values import check_text, clean, nearest

__all__ = ["Input", "Item", "Place", "Problem", "Record", "readable_path"]

#: The arguments of `SpectorMemory.remember`.
Item = dict[str, Any]

#: A line beyond this is reported and left out.
LONGEST_LINE_BYTES = 64 * 2**20
#: Text is divided into pieces of at most this many characters.
PIECE_CHARACTERS = 2000

_JSONL = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_MARKDOWN = (".md", ".markdown")
_BOM = b"\xef\xbb\xbf"
_SPACE_FILE = "journal.db"
#: Fields of an item that stand for something, so that two must not become one.
_NAMES = ("id", "tags", "session", "author", "source")

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Place:
    """A file and a line in it; line 0 is the file as a whole."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was not read as it stands. If `lost` is false it was stored all the same."""

    place: Place
    why: str
    lost: bool = True


#: An item to remember and where it was read.
Record = tuple[Item, Place]


@dataclass(slots=True)
class Input:
    """All that one import reads.

    Parameters
    ----------
    paths : sequence of str
        Files and folders; ``-`` is JSONL on standard input.
    home : Path
        The folder that ids of files without ids of their own are relative to.
    report : callable
        Called with each problem as it is met.
    """

    paths: list[str]
    home: Path
    report: Callable[[Problem], None]
    files: list[tuple[Path | None, int]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    total_bytes: int = 0
    done_bytes: int = 0
    done_files: int = 0

    def plan(self) -> None:
        """Find the files, so that progress has an end to count to."""
        for path in self.paths:
            if path == "-":
                self.files.append((None, 0))
            elif Path(path).is_dir():
                for file in self._walk(Path(path)):
                    self._plan_file(file, in_folder=True)
            else:
                self._plan_file(Path(path), in_folder=False)

    def _walk(self, root: Path) -> Iterator[Path]:
        def failed(error: OSError) -> None:
            self._lost(Path(error.filename), error.strerror or str(error))

        for folder, folders, files in os.walk(root, onerror=failed):
            if _SPACE_FILE in files:
                self.skipped["space"] += 1
                folders.clear()
                continue
            hidden = [name for name in folders if name.startswith(".")]
            if hidden:
                self.skipped["hidden"] += len(hidden)
            folders[:] = sorted(set(folders).difference(hidden))
            for name in sorted(files):
                if name.startswith("."):
                    self.skipped["hidden"] += 1
                else:
                    yield Path(folder, name)

    def _plan_file(self, path: Path, in_folder: bool) -> None:
        try:
            status = path.stat()
            try:
                _identity(path, self.home)
            except UnicodeDecodeError:  # read as U+FFFD two names could be one
                self._lost(
                    path, "its name is not UTF-8, so what is in it can have no id; rename it"
                )
                return
            if not stat.S_ISREG(status.st_mode):
                if in_folder:
                    self.skipped["special"] += 1
                else:
                    self._lost(path, "neither a file nor a folder; for a pipe use -")
                return
            if not _is_jsonl(path) and _is_binary(path):
                if in_folder:
                    self.skipped["binary"] += 1
                else:
                    self._lost(path, "not a text file")
                return
        except OSError as error:
            self._lost(path, error.strerror or str(error))
            return
        self.files.append((path, status.st_size))
        self.total_bytes += status.st_size

    def records(self) -> Iterator[Record]:
        """Yield what the files hold, in order. What can not be read is reported and left out."""
        before = 0
        for path, size in self.files:
            try:
                if path is None:
                    yield from self._jsonl(_lines(sys.stdin.buffer), "-", None)
                else:
                    yield from self._read(path, before)
            except (OSError, EOFError, zlib.error) as error:
                self._lost(path or "-", getattr(error, "strerror", None) or str(error))
            before += size
            self.done_bytes = before
            self.done_files += 1

    def _read(self, path: Path, before: int) -> Iterator[Record]:
        identity = _identity(path, self.home)
        with contextlib.ExitStack() as stack:
            raw = stack.enter_context(path.open("rb"))
            opened: BinaryIO | gzip.GzipFile = raw
            if path.suffix.lower() == ".gz":
                opened = stack.enter_context(gzip.open(raw))
            for record in self._parse(path, _lines(opened), identity, raw):
                self.done_bytes = before + raw.tell()
                yield record

    def _parse(
        self, path: Path, lines: Iterator[bytes], identity: str, raw: BinaryIO
    ) -> Iterator[Record]:
        name = readable_path(path)
        if _is_jsonl(path):
            yield from self._jsonl(lines, name, identity)
            return
        changed = int(os.fstat(raw.fileno()).st_mtime * 1000)
        markdown = path.suffix.lower() in _MARKDOWN
        count = 0
        for context, text, line in _pieces(self._text_lines(lines, name), markdown):
            count += 1
            yield (
                {
                    "id": f"{identity}#{count}",
                    "text": text,
                    "session": identity,
                    "context": " > ".join((identity, *context)),
                    "timestamp": changed,
                },
                Place(name, line),
            )
        if not count:
            self.skipped["empty"] += 1

    def _jsonl(self, lines: Iterator[bytes], name: str, identity: str | None) -> Iterator[Record]:
        for number, raw in enumerate(lines, 1):
            try:
                line, why = _decode(raw, number)
                line = line.strip()
                if not line:
                    continue
                item = _item(line)
            except (TypeError, ValueError) as error:
                self._lost(name, str(error), number)
                continue
            if why:
                self._replaced(name, why, number)
            if identity is not None and "id" not in item:
                item["id"] = f"{identity}#{number}"
            yield item, Place(name, number)

    def _text_lines(self, lines: Iterator[bytes], name: str) -> Iterator[tuple[int, str]]:
        for number, raw in enumerate(lines, 1):
            try:
                line, why = _decode(raw, number)
            except ValueError as error:
                self._lost(name, str(error), number)
                continue
            if why:
                self._replaced(name, why, number)
            yield number, clean(line).rstrip("\r\n")

    def _replaced(self, name: str, why: str, line: int) -> None:
        self.report(Problem(Place(name, line), f"{why}; read as U+FFFD", lost=False))

    def _lost(self, path: str | Path, why: str, line: int = 0) -> None:
        self.report(Problem(Place(readable_path(path), line), why))


def readable_path(path: str | Path) -> str:
    """Return a path as text: the bytes of its name read as UTF-8, whatever the locale says."""
    return os.fsencode(path).decode(errors="replace")


def _decode(raw: bytes, number: int) -> tuple[str, str]:
    """Read a line; also say what is wrong with it. Each byte that is not UTF-8 becomes a lone
    surrogate: texts are stored with U+FFFD for it, and `_item` refuses it in a name."""
    if len(raw) > LONGEST_LINE_BYTES:
        raise ValueError(f"the line is longer than {LONGEST_LINE_BYTES // 2**20} MiB")
    if number == 1:
        raw = raw.removeprefix(_BOM)
    try:
        return raw.decode(), ""
    except UnicodeDecodeError as error:
        why = f"not UTF-8 at byte {error.start + 1}"
        return raw.decode(errors="surrogateescape"), why


def _item(line: str) -> Item:
    """Read one line of JSONL. What it says about its fields is checked when it is stored."""
    try:
        value = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    if None in value.values():
        value = {key: field for key, field in value.items() if field is not None}
    text = value.get("text")
    if text is None:
        raise ValueError('no "text"' + nearest("text", value))
    if not check_text("text", text).strip():
        raise ValueError('"text" is empty')
    if "speaker" in value:
        if "author" in value:
            raise ValueError('has "author" and "speaker", which is another word for it')
        value["author"] = value.pop("speaker")
    author = value.get("author")
    if isinstance(author, str) and author:
        value.setdefault("context", author)  # AM-3
    for name in _NAMES:
        if name in value and not _is_unicode(value[name]):
            raise ValueError(f'"{name}" is not valid Unicode, and is a name: it may not be changed')
    return value


def _is_unicode(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_unicode, value))
    return not isinstance(value, str) or clean(value) == value


def _reject_constant(name: str) -> object:
    raise ValueError(f"not JSON: {name} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)


def _identity(path: Path, home: Path) -> str:
    full = str(path.resolve())
    with contextlib.suppress(ValueError):  # on another drive
        full = os.path.relpath(full, home.resolve())
    return Path(os.fsencode(full).decode()).as_posix()


def _is_jsonl(path: Path) -> bool:
    return path.name.lower().endswith(_JSONL)


def _is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" in file.read(8192)


def _lines(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    """Yield lines; one that is too long comes cut just past the limit."""
    while line := file.readline(LONGEST_LINE_BYTES + 1):
        if len(line) > LONGEST_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := file.readline(2**20)) and not rest.endswith(b"\n"):
                pass
        yield line


def _pieces(
    lines: Iterable[tuple[int, str]], markdown: bool
) -> Iterator[tuple[tuple[str, ...], str, int]]:
    """Divide text into (headings above it, piece, first line).

    Markdown starts a new piece at every heading outside a code fence. A heading with nothing
    under it but deeper headings is no piece of its own: it is in the context of those.
    """
    above: list[tuple[int, str]] = []
    own: tuple[int, str] | None = None
    packer = _Packer()
    fence = ""

    def placed(
        pieces: Iterable[tuple[int, str, int]],
    ) -> Iterator[tuple[tuple[str, ...], str, int]]:
        outer = tuple(title for _, title in above if title)
        inner = (*outer, own[1]) if own and own[1] else outer
        for index, text, line in pieces:
            yield inner if index else outer, text, line

    for number, line in lines:
        heading = None
        if markdown:
            mark = _FENCE.match(line)
            if fence:
                if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                    fence = ""
            elif mark:
                fence = mark[1]
            else:
                heading = _HEADING.match(line)
        if heading:
            level = len(heading[1])
            if own is None or level <= own[0] or not packer.holds_one_line():
                yield from placed(packer.finish())
            if own is not None:
                above.append(own)
            while above and above[-1][0] >= level:
                above.pop()
            own = (level, (heading[2] or "").strip())
            packer = _Packer()
        yield from placed(packer.add(number, line))
    yield from placed(packer.finish())


class _Packer:
    """Joins lines into pieces of at most `PIECE_CHARACTERS`: divided at blank lines where it can
    be, else at line ends; a longer line stays whole."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, str]] = []
        self._size = 0
        self._blank = 0
        self._count = 0

    def holds_one_line(self) -> bool:
        """Tell whether one line that is not blank is all there has been."""
        return self._count == 0 and sum(1 for _, line in self._lines if line) == 1

    def add(self, number: int, line: str) -> Iterator[tuple[int, str, int]]:
        """Take a line; yield (how many came before, piece, first line) as pieces get full."""
        if not line.strip():
            if self._lines:
                self._blank = len(self._lines)
                self._lines.append((number, ""))
                self._size += 1
            return
        while self._lines and self._size + len(line) > PIECE_CHARACTERS:
            yield self._take(self._blank or len(self._lines))
        self._lines.append((number, line))
        self._size += len(line) + 1

    def finish(self) -> Iterator[tuple[int, str, int]]:
        """Yield what is left."""
        if self._lines:
            yield self._take(len(self._lines))

    def _take(self, end: int) -> tuple[int, str, int]:
        taken, self._lines = self._lines[:end], self._lines[end:]
        while self._lines and not self._lines[0][1]:
            del self._lines[0]
        self._size = sum(len(line) + 1 for _, line in self._lines)
        self._blank = 0
        self._count += 1
        return self._count - 1, "\n".join(line for _, line in taken).rstrip("\n"), taken[0][0]
