"""The journal: what it stores, what it refuses, what it notices (PER-*, AM-17, AM-18)."""

from __future__ import annotations

import errno
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spector.store.model as model_module
import spector.store.reader as reader_module
from children import WITHOUT_RIGHTS, finish, run, start
from spector import (
    CapacityError,
    CorruptionError,
    SpectorError,
    SpectorMemory,
    StorageError,
    VersionError,
    _core,
)
from spector.store import EventType, check
from spector.store.ids import IdMaker
from spector.store.model import memory_crc
from spector.store.values import MAX_TIME, MIN_TIME, check_time, clean, fold


def fill(path: Path) -> None:
    """A small space with every kind of row in it."""
    with SpectorMemory.open(path, clock=lambda: 1_900_000_000_000, seed=1) as memory:
        memory.remember("red fox in the snow", id="a", tags=["animal", "winter"], author="ann")
        memory.remember("blue owl at night", id="b", context="birds", metadata={"n": [1, None]})
        memory.remember("grey fox", id="c", tags=["animal"], type="episodic", session="s1")
        memory.remember("gone tomorrow", id="d", tags=["gone"])
        memory.forget("d")
        memory.remember("red fox in the rain", id="a", tags=["animal"], author="ann")


def answers(path: Path) -> list[object]:
    """All that can be asked of the small space."""
    with SpectorMemory.open(path) as memory:
        return [
            [(hit.id, hit.score) for hit in memory.recall("fox", recall_mode="observe")],
            [hit.id for hit in memory.recall("fox owl", recall_mode="observe", tags=["animal"])],
            [hit.id for hit in memory.recall("fox owl", recall_mode="observe", author="ann")],
            [hit.id for hit in memory.recall("owl birds", recall_mode="observe", type="semantic")],
            memory.browse(),
            memory.browse(tags=["winter"]),
            [memory_id in memory for memory_id in "abcd"],
            len(memory),
        ]


def database(path: Path) -> closing[sqlite3.Connection]:
    """The journal without the library in between."""
    return closing(sqlite3.connect(path / "journal.db", isolation_level=None))


# --- normal forms -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("  Data \t Base\n", "data base"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("ﬁle", "file"),
        ("Ａ１", "a1"),
        ("İstanbul", "i̇stanbul"),
        ("x\u3000y", "x y"),
    ],
)
def test_tags_are_folded(text: str, folded: str) -> None:  # GEN-6
    assert fold(text) == folded


@given(st.text())
def test_folding_again_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text(st.characters(categories=["Cs", "Lu", "So"])))
def test_clean_text_is_utf8(text: str) -> None:  # F-029
    cleaned = clean(text)
    assert len(cleaned) == len(text)
    assert (
        cleaned.encode()
        == "".join(c if c < "\ud800" or c > "\udfff" else "\ufffd" for c in text).encode()
    )


NOON = 1_925_553_600_000  # 2031-01-07 12:00 UTC


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        datetime(2031, 1, 7, 12),
        datetime(2031, 1, 7, 12, tzinfo=timezone.utc),
        datetime(2031, 1, 7, 21, tzinfo=timezone(timedelta(hours=9))),
        "2031-01-07T12:00:00Z",
        "2031-01-07 12:00:00",
        "2031-01-07T04:00:00-08:00",
        " 2031-01-07T12:00:00.000+00:00 ",
        "20310107T120000Z",
        "20310107T1200",
        "2031-01-07t12:00z",
        "2031-01-07T12:00:00,000",
        "2031-01-07T12:00:00.000999999 Z",
        "2031-01-07T17:30+0530",
        "2031-01-07T04:00-08",
    ],
)
def test_ways_to_say_a_time(value: object) -> None:
    assert check_time("since", value) == NOON


def test_a_date_is_a_whole_day() -> None:
    midnight = NOON - 12 * 3_600_000
    for day in (date(2031, 1, 7), "2031-01-07", "20310107", " 20310107\n"):
        assert check_time("since", day) == midnight
        assert check_time("until", day, end_of_day=True) == midnight + 86_400_000 - 1


