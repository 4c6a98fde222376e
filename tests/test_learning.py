"""What outcomes change: reinforce, states, reminders, sessions, the bandit in a space."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spector import SpectorMemory, UnknownMemoryError
from spector.records.cognition import DEFAULT_DECAY, decay_bucket
from spector.store.bandit import context_key

START = 1_900_000_000_000
DAY = 86_400_000


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["disk", "ephemeral"])
def memory(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[SpectorMemory]:
    if request.param == "disk":
        opened = SpectorMemory.open(tmp_path / "space", clock=clock, seed=1)
    else:
        opened = SpectorMemory.ephemeral(clock=clock, seed=1)
    with opened:
        yield opened


def ids(found: Any) -> list[str]:
    return [hit.id for hit in found]


def bandit_of(memory: SpectorMemory, *tags: str) -> dict[str, Any]:
    return memory.bandit.stats().get(f"{context_key(tags):016x}", {})


# --- reinforce ----------------------------------------------------------------------------------


def test_a_token_is_of_one_space(clock: Clock) -> None:
    """PAD-9: an outcome never counts in a space that did not cause it."""
    with SpectorMemory.ephemeral(clock=clock) as one, SpectorMemory.ephemeral(clock=clock) as other:
        for memory in (one, other):
            memory.remember("apple", id="a")
        token = one.recall("apple").token
        with pytest.raises(ValueError, match="recall is the token of another space"):
            other.reinforce("a", True, recall=token)
        assert other.inspect("a").valence == 0
        one.remember("pear", id="b")
        with pytest.raises(ValueError, match="recall did not return 'b'"):
            one.reinforce("b", True, recall=token)
        one.reinforce("a", True, recall=token)


def test_an_outcome_changes_the_memory(memory: SpectorMemory, clock: Clock) -> None:
    """PAD-7, SCO-13: valence a third of the way, one explicit recall, strength by what faded."""
    memory.remember("apple", id="a", valence=10)
    clock.now += 200 * DAY
    memory.reinforce("a", True)
    left = DEFAULT_DECAY.multiplier(decay_bucket(200 * DAY))
    found = memory.inspect("a")
    assert found.valence == round(0.7 * 10 + 0.3 * 50)
    assert found.recall_count == 1
    assert found.storage_strength == pytest.approx(1 + 0.1 * (1 - left), rel=1e-6)
    memory.reinforce("a", valence=-100)
    assert memory.inspect("a").valence == round(0.7 * 22 - 30)
    assert memory.inspect("a").recall_count == 2
    for _ in range(200):
        memory.reinforce("a", valence=-128)
    assert memory.inspect("a").valence >= -128
    assert memory.inspect("a").storage_strength <= 5


def test_what_was_reinforced_fades_more_slowly(memory: SpectorMemory, clock: Clock) -> None:
    """SCO-10: of two equal memories the one that helped is found first."""
    memory.remember("apple pie", id="a")
    memory.remember("apple pie", id="b")
    assert ids(memory.recall("apple")) == ["a", "b"]
    clock.now += 100 * DAY
    memory.reinforce("b", True)
    assert ids(memory.recall("apple")) == ["b", "a"]


def test_outcomes_survive_closing(tmp_path: Path, clock: Clock) -> None:
    """PAD-10: statistics and counters are those of before; also seen by a second replica."""
    with (
        SpectorMemory.open(tmp_path, clock=clock, seed=1) as one,
        SpectorMemory.open(tmp_path, clock=clock, seed=1) as other,
    ):
        one.remember("apple", id="a", tags=["fruit"])
        for _ in range(12):
            one.recall("apple", tags=["fruit"], profile="debugging", max_valence=127)
            one.reinforce("a", True)
        expected = bandit_of(one, "fruit")
        assert expected["debugging"]["signals"] == 12
        other.recall("apple")
        assert bandit_of(other, "fruit") == expected
        assert other.inspect("a") == one.inspect("a")
    with SpectorMemory.open(tmp_path, clock=clock, seed=1) as again:
        assert bandit_of(again, "fruit") == expected
        assert again.inspect("a").recall_count == 12


def test_credit_goes_to_the_context_of_the_query(memory: SpectorMemory) -> None:
    """PAD-6: not to the memory's tags; to the latest recall, or to that of the token."""
    memory.remember("apple", id="a", tags=["fruit", "red"])
    first = memory.recall("apple", tags=["fruit"], profile="critical")
    memory.recall("apple", tags=["red"], profile="exploring")
    memory.reinforce("a", True)
    assert set(bandit_of(memory, "red")) == {"exploring"}
    memory.reinforce("a", False, recall=first.token)
    assert bandit_of(memory, "fruit")["critical"]["positives"] == 0
    assert bandit_of(memory, "fruit")["critical"]["signals"] == 1
    assert not bandit_of(memory, "fruit", "red")


