"""`spector import`: what is read, what is reported, and what a second import does."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shell import SPECTOR, environment, spector
from spector import SpectorMemory
from spector.cli.app import _summary
from spector.cli.loading import Loaded
from spector.cli.readers import PIECE_CHARACTERS, Input, Problem, Record


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., tuple[list[Record], list[Problem]]]:
    """Write a file and read it back as an import would."""

    def read(name: str, content: bytes | str) -> tuple[list[Record], list[Problem]]:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        problems: list[Problem] = []
        source = Input([str(path)], home=tmp_path, report=problems.append)
        source.plan()
        records = list(source.records())
        assert source.done_bytes == source.total_bytes
        return records, problems

    return read


def texts(records: list[Record]) -> list[str]:
    return [item["text"] for item, _ in records]


# What is read


def test_markdown_is_divided_at_headings(read):
    records, problems = read(
        "notes.md",
        "before\n\n# Deploy\n\n## Rollback\nfirst\n\n```sh\n# no heading\n```\n"
        "## Empty ##\n# Other\n\nlast\n",
    )
    assert not problems
    assert texts(records) == [
        "before",
        "## Rollback\nfirst\n\n```sh\n# no heading\n```",
        "## Empty ##",
        "# Other\n\nlast",
    ]
    assert [item["context"] for item, _ in records] == [
        "notes.md",
        "notes.md > Deploy",
        "notes.md > Deploy",
        "notes.md",
    ]
    assert [item["id"] for item, _ in records] == [f"notes.md#{n}" for n in (1, 2, 3, 4)]
    assert [place.line for _, place in records] == [1, 5, 11, 12]


def test_a_long_section_is_divided_and_each_piece_says_where_it_is_from(read):
    first, second = "one " * 400, "two " * 400
    records, _ = read("long.md", f"# Top\n\n## Part\n{first}\n\n{second}\n")
    assert texts(records) == [f"## Part\n{first}", second]
    assert [item["context"] for item, _ in records] == ["long.md > Top", "long.md > Top > Part"]


def test_plain_text_is_packed_by_paragraph(read):
    paragraphs = [f"paragraph {number} " + "word " * 100 for number in range(8)]
    records, _ = read("log.txt", "\n\n\n".join(paragraphs))
    assert "\n\n\n".join(texts(records)) == "\n\n\n".join(paragraphs)
    assert len(records) == 3
    assert all(len(text) <= PIECE_CHARACTERS for text in texts(records))


def test_text_without_blank_lines_is_divided_at_line_ends(read):
    lines = [f"line {number} of a log without a pause" for number in range(500)]
    records, _ = read("big.log", "\n".join(lines))
    assert "\n".join(texts(records)).split("\n") == lines
    assert max(map(len, texts(records))) <= PIECE_CHARACTERS


def test_a_long_line_stays_whole(read):
    line = "x" * 3_000_000
    assert texts(read("line.txt", f"a\n{line}\nb\n")[0]) == ["a", line, "b"]


def test_a_line_beyond_the_limit_is_reported_and_the_rest_goes_on(read, monkeypatch):
    monkeypatch.setattr("spector.cli.readers.LONGEST_LINE_BYTES", 2**20)
    records, problems = read("a.jsonl", b'{"text":"' + b"x" * 2**21 + b'"}\n{"text":"after"}\n')
    assert texts(records) == ["after"]
    assert [(p.place.line, p.why) for p in problems] == [(1, "the line is longer than 1 MiB")]


def test_byte_order_mark_and_carriage_returns_are_not_text(read):
    assert texts(read("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n")[0]) == ["one\ntwo"]
    assert texts(read("a.jsonl", b'\xef\xbb\xbf{"text":"one"}\r\n\r\n{"text":"two"}\r\n')[0]) == [
        "one",
        "two",
    ]


def test_bytes_that_are_not_utf8_are_replaced_and_reported(read):
    records, problems = read("a.txt", b"good\nbad \xff byte\n")
    assert texts(records) == ["good\nbad \N{REPLACEMENT CHARACTER} byte"]
    assert [(str(p.place)[-7:], p.lost) for p in problems] == [("a.txt:2", False)]
    assert problems[0].why == "not UTF-8 at byte 5; read as U+FFFD"


def test_bytes_that_are_not_utf8_are_told_of_once_a_line(read):
    records, problems = read(
        "a.jsonl",
        b'{"text":"a\xff","id":"kept"}\n'
        b"not \xff json\n"
        b'{"text":"t","id":"\xff"}\n'
        b'{"text":"t","id":"\xfe"}\n'
        b'{"text":"t","tags":["\xff"]}\n'
        b'{"text":"t","author":"\\ud800"}\n',
    )
    assert [item["id"] for item, _ in records] == ["kept"]
    told = [(problem.place.line, problem.lost, problem.why) for problem in problems]
    assert told == [
        (1, False, "not UTF-8 at byte 11; read as U+FFFD"),
        (2, True, "not JSON: Expecting value at column 1"),
        *(
            (line, True, f'"{name}" is not valid Unicode, and is a name: it may not be changed')
            for line, name in ((3, "id"), (4, "id"), (5, "tags"), (6, "author"))
        ),
    ]


def test_files_whose_names_are_not_utf8_do_not_become_one(tmp_path):
    for byte in (b"\xff", b"\xfe"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + byte + b".txt")).write_text("text")
    (tmp_path / "good.txt").write_text("text")
    problems: list[Problem] = []
    source = Input([str(tmp_path)], home=tmp_path, report=problems.append)
    source.plan()
    assert [item["id"] for item, _ in source.records()] == ["good.txt#1"]
    assert [problem.lost for problem in problems] == [True, True]
    assert all("its name is not UTF-8" in problem.why for problem in problems)


def test_a_line_without_a_context_gets_its_speaker(read):
    lines = [
        {"text": "one", "speaker": "Bartleby"},
        {"text": "two", "author": "Bartleby"},
        {"text": "three", "author": "Bartleby", "context": "office"},
        {"text": "four", "author": "Bartleby", "context": ""},
        {"text": "five", "speaker": "Bartleby", "context": None},
        {"text": "six"},
        {"text": "seven", "speaker": "a", "author": "b"},
    ]
    records, problems = read("chat.jsonl", "\n".join(map(json.dumps, lines)))
    assert [(item.get("author"), item.get("context")) for item, _ in records] == [
        *[("Bartleby", "Bartleby")] * 2,
        ("Bartleby", "office"),
        ("Bartleby", ""),
        ("Bartleby", "Bartleby"),
        (None, None),
    ]
    assert [problem.why for problem in problems] == [
        'has "author" and "speaker", which is another word for it'
    ]


def test_a_query_that_names_a_speaker_prefers_what_that_speaker_said(tmp_path):  # AM-3
    lines = [
        {"id": f"{speaker}{number}", "speaker": speaker, "text": text}
        for number, text in enumerate(["I went hiking last weekend", "the hiking trail was steep"])
        for speaker in ("Nadia", "Tom")
    ]
    (tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, lines)))
    spector("import", "chat.jsonl", cwd=tmp_path)
    with SpectorMemory.open(tmp_path / "spector-memory") as memory:
        for speaker in ("Nadia", "Tom"):
            hits = memory.recall(f"Where did {speaker} go hiking?")
            assert [hit.author for hit in hits[:2]] == [speaker] * 2
            assert hits[1].score > hits[2].score


# Through the command


GOOD = {
    "id": "m1",
    "text": "the disk of db-7 is full",
    "tags": ["disk"],
    "session": "s1",
    "author": "ana",
    "timestamp": "2026-03-01T10:00:00Z",
    "context": "incident",
    "metadata": {"severity": 2},
    "type": "episodic",
    "source": "system",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with good and bad files."""
    notes = tmp_path / "notes"
    (notes / "deep").mkdir(parents=True)
    (notes / ".git").mkdir()
    (notes / ".git" / "config").write_text("hidden")
    (notes / ".secret").write_text("hidden")
    (notes / "image.bin").write_bytes(b"\x89PNG\0\0")
    (notes / "empty.txt").write_text("\n\n")
    (notes / "a.md").write_text("# Alpha\nfirst note\n# Beta\nsecond note\n")
    (notes / "deep" / "plain.txt").write_text("third note")
    lines = [
        json.dumps(GOOD),
        "not json",
        "",
        '{"txt": "q"}',
        '{"text": 7}',
        "[1]",
        '{"text": "x", "colour": "red"}',
        '{"text": "x", "tags": "disk"}',
        '{"text": "x", "timestamp": "soon"}',
        '{"text": "x", "type": "sematic"}',
        '{"text": "x", "id": ""}',
        '{"text": "x", "metadata": {"a": NaN}}',
        '{"text": "  "}',
        '{"text": "x' + "[" * 10 + '", "metadata": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"text": "without an id", "author": null}',
    ]
    (notes / "items.jsonl").write_text("\n".join(lines) + "\n")
    return notes


