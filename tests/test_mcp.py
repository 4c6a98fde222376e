"""The MCP server, driven by the SDK's own client (MCP-1 to MCP-8, GEN-5, API-6, PER-10)."""

import contextlib
import json
import random
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shell import environment, spector
from spector import SpectorMemory
from spector import mcp as door

pytest.importorskip("mcp", reason="the SDK belongs to the extra mcp")

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from spector.mcp import budget
from spector.mcp.server import make_server
from spector.mcp.spaces import OpenSpaces
from spector.mcp.tools import SPECS, available

ROOT = Path(__file__).parents[1]

#: The parameters of the specification; with * those that must be given.
PARAMETERS = {
    "memory_recall": "query* top_k profile synaptic_filter min_importance min_valence max_valence"
    " recall_mode text_search_mode scoring_mode namespace point_in_time max_tokens",
    "memory_remember": "text* id tags source tier interest challenge urgency valence arousal"
    " namespace metadata session about",
    "memory_reinforce": "memory_id* valence* namespace",
    "memory_forget": "memory_id* namespace",
    "memory_inspect": "memory_id* namespace max_tokens",
    "memory_suppress": "memory_id* action* reason namespace",
    "memory_resolve": "memory_id* resolved* namespace",
    "memory_scratchpad": "text* namespace",
    "memory_reminder": "text* delay_seconds* tags namespace",
    "memory_browse": "tags* limit after namespace max_tokens",
    "memory_export": "format after namespace max_tokens",
    "memory_introspect": "topic* namespace max_tokens",
    "memory_status": "namespace",
    "memory_why_not": "memory_id* query* top_k namespace max_tokens",
    "memory_graph_recall": "start_entity query target_entity max_hops entity_types relation_types"
    " include_memories top_paths namespace max_tokens",
    "memory_compute_importance": "text* interest challenge urgency valence arousal namespace",
}
EIGHT = {
    *("memory_recall", "memory_remember", "memory_reinforce", "memory_forget"),
    *("memory_inspect", "memory_browse", "memory_status", "memory_why_not"),
}


@contextlib.asynccontextmanager
async def served(path, all_tools=True):
    """A client of a server in this process."""
    spaces = OpenSpaces(path)
    try:
        async with Client(make_server(spaces, all_tools=all_tools)) as client:
            yield client
    finally:
        spaces.close()


def calls(path, *wanted):
    """The answers to some calls, as data or as the text of an error."""

    async def run():
        async with served(path) as client:
            return [await answer(client, name, **arguments) for name, arguments in wanted]

    return anyio.run(run)


async def answer(client, name, **arguments):
    result = await client.call_tool(name, arguments)
    text = result.content[0].text
    if result.is_error:
        return text
    assert json.loads(text) == result.structured_content
    return result.structured_content


def test_tools_have_the_parameters_of_the_specification(tmp_path):
    """MCP-1 to MCP-8."""

    async def run():
        async with served(tmp_path) as client:
            return (await client.list_tools()).tools

    listed = {tool.name: tool for tool in anyio.run(run)}
    assert set(listed) == {spec.name for spec in available(True)}
    for name, tool in listed.items():
        schema = tool.input_schema
        required = set(schema.get("required", ()))
        found = {each + "*" * (each in required) for each in schema["properties"]}
        assert found == set(PARAMETERS[name].split()), name
        assert schema["additionalProperties"] is False
        assert tool.output_schema["type"] == "object"
        assert tool.description


def test_eight_tools_are_listed_by_default_and_cost_little(tmp_path):
    assert {spec.name for spec in SPECS if spec.default} == EIGHT
    assert set(PARAMETERS) == {spec.name for spec in SPECS}

    async def run():
        async with served(tmp_path, all_tools=False) as client:
            return (await client.list_tools()).tools

    tools = anyio.run(run)
    assert {tool.name for tool in tools} == {spec.name for spec in available(False)} <= EIGHT
    shown = [[tool.name, tool.description, tool.input_schema] for tool in tools]
    assert budget.tokens(json.dumps(shown)) < 2000