def test_credit_of_a_query_without_tags_goes_to_those_in_its_text(memory: SpectorMemory) -> None:
    memory.remember("apple pie", id="a", tags=["dessert wine", "cake"])  # XCP-3, PAD-2
    memory.recall("is apple a cake, or dessert  wine?")
    memory.reinforce("a", True)
    assert set(bandit_of(memory, "cake", "dessert wine")) == {"balanced"}


def test_what_gives_no_signal(memory: SpectorMemory) -> None:
    """PAD-6, REC-3: a memory never recalled, a neutral outcome, recalls that only look."""
    memory.remember("apple", id="a")
    memory.reinforce("a", True)
    memory.recall("apple", recall_mode="observe")
    memory.recall("apple", as_of=START)
    memory.explain("a", "apple")
    memory.reinforce("a", True)
    memory.recall("apple")
    memory.reinforce("a", valence=0)
    assert memory.bandit.stats() == {}
    assert memory.inspect("a").recall_count == 3


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "message"),
    [
        (("a",), {}, TypeError, "either positive or valence, got neither"),
        (("a", True), {"valence": 3}, TypeError, "either positive or valence, got both"),
        (("a", 1), {}, TypeError, "positive must be True or False"),
        (("a",), {"valence": 128}, ValueError, r"valence must be in \[-128, 127\]"),
        (("b", True), {}, UnknownMemoryError, "no memory has the id 'b'"),
        (("a", True), {"recall": "nonsense"}, ValueError, "recall must be the token"),
        (("a", True), {"recall": "00.balanced.2.0."}, ValueError, "recall must be the token"),
        (("a", True), {"recall": ""}, ValueError, "a recall that does not count"),
    ],
)
def test_bad_outcomes_change_nothing(
    memory: SpectorMemory,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:  # GEN-5
    memory.remember("apple", id="a")
    before = memory.inspect("a")
    with pytest.raises(error, match=message):
        memory.reinforce(*arguments, **keywords)
    assert memory.inspect("a") == before
    assert memory.bandit.stats() == {}


def test_two_that_helped_in_one_recall_are_associated(clock: Clock) -> None:
    """HEB-5: by option, and only if both helped; recall alone changes no weight."""
    for wanted in (False, True):
        with SpectorMemory.ephemeral(clock=clock, strengthen_on_reinforce=wanted) as memory:
            for name in "abc":
                memory.remember(f"apple {name}", id=name)
            memory.recall("apple")
            memory.recall("apple")
            graph = memory._space.replica.graphs.hebbian
            memory.reinforce("a", True)
            memory.reinforce("b", False)
            assert graph.edge_count == 0
            memory.reinforce("c", True)
            assert graph.edge_count == int(wanted)
            assert (graph.edge(1, 3) is not None) == wanted


def test_outcomes_survive_a_kill(tmp_path: Path) -> None:
    """PAD-10, R1: what was acknowledged is there; kill -9 between any two outcomes."""
    import signal
    import subprocess
    import sys

    code = """if True:
        import sys
        from spector import SpectorMemory
        memory = SpectorMemory.open(sys.argv[1])
        memory.remember("apple", id="a", tags=["t"])
        for number in range(10_000):
            found = memory.recall("apple", tags=["t"])
            memory.reinforce("a", number % 3 > 0, recall=found.token)
            print(number + 1, flush=True)
    """
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = 0
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            said = [child.stdout.readline() for _ in range(25)]
            child.send_signal(signal.SIGKILL)
            said += child.stdout.readlines()
        done += int([line for line in said if line.endswith("\n")][-1])
        with SpectorMemory.open(tmp_path) as memory:
            known = bandit_of(memory, "t")["balanced"]["signals"]
            assert known in (done, done + 1)
            assert memory.inspect("a").recall_count == known
            done = known


# --- auto ---------------------------------------------------------------------------------------


def test_auto_learns_the_profile_of_a_topic(memory: SpectorMemory) -> None:
    """PAD-1, PAD-3, PAD-8: cold is balanced; then what was rewarded."""
    memory.remember("apple crash", id="a", tags=["crash"], valence=-50)
    found = memory.recall("apple", tags=["crash"], profile="auto")
    assert (found.profile, found.explored) == ("balanced", False)
    for _ in range(12):
        result = memory.recall("apple", tags=["crash"], profile="Critical")
        assert result.profile == "critical"
        memory.reinforce("a", valence=1)
    chosen = [memory.recall("apple", tags=["crash"], profile="auto") for _ in range(300)]
    assert sum(found.profile == "critical" for found in chosen) > 240
    # PAD-8: "recalling" wants pleasant memories and finds none, so what is known follows.
    assert all(ids(found) == ["a"] for found in chosen)
    assert {found.profile for found in chosen if found.explored} >= {"exploring", "divergent"}


def test_an_explicit_profile_wins_over_auto(memory: SpectorMemory) -> None:  # PAD-1
    memory.remember("apple", id="a")
    options = {"profile": "auto"}
    assert memory.recall("apple", options=options, profile="critical").profile == "critical"


def test_spaces_learn_apart(clock: Clock) -> None:  # PAD-9
    with SpectorMemory.ephemeral(clock=clock) as one, SpectorMemory.ephemeral(clock=clock) as two:
        for memory in (one, two):
            memory.remember("apple", id="a", tags=["t"])
            memory.recall("apple", tags=["t"])
        one.reinforce("a", True)
        assert bandit_of(one, "t")
        assert not two.bandit.stats()


# --- profiles -----------------------------------------------------------------------------------

PROFILE_ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "PRO-1": ("balanced", {"alpha": 0.6, "beta": 0.4, "gamma": 1.0, "graph_expansion": True}),
    "PRO-2": ("exploring", {"alpha": 0.8, "beta": 0.2, "gamma": 0.33}),
    "PRO-3": ("debugging", {"alpha": 0.3, "beta": 0.7, "gamma": 1.67, "max_valence": -10}),
    "PRO-4": ("recalling", {"alpha": 0.4, "beta": 0.6, "min_valence": 10}),
    "PRO-5": ("critical", {"alpha": 0.2, "beta": 0.8, "gamma": 1.33}),
    "PRO-6": ("hyperfocus", {"alpha": 1.0, "beta": 0.0, "graph_expansion": False}),
    "PRO-7": ("systematizer", {"alpha": 0.3, "beta": 0.7, "gamma": 1.0}),
    "PRO-8": ("divergent", {"alpha": 0.8, "lateral": True}),
    "PRO-9": ("paranoid_sentinel", {"max_valence": -1, "query_valence": -128}),
    "PRO-10": ("the_executor", {"strictness": 10.0, "lateral": False}),
    "PRO-11": ("highly_sensitive", {"alpha": 0.7, "beta": 0.3, "min_importance": 0.01}),
    "PRO-12": ("default_mode_network", {"type": ("semantic", "procedural"), "gamma": 0.33}),
    "PRO-13": ("executive_dysfunction", {"scoring_mode": "associative", "lateral": True}),
}


