"""Widening by the graph (EXP, XCP, AM-5, AM-7, AM-10, AM-13) and how the journal feeds it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spector.recall.expansion as expansion
from spector import Hit, SpectorMemory
from spector.store.graphs import WINDOW, Graphs
from spector.store.names import NameIndex


@pytest.fixture
def memory() -> Any:
    with SpectorMemory.ephemeral(seed=1) as memory:
        yield memory


def ids(hits: Any) -> list[str]:
    return [hit.id for hit in hits]


def tell(memory: SpectorMemory, session: str, *texts: str, **fields: Any) -> None:
    for text in texts:
        memory.remember(text, id=text.split()[0], session=session, **fields)


# --- feeding ------------------------------------------------------------------------------------


def state(memory: SpectorMemory) -> dict[str, Any]:
    graphs: Graphs = memory._space.replica.graphs
    edges = graphs.hebbian.edges()
    chain = graphs.temporal.records()
    about = {}
    for entity in range(len(graphs.entities)):
        slots = sorted(graphs.entities.memories_for_entity(entity).tolist())
        if slots:
            about[graphs.entities.name(entity)] = slots
    return {
        "hebbian": sorted(
            zip(edges.a.tolist(), edges.b.tolist(), np.round(edges.weight, 6).tolist(), strict=True)
        ),
        "chain": [chain.prev.tolist(), chain.next.tolist(), chain.session.tolist()],
        "tags": graphs.coactivation.tags(),
        "pairs": graphs.coactivation.pairs(),
        "entries": graphs.capture.stats(),
        "about": about,
    }


@pytest.mark.parametrize("seed", range(6))
def test_a_replay_and_another_handle_give_the_live_graph(tmp_path: Path, seed: int) -> None:
    """HEB-5, TMP-3, TMP-5, COA-1, XCP-1, AM-14: equal after any history."""
    chance = random.Random(seed)
    with SpectorMemory.open(tmp_path) as live, SpectorMemory.open(tmp_path) as other:
        present: list[str] = []
        for step in range(120):
            if present and chance.random() < 0.15:
                live.forget(present.pop(chance.randrange(len(present))))
                continue
            items = []
            for _ in range(chance.choice([1, 1, 3])):
                name = f"m{chance.randrange(60)}"
                if name not in present:
                    present.append(name)
                items.append(
                    {
                        "text": f"text of {name} at {step}",
                        "id": name,
                        "session": chance.choice([None, "a", "b", "c"]),
                        "tags": chance.sample(["red", "green", "blue"], chance.randrange(3)),
                        "about": chance.sample(["Ann", "Bob (actor)"], chance.randrange(2)),
                    }
                )
            live.remember_many(items)
            if chance.random() < 0.1:
                other.recall("text")
        other.recall("text")
        assert state(other) == state(live)
        expected = state(live)
    with SpectorMemory.open(tmp_path) as again:
        assert state(again) == expected
        assert expected["hebbian"] and expected["pairs"] and expected["about"]


def test_the_chain_and_the_window_of_a_session(memory: SpectorMemory) -> None:
    """TMP-3, HEB-5, AM-14: one link to the memory before, edges to the last eight."""
    for number in range(WINDOW + 3):
        memory.remember("x", id=str(number), session=("odd" if number % 2 else "even"))
    graphs = memory._space.replica.graphs
    chain = graphs.temporal.records()
    slots = list(range(1, WINDOW + 4))
    assert [int(chain.prev[slot]) for slot in slots] == [-1, -1, *slots[:-2]]
    edge = graphs.hebbian.edge(1, 3)
    far = graphs.hebbian.edge(1, 5)
    assert edge is not None and far is not None
    assert edge.weight == pytest.approx(0.3) and far.weight == pytest.approx(0.15)
    assert graphs.hebbian.edge(1, 2) is None  # of another session (HEB-6)
    memory.remember("y", id="0", session="even")  # told again: counts again, keeps its place
    assert [int(graphs.temporal.records().prev[slot]) for slot in slots][:3] == [-1, -1, 1]


def test_forget_leaves_every_layer(memory: SpectorMemory) -> None:
    """EXP-3, HEB-12, TMP-5, COA-1, XCP-1: nothing forgotten comes back over an edge."""
    tell(memory, "s", "one apple", "two pears", "three plums", tags=["fruit", "food"])
    memory.remember("about four", id="four", about="Four", session="s", author="Dan")
    for gone in ("two", "four"):
        memory.forget(gone)
    graphs = memory._space.replica.graphs
    assert graphs.temporal.next(1) == 3
    assert graphs.hebbian.edge(1, 2) is None
    assert graphs.capture.stats()["memories"] == 2
    assert graphs.coactivation.co_activation("fruit", "food") == 2
    assert ids(memory.recall("apple Four")) == ["one", "three"]
    # The next of the session comes after the last one that is left.
    tell(memory, "s", "five figs")
    graphs = memory._space.replica.graphs
    assert graphs.temporal.prev(5) == 3


# --- steps --------------------------------------------------------------------------------------


def test_scenario_of_a_slow_app(memory: SpectorMemory) -> None:
    """EXP-10: session, chain, entity and tags each add what no list could find."""
    tell(memory, "mon", "latency application is slow", "pool connection settings")
    tell(memory, "mon", "timeout config", "retry backoff")
    memory.remember("alerting rules", id="alerting", tags=["prometheus", "latency"])
    memory.remember("slow dashboards", id="dash", tags=["latency", "app"])
    memory.remember("its owner is Alice", id="owner", about="DatabaseService")
    memory.remember(
        "slow app blames DatabaseService", id="blame", tags=["app"], entities=["DatabaseService"]
    )
    event = ["Alice", "Project Alpha", "DatabaseService"]
    memory.remember("she took it over", id="event", entities=event)
    plain = memory.recall("why is the app slow?", graph_expansion=False)
    wide = memory.recall("why is the app slow?", trace=True)
    assert set(ids(plain)) == {"latency", "dash", "blame"}
    added = {hit.id: {edge.layer for edge in hit.trace} for hit in wide}
    assert {"temporal", "hebbian"} <= added["pool"] and "temporal" in added["retry"]
    assert added["event"] == {"entity"}
    assert len(memory._space.replica.graphs.mentions.hyper) == 1
    assert "mention" in added["owner"] and "cross_capture" in added["alerting"]


def test_layers_can_be_left_out(memory: SpectorMemory) -> None:
    """EXP-1: by weight 0, by `graph_expansion`, and in modes without a graph."""
    tell(memory, "s", "one apple", "two pears")
    assert ids(memory.recall("apple")) == ["one", "two"]
    for options in (
        {"graph_expansion": False},
        {"scoring_mode": "similarity"},
        {"text_search_mode": "keyword_only"},
        {"graph_weights": {"temporal": 0, "hebbian": 0}},
    ):
        assert ids(memory.recall("apple", **options)) == ["one"], options


def test_only_what_the_filter_allows_is_added(memory: SpectorMemory) -> None:
    """EXP-3."""
    tell(memory, "s", "one apple", "two pears", type="episodic")
    tell(memory, "s", "three plums", type="semantic")
    assert ids(memory.recall("apple", type="episodic")) == ["one", "two"]


def test_no_score_falls(memory: SpectorMemory) -> None:
    """EXP-4, AM-5, AM-13: the graph adds; what it does not reach keeps its score."""
    tell(memory, "s", "one apple apple", "two apple and pears", "three apple plums")
    memory.remember("apple far away", id="far")
    before = {hit.id: hit.score for hit in memory.recall("apple", graph_expansion=False)}
    after = {hit.id: hit.score for hit in memory.recall("apple")}
    assert after.keys() == before.keys()
    assert after["far"] == pytest.approx(before["far"], rel=1e-6)
    assert all(after[name] > before[name] for name in ("one", "two", "three"))


def test_the_strongest_path_of_a_layer_counts(memory: SpectorMemory) -> None:
    """EXP-4, EXP-6, AM-5: the number of paths does not, and it is returned once."""
    tell(memory, "s", "one apple", "two apple", "three apple", "four nothing")
    (hit,) = [hit for hit in memory.recall("apple", trace=True) if hit.id == "four"]
    temporal = [edge.gain for edge in hit.trace if edge.layer == "temporal"]
    hebbian = [edge.gain for edge in hit.trace if edge.layer == "hebbian"]
    assert len(temporal) == 3
    assert hit.score == pytest.approx(max(temporal) + max(hebbian), rel=1e-5)


def test_results_are_ordered_by_score_and_cut(memory: SpectorMemory) -> None:
    """EXP-7, GEN-4: what the graph added takes its place among the others."""
    tell(memory, "s", "one apple", "two pears", "three plums", "four figs")
    memory.remember("an apple among so many other words that it matters little", id="far")
    hits = memory.recall("apple")
    assert len(hits) == 5
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for k in range(1, 5):
        cut = memory.recall("apple", k=k)
        assert [(hit.id, hit.score) for hit in cut] == [(hit.id, hit.score) for hit in hits[:k]]


def test_additions_are_not_expanded(memory: SpectorMemory) -> None:
    """EXP-8: a step starts at the seeds only, three hops from them (TMP-4)."""
    told = ["one apple", "two", "three", "four", "five", "six"]
    tell(memory, "s", *told)
    weights = dict.fromkeys(("hebbian", "cross_capture", "mention"), 0)
    found = memory.recall("apple", graph_weights=weights)
    assert ids(found) == ["one", "two", "three", "four"]


def test_the_gate_keeps_out_what_is_weakly_associated(memory: SpectorMemory) -> None:
    """EXP-2: of what no list found; what a list found rises whatever the gate."""
    tell(memory, "s", "one apple", "two pears", "three apple")
    assert set(ids(memory.recall("apple", graph_expansion_threshold=0))) == {"one", "two", "three"}
    found = memory.recall("apple", graph_expansion_threshold=2, trace=True)
    assert set(ids(found)) == {"one", "three"}
    assert all(hit.trace for hit in found)
    with pytest.raises(ValueError, match=r"graph_expansion_threshold must be in \[0, 2\]"):
        memory.recall("apple", graph_expansion_threshold=2.5)


def test_a_trace_adds_up_and_changes_nothing(memory: SpectorMemory) -> None:
    """EXP-9: the numbers of the trace give the score, and without one it is the same."""
    tell(memory, "s", "one apple Ann", "two apple", "three plums", author="Ann")
    memory.remember("Ann grows an apple", id="about", about="Ann")
    lists = {hit.id: hit.score for hit in memory.recall("Ann apple", graph_expansion=False)}
    silent = memory.recall("Ann apple")
    traced = memory.recall("Ann apple", trace=True)
    assert [(hit.id, hit.score) for hit in silent] == [(hit.id, hit.score) for hit in traced]
    assert not any(hit.trace for hit in silent)
    for hit in traced:
        best: dict[str, float] = {}
        for edge in hit.trace:
            best[edge.layer] = max(edge.gain, best.get(edge.layer, 0.0))
        assert hit.score == pytest.approx(lists.get(hit.id, 0.0) + sum(best.values()), rel=1e-5)
        assert hit.why().startswith(f"{hit.score:.3f} = ")


@pytest.mark.parametrize("seed", range(8))
def test_what_is_not_traced_is_what_a_trace_adds_up(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EXP-9: one call for several layers gives the bits that the steps one by one give."""
    chance = random.Random(seed)
    vectors = np.random.default_rng(seed)
    people = [f"Person{number} Doe" for number in range(6)]
    things = [f"Thing{number}" for number in range(5)]
    words = ["apple", "pear", "plum", "fig", "quince"]
    layers = dict.fromkeys(("hebbian", "temporal", "entity"), 0)

    def text() -> str:
        return " ".join(chance.choices([*words, *people, *things], k=4))

    with SpectorMemory.ephemeral(seed=1) as memory:
        for number in range(150):
            named = chance.sample(people, chance.randrange(4))
            memory.remember(
                text(),
                id=f"m{chance.randrange(120)}",
                vector=vectors.standard_normal(8).astype(np.float32),
                session=chance.choice([None, "a", "b", "c"]),
                tags=chance.sample(["red", "green", "blue", "grey"], chance.randrange(3)),
                author=chance.choice([None, *people]),
                about=chance.sample(things, chance.randrange(2)),
                entities=[(name, "PERSON") for name in named],
                relations=[(named[0], "KNOWS", named[1])] if len(named) > 1 else [],
                timestamp=1_800_000_000_000 + 1000 * number,
            )
        for number in chance.sample(range(120), 15):
            if f"m{number}" in memory:
                memory.forget(f"m{number}")

        for _ in range(40):
            query = text()
            vector = vectors.standard_normal(8).astype(np.float32)
            options: dict[str, Any] = {"k": chance.choice([3, 10, 60])}
            if chance.random() < 0.3:
                options["tags"] = chance.sample(["red", "green"], 1)
            if chance.random() < 0.3:
                options["graph_expansion_threshold"] = chance.choice([0.1, 0.3])
            if chance.random() < 0.3:
                options["graph_weights"] = {chance.choice([*layers]): chance.choice([0, 0.7])}

            def ask(trace: bool, query: str = query, vector: Any = vector, **given: Any) -> Any:
                hits = memory.recall(query, vector=vector, trace=trace, **given)
                assert not hits.degraded
                return hits

            silent, traced = ask(False, **options), ask(True, **options)
            with monkeypatch.context() as patched:
                patched.setattr(expansion, "_TOGETHER", {})
                steps = ask(False, **options)
            found = [(hit.id, hit.score, hit.mode) for hit in silent]
            assert found == [(hit.id, hit.score, hit.mode) for hit in traced]
            assert found == [(hit.id, hit.score, hit.mode) for hit in steps]
            for hit in traced:
                for edge in hit.trace:
                    if edge.layer in layers:
                        layers[edge.layer] += 1
    assert all(layers.values())