def test_a_tool_without_its_method_is_not_listed(monkeypatch):
    monkeypatch.delattr(SpectorMemory, "browse")
    names = {spec.name for spec in available(True)}
    assert "memory_browse" not in names
    assert "memory_recall" in names


def test_annotations(tmp_path):
    async def run():
        async with served(tmp_path) as client:
            return (await client.list_tools()).tools

    hints = {tool.name: tool.annotations for tool in anyio.run(run)}
    assert hints["memory_recall"].read_only_hint is True
    assert hints["memory_recall"].destructive_hint is False
    assert hints["memory_remember"].read_only_hint is False
    assert hints["memory_forget"].destructive_hint is True
    assert hints["memory_forget"].idempotent_hint is True
    assert all(hint.open_world_hint is False for hint in hints.values())


def test_a_round_of_calls(tmp_path):
    stored, found, seen, listed, status, gone, after = calls(
        tmp_path,
        ("memory_remember", {"text": "Deploy failed: ERR_CONN_RESET", "id": "m1", "tags": "A, b"}),
        ("memory_recall", {"query": "why did the deploy fail?", "synaptic_filter": "a,b"}),
        ("memory_inspect", {"memory_id": "m1"}),
        ("memory_browse", {"tags": ["b"]}),
        ("memory_status", {}),
        ("memory_forget", {"memory_id": "m1"}),
        ("memory_recall", {"query": "deploy"}),
    )
    assert stored == {"id": "m1", "done": "remembered"}
    (hit,) = found["hits"]
    assert hit["id"] == "m1"
    assert hit["tags"] == ["a", "b"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", hit["time"])
    assert seen["text"] == "Deploy failed: ERR_CONN_RESET"
    assert seen["importance"] > 0
    assert [one["id"] for one in listed["memories"]] == ["m1"]
    assert status["documents"] == 1
    assert "path" not in status
    assert gone == {"id": "m1", "done": "forgotten"}
    assert after["hits"] == []
    assert "nothing found" in after["note"]


def test_what_remember_takes_is_stored(tmp_path):
    """MCP-2."""
    given = {
        "text": "Alice prefers short answers",
        "id": "x",
        "tags": ["style"],
        "source": "chat",
        "tier": "episodic",
        "interest": 1,
        "challenge": 0.5,
        "urgency": 0,
        "valence": -5,
        "arousal": 9,
        "session": "s1",
        "about": "Alice",
        "metadata": {"n": [1, None]},
    }
    calls(tmp_path, ("memory_remember", given))
    with SpectorMemory.open(tmp_path) as memory:
        stored = memory.inspect("x")
    assert (stored.text, stored.tags, stored.source, stored.type) == (
        *("Alice prefers short answers", ("style",)),
        *("chat", "episodic"),
    )
    assert (stored.valence, stored.arousal, stored.session) == (-5, 9, "s1")
    assert stored.about == ("Alice",)
    assert stored.metadata == {"n": [1, None]}


def test_conditions_of_a_recall(tmp_path):
    """MCP-1: what is given reaches the recall."""
    many = [("memory_remember", {"text": f"word {n}", "valence": n}) for n in range(9)]
    *_, top, low, plain, keyword = calls(
        tmp_path,
        *many,
        ("memory_recall", {"query": "word", "top_k": 2}),
        ("memory_recall", {"query": "word", "min_valence": 3, "max_valence": 4, "top_k": 50}),
        ("memory_recall", {"query": "word", "scoring_mode": "similarity", "min_importance": 0.1}),
        ("memory_recall", {"query": "word", "text_search_mode": "KEYWORD_ONLY", "profile": None}),
    )
    assert len(top["hits"]) == 2
    assert len(low["hits"]) == 2
    assert len(plain["hits"]) == len(keyword["hits"]) == 5


WRONG = [
    ("memory_recall", {"quer": "x"}, "memory_recall has no argument 'quer'; did you mean 'query'?"),
    ("memory_recall", {}, "memory_recall: argument query is missing (needed: query)"),
    ("memory_recall", {"query": 5}, "argument query: input should be a valid string, got 5"),
    ("memory_recall", {"query": "x", "top_k": "5"}, "argument top_k: input should be a valid int"),
    ("memory_recall", {"query": "x", "top_k": True}, "argument top_k: "),
    ("memory_recall", {"query": "x", "top_k": 51}, "less than or equal to 50, got 51"),
    ("memory_recall", {"query": "x", "top_k": 0}, "greater than or equal to 1, got 0"),
    ("memory_recall", {"query": "x", "text_search_mode": "hybrd"}, "did you mean 'hybrid'?"),
    ("memory_recall", {"query": "x", "namespace": "nowhere"}, "there is no namespace 'nowhere'"),
    ("memory_remember", {"text": ""}, "argument text: string should have at least 1 character"),
    ("memory_remember", {"text": "x", "tier": "core"}, "'working', 'episodic', 'semantic' or"),
    ("memory_remember", {"text": "x", "interest": 2}, "argument interest: "),
    ("memory_remember", {"text": "x", "tags": [1]}, "argument tags: "),
    ("memory_remember", {"text": "x", "valence": 128}, "less than or equal to 127, got 128"),
    ("memory_remember", {"text": "x", "metadata": "no"}, "argument metadata: "),
    ("memory_forget", {"memory_id": "zz"}, "memory_forget: no memory has the id 'zz'"),
    ("memory_inspect", {"memory_id": "zz"}, "no memory has the id 'zz'"),
    ("memory_inspect", {"memory_id": "x", "max_tokens": 5}, "greater than or equal to 100, got 5"),
    ("memory_browse", {}, "argument tags is missing"),
    ("memory_browse", {"tags": [], "after": "zz"}, "zz"),
    ("memory_nonsense", {}, "memory_nonsense"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), WRONG)
def test_errors_say_what_to_do(tmp_path, name, arguments, message):
    """GEN-5: an unknown or missing argument, a wrong type, an unknown id is named."""
    (said,) = calls(tmp_path, (name, arguments))
    assert isinstance(said, str)
    assert message in said
    assert "Traceback" not in said
    assert "pydantic" not in said


def test_a_fault_of_ours_is_not_shown_and_does_not_end_the_server(tmp_path, monkeypatch, caplog):
    def broken(*_, **__):
        raise RuntimeError("secret")

    monkeypatch.setattr(SpectorMemory, "recall", broken)
    failed, status = calls(tmp_path, ("memory_recall", {"query": "x"}), ("memory_status", {}))
    assert failed == "Error executing tool memory_recall"
    assert status["documents"] == 0
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    ("valence", "expected"),
    [
        *(("strongly_positive", 100), ("positive", 50), ("neutral", 0)),
        *(("negative", -50), ("strongly_negative", -100), (7, 7)),
    ],
)
def test_valences_of_reinforce(tmp_path, valence, expected):
    """MCP-3, PAD-7: the memory moves three tenths of the way."""
    _, done, seen = calls(
        tmp_path,
        ("memory_remember", {"text": "word", "id": "m1"}),
        ("memory_reinforce", {"memory_id": "m1", "valence": valence}),
        ("memory_inspect", {"memory_id": "m1"}),
    )
    assert done["id"] == "m1"
    assert seen["valence"] == round(0.3 * expected)
    assert seen["recall_count"] == 1