@pytest.mark.parametrize("label", PROFILE_ROWS)
def test_each_profile_sets_its_defaults_and_what_is_given_wins(label: str) -> None:
    """PRO-1 to PRO-14; also through a mapping, and on top of kept options."""
    from spector import RecallOptions
    from spector.recall.options import resolve

    name, expected = PROFILE_ROWS[label]
    base = RecallOptions()
    for options in (
        RecallOptions(profile=name.upper()),
        resolve(None, {"profile": name}, base),
        resolve({"profile": name}, {}, base),
        resolve(RecallOptions(k=3), {"profile": name}, base),
        resolve(RecallOptions(profile="critical"), {"profile": name}, base),
    ):
        assert options.profile == name
        for option, value in expected.items():
            assert getattr(options, option) == value, option
    kept = resolve(RecallOptions(alpha=0.6, max_valence=127), {"profile": name}, base)
    assert (kept.alpha, kept.max_valence) == (0.6, 127)
    other = resolve(RecallOptions(profile=name), {"beta": 0.9}, base)
    assert other.beta == 0.9
    assert resolve(other, {"profile": "balanced"}, base).beta == 0.9


def test_unknown_profiles_are_refused(memory: SpectorMemory) -> None:  # PRO-14, GEN-5
    with pytest.raises(ValueError, match="did you mean 'debugging'"):
        memory.recall("x", profile="debuging")
    with pytest.raises(TypeError, match="profile must be a str"):
        memory.recall("x", profile=3)  # type: ignore[arg-type]


