"""The command line through its real entry point."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import spector as library
from shell import SPECTOR, environment, spector
from spector import SpectorMemory
from spector.cli.highlight import matches, plain, snippet
from spector.store import check

UNICODE = "naïve 🚀 東京"
#: The C locale with all that makes Python write UTF-8 in it switched off.
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ESCAPE = "\x1b"


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small space that the tests only read."""
    path = tmp_path_factory.mktemp("cli") / "space"
    with SpectorMemory.open(path) as memory:
        memory.remember_many(
            [
                {
                    "id": "conn",
                    "text": "Deploy failed: ERR_CONN_RESET from db-7",
                    "tags": ["deploy"],
                },
                {
                    "id": "user",
                    "text": "getUserName returns\nthe display name",
                    "tags": ["deploy", "code"],
                    "author": "ana",
                    "timestamp": "2001-03-01T10:00:00Z",
                },
                {"id": "disk", "text": "the disk of db-7 is full", "type": "episodic"},
                {"id": "evil", "text": f"hostile {ESCAPE}[31mred\ttext\r\nover"},
                {"id": "far", "text": "needle " + "hay " * 500, "context": "about a lighthouse"},
                {"id": UNICODE, "text": f"{UNICODE} is a text"},
            ]
        )
    return path


# The command as such


def test_help_names_every_command():
    text = spector("--help").out
    for command in (
        "analyze", "demo", "doctor", "explain", "forget", "import", "recall", "remember", "status",
    ):  # fmt: skip
        assert re.search(rf"^  {command} +\S", text, re.MULTILINE), command
    assert ESCAPE not in text


@pytest.mark.parametrize("command", ["recall", "import", "demo"])
def test_help_of_a_command_has_an_example(command):
    assert f"\n  spector {command} " in spector(command, "--help").out.replace(
        "spector demo\n", "spector demo \n"
    )