@pytest.mark.parametrize("valence", ["great", 128, 1.5, None, True])
def test_other_valences_are_refused(tmp_path, valence):
    (said,) = calls(tmp_path, ("memory_reinforce", {"memory_id": "m1", "valence": valence}))
    assert "argument valence: input should be 'strongly_positive', " in said


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_reinforce", {"valence": "positive"}),
        ("memory_suppress", {"action": "SUPPRESS"}),
        ("memory_suppress", {"action": "UNSUPPRESS"}),
        ("memory_resolve", {"resolved": True}),
        ("memory_forget", {}),
        ("memory_inspect", {}),
    ],
)
def test_unknown_ids_are_errors(tmp_path, name, arguments):
    """GEN-5."""
    (said,) = calls(tmp_path, (name, {"memory_id": "zz", **arguments}))
    assert said == f"{name}: no memory has the id 'zz'"


def test_suppress_and_resolve(tmp_path):
    """MCP-4, SUP-1."""
    _, _, hidden, held, _, shown, _, waits, _, settled = calls(
        tmp_path,
        ("memory_remember", {"text": "word", "id": "m"}),
        ("memory_suppress", {"memory_id": "m", "action": "SUPPRESS", "reason": "old"}),
        ("memory_recall", {"query": "word"}),
        ("memory_inspect", {"memory_id": "m"}),
        ("memory_suppress", {"memory_id": "m", "action": "UNSUPPRESS"}),
        ("memory_recall", {"query": "word"}),
        ("memory_resolve", {"memory_id": "m", "resolved": False}),
        ("memory_inspect", {"memory_id": "m"}),
        ("memory_resolve", {"memory_id": "m", "resolved": True}),
        ("memory_inspect", {"memory_id": "m"}),
    )
    assert hidden["hits"] == []
    assert held["suppressed"] == "old"
    assert [hit["id"] for hit in shown["hits"]] == ["m"]
    assert waits["unresolved"] is True
    assert settled["unresolved"] is False