@pytest.mark.parametrize(
    "text",
    [
        *("2031W021", "2031-W02-1", "2031-W02", "2031-007", "2031-01", "2031", "310107"),
        *("2031-0107", "203101-07", "2031-02-30", "20310230", "2031-1-7", "２０３１-01-07"),
        *("2031-01-07T12", "2031-01-07T12:0000", "2031-01-07T1200:00", "2031-01-07T24:00"),
        *("2031-01-07T12:00:60", "2031-01-07 12:00 UTC", "2031-01-07x12:00", "2031-01-07T"),
        *("2031-01-07Z", "2031-01-07T12:00+24:00", "2031-01-07T12:00+01:60", "T12:00", "Z"),
        *("2031-01-07T12:00+01:00:30", "2031-01-07T12:00:00.", "0000-01-01", "12:00"),
    ],
)
def test_other_spellings_of_a_time_are_refused(text: str) -> None:  # on every version of Python
    for end_of_day in (False, True):
        with pytest.raises(ValueError, match=r"^t must be an ISO 8601 date or time such as"):
            check_time("t", text, end_of_day=end_of_day)


def test_range_of_times_is_that_of_datetime() -> None:
    assert check_time("t", datetime.min) == MIN_TIME
    assert check_time("t", datetime.max) == MAX_TIME
    for value in (MIN_TIME - 1, MAX_TIME + 1):
        with pytest.raises(ValueError, match="t must be milliseconds between -62135596800000"):
            check_time("t", value)


@given(st.integers(0, 2**32), st.lists(st.integers(-5, 5), min_size=2, max_size=50))
def test_made_ids_ascend_whatever_the_clock_does(seed: int, steps: list[int]) -> None:
    maker, now, ids = IdMaker(random.Random(seed)), 1_900_000_000_000, []
    for step in steps:
        now += step
        ids.append(maker.next(now))
    assert ids == sorted(set(ids))
    assert {len(name) for name in ids} == {13}
    assert not set("".join(ids)) & set("ILOUabcdefghijklmnopqrstuvwxyz")


def test_made_ids_sort_by_time_between_makers() -> None:
    early, late = IdMaker(random.Random(1)), IdMaker(random.Random(2))
    assert early.next(1_900_000_000_000) < late.next(1_900_000_000_001)
    assert IdMaker(random.Random(1)).next(-5) < early.next(1_900_000_000_002)


#: Columns after the texts.
TRAITS = ("[]", 5.0, 0.5, -3, 6, 1, "", 2, 1.5, 3, 4, None)


def plain_memory_crc(*row: Any) -> int:
    texts = [row[i] for i in (1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 19, 24)]
    numbers = [row[i] for i in (0, 8, 9, 10, 14, 15, 16, 17, 18, 20, 21, 22, 23)]
    lengths = [-1 if text is None else len(text) for text in texts]
    head = ",".join(map(repr, [*numbers, *lengths]))
    return _core.crc32c((head + ";" + "".join(text or "" for text in texts)).encode())


@given(
    st.lists(st.text(max_size=5), min_size=8, max_size=8),
    st.lists(st.none() | st.text(max_size=5), min_size=4, max_size=4),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=10, max_size=10),
    st.lists(st.floats(allow_nan=False), min_size=3, max_size=3),
)
def test_checksum_of_a_row_is_that_of_its_text(
    texts: list[str], optional: list[str | None], numbers: list[int], reals: list[float]
) -> None:  # AM-18
    a, b, c, d, e, f, g, h = texts
    context, session, author, suppressed = optional
    row = (
        *(numbers[0], a, b, context, c, d, session, author, *numbers[1:4], e, f, g),
        *(*reals[:2], *numbers[4:7], h, numbers[7], reals[2], *numbers[8:10], suppressed),
    )
    assert memory_crc(*row) == plain_memory_crc(*row)
    with pytest.raises(TypeError):
        memory_crc(*row[:2], None, *row[3:])
    with pytest.raises(TypeError):
        memory_crc(*row[:14], 5, *row[15:])