def test_profiles_find_other_memories(memory: SpectorMemory) -> None:
    for name, valence, kind in (
        ("bad", -60, "episodic"),
        ("good", 60, "semantic"),
        ("plain", 0, "procedural"),
    ):
        memory.remember(f"apple {name}", id=name, valence=valence, type=kind)
    found = {p: set(ids(memory.recall("apple", profile=p))) for p, _ in PROFILE_ROWS.values()}
    assert found["debugging"] == found["paranoid_sentinel"] == {"bad"}
    assert found["recalling"] == {"good"}
    assert found["default_mode_network"] == {"good", "plain"}
    for name in ("balanced", "critical", "exploring", "divergent", "executive_dysfunction"):
        assert found[name] == {"bad", "good", "plain"}


# --- states -------------------------------------------------------------------------------------


def test_what_is_suppressed_is_in_no_list(memory: SpectorMemory) -> None:
    """SUP-1, TSM-7: nor in the graph, until it is taken back; the record is as it was."""
    vector = np.eye(4, dtype=np.float32)
    for place, name in enumerate("abc"):
        memory.remember(
            f"apple {name}", id=name, session="s", tags=["t"], about=name, vector=vector[place]
        )
    before = memory.inspect("b")
    plain = ids(memory.recall("apple", vector=vector[1], recall_mode="observe"))
    assert plain[0] == "b"
    memory.suppress("b", "wrong")
    assert memory.suppressed() == {"b": "wrong"}
    for options in (
        {},
        {"text_search_mode": "keyword_only"},
        {"tags": ["t"]},
        {"vector": vector[1]},
    ):
        assert "b" not in ids(memory.recall("apple", **options))  # type: ignore[arg-type]
    assert "b" not in ids(memory.recall("what about b"))
    assert "b" in memory
    assert memory.inspect("b").suppressed == "wrong"
    memory.unsuppress("b")
    assert memory.suppressed() == {}
    assert memory.inspect("b") == before
    assert ids(memory.recall("apple", vector=vector[1], recall_mode="observe")) == plain


def test_suppression_and_states_survive_closing_and_updates(tmp_path: Path, clock: Clock) -> None:
    """AM-17."""
    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        memory.remember("apple", id="a")
        memory.remember("apple pie", id="b")
        memory.suppress("a", "why not")
        memory.pin("b")
        memory.mark_unresolved("b")
        memory.remember("apple cake", id="a")  # an update keeps it away
    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        assert ids(memory.recall("apple")) == ["b"]
        assert memory.suppressed() == {"a": "why not"}
        assert memory.inspect("b").pinned
        assert memory.inspect("b").unresolved
        memory.unpin("b")
        memory.mark_resolved("b")
        memory.unsuppress("a")
        events = memory.status().events
        memory.unpin("b")  # nothing to change
        memory.unsuppress("a")
        assert memory.status().events == events
    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        assert set(ids(memory.recall("apple"))) == {"a", "b"}
        assert not memory.inspect("b").pinned
        assert not memory.inspect("b").unresolved


