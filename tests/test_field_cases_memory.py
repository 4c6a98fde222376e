"""Faults reported of comparable software, as they would show in a memory on disk.

The number of a case is that of the list of field cases; cases about scores, tokens and processes
are beside the parts they are about.
"""

from __future__ import annotations

import os
import pickle
import re
import threading
from collections.abc import Callable
from datetime import date, datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spector
from children import run
from spector import CorruptionError, SpectorMemory, SpectorWarning, UnknownMemoryError
from spector.store import check

NOW = 1_900_000_000_000


def ids(hits: spector.Results) -> list[str]:
    return [hit.id for hit in hits]


# --- search through the memory ------------------------------------------------------------------


def test_f014_a_filter_filters() -> None:
    with SpectorMemory.ephemeral() as memory:
        tags = ["food", "finance", "food", "retail", "agri"]
        texts = ["apple pie", "apple shares", "pear cake", "apple store", "apple tree"]
        for number, (tag, text) in enumerate(zip(tags, texts, strict=True)):
            memory.remember(text, id=str(number), tags=[tag])
        hits = memory.recall("apple", tags=["food"], k=4)
        assert ids(hits) == ["0"]
        assert hits[0].score == next(hit.score for hit in memory.recall("apple") if hit.id == "0")


def test_f015_what_was_saved_is_found(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("a rare heliotrope", id="a")
        assert ids(memory.recall("heliotrope")) == ["a"]
    with SpectorMemory.open(tmp_path) as memory:
        assert ids(memory.recall("heliotrope")) == ["a"]
    look = """
        import sys, spector
        with spector.SpectorMemory.open(sys.argv[1]) as memory:
            print([hit.id for hit in memory.recall("heliotrope")])
    """
    assert run(look, tmp_path) == "['a']\n"


def test_f016_an_unknown_word_changes_nothing() -> None:
    with SpectorMemory.ephemeral() as memory:
        memory.remember("alpha beta", id="a")
        assert list(memory.recall("alpha zzzunknown")) == list(memory.recall("alpha")) != []


def test_f017_f044_equal_texts_are_two_memories() -> None:
    with SpectorMemory.ephemeral() as memory:
        memory.remember("the same words", id="m1", tags=["one"], metadata={"n": 1})
        memory.remember("the same words", id="m2", tags=["two"], metadata={"n": 2})
        found = {hit.id: (hit.tags, hit.metadata) for hit in memory.recall("same words")}
        assert found == {"m1": (("one",), {"n": 1}), "m2": (("two",), {"n": 2})}
        memory.forget("m1")
        assert memory.inspect("m2").text == "the same words"
        assert ids(memory.recall("same words")) == ["m2"]


def test_f029_lone_surrogates_become_replacement_characters(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember(
            "party \ud83c\udf78 tonight",
            id="a",
            context="\udfff",
            tags=["t\ud800"],
            author="\ud800",
            metadata={"\ud800": ["\udfff"]},
        )
        assert list(memory.recall("\ud83c", k=1)) == []
        memory.remember("still works", id="b")
    with SpectorMemory.open(tmp_path) as memory:
        found = memory.inspect("a")
        assert found.text == "party \ufffd\ufffd tonight"
        assert (found.context, found.tags, found.author) == ("\ufffd", ("t\ufffd",), "\ufffd")
        assert found.metadata == {"\ufffd": ["\ufffd"]}
        assert ids(memory.recall("party tonight", author="\ud800", tags=["t\ud800"])) == ["a"]
        assert ids(memory.recall("works")) == ["b"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("deploy 🚀 done", "done"),
        ("family 👩‍👩‍👧 trip", "trip"),
        ("key a\x00b end", "end"),
        ("\x00", None),
        ("line\r\nbreaks\u2028kept \ufeff", "breaks"),
        ("cafe\u0301 and café", "cafe"),
    ],
)
def test_f030_texts_come_back_as_they_were(tmp_path: Path, text: str, query: str | None) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember(text, id=text, tags=[f"x{text}x"], session=text, metadata={text: text})
    with SpectorMemory.open(tmp_path) as memory:
        found = memory.inspect(text)
        assert (found.id, found.text, found.session) == (text, text, text)
        assert found.metadata == {text: text}
        assert memory.browse(tags=[f"x{text}x"]) == [found]
        if query:
            assert ids(memory.recall(query, tags=[f"x{text}x"])) == [text]
        memory.forget(text)
        assert len(memory) == 0
    assert check(tmp_path).ok


@given(st.lists(st.tuples(st.text(min_size=1), st.text(), st.text()), max_size=8))
def test_any_text_comes_back_as_it_was(rows: list[tuple[str, str, str]]) -> None:
    with SpectorMemory.ephemeral() as memory:
        memory.remember_many({"id": i, "text": t, "context": c} for i, t, c in rows)
        for memory_id, (text, context) in {i: (t, c) for i, t, c in rows}.items():
            found = memory.inspect(memory_id)
            assert (found.text, found.context) == (text, context)
            memory.recall(text)


# --- files --------------------------------------------------------------------------------------


def test_f034_an_emptied_file_is_never_a_fresh_start(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("kept", id="a")
    for path in list(tmp_path.iterdir()):
        content = path.read_bytes()
        path.write_bytes(b"")
        if path.name == "journal.db":
            with pytest.raises(CorruptionError, match=re.escape(str(path))):
                SpectorMemory.open(tmp_path)
        else:
            with SpectorMemory.open(tmp_path) as memory:
                assert ids(memory.recall("kept")) == ["a"]
        path.write_bytes(content)


def test_f037_opened_empty_and_again(tmp_path: Path) -> None:
    for _ in range(2):
        with SpectorMemory.open(tmp_path) as memory:
            assert list(memory.recall("anything")) == []
            assert memory.status().documents == 0


def test_f040_a_log_of_a_lost_journal_is_not_replayed(tmp_path: Path) -> None:
    keep = {}
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("old secret", id="old")
        for name in ("journal.db-wal", "journal.db-shm"):
            keep[name] = (tmp_path / name).read_bytes()
    assert keep["journal.db-wal"]
    (tmp_path / "journal.db").unlink()
    for name, content in keep.items():
        (tmp_path / name).write_bytes(content)
    with pytest.warns(SpectorWarning, match="is the log of a journal that was lost") as warned:
        memory = SpectorMemory.open(tmp_path)
    assert {Path(one.filename).name for one in warned} == {Path(__file__).name}
    with memory:
        memory.remember("new text", id="new")
        assert not memory.recall("secret")
    # The old log is set aside, not destroyed (AM-8), and never without a word (F-034).
    (orphan,) = tmp_path.glob("journal.db-wal.orphan-*")
    assert orphan.read_bytes() == keep["journal.db-wal"]
    with SpectorMemory.open(tmp_path) as memory:
        assert [found.id for found in memory.browse()] == ["new"]
        assert str(orphan) in memory.status().set_aside
    report = check(tmp_path)
    assert report.ok
    assert any(str(orphan) in warning for warning in report.warnings)
    for path in tmp_path.glob("*.orphan-*"):
        path.unlink()
    with SpectorMemory.open(tmp_path) as memory:
        assert memory.status().set_aside == ()
    assert check(tmp_path).warnings == []


def test_f042_nothing_is_left_out_after_growth(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("the heliotrope", id="first")
        memory.remember_many(({"text": f"filler {n}"} for n in range(12_000)), batch_size=5000)
        assert ids(memory.recall("heliotrope")) == ["first"]
    with SpectorMemory.open(tmp_path) as memory:
        assert ids(memory.recall("heliotrope")) == ["first"]
        assert len(memory.recall("filler", k=10**6)) == 12_000
        assert len(memory) == 12_001


def test_f043_a_text_can_be_read_at_once(tmp_path: Path) -> None:
    SpectorMemory.open(tmp_path).close()
    texts = {}
    with SpectorMemory.open(tmp_path) as memory:
        for number in range(300):
            text = f"text {number} " * (number % 7)
            texts[memory.remember(text)] = text
            assert memory.inspect(max(texts)).text == text
    with SpectorMemory.open(tmp_path) as memory:
        assert {found.id: found.text for found in memory.browse(limit=1000)} == texts


def test_f045_files_do_not_depend_on_the_locale(tmp_path: Path) -> None:
    folder = tmp_path / "данные-データ"
    write = r"""
        import sys
        from spector import SpectorMemory
        with SpectorMemory.open(sys.argv[1]) as memory:
            memory.remember("na\xefve \xf1 \u6771\u4eac", id="\xe9", tags=["\xc9"])
            print(ascii([hit.id for hit in memory.recall("naive", tags=["\xc9"])]))
    """
    environment = {
        "LANG": "C",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "utf-8",
    }
    assert run(write, folder, environment=environment) == r"['\xe9']" + "\n"
    with SpectorMemory.open(folder) as memory:
        assert ids(memory.recall("naive 東京", tags=["é"])) == ["é"]
        assert memory.inspect("é").text == "naïve ñ 東京"
    other = tmp_path / "other"
    with SpectorMemory.open(other, clock=lambda: NOW) as memory:
        memory.remember("naïve ñ 東京", id="é", tags=["É"])
        plain = memory.inspect("é")
    with SpectorMemory.open(folder) as memory:
        assert memory.inspect("é").tags == plain.tags


class Bomb:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, ("exploded",)


def test_f047_no_file_runs_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space = tmp_path / "space"
    with SpectorMemory.open(space) as memory:
        memory.remember("kept", id="a")
    for path in list(space.iterdir()):
        content = path.read_bytes()
        path.write_bytes(pickle.dumps(Bomb()) * 20)
        if path.name == "journal.db":
            with pytest.raises(CorruptionError):
                SpectorMemory.open(space)
        else:
            SpectorMemory.open(space).close()
        path.write_bytes(content)
    assert not (tmp_path / "exploded").exists()
    unsafe = re.compile(r"\b(pickle\b|marshal|shelve|eval\(|exec\(|allow_pickle)")
    sources = list(Path(spector.__file__).parent.rglob("*.py"))
    assert len(sources) > 10
    for source in sources:
        assert not unsafe.search(source.read_text(encoding="utf-8")), source


@pytest.mark.parametrize("name", ["../x", "a/../../b", "con", "x" * 300, "e\u0301", "a;b'c\"d%?#"])
def test_f048_f049_names_are_only_names(tmp_path: Path, name: str) -> None:
    """Ids, sessions, authors and tags never become parts of paths."""
    space = tmp_path / "deep" / "space"
    with SpectorMemory.open(space) as memory:
        memory.remember("text", id=name, session=name, author=name, tags=[name], source=name)
        assert ids(memory.recall("text", author=name, tags=[name])) == [name]
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert sorted(path.name for path in space.iterdir()) == ["journal.db", "lock"]


@pytest.mark.parametrize("name", ["journal.db?mode=memory", "file:x", "a'b", "ü %41", "x" * 200])
def test_f048_a_folder_is_taken_by_its_name(tmp_path: Path, name: str) -> None:
    with SpectorMemory.open(tmp_path / name) as memory:
        memory.remember("text", id="a")
    assert (tmp_path / name / "journal.db").is_file()
    with SpectorMemory.open(str(tmp_path / name)) as memory:
        assert "a" in memory


# --- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1),
        date(1900, 1, 1),
        "1969-12-31T23:59:59.999",
        "2038-01-20",
        datetime(2106, 2, 8, tzinfo=timezone.utc),
        datetime(9999, 12, 31, 23, 59, 59, 999_000),
        -1,
        0,
    ],
)
def test_f062_any_date_can_be_stored(moment: int | date | str) -> None:
    with SpectorMemory.ephemeral() as memory:
        memory.remember("dated", id="a", timestamp=moment)
        memory.remember("dated", id="b")
        assert set(ids(memory.recall("dated"))) == {"a", "b"}  # what is older comes later
        assert ids(memory.recall("dated", since=moment, until=moment)) == ["a"]
        assert len(memory.browse()) == 2


def test_f063_a_naive_time_is_utc_wherever_one_is(tmp_path: Path) -> None:
    code = """
        import sys
        from datetime import date, datetime
        from spector import SpectorMemory
        with SpectorMemory.open(sys.argv[1], clock=lambda: 1_900_000_000_000) as memory:
            memory.remember("a", id="now" + sys.argv[2])
            memory.remember("a", id="naive" + sys.argv[2], timestamp=datetime(2030, 3, 17, 23, 30))
            memory.remember("a", id="text" + sys.argv[2], timestamp="2030-03-17T23:30:00")
            day = date(2030, 3, 17)
            print(len(memory.recall("a", since=day, until=day)))
    """
    zones = ["America/Los_Angeles", "Asia/Tokyo"]
    outputs = [
        run(code, tmp_path, number, environment={"TZ": zone}) for number, zone in enumerate(zones)
    ]
    assert outputs == ["3\n", "6\n"]
    with SpectorMemory.open(tmp_path) as memory:
        stored = {found.id: found.timestamp for found in memory.browse()}
    for number in "01":
        assert stored[f"now{number}"] == NOW
        assert stored[f"naive{number}"] == stored[f"text{number}"] == 1_900_020_600_000


def test_f064_a_clock_that_steps_back_disturbs_no_order(tmp_path: Path) -> None:
    times = iter([NOW] * 100 + [NOW - 3_600_000] * 100)
    with SpectorMemory.open(tmp_path, clock=lambda: next(times)) as memory:
        made = [memory.remember("text", session=f"s{number % 2}") for number in range(200)]
    assert made == sorted(set(made))  # ids of one handle ascend
    with SpectorMemory.open(tmp_path) as memory:
        found = memory.recall("text", k=200, graph_expansion=False)
        assert ids(found) == made  # equal scores: order of calls
        chain = memory._space.replica.graphs.temporal  # of each session likewise
        assert [chain.prev(slot) for slot in range(3, 201)] == list(range(1, 199))


# --- concurrency --------------------------------------------------------------------------------


def test_f077_what_is_forgotten_is_never_served_again() -> None:
    rounds = 300
    forgotten: set[str] = set()
    wrong: list[object] = []
    done = threading.Event()
    with SpectorMemory.ephemeral() as memory:

        def search() -> None:
            try:
                while not done.is_set():
                    gone = set(forgotten)
                    back = gone & set(ids(memory.recall("text", k=1000)))
                    if back:
                        wrong.append(back)
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=search) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(rounds):
            memory.remember("text", id=str(number))
            memory.forget(str(number))
            forgotten.add(str(number))
        done.set()
        for thread in threads:
            thread.join(30)
    assert wrong == []