def test_bad_lines_are_reported_with_file_and_line_and_the_rest_is_stored(tmp_path, folder):
    done = spector("import", "notes", "--path", "space", cwd=tmp_path, fails=True)
    assert done.code == 1
    assert done.out == ""
    expected = {
        2: "not JSON: Expecting value at column 1",
        4: "no \"text\"; did you mean 'txt'?",
        5: "text must be a str, got int 7",
        6: "not a JSON object",
        7: "item has the unknown key 'colour'",
        8: "tags must be",
        9: "timestamp must be an ISO 8601 date",
        10: "did you mean 'semantic'?",
        11: "id must be a non-empty str",
        12: "not JSON: NaN is no JSON number",
        13: '"text" is empty',
        14: "nested too deeply",
    }
    told = {}
    for line in done.err.splitlines()[:-1]:
        place, _, why = line.partition(": ")
        file, _, number = place.rpartition(":")
        assert file == str(Path("notes", "items.jsonl"))
        told[int(number)] = why
    assert told.keys() == expected.keys()
    for number, part in expected.items():
        assert part in told[number]
    assert done.err.splitlines()[-1].startswith("stored 5 memories from 4 files in ")
    assert done.err.endswith("; 12 could not be used; passed over 2 hidden, 1 binary, 1 empty\n")

    with SpectorMemory.open(tmp_path / "space") as memory:
        assert len(memory) == 5
        stored = memory.inspect("m1")
        assert (stored.text, stored.tags, stored.session) == (GOOD["text"], ("disk",), "s1")
        assert (stored.author, stored.context, stored.type) == ("ana", "incident", "episodic")
        assert (stored.source, stored.metadata) == ("system", {"severity": 2})
        assert stored.timestamp == 1772359200000
        assert memory.inspect("notes/items.jsonl#15").text == "without an id"
        assert memory.inspect("notes/a.md#2").text == "# Beta\nsecond note"
        assert memory.recall("third")[0].id == "notes/deep/plain.txt#1"