def test_scratchpad_and_reminder(tmp_path):
    """MCP-5, IMP-4: the reminder stands first, once, whatever is asked."""
    noted, later, due, seen, first, again = calls(
        tmp_path,
        ("memory_scratchpad", {"text": "try port 5433"}),
        ("memory_reminder", {"text": "water the plants", "delay_seconds": 3600}),
        ("memory_reminder", {"text": "call Bob", "delay_seconds": 0, "tags": "phone"}),
        ("memory_inspect", {"memory_id": "m"}),
        ("memory_recall", {"query": "port"}),
        ("memory_recall", {"query": "port"}),
    )
    with SpectorMemory.open(tmp_path) as memory:
        assert memory.inspect(noted["id"]).type == "working"
        assert memory.inspect(due["id"]).tags == ("phone",)
    assert later["done"].startswith("due 2")
    assert "no memory has the id" in seen
    assert [(hit["id"], hit.get("mode")) for hit in first["hits"]] == [
        (due["id"], "reminder"),
        (noted["id"], None),
    ]
    assert [hit["id"] for hit in again["hits"]] == [noted["id"]]


def test_profiles_modes_and_time(tmp_path):
    """MCP-1, PAD-1, PRO-14: what is given reaches the recall, and the answer names the profile."""
    with SpectorMemory.open(tmp_path, clock=lambda: 1_900_000_000_000) as memory:
        memory.remember("an old word", id="old")
    _, plain, auto, named, quiet, then, wrong, mode, when = calls(
        tmp_path,
        ("memory_remember", {"text": "a new word", "id": "new"}),
        ("memory_recall", {"query": "word"}),
        ("memory_recall", {"query": "word", "profile": "auto"}),
        ("memory_recall", {"query": "word", "profile": "Exploring"}),
        ("memory_recall", {"query": "word", "recall_mode": "observe"}),
        ("memory_recall", {"query": "word", "point_in_time": "1999-01-01"}),
        ("memory_recall", {"query": "word", "profile": "exploding"}),
        ("memory_recall", {"query": "word", "recall_mode": "watch"}),
        ("memory_recall", {"query": "word", "point_in_time": "yesterday"}),
    )
    assert plain["profile"] == auto["profile"] == quiet["profile"] == "balanced"
    assert named["profile"] == "exploring"
    assert then["hits"] == []
    assert "did you mean 'exploring'" in wrong
    assert "argument recall_mode: input should be 'learn' or 'observe', got 'watch'" in mode
    assert "ISO 8601" in when


def test_status_tells_what_was_learned(tmp_path):
    """MCP-6: lateral metrics and the contexts of the bandit."""
    *_, status = calls(
        tmp_path,
        ("memory_remember", {"text": "word", "id": "m"}),
        ("memory_recall", {"query": "word", "profile": "auto"}),
        ("memory_reinforce", {"memory_id": "m", "valence": "positive"}),
        ("memory_status", {}),
    )
    assert status["bandit_contexts"] == 1
    assert status["profiles"] == {"balanced": {"signals": 1, "positives": 1}}
    assert status["lateral"]["enabled"] is True


