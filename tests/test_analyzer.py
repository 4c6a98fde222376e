"""The analyzer (TOK-1 to TOK-12) through Python: examples, and every text against the oracle."""

import random
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reference import analyzer as reference
from spector import _core
from spector.lexical import analyze

KINDS = ["code", "standard", "whitespace"]


def _assigned():
    """Return the characters that both this Python's Unicode and the tables' know.

    A newer Python is narrowed to the old repertoire that every `unicodedata` carries.
    """
    tables = tuple(map(int, _core.UNICODE_VERSION.split(".")))
    here = tuple(map(int, unicodedata.unidata_version.split(".")))
    known = unicodedata if here <= tables else unicodedata.ucd_3_2_0
    return [c for c in map(chr, range(0x110000)) if known.category(c) not in ("Cn", "Cs", "Co")]


ASSIGNED = _assigned()
MARKS = [c for c in ASSIGNED if unicodedata.category(c)[0] == "M"]
MAPPED = [c for c in ASSIGNED if unicodedata.normalize("NFKC", c) != c or c.casefold() != c]
PIECES = [
    *(
        "550e8400-e29b-41d4-a716-446655440000",
        "urn:uuid:",
        "0xff",
        "a1b2c3d4e5f6a7b8",
        "v1.2.3",
        "1.2",
    ),
    *("don't", "it's", "is", "s", "t", "ab", "AB", "Ab", "c++", "c#", "x" * 300),
    *("'s", "'LL", "\u2019d", "::", "://", ":\\", ":\\\\", "\\\\", "U.S.A.", "a.b", "++", "#"),
    *("2031-01-05", "T10", "V2.0", "1.2.3-rc.1", "x-" * 130, "ж" * 129, "ø", "Æ", "ı", "ł"),
    *("_550e8400-e29b-41d4-a716-446655440000", "DEADBEEF-dead-BEEF-dead-BEEFdeadBEEF-"),
    *("東京", "タワー", "각", "\u1100", "\u1161", "\u11a8", "ที่", "İ", "ß", "ﬁ", "½", "ﷺ", "🚀"),
    *("\u0301", "\u0345", "\u00ad", "\u200b", "\u200d", "\ud83c", "\ufffd", "\0"),
]
characters = st.one_of(
    st.sampled_from("aBcDxZ019__--..//\\:@#+'’‐ "),
    st.sampled_from(PIECES),
    st.sampled_from(MARKS),
    st.sampled_from(MAPPED),
    st.sampled_from(ASSIGNED),
)
segments = st.sampled_from(
    [
        *("/ab", ":c", ".de", ".7", "1.", "Fg", "'ll", "'re", "h'd", "-i", "_j", "2"),
        *("::k", "://l", "\\\\m", "v3", ".n", "2031-01-05", "t1", "0xf", "++", "#", "-"),
        "550e8400-e29b-41d4-a716-446655440000",
    ]
)
texts = st.one_of(
    st.lists(characters, max_size=30).map("".join), st.lists(segments, max_size=40).map("".join)
)


def tokens_of(text):
    """Return the terms of a text that is one compound, unstemmed."""
    (compound,) = analyze(text, language=None)
    return [token.text for token in compound.tokens]


def found(kind, text):
    """Return what the core finds, in a form to compare; the order of the parts is free."""
    return [
        (tokens[0][0], sorted(tokens), identifier)
        for _, _, identifier, tokens in _core.analyze(kind, text)
    ]


def expected(kind, text):
    return [
        (
            compound.tokens[0].text,
            sorted((t.text, t.part, t.word, t.stop) for t in compound.tokens),
            compound.identifier,
        )
        for compound in reference.analyze(text, kind)
    ]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (
            "etc/app/db-conf.yaml",
            "etc/app/db-conf.yaml app/db-conf.yaml etc app db-conf.yaml db-conf yaml db conf",
        ),
        ("getUserName", "getusername get user name"),
        ("HTTPServer2", "httpserver2 http server 2"),
        ("user_id", "user_id user id"),
        ("ERR-42", "err-42 err 42"),
        ("__init__", "__init__ init"),
        ("@alice", "alice"),
        ("C++", "c++ c"),
        ("c#", "c# c"),
        ("2026.4.10", "2026.4.10 4.10 2026.4 2026 4 10"),
        (
            "std::vector::push_back",
            "std::vector::push_back vector::push_back std vector push_back push back",
        ),
        (
            "{550E8400-E29B-41D4-A716-446655440000}",
            "550e8400-e29b-41d4-a716-446655440000 550e8400 550e8400e29b41d4a716446655440000",
        ),
        ("0xDEADbeef", "0xdeadbeef"),
        ("café", "cafe"),
        ("Straße", "strasse"),
        ("ＡＢＣ－１２", "abc-12 abc 12"),
    ],
)
def test_examples(text, tokens):
    assert tokens_of(text) == tokens.split()
    (compound,) = reference.analyze(text)
    assert list(dict.fromkeys(token.text for token in compound.tokens)) == tokens.split()


def test_words_are_stemmed_and_identifiers_are_not():
    compounds = analyze("renamed getUserNames in user_names")
    assert [[t.text for t in c.tokens] for c in compounds] == [
        ["renam"],
        ["getusernames", "getusernam", "get", "user", "name"],
        ["in"],
        ["user_names", "user", "name"],
    ]
    assert [c.identifier for c in compounds] == [False, True, False, True]
    assert [t.stop for t in compounds[2].tokens] == [True]


