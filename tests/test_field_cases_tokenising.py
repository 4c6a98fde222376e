"""Faults that users of other engines reported: area tokenising (docs/field-cases.md)."""

import pytest

from spector.lexical import BM25Index


def index_of(*texts):
    index = BM25Index()
    index.add_batch([str(i + 1) for i in range(len(texts))], texts)
    return index


def ids(index, query, k=10):
    return [id for id, _ in index.search(query, k)]


def test_f018_parts_and_whole_of_an_identifier():
    index = index_of("call getUserById(id)", "parseHTMLResponse failed", "get a user by mail")
    assert set(ids(index, "user")) == {"1", "3"}
    assert ids(index, "html") == ["2"]
    assert ids(index, "getUserById")[0] == "1"
    assert ids(index, "user by id")[0] == "1"


def test_f019_a_code_and_its_parts():
    index = index_of(
        "patched CVE-2031-0043 on host", "patched CVE-2031-0042 on host", "another host"
    )
    for query in ("0042", "CVE-2031-0042"):
        assert ids(index, query)[0] == "2"
    assert set(ids(index, "cve")) == {"1", "2"}
    assert "3" not in ids(index, "CVE-2031-0042")


@pytest.mark.parametrize("query", ["ADR-016", "-016", "NOT adr", "+adr -016", "adr OR x"])
def test_f020_query_text_is_no_language(query):
    assert "1" in ids(index_of("see ADR-016 for workspace rules", "unrelated words"), query)


@pytest.mark.parametrize("query", ["2026.4.10", "2026.4", "4.10", "2026"])
def test_f021_dotted_numbers(query):
    assert ids(index_of("upgraded to 2026.4.10 last night", "quiet night"), query) == ["1"]


def test_f022_colons():
    index = index_of("TODO: rotate the signing key", "error:timeout at 9am")
    assert ids(index, "TODO: rotate") == ["1"]
    for query in ("error:timeout", "error", "timeout", "error: timeout"):
        assert ids(index, query) == ["2"]


@pytest.mark.parametrize("query", ["document", "qwen", "(document)", "'Qwen'", "document."])
def test_f023_punctuation_around_a_word(query):
    assert ids(index_of("This is a document. (Qwen)!", "other"), query) == ["1"]


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("東京タワーの入場券を予約した", ["入場券", "予約", "東京タワー", "予約した"]),
        ("국제 표준화 기구", ["표준화", "표준"]),
        ("กรุงเทพมหานคร", ["กรุงเทพ", "มหานคร"]),
        ("我们在上海开会", ["上海", "开会"]),
    ],
)
def test_f024_text_without_spaces(text, queries):
    index = index_of("an English text", text)
    for query in queries:
        assert ids(index, query) == ["2"], query


def test_f025_no_match_is_an_empty_list():
    index = index_of("three short texts", "all of them English", "none about this")
    assert index.search("国際標準化", 3) == []


@pytest.mark.parametrize(
    ("composed", "decomposed"),
    [
        ("caf\u00e9", "cafe\u0301"),
        ("r\u00e9sum\u00e9", "re\u0301sume\u0301"),
        ("Z\u00fcrich", "Zu\u0308rich"),
        ("\uac10\uae30", "\u1100\u1161\u11b7\u1100\u1175"),
        ("\u304c\u3063", "\u304b\u3099\u3063"),
    ],
)
def test_f026_composed_and_decomposed_text(composed, decomposed):
    index = index_of(f"at {composed} now", f"at {decomposed} now", "elsewhere")
    first = index.search(composed)
    assert [id for id, _ in first] == ["1", "2"]
    assert first[0][1] == first[1][1]
    assert index.search(decomposed) == first


def test_f027_accents_have_one_rule():
    index = index_of("\u0105 b", "Hu\u1ebf", "z")
    assert ids(index, "a") == ["1"]
    assert ids(index, "\u0105") == ["1"]
    assert ids(index, "Hue") == ["2"]
    assert ids(index, "\u0328") == []  # a mark alone is no token
    assert index.stats()["terms"] == 4


@pytest.mark.parametrize("query", ["istanbul", "\u0130STANBUL", "ISTANBUL", "toplantisi"])
def test_f028_case_folding_that_changes_the_length(query):
    index = index_of("\u0130stanbul toplant\u0131s\u0131", "Ankara")
    assert ids(index, query) == ["1"]
    assert ids(index, "toplant\u0131s\u0131") == ["1"]


def test_f029_unpaired_surrogates():
    index = BM25Index()
    index.add("a", "party \ud83c\udf78 tonight")
    assert index.search("\ud83c", 1) == []
    assert ids(index, "party") == ids(index, "tonight \udf78") == ["a"]


def test_f030_emoji_and_nul_separate():
    index = index_of("deploy 🚀 done", "family 👩‍👩‍👧 trip", "key a\x00b end")
    assert ids(index, "done") == ["1"]
    assert ids(index, "trip") == ["2"]
    assert ids(index, "end") == ids(index, "key b") == ["3"]
    assert ids(index, "🚀") == []


def test_f031_paths_and_dotted_names():
    index = index_of("edit parser.ts", "edit src/utils/parser.ts now", "import com.example.App")
    assert set(ids(index, "parser.ts")) == {"1", "2"}
    assert ids(index, "utils") == ["2"]
    assert ids(index, "src/utils/parser.ts")[0] == "2"
    assert ids(index, "com.example.App") == ids(index, "example.App") == ["3"]


def test_f032_joined_and_hyphenated_spelling():
    # Each spelling finds its own document first; they are not joined.
    index = index_of("needs DCO sign-off", "needs DCO signoff")
    assert ids(index, "sign-off") == ["1"]
    assert ids(index, "signoff") == ["2"]