def test_introspect_why_not_and_importance(tmp_path):
    """MCP-6, MCP-7."""
    *_, known, reason, found, unknown, weight = calls(
        tmp_path,
        ("memory_remember", {"text": "db-7 was replaced", "id": "m", "tags": "db"}),
        ("memory_remember", {"text": "lunch at noon", "id": "n"}),
        ("memory_introspect", {"topic": "db-7"}),
        ("memory_why_not", {"memory_id": "n", "query": "db-7", "top_k": 3}),
        ("memory_why_not", {"memory_id": "m", "query": "db-7"}),
        ("memory_why_not", {"memory_id": "zz", "query": "db-7"}),
        ("memory_compute_importance", {"text": "x", "interest": 1.0, "valence": 3}),
    )
    assert "db-7" in json.dumps(known)
    assert reason["summary"] and found["summary"]
    assert reason["summary"] != found["summary"]
    assert "no memory has the id 'zz'" in unknown
    assert 0.05 <= weight["importance"] <= 10


def test_graph_recall(tmp_path):
    """MCP-8."""
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember(
            "Ann manages the launch",
            id="a",
            entities=[("Ann", "PERSON"), ("Launch", "PROJECT")],
            relations=[("Ann", "MANAGES", "Launch")],
        )
        memory.remember("The budget of the launch is 40,000", id="b", entities=["Launch"])
    by_name, by_text, bare, nothing, unknown, kind, both = calls(
        tmp_path,
        ("memory_graph_recall", {"start_entity": "ann", "target_entity": "launch"}),
        ("memory_graph_recall", {"query": "what does Ann do?", "max_hops": 0}),
        ("memory_graph_recall", {"start_entity": "Ann", "include_memories": False}),
        ("memory_graph_recall", {"query": "something else"}),
        ("memory_graph_recall", {"start_entity": "Anne"}),
        ("memory_graph_recall", {"start_entity": "Ann", "relation_types": "MANGES"}),
        ("memory_graph_recall", {"start_entity": "Ann", "query": "Ann"}),
    )
    assert by_name["paths"] == ["Ann -MANAGES-> Launch"]
    assert by_name["facts"] == ["Ann -MANAGES-> Launch"]
    assert {one["id"] for one in by_name["memories"]} == {"a", "b"}
    assert [one["name"] for one in by_name["entities"]] == ["Ann", "Launch"]
    assert [one["id"] for one in by_text["memories"]] == ["a"]
    assert "memories" not in bare
    assert nothing["start"] == [] and "names nothing" in nothing["note"]
    assert "no entity is called 'Anne'; did you mean 'Ann'?" in unknown
    assert "relation_types: there is no type 'MANGES'; did you mean 'MANAGES'?" in kind
    assert "give start_entity or query" in both


def test_export_gives_every_memory_once_in_parts(tmp_path):
    """MCP-6."""
    with SpectorMemory.open(tmp_path) as memory:
        ids = memory.remember_many([{"text": f"word {n} " * 20} for n in range(250)])

    async def run(format):
        parts, after = [], {}
        async with served(tmp_path) as client:
            while True:
                part = await answer(
                    client, "memory_export", format=format, max_tokens=2000, **after
                )
                assert budget.tokens(part["content"]) <= 2000
                parts.append(part["content"])
                if "next" not in part:
                    return parts
                after = {"after": part["next"]}

    lines = "\n".join(anyio.run(run, "jsonl")).splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == sorted(ids)
    lines = "\n".join(anyio.run(run, "markdown")).splitlines()
    assert sorted(re.findall(r"`(\w+)`", "\n".join(lines))) == sorted(ids)


# Budgets


