"""The commands about what was learned."""

from __future__ import annotations

from pathlib import Path

import pytest

from shell import spector
from spector import SpectorMemory


@pytest.fixture
def space(tmp_path: Path) -> Path:
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("deploy failed with ERR_42", id="a", tags=["deploy"], session="s")
        memory.remember("deploy went well", id="b", session="s")
    return tmp_path


def test_outcomes_and_the_report(space: Path) -> None:
    """PAD-7, PAD-6: --learn counts a recall; the report estimates from outcomes."""
    assert "no outcome" in spector("bandit", "report", "--path", space).err
    spector("recall", "deploy", "--tag", "deploy", "--learn", "--path", space)
    done = spector("reinforce", "a", "--helped", "--path", space, "--json").json
    assert done == {"id": "a", "valence": 15, "recall_count": 1}
    spector("reinforce", "a", "--valence", "-20", "--path", space)
    report = spector("bandit", "report", "--path", space, "--json").json
    (profile,) = report["profiles"]
    assert (profile["profile"], profile["support"], profile["ips"]) == ("balanced", 2, 0.5)
    (context,) = report["contexts"].values()
    assert context["balanced"]["signals"] == 2
    shown = spector("bandit", "report", "--path", space).out.split("\t")
    assert shown[:2] == ["balanced", "2"]
    spector("reinforce", "a", "--path", space, fails=True)
    spector("reinforce", "x", "--misled", "--path", space, fails=True)


def test_states(space: Path) -> None:  # SUP-1, SCO-12, HDR-2
    spector("suppress", "a", "--reason", "wrong", "--path", space)
    assert [
        hit["id"] for hit in spector("recall", "deploy", "--path", space, "--json").json["hits"]
    ] == ["b"]
    assert spector("why-not", "a", "deploy", "--path", space).out == (
        "a: not found (suppressed): it is suppressed: wrong\n"
    )
    spector("suppress", "a", "--undo", "--path", space)
    assert spector("why-not", "a", "deploy", "--path", space, "--json").json["found"]
    spector("mark", "a", "--pinned", "--unresolved", "--path", space)
    with SpectorMemory.open(space) as memory:
        assert memory.inspect("a").pinned
        assert memory.inspect("a").unresolved
    spector("mark", "a", "--path", space, fails=True)


def test_reminders(space: Path) -> None:  # IMP-4
    id = spector("remind", "renew it", "--at", "2020-05-01", "--path", space).out.strip()
    hits = spector("recall", "deploy", "--learn", "--path", space, "--json").json["hits"]
    assert (hits[0]["id"], hits[0]["mode"]) == (id, "reminder")
    hits = spector("recall", "deploy", "--learn", "--path", space, "--json").json["hits"]
    assert {hit["id"] for hit in hits} == {"a", "b"}
    spector("remind", "x", "--path", space, fails=True)


def test_reflect(space: Path) -> None:  # RFL-9
    report = spector("reflect", "--path", space, "--json").json
    assert report["ok"]
    assert report["steps"][0]["name"] == "prune"
    assert "hebbian: 1 edges" in spector("reflect", "--path", space).out


def test_a_drawn_trace(space: Path) -> None:  # EXP-9
    lines = spector("recall", "ERR_42", "--trace", "--path", space).out.splitlines()
    assert lines[0].endswith("a  deploy failed with ERR_42")
    assert any("hebbian from a" in line for line in lines)
