"""The tools (MCP-1 to MCP-8): their parameters, what they call, and what they answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Annotated, Any, Final, Literal

from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from spector import Memory, SpectorMemory
from spector.mcp import budget
from spector.mcp.spaces import OpenSpaces

__all__ = ["SPECS", "Spec", "Tools"]


@dataclass(frozen=True, slots=True)
class Spec:
    """One tool.

    Attributes
    ----------
    name : str
        Its name; that of a method of `Tools`.
    title : str
        What people see.
    needs : tuple of str
        Methods of `SpectorMemory`; without them it is not listed.
    default : bool
        Whether it is listed without ``--tools all``.
    read_only, destructive, idempotent : bool
        Its annotations. A recall counts as reading: what it changes is statistics.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    default: bool = False
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


SPECS: Final = (
    Spec("memory_recall", "Recall", ("recall",), default=True, read_only=True),
    Spec("memory_remember", "Remember", ("remember",), default=True, destructive=True),
    Spec("memory_reinforce", "Reinforce", ("reinforce",), default=True),
    Spec(
        *("memory_forget", "Forget", ("forget",)), default=True, destructive=True, idempotent=True
    ),
    Spec("memory_inspect", "Inspect", ("inspect",), default=True, read_only=True),
    Spec("memory_browse", "Browse", ("browse",), default=True, read_only=True),
    Spec("memory_status", "Status", ("status",), default=True, read_only=True),
    Spec("memory_why_not", "Why not", ("why_not",), default=True, read_only=True),
    Spec("memory_suppress", "Suppress", ("suppress", "unsuppress"), idempotent=True),
    Spec("memory_resolve", "Resolve", ("mark_resolved", "mark_unresolved"), idempotent=True),
    Spec("memory_scratchpad", "Scratchpad", ("remember",)),
    Spec("memory_reminder", "Reminder", ("schedule_reminder",)),
    Spec("memory_graph_recall", "Recall by graph", ("graph_recall",), read_only=True),
    Spec("memory_export", "Export", ("browse",), read_only=True),
    Spec("memory_introspect", "Introspect", ("introspect",), read_only=True),
    Spec("memory_compute_importance", "Importance", ("compute_importance",), read_only=True),
)

_NAMED_VALENCES: Final = {
    "strongly_positive": 100,
    "positive": 50,
    "neutral": 0,
    "negative": -50,
    "strongly_negative": -100,
}