def test_long_texts_are_cut_and_it_is_said(tmp_path):
    """Results of any length fit into max_tokens: clients refuse what is too long."""
    long = [("memory_remember", {"text": f"word {n} " * 2000, "id": f"m{n}"}) for n in range(9)]
    *_, found, whole, listed, seen = calls(
        tmp_path,
        *long,
        ("memory_recall", {"query": "word", "top_k": 9, "max_tokens": 1000}),
        ("memory_recall", {"query": "nothing like it"}),
        ("memory_browse", {"tags": [], "max_tokens": 500}),
        ("memory_inspect", {"memory_id": "m1", "max_tokens": 300}),
    )
    assert len(found["hits"]) == 9
    assert budget.tokens(json.dumps(found)) < 1100
    assert "9 texts were cut to fit max_tokens=1000; memory_inspect" in found["note"]
    for hit in found["hits"]:
        assert hit["text"].endswith(" [...]")
        assert hit["cut"] + len(hit["text"]) - len(" [...]") == 2000 * len("word 1 ")
    assert whole["hits"] == []
    assert budget.tokens(json.dumps(listed)) < 600
    assert budget.tokens(json.dumps(seen)) < 350
    assert "cut to fit max_tokens=300" in seen["note"]


texts = st.text(max_size=400)