@given(st.lists(st.text(max_size=3), min_size=9, max_size=9), st.integers(0, 8))
def test_checksum_of_a_row_tells_columns_apart(texts: list[str], cut: int) -> None:  # AM-18
    def crc(values: list[str]) -> int:
        a, b, c, d, e, f, g, h, i = values
        return memory_crc(1, a, b, c, d, e, f, g, 5, 6, 7, h, i, *TRAITS)

    moved = list(texts)
    moved[cut - 1], moved[cut] = moved[cut - 1] + moved[cut], ""
    assert (crc(moved) == crc(texts)) == (moved == texts)
    row = (1, "i", "t", None, "y", "s", None, None, 5, 6, 7, "[]", "{}", *TRAITS)
    crc_of_row = memory_crc(*row)
    assert crc_of_row != memory_crc(*row[:3], "", *row[4:])
    for place in range(13, len(row)):
        old = row[place]
        other = "" if old is None else old + ("x" if isinstance(old, str) else 1)
        assert crc_of_row != memory_crc(*row[:place], other, *row[place + 1 :])


# --- what is written ----------------------------------------------------------------------------


def test_the_file_is_marked_as_ours(tmp_path: Path) -> None:
    fill(tmp_path)
    header = (tmp_path / "journal.db").read_bytes()[:100]
    assert header.startswith(b"SQLite format 3\0")
    assert header[18:20] == b"\2\2"  # WAL
    assert header[60:64] == (4).to_bytes(4, "big")
    assert header[68:72] == b"SPEC"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["journal.db", "lock"]


