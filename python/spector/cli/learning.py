"""The commands about what was learned of memories."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from spector.cli.app import (
    _DEFAULT_PATH,
    Json,
    Query,
    SpacePath,
    Tags,
    When,
    _name,
    _open,
    _text,
    app,
)
from spector.cli.console import note, print_json, print_table

Id = Annotated[str, typer.Argument(parser=_name, metavar="ID", help="The memory.")]


@app.command()
def reinforce(
    id: Id,
    helped: Annotated[
        bool | None, typer.Option("--helped/--misled", help="What came of it.")
    ] = None,
    valence: Annotated[
        int | None, typer.Option("--valence", metavar="N", help="Instead, from -128 to 127.")
    ] = None,
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Report what came of a memory: it fades more slowly, and its profile is credited.

    \b
    spector reinforce 01JXK3V8Q2M4T --helped
    """
    if (helped is None) == (valence is None):
        raise typer.BadParameter("one of --helped, --misled and --valence must be given")
    with _open(path) as memory:
        if valence is None:
            memory.reinforce(id, helped)
        else:
            memory.reinforce(id, valence=valence)
        found = memory.inspect(id)
    if json:
        print_json({"id": id, "valence": found.valence, "recall_count": found.recall_count})
    else:
        note(f"{id}: valence {found.valence}, reported {found.recall_count} times")


@app.command()
def suppress(
    id: Id,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Kept with it.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Let recalls find it again.")] = False,
    path: SpacePath = _DEFAULT_PATH,
) -> None:
    """Keep a memory out of recalls; it stays stored.

    \b
    spector suppress 01JXK3V8Q2M4T --reason "no longer true"
    """
    with _open(path) as memory:
        if undo:
            memory.unsuppress(id)
        else:
            memory.suppress(id, reason)


@app.command()
def mark(
    id: Id,
    pinned: Annotated[
        bool | None, typer.Option("--pinned/--unpinned", help="Kept from fading.")
    ] = None,
    resolved: Annotated[
        bool | None, typer.Option("--resolved/--unresolved", help="Whether something is open.")
    ] = None,
    path: SpacePath = _DEFAULT_PATH,
) -> None:
    """Say that a memory is kept from fading, or that something about it is open.

    \b
    spector mark 01JXK3V8Q2M4T --pinned
    """
    if pinned is None and resolved is None:
        raise typer.BadParameter(
            "one of --pinned, --unpinned, --resolved and --unresolved must be given"
        )
    with _open(path) as memory:
        if pinned is not None:
            (memory.pin if pinned else memory.unpin)(id)
        if resolved is not None:
            (memory.mark_resolved if resolved else memory.mark_unresolved)(id)


@app.command()
def remind(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text; - reads stdin.")],
    at: When = None,
    tag: Tags = None,
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Store a text that the first recall that counts brings up from a time on; prints its id.

    Recalls of a program count, and `spector recall --learn`.

    \b
    spector remind "renew the certificate" --at 2031-05-01
    """
    if at is None:
        raise typer.BadParameter("--at TIME must be given")
    asked = _text(text)
    with _open(path, create=True) as memory:
        id = memory.schedule_reminder(asked, at, tags=tag or ())
    print_json({"id": id}) if json else print(id)


@app.command("why-not")
def why_not(
    id: Id,
    query: Query,
    k: Annotated[int, typer.Option("-k", min=1, metavar="N", help="How many hits at most.")] = 10,
    tag: Tags = None,
    profile: Annotated[str | None, typer.Option("--profile", metavar="NAME")] = None,
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Say why a query does not find a memory: the first step that kept it out.

    \b
    spector why-not 01JXK3V8Q2M4T "why did the deploy fail?"
    """
    given: dict[str, Any] = {"k": k, "tags": tag, "profile": profile}
    given = {name: value for name, value in given.items() if value is not None}
    asked = _text(query)
    with _open(path) as memory:
        found = memory.why_not(id, asked, **given)
    if json:
        print_json(found.as_dict())
    else:
        print(found)


@app.command()
def reflect(
    consolidate: Annotated[
        bool, typer.Option("--consolidate", help="Join five or more episodes that are alike.")
    ] = False,
    path: SpacePath = _DEFAULT_PATH,
    json: Json = False,
) -> None:
    """Let what fades go, and join what belongs together; say once a day.

    \b
    spector reflect --path agent-memory
    """
    with _open(path) as memory:
        report = memory.reflect(consolidate=consolidate)
    if json:
        print_json(report.as_dict())
    else:
        print(report)
    if not report.ok:
        raise typer.Exit(1)


bandit = typer.Typer(help="What chooses the profile of a recall with --profile auto.")
app.add_typer(bandit, name="bandit", no_args_is_help=True)


@bandit.command()
def report(path: SpacePath = _DEFAULT_PATH, json: Json = False) -> None:
    """What each profile, used always, would have earned, from the outcomes that were reported.

    By inverse propensity scores (ips) and doubly robust (dr), each with its 95% interval. Only
    choices of `auto` in contexts that explore say much: n counts those of each profile.

    \b
    spector bandit report --path agent-memory
    """
    with _open(path) as memory:
        estimates = memory.bandit_report()
        contexts = memory.bandit.stats()
    if json:
        print_json(
            {"contexts": contexts, "profiles": [estimate._asdict() for estimate in estimates]}
        )
        return
    if not estimates:
        note("no outcome was reported yet: spector reinforce, or SpectorMemory.reinforce")
        return
    rows = [
        (
            one.profile,
            str(one.support),
            f"{one.ips:.3f} [{one.ips_low:.3f}, {one.ips_high:.3f}]",
            f"{one.doubly_robust:.3f} [{one.doubly_robust_low:.3f}, {one.doubly_robust_high:.3f}]",
        )
        for one in estimates
    ]
    print_table(("profile", "n", "ips", "dr"), rows, right="n")