@given(st.lists(texts, max_size=30), st.integers(100, 3000))
def test_items_fit_and_short_texts_stay_whole(given_texts, max_tokens):
    items = [{"id": str(n), "text": text} for n, text in enumerate(given_texts)]
    fitting, note = budget.fit(items, max_tokens)
    assert [item["id"] for item in fitting] == [item["id"] for item in items[: len(fitting)]]
    assert len(fitting) >= min(1, len(items))
    whole = sum(budget._size(item) for item in items) <= 4 * max_tokens - 100 * len(items)
    if whole:
        assert (fitting, note) == (items, "")
    for item, original in zip(fitting, items, strict=False):
        if "cut" in item:
            shown = item["text"].removesuffix(" [...]")
            assert original["text"].startswith(shown)
            assert item["cut"] == len(original["text"]) - len(shown)
            assert note
        else:
            assert item == original
    if len(fitting) > 1:
        # JSON writes a control character as six bytes, which the cut does not foresee.
        plain = json.dumps(fitting, ensure_ascii=False)
        assert budget.tokens(re.sub(r"\\u00..|\\.", "", plain)) <= max_tokens + 3 * len(fitting)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | texts,
        lambda inner: (
            st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5)
        ),
        max_leaves=20,
    ),
    st.integers(100, 2000),
)
def test_reports_keep_their_shape(document, max_tokens):
    fitting, note = budget.fit_report({"top": document}, max_tokens)

    def shape(value):
        if isinstance(value, dict):
            return {key: shape(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [shape(inner) for inner in value]
        return type(value) if isinstance(value, str) else value

    assert shape(fitting) == shape({"top": document})
    assert (fitting == {"top": document}) or note


# Namespaces


def test_namespaces_are_spaces_of_their_own(tmp_path):
    """GEN-1: nothing crosses spaces."""
    _, found, other, kept = calls(
        tmp_path,
        ("memory_remember", {"text": "word", "namespace": "team-a_1"}),
        ("memory_recall", {"query": "word", "namespace": "team-a_1"}),
        ("memory_recall", {"query": "word"}),
        ("memory_status", {"namespace": "team-a_1"}),
    )
    assert len(found["hits"]) == 1
    assert other["hits"] == []
    assert kept["documents"] == 1
    assert (tmp_path / "spaces" / "team-a_1" / "journal.db").is_file()


BAD_NAMES = ["", "..", "../x", "a/b", "a\\b", "/etc", "A", "a b", "é", "a\n", "x" * 65, "a.b", "\0"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_are_no_namespace(tmp_path, name):
    for tool, arguments in (
        ("memory_remember", {"text": "x"}),
        ("memory_recall", {"query": "x"}),
        ("memory_forget", {"memory_id": "x"}),
        ("memory_scratchpad", {"text": "x"}),
    ):
        (said,) = calls(tmp_path / "space", (tool, {**arguments, "namespace": name}))
        assert "argument namespace: string should match pattern" in said
    assert [each.name for each in tmp_path.iterdir()] == ["space"]
    assert not (tmp_path / "space" / "spaces").exists()


def test_asking_for_a_namespace_makes_none(tmp_path):
    calls(tmp_path, ("memory_recall", {"query": "x", "namespace": "typo"}))
    assert not (tmp_path / "spaces").exists()


def test_spaces_that_were_not_used_for_long_are_closed_and_opened_again(tmp_path):
    spaces = OpenSpaces(tmp_path, open_at_most=2)
    try:
        opened = []
        for name in "abcab":
            with spaces.use(name, create=True) as memory:
                memory.remember(name)
                opened.append(memory)
        assert [memory._space.journal.closed for memory in opened[:3]] == [True] * 3
        with spaces.use("a") as memory:
            assert len(memory) == 2
        with spaces.use("c", create=True) as kept, spaces.use("a"), spaces.use("b"):
            assert len(kept) == 1  # in use, so it stays open
    finally:
        spaces.close()


def test_spaces_may_be_used_by_many_threads(tmp_path):
    """API-6."""
    spaces = OpenSpaces(tmp_path, open_at_most=1)
    failures = []

    def work(seed):
        pick = random.Random(seed)
        try:
            for _ in range(20):
                with spaces.use(pick.choice("abc"), create=True) as memory:
                    memory.remember("word")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = 0
    for name in "abc":
        with spaces.use(name, create=True) as memory:
            total += len(memory)
    spaces.close()
    assert failures == []
    assert total == 80


def test_a_slow_call_does_not_hold_up_others(tmp_path, monkeypatch):
    """Calls run in worker threads: the loop that serves the clients never waits."""
    go_on = threading.Event()
    recall = SpectorMemory.recall

    def slow(self, *arguments, **keywords):
        assert go_on.wait(30)
        return recall(self, *arguments, **keywords)

    monkeypatch.setattr(SpectorMemory, "recall", slow)

    async def run():
        async with served(tmp_path) as client, anyio.create_task_group() as tasks:
            found = []

            async def ask():
                found.append(await answer(client, "memory_recall", query="x"))

            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            status = await answer(client, "memory_status")
            assert status["documents"] == 0
            assert found == []
            go_on.set()
        return found

    assert len(anyio.run(run)) == 1


# Processes and transports


def parameters(path, *options):
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "spector", "mcp", "--path", str(path), *options],
        env=environment(),
    )


@contextlib.contextmanager
def http_server(path, *options):
    """The address of a server in a process of its own."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "import sys; from spector.mcp import main; sys.exit(main())"),
            *("--path", str(path), "--transport", "http", "--port", "0", *options),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        line = process.stderr.readline()
        assert "listening on http://127.0.0.1:" in line, line + process.stderr.read()
        yield line.split()[-1]
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert "Traceback" not in said


async def mixed(client, name, count, seed):
    """Calls of all kinds; gives the ids that must be there afterwards."""
    pick = random.Random(seed)
    kept = []
    for number in range(count):
        kind = pick.choice(["remember", "remember", "recall", "browse", "forget", "inspect"])
        if kind == "remember" or not kept:
            done = await answer(client, "memory_remember", text=f"word {name} {number}")
            kept.append(done["id"])
        elif kind == "recall":
            found = await answer(client, "memory_recall", query=f"{name} {number}")
            assert len(found["hits"]) <= 5
        elif kind == "browse":
            assert (await answer(client, "memory_browse", tags=[]))["memories"]
        elif kind == "inspect":
            seen = await answer(client, "memory_inspect", memory_id=pick.choice(kept))
            assert f"word {name} " in seen["text"]
        else:
            done = await answer(client, "memory_forget", memory_id=kept.pop())
            assert done["done"] == "forgotten"
    return kept


def in_space(path):
    with SpectorMemory.open(path) as memory:
        return {one.id for one in memory.browse(limit=100_000)}


def test_two_clients_over_stdio_on_one_space(tmp_path):
    """PER-10: each client has a server process of its own, and nothing is lost."""

    async def one(name, kept):
        async with Client(stdio_client(parameters(tmp_path))) as client:
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools} <= EIGHT
            kept += await mixed(client, name, 40, name)

    async def run():
        kept = []
        async with anyio.create_task_group() as tasks:
            for name in ("a", "b"):
                tasks.start_soon(one, name, kept)
        return kept

    kept = anyio.run(run)
    assert set(kept) == in_space(tmp_path)


def test_four_clients_over_http_on_one_space(tmp_path):
    """API-6: one server, many clients, nothing is lost."""

    async def one(url, name, kept):
        async with Client(url) as client:
            kept += await mixed(client, name, 40, name)

    async def run(url):
        kept = []
        async with anyio.create_task_group() as tasks:
            for name in "abcd":
                tasks.start_soon(one, url, name, kept)
        return kept

    with http_server(tmp_path) as url:
        kept = anyio.run(run, url)
    assert set(kept) == in_space(tmp_path)


def test_clients_of_earlier_protocols_work_too(tmp_path):
    """Most clients still begin with `initialize`."""

    async def run(client):
        async with client:
            assert client.protocol_version < "2026"
            assert (await client.list_tools()).tools
            await answer(client, "memory_remember", text="word")
            return len((await answer(client, "memory_recall", query="word"))["hits"])

    assert anyio.run(run, Client(stdio_client(parameters(tmp_path)), mode="legacy")) == 1
    with http_server(tmp_path) as url:
        assert anyio.run(run, Client(url, mode="legacy")) == 2


def test_http_refuses_other_hosts(tmp_path):
    """A page in a browser must not reach the server by a name that it made point here."""
    with http_server(tmp_path) as url:
        request = urllib.request.Request(
            url, b"{}", {"Content-Type": "application/json", "Host": "evil.example"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        refused.value.close()
        assert refused.value.code in (403, 421)


def test_a_warning_does_not_get_into_the_answers(tmp_path):
    """Standard output is the protocol's alone."""
    (tmp_path / "journal.db-wal").write_bytes(b"left over")

    async def run():
        async with Client(stdio_client(parameters(tmp_path, "--tools", "all"))) as client:
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools} == {spec.name for spec in available(True)}
            return await answer(client, "memory_status")

    assert anyio.run(run)["set_aside"]