def test_a_step_that_fails_is_left_out(
    memory: SpectorMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EXP-5: the answer is the one without it, and says so."""

    def broken(*_: object) -> None:
        raise RuntimeError("no such layer")

    tell(memory, "s", "one apple", "two pears")
    without = memory.recall("apple", graph_weights={"temporal": 0})
    monkeypatch.setitem(expansion.STEPS, "temporal", broken)
    hits = memory.recall("apple")
    assert [(hit.id, hit.score) for hit in hits] == [(hit.id, hit.score) for hit in without]
    assert hits.degraded == ("temporal: RuntimeError: no such layer",)
    monkeypatch.undo()
    with_all = memory.recall("apple")
    monkeypatch.setattr(expansion._core, "reach", broken)  # then each says for itself
    hits = memory.recall("apple")
    assert [(hit.id, hit.score) for hit in hits] == [(hit.id, hit.score) for hit in with_all]
    assert hits.degraded == ()


def test_exact_identifiers_stay_first(memory: SpectorMemory) -> None:
    """AM-13, BM25-7: nothing that the graph reaches passes them."""
    for number in range(30):
        memory.remember(f"note {number}", id=f"n{number}", session="s")
    memory.remember("saw ERR_CONN_42 twice: ERR_CONN_42", id="a", session="s")
    memory.remember("a long text in which ERR_CONN_42 occurs once among others", id="b")
    assert ids(memory.recall("ERR_CONN_42"))[:2] == ["a", "b"]
    lists = {hit.id: hit.score for hit in memory.recall("ERR_CONN_42", graph_expansion=False)}
    hits = memory.recall("ERR_CONN_42", trace=True)
    assert len(hits) > 2
    for hit in hits:  # the trace tells what was left of each gain
        best: dict[str, float] = {}
        for edge in hit.trace:
            best[edge.layer] = max(edge.gain, best.get(edge.layer, 0.0))
        assert hit.score == pytest.approx(lists.get(hit.id, 0.0) + sum(best.values()), rel=1e-5)


def test_a_named_author_lifts_own_memories(memory: SpectorMemory) -> None:
    """AM-7."""
    memory.remember("the harbour at dawn", id="bob", author="Bob Dylan")
    memory.remember("the harbour at dawn", id="ann", author="Ann")
    assert ids(memory.recall("what did Ann say of the harbour"))[0] == "ann"
    assert ids(memory.recall("what did bob dylan say of the harbour"))[0] == "bob"


def test_what_a_memory_is_about(memory: SpectorMemory) -> None:
    """AM-10: names in the query, then names in the first seeds, over two steps."""
    memory.remember("It was directed by Jane Roe.", id="film", about="Night Train (film)")
    memory.remember("Born in Paris, a pupil of Max Doe.", id="jane", about="Jane Roe")
    memory.remember("A painter.", id="max", about="Max Doe")
    memory.remember("A town.", id="other", about="Lyon")
    hits: list[Hit] = list(memory.recall("who made Night Train", trace=True))
    assert not ids(memory.recall("who made Night Train", graph_expansion=False))
    assert ids(hits) == ["film", "jane", "max"]
    memory.remember("It was directed by nobody.", id="film", about="Day Train")
    assert ids(memory.recall("who made Night Train")) == []


def test_what_a_hit_names_does_not_pass_it(memory: SpectorMemory) -> None:
    """AM-10, EXP-9: it rises up to the hit that leads to it, and over several steps."""
    memory.remember("apple pie apple pie, as Jane Roe makes it", id="seed")
    memory.remember("an apple and a pie, by Max Doe", id="jane", about="Jane Roe")
    memory.remember("an apple", id="max", about="Max Doe")
    memory.remember("no apple in many more words than the others have", id="other")
    without = {hit.id: hit.score for hit in memory.recall("apple pie", graph_expansion=False)}
    hits = memory.recall("apple pie", trace=True)
    scores = {hit.id: hit.score for hit in hits}
    assert without["jane"] + 0.9 * without["seed"] > without["seed"]  # else nothing is tested
    assert ids(hits)[0] == "seed" and scores["seed"] == without["seed"]
    assert without["jane"] < scores["jane"] < scores["seed"]
    assert without["max"] < scores["max"] < scores["seed"]
    assert scores["other"] == without["other"]
    for hit in hits:
        gain = max((edge.gain for edge in hit.trace), default=0.0)
        assert hit.score == pytest.approx(without[hit.id] + gain, rel=1e-6)
    assert ids(memory.recall("apple pie", graph_weights={"mention": 10}))[0] == "seed"
    assert ids(memory.recall("apple pie")) == ids(hits)


# XCP-6: which layer finds what.
@pytest.mark.parametrize(
    ("situation", "layers"),
    [
        ("same session", {"temporal", "hebbian"}),
        ("told again in a second session", {"hebbian"}),
        ("another session, shared tags", {"cross_capture"}),
        ("another session, about what it names", {"mention"}),
        ("another session, an entity of both", {"entity"}),
        ("another session, nothing shared", set()),
    ],
)
def test_xcp_6_table(memory: SpectorMemory, situation: str, layers: set[str]) -> None:
    tags: list[str] = ["coffee"] if "tags" in situation else []
    own = ["Max Doe"] if "of both" in situation else []
    memory.remember("seed apple, by Jane Roe", id="seed", session="a", tags=tags, entities=own)
    if situation == "same session":
        memory.remember("goal", id="goal", session="a")
    elif "second session" in situation:
        memory.remember("goal", id="goal", session="b")
        memory.remember("seed apple, by Jane Roe", id="seed", session="b")
    elif "tags" in situation:
        memory.remember("bridge", id="bridge", tags=["coffee", "beans"])
        memory.remember("goal", id="goal", session="c", tags=["beans"])
    elif "of both" in situation:
        memory.remember("goal", id="goal", session="c", entities=["Max Doe"])
    elif "about" in situation:
        memory.remember("goal", id="goal", session="c", about="Jane Roe")
    else:
        memory.remember("goal", id="goal", session="c")
    hits = {hit.id: hit for hit in memory.recall("apple", trace=True)}
    found = {edge.layer for edge in hits["goal"].trace} if "goal" in hits else set()
    assert found == layers


def test_bad_options(memory: SpectorMemory) -> None:
    """GEN-5."""
    with pytest.raises(TypeError, match=r"graph_weights.*did you mean 'temporal'"):
        memory.recall("x", graph_weights={"tempral": 1})
    with pytest.raises(ValueError, match=r"graph_weights\['temporal'\] must be in \[0, 10\]"):
        memory.recall("x", graph_weights={"temporal": float("nan")})
    with pytest.raises(TypeError, match="graph_weights must be a mapping"):
        memory.recall("x", graph_weights=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="graph_expansion"):
        memory.recall("x", graph_expansion=1)  # type: ignore[arg-type]


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "text", "found"),
    [
        (["New York", "New York Times"], "the New York Times of new york", ["new york times"]),
        (["New York"], "in new york, new-york", ["new york", "new york"]),
        (["Comedy!"], "Such a comedy. Comedy!", ["comedy"]),
        (["Comedy!"], "such a comedy", ["comedy"]),
        (["Inception (film)"], "I saw Inception.", ["inception"]),
        (["Straße", "Ω-Bank"], "In der STRASSE zur ω bank", ["strasse"]),
        (["京都"], "京都 に行く", ["京都"]),
        (["a b c"], "a b", []),
        (["()"], "()", []),
        ([""], "", []),
    ],
)
def test_names_in_texts(names: list[str], text: str, found: list[str]) -> None:
    """AM-10: longest first, word borders, and a capital that counts where a text has capitals."""
    index = NameIndex()
    for number, name in enumerate(names):
        index.add(name, number)
    assert [name for name, _ in index.find(text)] == found


def test_names_against_a_plain_search() -> None:
    """Every name that occurs is found, of overlapping ones the longest at the first place."""
    chance = random.Random(3)
    for _ in range(300):
        names = {
            " ".join(chance.choice("abc") for _ in range(chance.randint(1, 4))) for _ in range(4)
        }
        text = [chance.choice("abcd") for _ in range(12)]
        index = NameIndex()
        for number, name in enumerate(sorted(names)):
            index.add(name, number)
        expected, place = [], 0
        while place < len(text):
            fitting = [
                name for name in names if text[place : place + len(name.split())] == name.split()
            ]
            best = max(fitting, key=len, default=None)
            if best is not None:
                expected.append(best)
            place += len(best.split()) if best else 1
        assert [name for name, _ in index.find(" ".join(text))] == expected