def test_a_suppressed_memory_can_be_forgotten_and_reinforced(memory: SpectorMemory) -> None:
    memory.remember("apple", id="a")
    memory.suppress("a")
    memory.reinforce("a", True)
    assert memory.inspect("a").recall_count == 1
    memory.forget("a")
    assert memory.suppressed() == {}
    memory.remember("apple", id="a")
    assert ids(memory.recall("apple")) == ["a"]


def test_pinned_and_unresolved_do_not_fade(memory: SpectorMemory, clock: Clock) -> None:
    """SCO-12."""
    for name in "abc":
        memory.remember("apple pie", id=name)
    clock.now += 400 * DAY
    memory.pin("b")
    memory.mark_unresolved("c")
    assert ids(memory.recall("apple", recall_mode="observe")) == ["b", "c", "a"]


@pytest.mark.parametrize(
    "method",
    ["suppress", "unsuppress", "pin", "unpin", "mark_resolved", "mark_unresolved"],
)
def test_states_of_unknown_memories(memory: SpectorMemory, method: str) -> None:  # GEN-5
    with pytest.raises(UnknownMemoryError, match="no memory has the id 'x'"):
        getattr(memory, method)("x")


# --- reminders ----------------------------------------------------------------------------------


def test_a_reminder_comes_up_once(memory: SpectorMemory, clock: Clock) -> None:
    """IMP-4: first, with a score of 10, outside k, by the next recall that counts."""
    memory.remember("apple", id="a")
    one = memory.schedule_reminder("call the dentist", START + DAY, tags=["health"])
    assert ids(memory.recall("apple", k=1)) == ["a"]
    clock.now += DAY
    assert ids(memory.recall("apple", k=1, recall_mode="observe")) == ["a"]
    found = memory.recall("apple", k=1)
    assert ids(found) == [one, "a"]
    assert (found[0].score, found[0].mode) == (10.0, "reminder")
    assert ids(memory.recall("apple", k=1)) == ["a"]
    memory.flush()
    assert ids(memory.recall("apple", k=1)) == ["a"]
    assert ids(memory.recall("dentist")) == [one]


def test_threads_share_out_reminders(memory: SpectorMemory) -> None:  # IMP-4
    import threading

    memory.remember("apple", id="a")
    due = {memory.schedule_reminder(f"reminder {n}", START) for n in range(20)}
    seen: list[str] = []

    def ask() -> None:
        for _ in range(5):
            seen.extend(hit.id for hit in memory.recall("apple", k=1) if hit.mode == "reminder")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(due)


def test_a_session_may_be_any_text(memory: SpectorMemory) -> None:
    memory.remember("apple", id="a")
    for session in ("\ud800", "日本", "x" * 1000):
        assert ids(memory.recall("apple", session=session)) == ["a"]
        assert memory.why_not("a", "apple", session=session).found


def test_reminders_survive_closing(tmp_path: Path, clock: Clock) -> None:  # AM-17
    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        late = memory.schedule_reminder("late", START + 2 * DAY)
        early = memory.schedule_reminder("early", START + DAY)
    clock.now += 3 * DAY
    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        assert ids(memory.recall("nothing of that")) == [early, late]
    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        assert ids(memory.recall("nothing of that")) == []


# --- recalls that count -------------------------------------------------------------------------


def test_returns_are_counted_once_in_five_minutes(memory: SpectorMemory, clock: Clock) -> None:
    """SCO-10, AM-15: in the journal after a flush; "observe" counts nothing (REC-3)."""
    memory.remember("apple", id="a")
    memory.recall("apple")
    memory.recall("apple")
    memory.flush()
    assert memory.inspect("a").passive_recalls == 1
    clock.now += 299_999
    memory.recall("apple")
    memory.flush()
    assert memory.inspect("a").passive_recalls == 1
    clock.now += 1
    memory.recall("apple")
    memory.flush()
    assert memory.inspect("a").passive_recalls == 2
    events = memory.status().events
    memory.recall("apple", recall_mode="observe")
    memory.recall("nothing of that")
    memory.flush()
    assert memory.status().events == events