def test_the_server_ends_when_its_input_does(tmp_path):
    done = spector("mcp", "--path", tmp_path)
    assert done.out == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_server_that_waits_for_input(tmp_path, number):
    """After an answer, so that it surely waits; its input stays open."""
    code = "import sys; from spector.mcp import main; sys.exit(main())"
    server = subprocess.Popen(
        [sys.executable, "-c", code, "--path", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    server.stdin.write(json.dumps(request).encode() + b"\n")
    server.stdin.flush()
    assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "spector"
    server.send_signal(number)
    try:
        assert server.wait(timeout=60) == 128 + number
    finally:
        server.kill()
        out, err = server.communicate()
    assert (out, err) == (b"", b"")


def test_the_server_heeds_the_configuration_of_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECTOR_MEMORY_RECALL_MIN_VALENCE", "3")
    *_, found = calls(
        tmp_path,
        *[("memory_remember", {"text": f"word {n}", "valence": n}) for n in range(5)],
        ("memory_recall", {"query": "word"}),
    )
    assert len(found["hits"]) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--path", "x", "--tools", "many"], 2, "invalid choice: 'many'"),
        (["--path", "x", "--transport", "http", "--port", "99999"], 1, "port 99999"),
        ([], 2, "--path"),
    ],
)
def test_wrong_usage(tmp_path, monkeypatch, capfd, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPECTOR_PATH", raising=False)
    try:
        assert door.main(arguments) == code
    except SystemExit as stop:
        assert stop.code == code
    assert message in capfd.readouterr().err


def test_a_folder_that_cannot_be_opened_is_named(tmp_path, capfd):
    file = tmp_path / "file"
    file.write_text("")
    assert door.main(["--path", str(file)]) == 1
    said = capfd.readouterr().err
    assert said.startswith("spector-mcp: ")
    assert str(file) in said


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(door, "find_spec", lambda name: None)
    assert door.main(["--path", str(tmp_path / "x")]) == 1
    assert 'pip install "spector[mcp]"' in capfd.readouterr().err
    assert not (tmp_path / "x").exists()


def test_the_door_is_light():
    """The module that says what is missing imports nothing of it."""
    code = "import sys, spector.mcp; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"mcp", "pydantic", "uvicorn", "anyio"}


def test_the_benchmark_finds_every_write():
    run = "from bench.mcp import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", run, "--calls", "40", "--transport", "stdio"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "no error, all" in done.stdout