def test_every_commit_is_synced(tmp_path: Path) -> None:  # PER-9
    with SpectorMemory.open(tmp_path) as memory:
        writer = memory._space.journal._writer
        pragmas = {
            name: writer.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {
        "synchronous": 2,
        "journal_mode": "wal",
        "foreign_keys": 1,
        "busy_timeout": 5000,
    }


def test_events_are_in_order_and_hold_no_text(tmp_path: Path) -> None:  # AM-17
    fill(tmp_path)
    with database(tmp_path) as connection:
        events = connection.execute("SELECT seq, type, at, slot, payload FROM events").fetchall()
    at = 1_900_000_000_000
    assert events == [
        (1, 1, at, 1, None),
        (2, 1, at, 2, None),
        (3, 1, at, 3, "08d8ff07b578d149"),  # H64 of its session
        (4, 1, at, 4, None),
        (5, 2, at, 4, None),
        (6, 1, at, 1, None),
    ]
    assert (EventType.REMEMBER, EventType.FORGET) == (1, 2)  # stored: never change


def test_slots_are_never_used_twice(tmp_path: Path) -> None:  # GEN-1, F-056
    used: list[int] = []
    for _ in range(3):
        with SpectorMemory.open(tmp_path) as memory:
            memory.remember("a text", id="x")
            with memory._space.journal.reader() as reader:
                used.append(reader.find("x")[0])
            memory.forget("x")
    assert used == [1, 2, 3]


def test_a_space_that_is_full_says_so(tmp_path: Path) -> None:
    fill(tmp_path)
    with database(tmp_path) as connection:
        connection.execute("UPDATE sqlite_sequence SET seq = ?", (2**32 - 2,))
    before = answers(tmp_path)
    with SpectorMemory.open(tmp_path) as memory:
        with pytest.raises(CapacityError, match="at most 4294967294 memories over its whole life"):
            memory.remember("one too many")
        memory.remember("an update needs no slot", id="b")
        memory.remember("blue owl at night", id="b", context="birds", metadata={"n": [1, None]})
    after = answers(tmp_path)
    assert before[0] == after[0] and before[-1] == after[-1]


# --- settings -----------------------------------------------------------------------------------


def test_stored_settings_win(tmp_path: Path) -> None:  # F-046
    with SpectorMemory.open(
        tmp_path, k1=0.9, b=0.4, analyzer="whitespace", language=None
    ) as memory:
        memory.remember("red fox red", id="a")
        memory.remember("red", id="b")
        before = [(hit.id, hit.score) for hit in memory.recall("red")]
    with SpectorMemory.open(tmp_path) as memory:
        status = memory.status()
        assert (status.k1, status.b, status.analyzer, status.language) == (
            0.9,
            0.4,
            "whitespace",
            None,
        )
        assert [(hit.id, hit.score) for hit in memory.recall("red")] == before
    with SpectorMemory.open(tmp_path, k1=0.9, b=0.4, analyzer="whitespace", language=None):
        pass


@pytest.mark.parametrize(
    ("option", "stored"),
    [
        ({"k1": 2}, "1.2"),
        ({"b": 0.5}, "0.75"),
        ({"analyzer": "standard"}, "'code'"),
        ({"language": None}, "'english'"),
    ],
)
def test_other_settings_are_refused(tmp_path: Path, option: dict[str, object], stored: str) -> None:
    SpectorMemory.open(tmp_path).close()
    ((name, value),) = option.items()
    with pytest.raises(ValueError, match=f"{name} is {stored} in the space .*, got {value!r}"):
        SpectorMemory.open(tmp_path, **option)  # type: ignore[arg-type]


def test_another_fingerprint_is_taken_over(tmp_path: Path) -> None:
    fill(tmp_path)
    before = answers(tmp_path)
    with SpectorMemory.open(tmp_path) as memory:
        current = memory.status().fingerprint
        with memory._space.journal.transaction() as transaction:
            transaction.set_meta({"fingerprint": "code-0/unicode-1"})
    assert check(tmp_path).ok
    assert answers(tmp_path) == before
    with SpectorMemory.open(tmp_path) as memory, memory._space.journal.reader() as reader:
        assert reader.meta()["fingerprint"] == current
    assert check(tmp_path).ok


# --- files that are not ours, or damaged --------------------------------------------------------


def _text(path: Path) -> None:
    path.write_text("this is no database" * 20)


def _other_database(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t(x)")


def _pragma(pragma: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA {pragma}")

    return change


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda path: path.write_bytes(b""), CorruptionError, r"not a journal.*\(0 bytes read\)"),
        (_text, CorruptionError, "not a journal of spector"),
        (_other_database, CorruptionError, "application id 0x00000000 at offset 68"),
        (_pragma("application_id = 7"), CorruptionError, "application id 0x00000007 at offset 68"),
        (_pragma("user_version = 5"), VersionError, "version 5; this spector knows .* up to 4"),
        (_pragma("user_version = 1"), VersionError, "version 1, which no release of spector wrote"),
        (_pragma("user_version = 0"), CorruptionError, "impossible format version 0"),
    ],
    ids=["empty", "text", "other database", "other application", "newer", "version 1", "version 0"],
)
def test_a_file_that_is_not_ours_is_left_alone(
    tmp_path: Path, damage: Callable[[Path], object], error: type[SpectorError], message: str
) -> None:  # PER-6, PER-7, F-034
    fill(tmp_path)
    path = tmp_path / "journal.db"
    damage(path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(error, match=message) as raised:
        SpectorMemory.open(tmp_path)
    assert str(path) in str(raised.value)
    report = check(tmp_path)
    assert not report.ok
    assert str(path) in report.problems[0]
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(StorageError, match="is a file; a space is a folder") as raised:
        SpectorMemory.open(path)
    assert raised.value.errno == errno.ENOTDIR
    assert path.read_text() == "x"


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "journal.db").mkdir()
    with pytest.raises(StorageError, match=r"journal\.db") as raised:
        SpectorMemory.open(tmp_path)
    assert raised.value.errno == errno.EISDIR


def test_checking_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"journal\.db") as raised:
        check(tmp_path / "absent")
    assert raised.value.errno == errno.ENOENT
    assert list(tmp_path.iterdir()) == []