def test_observing_gives_the_same_answer_each_time(memory: SpectorMemory) -> None:  # REC-3
    for name in "abc":
        memory.remember(f"apple {name}", id=name, tags=[name], session="s")
    one, two = (memory.recall("apple", recall_mode="observe", session="q") for _ in range(2))
    assert [(h.id, h.score) for h in one] == [(h.id, h.score) for h in two]
    assert one.token == ""


def test_the_status_shows_what_was_learned(memory: SpectorMemory) -> None:  # MCP-6
    memory.remember("apple", id="a", tags=["t"])
    memory.schedule_reminder("later", START + DAY)
    memory.recall("apple", tags=["t"])
    memory.reinforce("a", True)
    memory.suppress("a")
    status = memory.status()
    assert (status.suppressed, status.reminders, status.bandit_contexts) == (1, 1, 1)
    assert (status.recalls_lost, status.lateral["returned"]) == (0, 0)


def test_closing_records_what_waits(tmp_path: Path, clock: Clock) -> None:
    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        memory.remember("apple", id="a")
        memory.recall("apple")
    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        assert memory.inspect("a").passive_recalls == 1


def test_events_hold_no_text(tmp_path: Path, clock: Clock) -> None:  # AM-17
    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        memory.remember("secretword", id="secretid", tags=["secrettag"], session="secretsession")
        memory.recall("secretword", tags=["secrettag"], session="secretsession")
        memory.reinforce("secretid", True)
        memory.suppress("secretid", "secretreason")
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        payloads = [row[0] or "" for row in connection.execute("SELECT payload FROM events")]
    connection.close()
    assert len(payloads) == 4
    assert not any("secret" in payload for payload in payloads)
    assert json.loads(payloads[1])[3] == "balanced"


def test_a_fork_waits_for_the_recorder(tmp_path: Path) -> None:  # F-078
    """A child forked at any moment after a recall can open the space."""
    import os
    import random
    import time

    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("apple", id="a")
        for turn in range(12):
            memory.recall("apple")
            time.sleep(random.Random(turn).uniform(0.98, 1.02) if turn % 2 else 0.0)
            child = os.fork()
            if not child:
                code = 1
                try:
                    with SpectorMemory.open(tmp_path) as own:
                        code = 0 if ids(own.recall("apple", recall_mode="observe")) else 2
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0


def test_compacting_takes_recalls_out(tmp_path: Path, clock: Clock) -> None:
    """AM-19, R15: their events are gone, and nothing that they taught is lost."""
    with opened_twice(tmp_path, clock) as (memory, behind):
        for place in range(30):
            memory.remember(f"apple {place}", id=f"m{place}", tags=[f"t{place % 5}"])
        behind.recall("apple", recall_mode="observe")
        for turn in range(60):
            clock.now += 20_000
            memory.recall(f"apple {turn % 30}", session="s", tags=[f"t{turn % 5}"])
            if turn % 7 == 0:
                memory.reinforce(f"m{turn % 30}", turn % 2 == 0)
        memory.flush()
        memory.snapshot()
        memory.recall("apple 3", session="s")
        memory.flush()
        assert memory._space.replica.learning.sequence.edges()
        hashes = memory.state_hash()
        before = payloads(tmp_path)
        memory.compact()
        assert payloads(tmp_path) == before[-1:]  # the newest event stays
        assert {**memory.state_hash(), "journal": 0} == {**hashes, "journal": 0}
        memory.compact()  # nothing more to do
        assert behind.state_hash() == memory.state_hash()
        memory.recall("apple 4", session="s")
        memory.flush()
        hashes = memory.state_hash()
        assert behind.state_hash() == hashes
    from spector.store import check
    from spector.store.space import Space

    assert check(tmp_path).ok
    original = Space._load_snapshot
    for load in (original, lambda self, reader: False):
        Space._load_snapshot = load  # type: ignore[method-assign]
        try:
            with SpectorMemory.open(tmp_path, clock=clock) as again:
                assert again.state_hash() == hashes
        finally:
            Space._load_snapshot = original  # type: ignore[method-assign]