def test_offsets_are_characters_of_the_given_text():
    text = "ein “Café”: 東京都 🚀 naïve_x."
    compounds = analyze(text)
    assert [c.text for c in compounds] == ["ein", "Café", "東京", "京都", "naïve_x"]
    assert all(text[c.start : c.end] == c.text for c in compounds)
    assert [c.position for c in compounds] == list(range(5))


@pytest.mark.parametrize("kind", KINDS)
def test_tok8_stop_words_are_these_and_no_others(kind):
    others = [
        "so",
        "than",
        "because",
        "while",
        "although",
        "before",
        "after",
        "during",
        "above",
        "below",
        "between",
        "any",
        "some",
        "each",
        "every",
        "all",
        "both",
        "either",
        "other",
        "another",
        "over",
        "under",
        "up",
        "out",
        "off",
        "only",
        "just",
        "very",
        "also",
        "may",
        "might",
        "must",
        "since",
        "until",
        "within",
        "without",
        "t",
        "ll",
    ]
    words = [
        *reference.STOP_WORDS,
        *reference.STANDARD_STOP_WORDS,
        *reference.CONTRACTIONS,
        *others,
    ]
    for word in words:
        for text in (word, word.title(), f"it'{word}", f"x_{word}"):
            assert found(kind, text) == expected(kind, text)


@pytest.mark.parametrize("kind", KINDS)
def test_every_assigned_character_alone(kind):
    text = "\n".join(ASSIGNED)
    assert found(kind, text) == expected(kind, text)


@pytest.mark.parametrize("kind", KINDS)
def test_every_assigned_character_between_letters(kind):
    # Ideographs and Hangul syllables, three characters of four, are all alike.
    varied = [
        c for c in ASSIGNED if not unicodedata.name(c, "").startswith(("CJK UNI", "HANGUL S"))
    ]
    text = "\n".join(f"a{c}B" for c in varied)
    assert found(kind, text) == expected(kind, text)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=600)
@given(text=texts)
@example(text="1.2.3.4.5.6.7.8.9.10.11.12")
@example(text="S\u00f8\u0345")  # a mark that folds to a letter
def test_any_text_gives_the_tokens_of_the_oracle(kind, text):
    assert found(kind, text) == expected(kind, text)


@given(text=texts, before=texts, after=texts)
def test_a_text_has_the_same_tokens_wherever_it_stands(text, before, after):
    # So a query that equals a part of a document between blanks finds it (F-021).
    alone = found("code", text)
    around = found("code", f"{before} {text} {after}")
    first = len(found("code", before))
    assert around[first : first + len(alone)] == alone
    assert found("code", text) == alone


@given(text=texts)
def test_the_source_of_a_compound_has_its_tokens(text):
    last = 0
    for start, end, identifier, tokens in _core.analyze("code", text):
        assert last <= start < end <= len(text)
        last = start
        again = [(i, t) for _, _, i, t in _core.analyze("code", text[start:end])]
        assert (identifier, tokens) in again


@given(text=texts)
def test_normalised_text_has_the_same_tokens(text):
    # F-026: composed, decomposed and compatibility forms meet.
    text = text.encode(errors="replace").decode()
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert found("code", unicodedata.normalize(form, text)) == found("code", text)


def test_tokens_never_hold_what_separates():
    # F-028, over 100,000 strings of any code points, unassigned ones and surrogates too.
    rng = random.Random(28)
    pools = [range(0x110000), range(0x80), range(0x250), range(0x2000, 0x2100), [*map(ord, MAPPED)]]
    for _ in range(100_000):
        text = "".join(chr(rng.choice(rng.choice(pools))) for _ in range(rng.randrange(1, 16)))
        for _, _, _, tokens in _core.analyze("code", text):
            for token, *_ in tokens:
                assert 0 < len(token.encode()) <= 256
                assert not unicodedata.combining(token[0])
                assert "\ufffd" not in token
                plain = token.translate(dict.fromkeys(map(ord, "_-.:/\\@#+'")))
                assert not any(unicodedata.category(c)[0] in "PSZ" for c in plain), ascii(text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "unit",
    ["a", "a/b/", "a.b-c/", "aB", "a1", "7", "1.", "a_", "a-__", "-", "_", "\u0301", "\u0301\u0323",
     "é", "x'", "İ", "\ufffd", "<\u0338", "\u00ad", "a's'", "1's'", "a::", "://b", "v1.", "1.2-",
     "550e8400-e29b-41d4-a716-446655440000-", "550e8400-", "2031-01-05T1-", "ø", "東\u0301\u0302"],
)  # fmt: skip
def test_one_long_compound_gives_few_tokens(kind, unit):
    # Its time is tested in C++, where nothing but the analyzer counts.
    text = unit * (200_000 // len(unit))
    compounds = _core.analyze(kind, text)
    tokens = [token for _, _, _, tokens in compounds for token, *_ in tokens]
    assert len(tokens) <= len(text) + 20
    assert sum(map(len, tokens)) <= 3 * len(text) + 20 * 256


@pytest.mark.parametrize("unit", ["x", "ab/", "\u0301", "é"])
def test_ten_megabytes_in_one_line(unit):
    text = unit * (10_000_000 // len(unit.encode())) + " needle"
    compounds = analyze(text, language=None)
    assert compounds[-1].tokens[0].text == "needle"
    assert sum(len(c.tokens) for c in compounds) < 20


def test_arguments():
    with pytest.raises(TypeError):
        analyze(b"bytes")
    with pytest.raises(ValueError, match="klingon"):
        analyze("text", analyzer="klingon")