def test_a_second_import_updates_from_wherever_it_is_started(tmp_path, folder):
    (folder / "items.jsonl").unlink()
    first = spector("import", folder, "--path", tmp_path / "space", "--json").json
    (folder / "a.md").write_text("# Alpha\nfirst note\n# Beta\nchanged note\n")
    second = spector("import", ".", "--path", tmp_path / "space", "--json", cwd=folder).json
    assert first["stored"] == second["stored"] == 3
    with SpectorMemory.open(tmp_path / "space") as memory:
        assert len(memory) == 3
        assert memory.inspect("notes/a.md#2").text == "# Beta\nchanged note"
        assert not memory.recall("second")


def test_json_report(tmp_path, folder):
    done = spector("import", folder, "--path", tmp_path / "space", "--json", fails=True)
    report = done.json
    assert (report["stored"], report["lost"], report["files"]) == (5, 12, 4)
    assert report["skipped"] == {"hidden": 2, "binary": 1, "empty": 1}
    assert report["problems"][0] == {
        "file": str(folder / "items.jsonl"),
        "line": 2,
        "why": "not JSON: Expecting value at column 1",
        "lost": True,
    }


def test_standard_input_compressed_files_and_missing_files(tmp_path):
    packed = tmp_path / "more.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"text":"from a compressed file","id":"z"}\n'))
    broken = tmp_path / "broken.jsonl.gz"
    broken.write_bytes(packed.read_bytes()[:20])
    done = spector(
        "import",
        "-",
        packed,
        broken,
        "absent.txt",
        stdin=b'{"text":"from standard input"}\nnope\n',
        cwd=tmp_path,
        fails=True,
    )
    assert done.code == 1
    assert "-:2: not JSON" in done.err
    assert "absent.txt: No such file or directory" in done.err
    assert f"{broken}: " in done.err
    assert "stored 2 memories" in done.err
    with SpectorMemory.open(tmp_path / "spector-memory") as memory:
        assert memory.recall("compressed")[0].id == "z"
        assert len(memory.recall("standard input")) == 1


def test_the_space_itself_is_not_imported(tmp_path):
    (tmp_path / "note.txt").write_text("a note")
    spector("import", ".", "--path", "space", cwd=tmp_path)
    done = spector("import", ".", "--path", "space", "--json", cwd=tmp_path)
    assert done.json["skipped"] == {"space": 1}
    assert done.json["stored"] == 1


def test_an_interrupted_import_keeps_what_was_stored(tmp_path):
    """Ctrl-C ends with 130; every batch that was stored stays, and nothing is damaged."""
    command = [*SPECTOR, "import", "-", "--path", str(tmp_path / "space"), "--json"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        # Whoever runs the tests in the background may have it ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdin and process.stdout
    for number in range(2500):
        process.stdin.write(b'{"text":"note number %d"}\n' % number)
    process.stdin.flush()  # and stays open: the import waits for more
    deadline = time.monotonic() + 60
    while _stored(tmp_path / "space") < 2000 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)  # between the commit and its being counted a batch is stored, but not reported
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    report = json.loads(out)
    assert report["interrupted"] is True
    assert report["stored"] == _stored(tmp_path / "space") == 2000
    spector("doctor", "--path", tmp_path / "space")


def test_what_an_interrupted_import_says():
    source = Input(["-"], home=Path(), report=print, files=[(None, 0), (None, 0)], done_files=1)
    said = "interrupted: stored 2,000 memories and read 1 of 2 files whole in 1.5 s"
    assert _summary(Loaded(2000, 1.5), source, lost=0, interrupted=True) == said


def _stored(space: Path) -> int:
    if not (space / "journal.db").exists():
        return 0
    with SpectorMemory.open(space) as memory:
        return len(memory)