@contextlib.contextmanager
def opened_twice(path: Path, clock: Clock) -> Iterator[tuple[SpectorMemory, SpectorMemory]]:
    with (
        SpectorMemory.open(path, clock=clock, seed=1) as one,
        SpectorMemory.open(path, clock=clock, seed=1) as other,
    ):
        yield one, other


def payloads(path: Path) -> list[str | None]:
    with contextlib.closing(sqlite3.connect(path / "journal.db")) as connection:
        return [row[0] for row in connection.execute("SELECT payload FROM events WHERE type = 5")]


# --- sessions -----------------------------------------------------------------------------------


def test_habituation_is_local_to_a_session_and_off_by_default(memory: SpectorMemory) -> None:
    """HAB-1, AM-15: 0.85 for each return before, not under 0.3; not where it must not be."""

    def score(**options: Any) -> float:
        return next(h.score for h in memory.recall("apple pie", **options) if h.id == "a")

    memory.remember("apple pie", id="a")
    memory.remember("apple", id="b")
    first = score(session="s")
    for _ in range(3):
        assert score(session="s") == pytest.approx(first)
    assert score(session="s", habituation=0.85) == pytest.approx(first * 0.85**4, rel=1e-4)
    for _ in range(20):
        score(session="s")
    watched = {"session": "s", "habituation": 0.85}
    assert score(**watched, recall_mode="observe") == pytest.approx(first * 0.3, rel=1e-4)
    assert score(**watched, recall_mode="observe") == score(**watched, recall_mode="observe")
    assert score(session="other", habituation=0.85) == pytest.approx(first)
    memory.end_session("s")
    assert score(**watched, recall_mode="observe") == pytest.approx(first)
    for _ in range(20):
        score(session="s")
    assert score(habituation=0.85) == pytest.approx(first)
    alike = {"scoring_mode": "similarity"}, {"text_search_mode": "keyword_only"}
    for options in alike:
        assert score(**watched, **options) == score(**options)


def test_exact_hits_do_not_wear_out(memory: SpectorMemory) -> None:  # HAB-1, RRF-5
    memory.remember("failed with ERR_CONN_42", id="a")
    memory.remember("err conn", id="b")
    scores = {
        next(iter(memory.recall("ERR_CONN_42", session="s", habituation=0.5))).score
        for _ in range(6)
    }
    assert len(scores) == 1


def test_tags_that_follow_each_other_lift_what_has_them(
    memory: SpectorMemory, clock: Clock
) -> None:
    """STDP-1 to STDP-3, HAB-2: after A, what is tagged B is expected."""
    memory.remember("alpha", id="a", tags=["first"])
    memory.remember("beta", id="b", tags=["second"])
    memory.remember("gamma one", id="c", tags=["second"])
    memory.remember("gamma two", id="d", tags=["third"])
    for round_ in range(8):
        memory.recall("alpha", session=f"s{round_}", graph_expansion=False)
        clock.now += 10_000
        memory.recall("beta", session=f"s{round_}", graph_expansion=False)
        clock.now += 10_000_000
    memory.flush()
    learning = memory._space.replica.learning
    from spector.store.learning import tag_hash

    forward = learning.sequence.weight(tag_hash("first"), tag_hash("second"))
    assert forward > learning.sequence.weight(tag_hash("second"), tag_hash("first"))
    plain = memory.recall("gamma", graph_expansion=False, recall_mode="observe")
    memory.recall("alpha", session="now", graph_expansion=False)
    memory.flush()
    lifted = memory.recall("gamma", session="now", graph_expansion=False, recall_mode="observe")
    was, now = ({h.id: h.score for h in found} for found in (plain, lifted))
    assert now["c"] == pytest.approx(was["c"] * (1 + 0.3 * forward), rel=1e-4)
    assert now["d"] == pytest.approx(was["d"])
    # PRO-15: only what is expected in this session, and without history as "cognitive"
    options: dict[str, Any] = {"scoring_mode": "associative", "recall_mode": "observe"}
    assert ids(memory.recall("gamma", session="now", **options)) == ["c"]
    assert set(ids(memory.recall("gamma", session="new", **options))) == {"c", "d"}