DAMAGE = {
    "text": (
        "UPDATE memories SET text = 'blue owl at noon' WHERE id = 'b'",
        "slot 2 does not match",
    ),
    "id": ("UPDATE memories SET id = 'e' WHERE id = 'b'", "slot 2 does not match its checksum"),
    "null": ("UPDATE memories SET context = '' WHERE id = 'c'", "slot 3 does not match"),
    "slot": ("UPDATE memories SET slot = 9 WHERE id = 'b'", "slot 9"),
    "row gone": ("DELETE FROM memories WHERE id = 'b'", "memories has 2 rows, but 3 were written"),
    "row back": (
        "INSERT INTO memories SELECT 4, 'd', text, context, type, source, session, author,"
        " timestamp, created, updated, tags, metadata, about, importance, surprise, valence,"
        " arousal, flags, entities, recalls, strength, passive, last_passive, suppressed, crc"
        " FROM memories WHERE id = 'b'",
        "slot 4",
    ),
    "event": ("UPDATE events SET slot = 2 WHERE seq = 3", "event 3"),
    "event time": ("UPDATE events SET at = at + 1 WHERE seq = 3", "event 3 does not match its"),
    "event gone": ("DELETE FROM events WHERE seq = 5", "event 5 is missing"),
    "last event gone": (
        "DELETE FROM events WHERE seq = 6",
        "events has 5 rows, but 6 were written",
    ),
    "tag": ("UPDATE memory_tags SET tag = 'x' WHERE slot = 3", "table of tags differs"),
    "tag gone": ("DELETE FROM memory_tags WHERE slot = 3", "table of tags differs"),
    "tag added": ("INSERT INTO memory_tags VALUES('winter', 2)", "table of tags differs"),
    "total": ("UPDATE totals SET crc_sum = crc_sum + 1 WHERE name = 'memories'", "do not add up"),
    "total gone": ("DELETE FROM totals WHERE name = 'events'", "totals table is damaged"),
    "setting": ("UPDATE meta SET value = '1.3' WHERE key = 'k1'", "'k1' does not match"),
    "setting gone": ("DELETE FROM meta WHERE key = 'k1'", "a setting is missing"),
    "slot counter": ("UPDATE sqlite_sequence SET seq = 3", "highest slot is said to be 3, but 4"),
    "index gone": ("DROP INDEX memories_by_type", "index memories_by_type is missing"),
    "trigger": (
        "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM memories; END",
        "trigger t is not ours",
    ),
}


@pytest.mark.parametrize(("statement", "message"), DAMAGE.values(), ids=DAMAGE)
def test_rows_that_changed_behind_our_back(tmp_path: Path, statement: str, message: str) -> None:
    # AM-18: SQLite itself is content with all of these.
    fill(tmp_path)
    assert check(tmp_path).ok
    with database(tmp_path) as connection:
        connection.execute(statement)
    with pytest.raises(CorruptionError) as raised:
        SpectorMemory.open(tmp_path)
    assert str(tmp_path / "journal.db") in str(raised.value)
    report = check(tmp_path)
    assert not report.ok
    assert any(message in problem for problem in report.problems), report.problems
    assert not any("doctor" in problem or "this file" in problem for problem in report.problems)


def test_an_unknown_event_is_not_skipped(tmp_path: Path) -> None:
    fill(tmp_path)
    with (
        SpectorMemory.open(tmp_path) as memory,
        memory._space.journal.transaction() as transaction,
    ):
        transaction._log(EventType.REMEMBER, [1], 5)
        event = transaction.log.pop()
        crc = model_module.event_crc(event.seq, 99, 5, 1, None)
        transaction.log.append(event._replace(type=99, crc=crc))
    with pytest.raises(CorruptionError, match="event 7 has the unknown type 99"):
        SpectorMemory.open(tmp_path)
    assert any("unknown type 99" in problem for problem in check(tmp_path).problems)