def test_version_through_the_installed_script():
    script = shutil.which("spector", path=sysconfig.get_path("scripts"))
    assert script, "the package is not installed with its entry point"
    done = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"spector {library.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recall"], "QUERY"),
        (["recall", "q", "-k", "0"], "-k"),
        (["recall", "q", "--since", "soon"], "'soon'"),
        (["recall", "q", "--tag-match", "some"], "some"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_exits_with_2(arguments, message):
    done = spector(*arguments, fails=True)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err


def test_without_the_extra_one_line_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from spector.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == ('spector: the command line needs an extra: pip install "spector[cli]"\n')


def test_a_recall_in_a_pipe_imports_nothing_to_draw_with(space):
    code = (
        "import sys; from spector.cli import main; before = set(sys.modules);"
        "assert 'typer' not in before;"
        f"sys.argv = ['spector', 'recall', 'disk', '--path', {str(space)!r}];"
        "code = main(); assert code == 0;"
        "assert not any(name.split('.')[0] == 'rich' for name in sys.modules), 'rich'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0.") or re.match(r"\d", done.stdout)


def test_a_command_that_reads_makes_no_space(tmp_path):
    for arguments in (["recall", "q"], ["status"], ["doctor"], ["forget", "x"]):
        done = spector(*arguments, "--path", tmp_path / "none", fails=True)
        assert done.code == 1
        assert done.out == ""
        assert done.err.startswith(f"spector: there is no space in {tmp_path / 'none'}")
        assert done.err.count("\n") == 1
    assert not (tmp_path / "none").exists()


def test_a_file_that_is_not_ours_is_an_error_on_one_line(tmp_path):
    (tmp_path / "journal.db").write_text("this is not a database, and long enough to tell " * 90)
    done = spector("recall", "q", "--path", tmp_path, fails=True)
    assert done.code == 1
    assert done.err.startswith("spector: ")
    assert "journal.db" in done.err
    assert done.err.count("\n") == 1


# Remember and recall


def test_remember_then_recall(tmp_path):
    first = spector("remember", "the cache is stale", "--tag", "cache", cwd=tmp_path)
    assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{13}\n", first.out)
    second = spector(
        *("remember", "-", "--id", "m2", "--tag", "Cache", "--tag", "ops", "--session", "s1"),
        *("--author", "ana", "--context", "runbook", "--timestamp", "2001-03-01T10:00:00Z"),
        *("--type", "procedural", "--json"),
        stdin=b"clear the cache\nthen restart\n",
        cwd=tmp_path,
    )
    assert second.json == {"id": "m2"}
    found = spector(
        "recall", "clear cache", "--json", SPECTOR_PATH=str(tmp_path / "spector-memory")
    )
    document = found.json
    assert document["query"] == "clear cache"
    assert document["milliseconds"] >= 0
    assert [hit["id"] for hit in document["hits"]] == ["m2", first.out.strip()]
    hit = document["hits"][0]
    assert hit.pop("score") > document["hits"][1]["score"]
    assert hit.pop("created") <= hit.pop("updated")
    assert hit == {
        "id": "m2",
        "text": "clear the cache\nthen restart",
        "tags": ["cache", "ops"],
        "type": "procedural",
        "source": "user_stated",
        "session": "s1",
        "author": "ana",
        "context": "runbook",
        "timestamp": 983440800000,
        "metadata": {},
    }


def test_what_the_library_refuses_is_one_line(tmp_path):
    done = spector("remember", "x", "--type", "sematic", "--path", tmp_path / "s", fails=True)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("spector: type must be one of")
    assert done.err.endswith("did you mean 'semantic'?\n")
    assert not (tmp_path / "s").exists()


#: Runs main() for each command line of a JSON list on stdin; prints a JSON list of (code, stderr).
MANY = """
import io, json, os, sys
from spector.cli import main
answers = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
found = []
for arguments in json.load(sys.stdin):
    sys.argv = ["spector", *arguments]
    sys.stderr = io.TextIOWrapper(io.BytesIO())
    code = main()
    sys.stderr.seek(0)
    found.append((code, sys.stderr.read()))
json.dump(found, answers)
"""


def many(commands: list[list[str]], cwd: Path) -> list[tuple[int, str]]:
    done = subprocess.run(
        [sys.executable, "-c", MANY],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [(code, err) for code, err in json.loads(done.stdout)]


def test_bad_values_are_wrong_usage_and_make_no_space(tmp_path):
    expected = {
        ("remember", "x", "--type", "foo"): "type must be one of",
        ("remember", "x", "--tag", " "): "tags must hold only non-empty tags",
        ("remember", "x", "--id", ""): "id must be a non-empty str",
        ("remember", "x", "--author", ""): "author must be a non-empty str",
        ("remember", "x", "--timestamp", "soon"): "'soon'",
        ("remember", "x", "--timestamp", "2031W055"): "ISO 8601",
        ("remember", "x", "--path", ""): "must be the name of a folder",
        ("recall", "x", "--type", "foo"): "type must be one of",
        ("recall", "x", "--tag", ""): "tags must hold only non-empty tags",
        ("recall", "x", "--author", ""): "author must be a non-empty str",
        ("recall", "x", "-k", "0"): "-k",
        ("recall", "x", "--until", "9" * 20): "milliseconds between",
        ("recall", "x", "--until", "20310230"): "ISO 8601",
        ("recall", "x", "--path", ""): "must be the name of a folder",
        ("explain", "", "x"): "id must be a non-empty str",
        ("forget", "a", ""): "id must be a non-empty str",
        ("status", "--path", ""): "must be the name of a folder",
        ("import", ""): "must be the name of a file or folder",
        ("demo", ""): "must be the name of a folder",
    }
    answers = many(list(map(list, expected)), tmp_path)
    for (arguments, message), (code, err) in zip(expected.items(), answers, strict=True):
        assert (code, message in err) == (2, True), (arguments, code, err)
    assert list(tmp_path.iterdir()) == []


def test_what_fails_is_not_wrong_usage(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "journal.db").write_text("x")
    commands = [
        ["recall", "x", "--path", "none"],
        ["remember", "x", "--path", "file"],
        *(
            [command, *rest, "--path", "damaged"]
            for command, *rest in (["recall", "x"], ["doctor"])
        ),
        ["import", "none.jsonl"],
    ]
    answers = many(commands, tmp_path)
    assert [code for code, _ in answers] == [1] * len(commands), answers
    assert not any("Errno" in err for _, err in answers), answers


BAD_NAMES = ("--id", "--tag", "--session", "--author", "--type")


def test_names_that_are_not_utf8_are_refused(tmp_path):
    bad = "x\udcff"  # as Python hands over the byte FF
    commands = [["remember", "text", option, bad] for option in BAD_NAMES]
    commands += [["recall", "text", option, bad] for option in ("--tag", "--author", "--type")]
    commands += [["explain", bad, "q"], ["forget", "a", bad]]
    for (code, err), arguments in zip(many(commands, tmp_path), commands, strict=True):
        assert (code, "is not UTF-8 at byte 2" in err) == (2, True), (arguments, code, err)
    assert list(tmp_path.iterdir()) == []
    free = [
        ["remember", bad, "--id", "a", "--context", bad],
        ["recall", bad],
        ["explain", "a", bad],
    ]
    assert [code for code, _ in many(free, tmp_path)] == [0, 0, 0]
    with SpectorMemory.open(tmp_path / "spector-memory") as memory:
        assert (memory.inspect("a").text, memory.inspect("a").context) == ("x\ufffd", "x\ufffd")


def test_a_name_that_is_not_utf8_through_a_shell(tmp_path):
    command = """exec "$@" --id "$(printf '\\377')" """
    done = subprocess.run(
        ["bash", "-c", command, "bash", *SPECTOR, "remember", "text"],
        capture_output=True,
        cwd=tmp_path,
        env=environment(),
        timeout=60,
    )
    assert done.returncode == 2
    assert b"is not UTF-8 at byte 1" in done.stderr
    assert list(tmp_path.iterdir()) == []


# The standard streams


@pytest.mark.parametrize(
    ("redirection", "arguments", "code", "message"),
    [
        ("<&-", ["import", "-"], 1, "-: Bad file descriptor\nstored 0 memories"),
        ("<&-", ["remember", "-"], 1, "spector: standard input: Bad file descriptor\n"),
        (">&-", ["recall", "disk"], 1, "spector: standard output: Bad file descriptor\n"),
        (">&-", ["--help"], 1, "spector: standard output: Bad file descriptor\n"),
        (">&-", ["recall", "zzzunknown"], 0, "nothing found\n"),
        (">/dev/full", ["recall", "disk", "--json"], 1, "standard output: No space left on device"),
        ("2>/dev/full", ["recall", "nonsense"], 0, ""),
        ("<&- >&- 2>&-", ["recall", "disk"], 1, ""),
    ],
)
def test_a_stream_that_is_closed_or_full(space, tmp_path, redirection, arguments, code, message):
    shutil.copytree(space, tmp_path / "spector-memory")
    done = subprocess.run(
        ["bash", "-c", f'exec "$@" {redirection}', "bash", *SPECTOR, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=60,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done
    assert message in done.stderr
    if not message:
        assert done.stderr == ""
    assert check(tmp_path / "spector-memory").ok


def test_an_unknown_simd_level_is_one_line():
    done = spector("recall", "q", fails=True, SPECTOR_SIMD="mmx")
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(r"spector: .*SIMD level 'mmx': this machine has .*\n", done.err)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--tag", "deploy"], {"conn", "user"}),
        (["--tag", "deploy", "--tag", "code"], {"user"}),
        (["--tag", "none", "--tag", "code", "--tag-match", "any"], {"user"}),
        (["--author", "ana"], {"user"}),
        (["--type", "episodic"], {"disk"}),
        (["--until", "2001-03-01"], {"user"}),
        (["--until", "20010301"], {"user"}),
        (["--since", "2001-03-01", "--until", "983440800000"], {"user"}),
        (["-k", "1"], {"conn"}),
    ],
)
def test_filters(space, arguments, expected):
    done = spector(
        "recall", "deploy ERR_CONN_RESET name disk", "--path", space, "--json", *arguments
    )
    assert {hit["id"] for hit in done.json["hits"]} == expected


def test_a_recall_in_a_pipe_is_tab_separated_lines(space):
    done = spector("recall", "display hostile", "--path", space)
    lines = [line.split("\t") for line in done.out.splitlines()]
    assert {id: text for _, id, text in lines} == {
        "user": "getUserName returns the display name",
        "evil": "hostile \N{REPLACEMENT CHARACTER}[31mred text over",
    }
    scores = [float(score) for score, _, _ in lines]
    assert scores == sorted(scores, reverse=True)
    assert done.err == ""


def test_nothing_found_is_no_failure(space):
    done = spector("recall", "zzzunknown", "--path", space)
    assert (done.out, done.err) == ("", "nothing found\n")
    assert spector("recall", "zzzunknown", "--path", space, "--json").json["hits"] == []
    assert spector("recall", "", "--path", space, "--json").json["hits"] == []


def test_a_reader_that_stops_early_is_no_failure(tmp_path):
    with SpectorMemory.open(tmp_path / "s") as memory:
        memory.remember_many({"text": f"row {n} " + "word " * 200} for n in range(500))
    pipe = 'set -o pipefail; "$@" | head -1'
    done = subprocess.run(
        ["bash", "-c", pipe, "bash", *SPECTOR, "recall", "row", "-k", "500", "--path", "s"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_output_is_utf8_in_the_c_locale(tmp_path):
    note = tmp_path / f"{UNICODE}.txt"
    note.write_text(f"{UNICODE} in a file", encoding="utf-8")
    options = {"cwd": tmp_path, **C_LOCALE}
    assert spector("remember", UNICODE, "--id", UNICODE, **options).out == f"{UNICODE}\n"
    assert spector("import", note, **options).err.startswith("stored 1 memory")
    lines = spector("recall", "東京", **options).out.splitlines()
    assert {tuple(line.split("\t")[1:]) for line in lines} == {
        (UNICODE, UNICODE),
        (f"{UNICODE}.txt#1", f"{UNICODE} in a file"),
    }
    hits = spector("recall", "-", "--json", stdin=b"naive", **options).json["hits"]
    assert {hit["id"] for hit in hits} == {UNICODE, f"{UNICODE}.txt#1"}
    assert spector("explain", UNICODE, "🚀 東京", "--json", **options).json["id"] == UNICODE
    assert spector("forget", UNICODE, "--json", **options).json["forgotten"] == [UNICODE]
    assert "東京" in spector("import", "東京", fails=True, **options).err


# On a terminal


def on_terminal(*arguments: str | Path, **variables: str) -> str:
    """Run `spector` with all its streams on a terminal of 100 columns."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*SPECTOR, *map(str, arguments)],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment(COLUMNS="100", TERM="xterm-256color", **variables),
        start_new_session=True,
    )
    os.close(follower)
    output = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        output += part
    os.close(leader)
    assert process.wait(timeout=60) == 0, output
    return output.decode()


def test_a_terminal_gets_a_table_with_the_matches_marked(space):
    shown = on_terminal("recall", "ERR_CONN_RESET names", "--path", space)
    assert re.search(r"score +id +text", re.sub(ESCAPE + r"\[[0-9;]*m", "", shown))
    assert re.search(ESCAPE + r"\[[0-9;]+mERR_CONN_RESET" + ESCAPE, shown)
    assert re.search(ESCAPE + r"\[[0-9;]+mname" + ESCAPE, shown)
    assert re.search(r"2 hits among 6 memories in [0-9.]+ ms", shown)


def test_a_terminal_does_not_obey_stored_text(space):
    shown = on_terminal("recall", "hostile", "--path", space)
    assert f"{ESCAPE}[31mred" not in shown
    assert "red text over" in shown


def test_no_color_is_respected(space):
    shown = on_terminal("recall", "ERR_CONN_RESET", "--path", space, NO_COLOR="1")
    assert "ERR_CONN_RESET" in shown
    colours = re.findall(ESCAPE + r"\[([0-9;]*)m", shown)
    assert not any(re.search(r"\b(3[0-8]|4[0-8]|9[0-7])\b", codes) for codes in colours)


def test_an_import_on_a_terminal_shows_progress(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text":"one"}\n' * 3000 + "bad\n{}\n")
    (tmp_path / "b.jsonl").write_text('{"text":"two"}\n')
    shown = on_terminal("import", tmp_path / "b.jsonl", "--path", tmp_path / "s")
    assert "Importing" in shown
    assert "100%" in shown
    assert "1 stored" in shown


# Explain, forget, status, doctor, analyze


def test_explain_adds_up_to_the_score_of_recall(space):
    query = "the deploy of ERR_CONN_RESET"
    keywords = ("--mode", "keyword_only", "--json")
    hit = spector("recall", query, "--path", space, *keywords).json["hits"][0]
    why = spector("explain", hit["id"], query, "--path", space, "--json").json
    assert hit["id"] == why["id"] == "conn"
    assert why["score"] == pytest.approx(hit["score"], rel=1e-6)
    assert sum(term["contribution"] for term in why["terms"]) == pytest.approx(why["score"])
    assert {term["term"] for term in why["terms"]} >= {"err_conn_reset", "deploy"}
    lines = spector("explain", "conn", query, "--path", space).out.splitlines()
    assert len(lines) == len(why["terms"]) + 1
    assert lines[-1].split("\t") == ["sum", "", "", "", "", "", f"{why['score']:.4f}"]


def test_explain_of_no_match_and_of_no_memory(space):
    done = spector("explain", "disk", "zzzunknown", "--path", space)
    assert (done.out, done.err) == (
        "",
        "disk does not match: no term of the query is in it\n",
    )
    done = spector("explain", "nobody", "q", "--path", space, fails=True)
    assert done.code == 1
    assert done.err.startswith("spector: ")
    assert "nobody" in done.err
    assert done.err.count("\n") == 1


def test_forget(tmp_path):
    path = tmp_path / "s"
    with SpectorMemory.open(path) as memory:
        memory.remember_many([{"id": id, "text": f"text {id}"} for id in "abcd"])
    done = spector("forget", "a", "nobody", "b", "--path", path, "--json", fails=True)
    assert done.code == 1
    assert done.json == {"forgotten": ["a", "b"], "unknown": ["nobody"]}
    assert done.err.startswith("spector: ")
    assert "nobody" in done.err
    assert spector("forget", "c", "--path", path).err == "forgot 1 memory\n"
    hits = spector("recall", "text", "--path", path, "--json").json["hits"]
    assert [hit["id"] for hit in hits] == ["d"]


def test_status(space):
    state = spector("status", "--path", space, "--json").json
    with SpectorMemory.open(space) as memory:
        assert state == json.loads(json.dumps(memory.status().as_dict()))
    lines = dict(line.split("\t") for line in spector("status", "--path", space).out.splitlines())
    assert lines.keys() == state.keys()


def test_doctor_tells_a_whole_space_from_a_damaged_one(space, tmp_path):
    assert spector("doctor", "--path", space, "--json").json["ok"] is True
    path = tmp_path / "s"
    with SpectorMemory.open(path) as memory:
        memory.remember_many({"text": f"row {n} " + "word " * 50} for n in range(500))
    journal = path / "journal.db"
    content = bytearray(journal.read_bytes())
    at = content.rindex(b"word word")
    content[at] ^= 0x20
    journal.write_bytes(content)
    done = spector("doctor", "--path", path, "--json", fails=True)
    assert done.code == 1
    assert done.json["ok"] is False
    assert done.json["problems"]
    done = spector("doctor", "--path", path, fails=True)
    assert done.code == 1
    assert re.search(
        r"^the memory in slot \d+ does not match its checksum$", done.out, re.MULTILINE
    )
    assert "spector doctor" not in done.out + done.err
    assert done.err.endswith("; restore it from a copy\n")


def test_a_log_without_its_journal_is_told_of(tmp_path):
    (tmp_path / "journal.db-wal").write_bytes(b"what is left of a space")
    done = spector("remember", "text", "--path", tmp_path)
    assert re.fullmatch(
        r"spector: warning: \S+journal\.db-wal\.orphan-\d+ is the log .*\n", done.err
    )
    (orphan,) = tmp_path.glob("*.orphan-*")
    done = spector("doctor", "--path", tmp_path)
    assert f"spector: warning: {orphan} is the log of a journal that was lost" in done.err


def test_analyze(space):
    text = "Why did getUserName fail?"
    compounds = spector("analyze", text, "--json").json
    assert [compound["text"] for compound in compounds] == ["Why", "did", "getUserName", "fail"]
    assert [text[c["start"] : c["end"]] for c in compounds] == [c["text"] for c in compounds]
    assert "getUserName\tgetusername " in spector("analyze", "-", stdin=text.encode()).out


# Highlighting


def test_matches_are_the_compounds_that_carry_a_term():
    text = "ünder getUserName the user_id names"
    found = matches(text, {"user", "name"})
    assert [text[start:end] for start, end, _ in found] == ["getUserName", "user_id", "names"]
    assert [terms for _, _, terms in found] == [{"user", "name"}, {"user"}, {"name"}]


def test_a_snippet_shows_the_place_with_most_terms():
    text = "alpha " + "filler " * 200 + "alpha beta gamma " + "filler " * 200
    pieces = snippet(text, {"alpha", "beta", "gamma"}, 100)
    assert [shown for shown, matched in pieces if matched] == ["alpha", "beta", "gamma"]
    line = "".join(shown for shown, _ in pieces)
    assert line.startswith("… ")
    assert line.endswith(" …")
    assert len(line) < 110


def test_overlapping_pairs_of_cjk_text_are_marked_once():
    assert snippet("in 東京都 now", {"東京", "京都"}, 100) == [
        ("in ", False),
        ("東京", True),
        ("都", True),
        (" now", False),
    ]


def test_a_short_text_is_shown_whole_on_one_line():
    assert snippet("  one\n\n\ttwo  three ", set(), 100) == [("one two three ", False)]
    assert plain(" a\x1b[0m\n b\x00") == "a\N{REPLACEMENT CHARACTER}[0m b\N{REPLACEMENT CHARACTER}"