def test_sequences_survive_closing(tmp_path: Path, clock: Clock) -> None:  # PER-9
    from spector.store.learning import tag_hash

    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        memory.remember("alpha", id="a", tags=["first"])
        memory.remember("beta", id="b", tags=["second"])
        memory.recall("alpha", session="s")
        clock.now += 10_000
        memory.recall("beta", session="s")
        memory.flush()
        one = memory._space.replica.learning
        expected = one.sequence.edges()
        assert expected
        assert one.recent_tags(tag_hash("s"))
    with SpectorMemory.open(tmp_path, clock=clock) as memory:
        again = memory._space.replica.learning
        assert again.sequence.edges() == expected
        assert again.recent_tags(tag_hash("s")) == one.recent_tags(tag_hash("s"))
        assert again.as_dict() == one.as_dict()


# --- lateral ------------------------------------------------------------------------------------


def test_lateral_results_are_appended(memory: SpectorMemory) -> None:
    """SCO-15: they share the tags, are far in meaning, and stand outside k."""
    vectors = np.eye(4, dtype=np.float32)
    memory.remember("near", id="near", tags=["t"], vector=vectors[0])
    memory.remember("far", id="far", tags=["t"], vector=-vectors[0])
    memory.remember("far too", id="other", tags=["u"], vector=-vectors[0])
    found = memory.recall("x", vector=vectors[0], tags=["t"], profile="divergent", k=3)
    assert [(hit.id, hit.mode) for hit in found] == [("near", "standard"), ("far", "lateral")]
    plain = memory.recall("x", vector=vectors[0], tags=["t"], k=3)
    assert all(hit.mode != "lateral" for hit in plain)


def test_lateral_mode_is_tuned_by_outcomes(memory: SpectorMemory) -> None:
    """SCO-16: with under 5% of 50 used it goes off; its share is counted."""
    vectors = np.eye(4, dtype=np.float32)
    memory.remember("far", id="far", tags=["t"], vector=-vectors[0])
    for _ in range(10):
        memory.recall("x", vector=vectors[0], tags=["t"], lateral=True)
        memory.reinforce("far", True)
    stats = memory._space.replica.learning.lateral.stats()
    assert (stats["returned"], stats["reinforced"], stats["enabled"]) == (10, 10, True)
    for _ in range(240):
        memory.recall("x", vector=vectors[0], tags=["t"], lateral=True)
    memory.suppress("far")
    memory.unsuppress("far")
    memory.flush()
    stats = memory._space.replica.learning.lateral.stats()
    assert (stats["suppressed"], stats["enabled"]) == (1, False)
    assert stats["lhi"] == pytest.approx(1 / 11)
    found = memory.recall("x", vector=vectors[0], tags=["t"], lateral=True)
    assert all(hit.mode != "lateral" for hit in found)


# --- as_of --------------------------------------------------------------------------------------


def test_the_past_is_seen_as_it_was(memory: SpectorMemory, clock: Clock) -> None:
    """Later memories do not exist yet, and nothing is older than it was."""
    minute = 60_000
    memory.remember("apple pie", id="a", importance=6)
    clock.now += 20 * minute
    memory.remember("apple pie", id="b", importance=5)
    clock.now += 300 * DAY
    assert ids(memory.recall("apple")) == ["a", "b"]  # both old, and the first is important
    assert ids(memory.recall("apple", as_of=START + 50 * minute)) == ["a", "b"]
    assert ids(memory.recall("apple", as_of=START + 70 * minute)) == ["b", "a"]  # one was fresh
    assert ids(memory.recall("apple", as_of=START + minute)) == ["a"]  # the other not there yet
    assert ids(memory.recall("apple", as_of=START - 1)) == []
    assert ids(memory.recall("apple", as_of="2031-01-01", since=START + 1)) == ["b"]


def test_kept_options_with_several_types_can_be_put_over() -> None:
    from spector import RecallOptions
    from spector.recall.options import resolve

    kept = RecallOptions(type=["semantic", "working"])
    found = resolve(kept, {"k": 3}, RecallOptions())
    assert (found.k, found.type) == (3, ("semantic", "working"))
    assert hash(kept) == hash(RecallOptions(type=("semantic", "working")))
    assert kept == RecallOptions(type=("semantic", "working"))