def test_damage_found_while_open(tmp_path: Path) -> None:
    fill(tmp_path)
    with SpectorMemory.open(tmp_path) as memory:
        with database(tmp_path) as connection:
            connection.execute("UPDATE memories SET text = 'blue owl at noon' WHERE id = 'b'")
        with pytest.raises(CorruptionError, match="slot 2 does not match its checksum"):
            memory.recall("owl")
        with pytest.raises(CorruptionError, match="slot 2 does not match its checksum"):
            memory.inspect("b")
        assert [hit.id for hit in memory.recall("grey")] == ["c"]


def flips(path: Path, rounds: int) -> tuple[int, int, list[int]]:
    """Flip bits all over the file: how many were reported, how many did no harm, which lied."""
    file = path / "journal.db"
    sound, right = file.read_bytes(), answers(path)
    rng = random.Random(5)
    reported, harmless, wrong = 0, 0, []
    # Pages of SQLite are mostly empty: visit the bytes in use more often than the rest.
    used = [at for at, byte in enumerate(sound) if byte]
    for _ in range(rounds):
        at = rng.choice(used) if rng.random() < 0.8 else rng.randrange(len(sound))
        damaged = bytearray(sound)
        damaged[at] ^= 1 << rng.randrange(8)
        for side_file in ("-wal", "-shm"):
            Path(f"{file}{side_file}").unlink(missing_ok=True)
        file.write_bytes(damaged)
        try:
            got = answers(path)
        except (CorruptionError, VersionError):
            reported += 1
        except ValueError:  # a damaged text or JSON got through
            wrong.append(at)
        else:
            if got == right:
                harmless += 1
            else:
                wrong.append(at)
    file.write_bytes(sound)
    return reported, harmless, wrong


def test_a_flipped_bit_never_gives_a_wrong_answer(tmp_path: Path) -> None:  # F-036
    fill(tmp_path)
    reported, harmless, wrong = flips(tmp_path, 800)
    assert wrong == []
    assert reported > harmless / 4 > 0


def test_without_checksums_it_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The control of the test before.
    fill(tmp_path)
    monkeypatch.setattr(reader_module, "row_problem", lambda row: None)
    _, _, wrong = flips(tmp_path, 400)
    assert wrong


def test_a_file_cut_at_any_length(tmp_path: Path) -> None:  # F-038
    fill(tmp_path)
    file = tmp_path / "journal.db"
    sound, right = file.read_bytes(), answers(tmp_path)
    page = 4096
    lengths = {0, 1, 50, 99, 100, 101, 1000, len(sound) - 1}
    lengths |= {at + step for at in range(page, len(sound), page) for step in (-1, 0, 1)}
    for length in sorted(lengths):
        file.write_bytes(sound[:length])
        try:
            got = answers(tmp_path)
        except CorruptionError:
            continue
        assert got == right, length
    file.write_bytes(sound)
    assert answers(tmp_path) == right


def test_the_log_cut_at_any_length(tmp_path: Path) -> None:  # F-038
    """A torn write-ahead log: what is found is what the first n calls stored."""
    space, copy = tmp_path / "space", tmp_path / "copy"
    with SpectorMemory.open(space) as memory:
        for number in range(6):
            memory.remember(f"text number {number}", id=str(number))
        shutil.copytree(space, copy)  # as a power cut would leave it
    log = copy / "journal.db-wal"
    journal, whole = (copy / "journal.db").read_bytes(), log.read_bytes()
    seen = set()
    for length in range(0, len(whole) + 1, 1999):
        (copy / "journal.db").write_bytes(journal)
        (copy / "journal.db-shm").unlink(missing_ok=True)
        log.write_bytes(whole[:length])
        with SpectorMemory.open(copy) as memory:
            ids = sorted(found.id for found in memory.browse())
            assert ids == [str(number) for number in range(len(ids))]
            assert len(memory.recall("text number", k=10)) == len(ids)
        seen.add(len(ids))
        assert check(copy).ok
    assert len(seen) > 3


# --- a disk that fails --------------------------------------------------------------------------