def test_f082_many_updates_of_one_id_leave_one_memory(tmp_path: Path) -> None:
    with SpectorMemory.open(tmp_path) as memory:
        errors: list[BaseException] = []

        def update(number: int) -> None:
            try:
                for turn in range(25):
                    memory.remember(f"written by {number} in turn {turn}", id="x")
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=update, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
        (found,) = memory.browse()
        assert re.fullmatch(r"written by \d in turn 24", found.text)
        (hit,) = memory.recall("written")
        assert hit.memory == found
        with SpectorMemory.ephemeral() as fresh:
            fresh.remember(found.text, id="x")
            assert fresh.recall("written")[0].score == hit.score
        assert memory.status().events == 200


def test_f085_listing_while_adding_and_forgetting() -> None:
    with SpectorMemory.ephemeral(clock=lambda: NOW) as memory:
        memory.remember_many({"text": "t", "id": str(number)} for number in range(20))
        seen: list[str] = []
        page = memory.browse(limit=3)
        while page:
            assert not {found.id for found in page} & set(seen)
            seen += [found.id for found in page]
            memory.remember("t", timestamp=NOW + 1)
            for found in page[:-1]:  # the last one is where the next page starts
                memory.forget(found.id)
            page = memory.browse(limit=3, after=page[-1].id)
        assert seen == [str(number) for number in reversed(range(20))]
        with pytest.raises(UnknownMemoryError):
            memory.browse(after=seen[0])