def _divided(value: object) -> object:
    """Models give several tags as one text with commas now and then."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


Text = Annotated[str, Field(min_length=1)]
Id = Annotated[
    str, Field(min_length=1, description="Id of a memory, as recall and browse give it.")
]
Tags = Annotated[list[str], BeforeValidator(_divided)]
Share = Annotated[float | None, Field(ge=0, le=1, strict=True)]
Valence = Annotated[int | None, Field(ge=-128, le=127, strict=True)]
Arousal = Annotated[int | None, Field(ge=0, le=255, strict=True)]
TopK = Annotated[int, Field(ge=1, le=50, strict=True)]
MaxTokens = Annotated[
    int, Field(ge=100, le=20_000, strict=True, description="About how long the answer may be.")
]
Namespace = Annotated[
    str | None,
    Field(
        pattern=r"^[a-z0-9_-]{1,64}$",
        description="A separate memory; lower-case letters, digits, - and _.",
    ),
]
Tier = Literal["working", "episodic", "semantic", "procedural"]
Reinforcement = (
    Literal["strongly_positive", "positive", "neutral", "negative", "strongly_negative"]
    | Annotated[int, Field(ge=-128, le=127, strict=True)]
)


class Item(BaseModel):
    """A memory in a list."""

    id: str
    text: str
    cut: int | None = Field(None, description="Characters of the text that were left out.")
    score: float | None = None
    tags: list[str] | None = None
    tier: str | None = None
    time: str | None = None
    session: str | None = None
    author: str | None = None
    context: str | None = None
    mode: str | None = Field(None, description="graph, lateral or reminder if no list found it.")


class Recalled(BaseModel):
    """What a recall found, best first."""

    hits: list[Item]
    profile: str | None = None
    explored: bool | None = None
    degraded: list[str] | None = None
    note: str | None = None


class Listed(BaseModel):
    """Memories, newest first."""

    memories: list[Item]
    note: str | None = None


class Done(BaseModel):
    """What was done to which memory."""

    id: str
    done: str


class Exported(BaseModel):
    """A part of the memory."""

    content: str
    memories: int
    next: str | None = Field(None, description="Give this as after for the next part.")


class Around(BaseModel):
    """What is around some entities."""

    start: list[str]
    entities: list[dict[str, Any]]
    facts: list[str]
    paths: list[str] | None = None
    memories: list[Item] | None = None
    note: str | None = None


class Report(BaseModel):
    """A document."""

    model_config = ConfigDict(extra="allow")


class Tools:
    """What the tools do; each method may run in any thread."""

    def __init__(self, spaces: OpenSpaces) -> None:
        self._spaces = spaces

    def memory_recall(
        self,
        query: Annotated[str, Field(description="Words, names or a question; no query syntax.")],
        top_k: TopK = 5,
        profile: Annotated[
            str | None,
            Field(
                description="auto learns which fits; balanced, exploring, debugging, recalling, "
                "critical, hyperfocus, systematizer, divergent, paranoid_sentinel, the_executor, "
                "highly_sensitive, default_mode_network, executive_dysfunction."
            ),
        ] = None,
        synaptic_filter: Annotated[
            str | None, Field(description="Only memories with all of these tags: a,b,c.")
        ] = None,
        min_importance: Annotated[float | None, Field(ge=0, le=10, strict=True)] = None,
        min_valence: Valence = None,
        max_valence: Valence = None,
        recall_mode: Annotated[
            Literal["learn", "observe"] | None, Field(description="observe changes no statistics.")
        ] = None,
        text_search_mode: Annotated[
            str | None, Field(description="hybrid, keyword_only, vector_only, ...")
        ] = None,
        scoring_mode: Literal["cognitive", "similarity"] | None = None,
        point_in_time: Annotated[
            str | None, Field(description="The memory as it was then (ISO 8601).")
        ] = None,
        max_tokens: MaxTokens = 2000,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, Recalled]:
        """Find memories that matter for a question or topic, best first."""
        options: dict[str, Any] = {
            "profile": profile,
            "min_importance": min_importance,
            "min_valence": min_valence,
            "max_valence": max_valence,
            "recall_mode": recall_mode,
            "text_search_mode": text_search_mode,
            "scoring_mode": scoring_mode,
            "as_of": point_in_time,
            "tags": None if synaptic_filter is None else _divided(synaptic_filter),
        }
        given = {name: value for name, value in options.items() if value is not None}
        with self._spaces.use(namespace) as memory:
            found = memory.recall(query, k=top_k, **given)
        items, note = budget.fit(
            [
                {
                    "score": round(hit.score, 4),
                    **_item(hit.memory),
                    "mode": None if hit.mode == "standard" else hit.mode,
                }
                for hit in found
            ],
            max_tokens,
        )
        if not items:
            note = "nothing found; other words or fewer conditions may help"
        return _answer(
            Recalled(
                hits=[Item(**item) for item in items],
                profile=found.profile,
                explored=found.explored or None,
                degraded=list(found.degraded) or None,
                note=_how_to_read_on(note),
            )
        )

    def memory_graph_recall(
        self,
        start_entity: Annotated[
            str | None, Field(min_length=1, description="Name of an entity to begin at.")
        ] = None,
        query: Annotated[
            str | None, Field(min_length=1, description="Or a text that names some.")
        ] = None,
        target_entity: Annotated[
            str | None, Field(min_length=1, description="Show the ways that lead to it.")
        ] = None,
        max_hops: Annotated[int, Field(ge=0, le=6, strict=True)] = 2,
        entity_types: Annotated[
            Tags | None, Field(description="Only such as PERSON, PROJECT.")
        ] = None,
        relation_types: Annotated[
            Tags | None, Field(description="Follow only such as MANAGES, USES.")
        ] = None,
        include_memories: Annotated[bool, Field(strict=True)] = True,
        top_paths: Annotated[int, Field(ge=1, le=20, strict=True)] = 5,
        max_tokens: MaxTokens = 2000,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, Around]:
        """Show what is known around a person, project or thing: relations, ways, memories."""
        with self._spaces.use(namespace) as memory:
            found = memory.graph_recall(
                start_entity,
                query=query,
                target_entity=target_entity,
                max_hops=max_hops,
                entity_types=entity_types,
                relation_types=relation_types,
                top_paths=top_paths,
            )
        # Half of the room for what is around, the rest for texts.
        entities, short = budget.whole([asdict(one) for one in found.entities], max_tokens // 4)
        told = [f"{one.source} -{one.type}-> {one.target}" for one in found.facts]
        facts, shorter = budget.whole(told, max_tokens // 4)
        items: list[dict[str, Any]] = []
        note = ""
        if include_memories:
            items, note = budget.fit([_item(one) for one in found.memories], max_tokens // 2)
        if short or shorter:
            note = f"{note}; " if note else ""
            note += f"{short} entities and {shorter} facts were left out"
        if not found.start:
            note = "the query names nothing that is known; memory_recall finds by words"
        return _answer(
            Around(
                start=list(found.start),
                entities=entities,
                facts=facts,
                paths=list(found.paths) or None,
                memories=[Item(**item) for item in items] if include_memories else None,
                note=_how_to_read_on(note),
            )
        )

    def memory_remember(
        self,
        text: Annotated[str, Field(min_length=1, description="One fact, event or preference.")],
        id: Annotated[
            str | None, Field(min_length=1, description="A name; one that exists is replaced.")
        ] = None,
        tags: Tags = [],  # noqa: B006
        source: Annotated[str, Field(min_length=1)] = "user_stated",
        tier: Tier = "semantic",
        interest: Share = None,
        challenge: Share = None,
        urgency: Share = None,
        valence: Annotated[
            int, Field(ge=-128, le=127, strict=True, description="How pleasant.")
        ] = 0,
        arousal: Arousal = None,
        session: Annotated[
            str | None,
            Field(min_length=1, description="The conversation; what is told in one is linked."),
        ] = None,
        about: Annotated[
            Tags, Field(description="Names of what it is about; questions by name find it.")
        ] = [],  # noqa: B006
        metadata: dict[str, Any] | None = None,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, Done]:
        """Store one text for later; it is on disk when this returns."""
        with self._spaces.use(namespace, create=True) as memory:
            stored = memory.remember(
                text,
                id=id,
                tags=tags,
                source=source,
                type=tier,
                interest=interest,
                challenge=challenge,
                urgency=urgency,
                valence=valence,
                arousal=arousal,
                session=session,
                about=about,
                metadata=metadata,
            )
        return _answer(Done(id=stored, done="remembered"))

    def memory_reinforce(
        self,
        memory_id: Id,
        valence: Annotated[Reinforcement, Field(description="How it worked out; or -128 to 127.")],
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, Done]:
        """Say whether a recalled memory helped; recall learns from it."""
        value = _NAMED_VALENCES[valence] if isinstance(valence, str) else valence
        with self._spaces.use(namespace) as memory:
            memory.reinforce(memory_id, valence=value)
        return _answer(Done(id=memory_id, done=f"reinforced with valence {value}"))

    def memory_forget(
        self, memory_id: Id, namespace: Namespace = None
    ) -> Annotated[CallToolResult, Done]:
        """Delete one memory."""
        with self._spaces.use(namespace) as memory:
            memory.forget(memory_id)
        return _answer(Done(id=memory_id, done="forgotten"))

    def memory_inspect(
        self, memory_id: Id, max_tokens: MaxTokens = 4000, namespace: Namespace = None
    ) -> Annotated[CallToolResult, Report]:
        """Show one memory with all its fields."""
        with self._spaces.use(namespace) as memory:
            found = memory.inspect(memory_id)
        return _report(_as_dict(found), max_tokens)

    def memory_browse(
        self,
        tags: Annotated[Tags, Field(description="All of these; [] lists everything.")],
        limit: Annotated[int, Field(ge=1, le=200, strict=True)] = 20,
        after: Annotated[
            str | None, Field(min_length=1, description="The last id of the part before.")
        ] = None,
        max_tokens: MaxTokens = 2000,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, Listed]:
        """List memories that have the tags, newest first."""
        with self._spaces.use(namespace) as memory:
            found = memory.browse(tags=tags, limit=limit, after=after)
        items, note = budget.fit([_item(one) for one in found], max_tokens)
        if len(found) == limit or len(items) < len(found):
            note = f"{note}; " if note else ""
            note += f"there may be more: after={items[-1]['id']!r}"
        return _answer(
            Listed(memories=[Item(**item) for item in items], note=_how_to_read_on(note))
        )

    def memory_status(self, namespace: Namespace = None) -> Annotated[CallToolResult, Report]:
        """Show what is stored, how large it is, and what was learned about profiles."""
        with self._spaces.use(namespace) as memory:
            report = _plain(memory.status().as_dict())
            report["profiles"] = _by_profile(memory.bandit.stats())
        report.pop("path", None)  # the model has no use for it
        if report.get("last_event") is not None:
            report["last_event"] = _time(report["last_event"])
        return _report(report, 4000)

    def memory_why_not(
        self,
        memory_id: Id,
        query: str,
        top_k: TopK = 5,
        max_tokens: MaxTokens = 2000,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, Report]:
        """Say why a recall of the query does not return a memory."""
        with self._spaces.use(namespace) as memory:
            reason = memory.why_not(memory_id, query, k=top_k)
        return _report({"summary": str(reason), **_plain(reason.as_dict())}, max_tokens)

    def memory_suppress(
        self,
        memory_id: Id,
        action: Literal["SUPPRESS", "UNSUPPRESS"],
        reason: str = "",
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, Done]:
        """Keep a memory out of recalls without deleting it, or let it in again."""
        with self._spaces.use(namespace) as memory:
            if action == "SUPPRESS":
                memory.suppress(memory_id, reason)
            else:
                memory.unsuppress(memory_id)
        return _answer(Done(id=memory_id, done=action.lower() + "ed"))

    def memory_resolve(
        self,
        memory_id: Id,
        resolved: Annotated[bool, Field(strict=True)],
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, Done]:
        """Mark a task or question as settled, so that it fades; or as open, so that it does not."""
        with self._spaces.use(namespace) as memory:
            (memory.mark_resolved if resolved else memory.mark_unresolved)(memory_id)
        return _answer(Done(id=memory_id, done="resolved" if resolved else "marked as open"))

    def memory_scratchpad(
        self, text: Text, namespace: Namespace = None
    ) -> Annotated[CallToolResult, Done]:
        """Note something for the task at hand (tier working)."""
        with self._spaces.use(namespace, create=True) as memory:
            stored = memory.remember(text, type="working", source="scratchpad")
        return _answer(Done(id=stored, done="noted"))

    def memory_reminder(
        self,
        text: Text,
        delay_seconds: Annotated[float, Field(ge=0, le=1e9, strict=True)],
        tags: Tags = [],  # noqa: B006
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, Done]:
        """Let a recall after so many seconds bring this up first, once."""
        at = int((datetime.now(timezone.utc).timestamp() + delay_seconds) * 1000)
        with self._spaces.use(namespace, create=True) as memory:
            stored = memory.schedule_reminder(text, at, tags=tags)
        return _answer(Done(id=stored, done=f"due {_time(at)}"))

    def memory_export(
        self,
        format: Annotated[
            Literal["jsonl", "markdown"], Field(description="One JSON document a line, or a list.")
        ] = "jsonl",
        after: Annotated[
            str | None, Field(min_length=1, description="next of the last part.")
        ] = None,
        max_tokens: MaxTokens = 4000,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, Exported]:
        """Give whole memories, newest first, in parts."""
        with self._spaces.use(namespace) as memory:
            found = memory.browse(limit=200, after=after)
        lines: list[str] = []
        room = max_tokens
        for one in found:
            if format == "jsonl":
                line = json.dumps(_as_dict(one), ensure_ascii=False, separators=(",", ":"))
            else:
                line = f"- {_time(one.timestamp)} `{one.id}` {' '.join(one.text.split())}"
            room -= budget.tokens(line)
            if lines and room < 0:
                break
            lines.append(line)
        more = len(found) == 200 or len(lines) < len(found)
        last = found[len(lines) - 1].id if more else None
        return _answer(Exported(content="\n".join(lines), memories=len(lines), next=last))

    def memory_introspect(
        self, topic: Text, max_tokens: MaxTokens = 2000, namespace: Namespace = None
    ) -> Annotated[CallToolResult, Report]:
        """Say what is known about a topic: how much, how old, how sure."""
        with self._spaces.use(namespace) as memory:
            report = _plain(memory.introspect(topic).as_dict())
        for name in ("oldest", "newest"):
            if name in report:
                report[name] = _time(report[name])
        return _report(report, max_tokens)

    def memory_compute_importance(
        self,
        text: Text,
        interest: Share = None,
        challenge: Share = None,
        urgency: Share = None,
        valence: Annotated[Valence, Field(description="Stored, does not change it.")] = None,
        arousal: Annotated[Arousal, Field(description="Stored, does not change it.")] = None,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, Report]:
        """Say what importance a text would get; nothing is stored."""
        with self._spaces.use(namespace) as memory:
            weight = memory.compute_importance(
                text, interest=interest, challenge=challenge, urgency=urgency
            )
        return _report(_plain(weight._asdict()), 2000)


def _by_profile(stats: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, int]]:
    """What was reported of each profile, over all contexts: there may be thousands of these."""
    totals: dict[str, dict[str, int]] = {}
    for context in stats.values():
        for profile, arm in context.items():
            total = totals.setdefault(profile, {"signals": 0, "positives": 0})
            for name in total:
                total[name] += arm[name]
    return totals


def _item(memory: Memory) -> dict[str, Any]:
    return {
        "id": memory.id,
        "text": memory.text,
        "tags": list(memory.tags) or None,
        "tier": memory.type,
        "time": _time(memory.timestamp),
        "session": memory.session,
        "author": memory.author,
        "context": memory.context,
    }


def _as_dict(memory: Memory) -> dict[str, Any]:
    values = {name: getattr(memory, name) for name in memory.__slots__}
    for name in ("timestamp", "created", "updated"):
        values[name] = _time(values[name])
    plain: dict[str, Any] = _plain(values)
    return plain


def _time(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds // 1000, timezone.utc)
    return moment.isoformat().replace("+00:00", "Z")


def _plain(value: object) -> Any:
    """What JSON can hold, without what is empty."""
    if isinstance(value, Mapping):
        plain = {str(key): _plain(inner) for key, inner in value.items()}
        return {key: inner for key, inner in plain.items() if inner not in (None, [], {}, "")}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(inner) for inner in value]
    if isinstance(value, (str, int, float)) or value is None:
        return value
    return str(value)


def _how_to_read_on(note: str) -> str | None:
    if "cut" in note or "left out" in note:
        note += "; memory_inspect shows one whole, a larger max_tokens shows more"
    return note or None


def _report(report: dict[str, Any], max_tokens: int) -> CallToolResult:
    fitting, note = budget.fit_report(report, max_tokens)
    return _answer(Report(**fitting, **({"note": note} if note else {})))


def _answer(model: BaseModel) -> CallToolResult:
    """The document as text for the model and as data for the client."""
    text = model.model_dump_json(exclude_none=True)
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=json.loads(text)
    )


def available(all_of_them: bool) -> list[Spec]:
    """The tools to list."""
    return [
        spec
        for spec in SPECS
        if (all_of_them or spec.default)
        and all(hasattr(SpectorMemory, name) for name in spec.needs)
    ]