def test_disk_full_undoes_the_operation(tmp_path: Path) -> None:  # F-041
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("kept", id="a")
        writer = memory._space.journal._writer
        pages = writer.execute("PRAGMA page_count").fetchone()[0]
        writer.execute(f"PRAGMA max_page_count = {pages + 1}")
        items = [{"text": "lost " * 300, "id": str(number)} for number in range(20)]
        with pytest.raises(StorageError, match=r"journal\.db.*full.*undone as a whole") as raised:
            memory.remember_many(items)
        assert raised.value.errno == errno.ENOSPC
        assert isinstance(raised.value, OSError)
        assert len(memory) == 1
        assert not memory.recall("lost")
        assert [hit.id for hit in memory.recall("kept")] == ["a"]
        writer.execute("PRAGMA max_page_count = 1000000")
        memory.remember_many(items)
        assert len(memory.recall("lost", k=50)) == 20
    assert check(tmp_path).ok


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:  # reliability R6
    code = """
        import errno, resource, sys
        from spector import SpectorMemory, StorageError

        memory = SpectorMemory.open(sys.argv[1])
        kept = [memory.remember("kept " * 50)]
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        try:
            while True:
                kept.append(memory.remember("kept " * 500))
        except StorageError as error:
            assert error.errno == errno.EIO, error
        assert len(kept) > 5
        assert len(memory) == len(kept) == len(memory.recall("kept", k=10**6))
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        if sys.version_info < (3, 11):  # cannot tell it from a failed sync
            memory.close()
            memory = SpectorMemory.open(sys.argv[1])
        kept.append(memory.remember("kept, too"))
        memory.close()
        with SpectorMemory.open(sys.argv[1]) as memory:
            assert {found.id for found in memory.browse(limit=10**6)} == set(kept)
        print("done")
    """
    assert run(code, tmp_path) == "done\n"
    assert check(tmp_path).ok


class FailingCommit:
    """A connection whose next COMMIT fails as an fsync does."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._armed = True

    def execute(self, statement: str, *parameters: object) -> object:
        if statement == "COMMIT" and self._armed:
            self._armed = False
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = 1034
            error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
            raise error
        return self._connection.execute(statement, *parameters)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


def test_a_failed_sync_is_not_papered_over(tmp_path: Path) -> None:  # reliability R17
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("kept", id="a")
        journal = memory._space.journal
        journal._writer = FailingCommit(journal._writer)  # type: ignore[assignment]
        with pytest.raises(StorageError, match="disk I/O error") as raised:
            memory.remember("not kept", id="b")
        assert raised.value.errno == errno.EIO
        with pytest.raises(StorageError, match="an earlier sync to disk failed"):
            memory.remember("not kept either", id="c")
        assert [found.id for found in memory.browse()] == ["a"]
        assert [hit.id for hit in memory.recall("kept")] == ["a"]
    with SpectorMemory.open(tmp_path) as memory:
        memory.remember("works again", id="d")
        assert len(memory) == 2


def test_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, flags: int, *rest: int) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError, match="Permission denied") as raised:
        SpectorMemory.open(tmp_path)
    assert raised.value.errno == errno.EACCES


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Path]:
    """A folder in which file modes count for processes started through `WITHOUT_RIGHTS`."""
    (tmp_path / "closed").mkdir(mode=0o555)
    look = "import os, sys; print(os.access(sys.argv[1], os.W_OK))"
    if run(look, tmp_path / "closed", through=WITHOUT_RIGHTS) != "False\n":
        pytest.skip("this user may write everywhere, so there is no read-only folder to try")
    yield tmp_path
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755)


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_space_that_may_not_be_written_can_be_read(guarded: Path, what: str) -> None:
    space = guarded / "space ?%41#"
    fill(space)
    with SpectorMemory.open(space) as memory:
        observe = {"recall_mode": "observe"}
        right = (
            list(memory.recall("fox", options=observe)),
            list(memory.recall("fox", options=observe, tags=["animal"], k=1)),
        )
        listed = memory.browse()
    (space / "journal.db").chmod(0o444)
    space.chmod(0o555 if what == "folder" else 0o755)
    code = """
        import sys
        from spector import SpectorMemory, StorageError
        from spector.store import check

        with SpectorMemory.open(sys.argv[1]) as memory:
            assert memory.status().read_only
            for call in (lambda: memory.remember("x"), lambda: memory.forget("a")):
                try:
                    call()
                except StorageError as error:
                    assert "open for reading only, because this process may not" in str(error)
                else:
                    raise AssertionError
            print((list(memory.recall("fox")), list(memory.recall("fox", tags=["animal"], k=1))))
            print(memory.browse())
            print(memory.inspect("a").text, memory.explain("a", "fox").score > 0, len(memory))
        print(check(sys.argv[1]).ok)
    """
    expected = f"{right}\n{listed}\nred fox in the rain True 3\nTrue\n"
    assert run(code, space, through=WITHOUT_RIGHTS) == expected
    space.chmod(0o755)
    (space / "journal.db").chmod(0o644)
    with SpectorMemory.open(space) as memory:
        assert not memory.status().read_only


def test_a_log_that_cannot_be_merged_is_said_to_be_the_reason(guarded: Path) -> None:
    with SpectorMemory.open(guarded / "live") as memory:
        memory.remember("in the log", id="a")
        shutil.copytree(guarded / "live", guarded / "with")
        shutil.copytree(guarded / "live", guarded / "without")
    (guarded / "without" / "journal.db-shm").unlink()
    for name in ("with", "without"):
        (guarded / name).chmod(0o555)
    code = """
        import sys
        from spector import SpectorMemory, StorageError
        from spector.store import check

        with SpectorMemory.open(sys.argv[1] + "/with") as memory:
            assert [hit.id for hit in memory.recall("log")] == ["a"]
        for call in (SpectorMemory.open, check):
            try:
                call(sys.argv[1] + "/without")
            except StorageError as error:
                assert "journal.db cannot be read: its last changes are in a log" in str(error)
                assert "copy the folder" in str(error)
            else:
                raise AssertionError
    """
    run(code, guarded, through=WITHOUT_RIGHTS)


def test_a_change_under_a_reader_without_rights(guarded: Path) -> None:
    """Without a lock the reader cannot keep a writer away, but it does not answer wrongly."""
    space = guarded / "space"
    fill(space)
    space.chmod(0o555)
    code = """
        import sys
        from spector import SpectorMemory, StorageError

        with SpectorMemory.open(sys.argv[1]) as memory:
            assert len(memory.recall("fox")) == 2
            print("open", flush=True)
            for turn in ("while the writer is there", "after it closed"):
                sys.stdin.readline()
                for call in (lambda: memory.recall("fox"), memory.browse, memory.status):
                    try:
                        call()
                    except StorageError as error:
                        assert "was changed by another process while it was open" in str(error)
                    else:
                        raise AssertionError(turn)
                print(turn, flush=True)
        with SpectorMemory.open(sys.argv[1]) as memory:
            assert len(memory.recall("fox")) == 3
    """
    child = start(code, space, through=WITHOUT_RIGHTS)
    assert child.stdout is not None
    assert child.stdin is not None

    def go_on() -> None:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()

    lines = [child.stdout.readline()]
    space.chmod(0o755)
    with SpectorMemory.open(space) as memory:
        memory.remember("one fox more", id="e")
        go_on()
        lines.append(child.stdout.readline())
    space.chmod(0o555)
    go_on()
    assert finish(child) == "after it closed\n"
    assert lines == ["open\n", "while the writer is there\n"]


def test_a_creation_that_was_interrupted(tmp_path: Path) -> None:  # F-033
    fill(tmp_path / "other")
    half = (tmp_path / "other" / "journal.db").read_bytes()[:5000]
    for name in ("journal.db.new", "journal.db.new-wal", "journal.db.new-journal"):
        (tmp_path / name).write_bytes(half)
    fill(tmp_path)
    assert check(tmp_path).ok
    assert {p.name for p in tmp_path.iterdir()} == {"journal.db", "lock", "other"}
