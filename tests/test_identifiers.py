"""BM25-7: a query that is one exact string finds the text that has it, first."""

import itertools
import random
import uuid

import pytest

from spector.lexical import BM25Index, analyze

TRIALS = 200
NAMES = [
    *("ERR_CONN_42", "getUserName", "v1.2.3", "src/app/db-conf.yaml", "C++", "CVE-2025-2358"),
    *("0x1f", "a1b2c3d4e5f6a7b8", "std::vector::push_back", r"C:\Users\Bob\x.txt"),
    *(r"C:\\Users\\Bob", "C:/Users/Bob", "https://example.com/a/b", "http://10.0.0.1:8080/x"),
    *(r"\\server\share", "file:///etc/passwd", "a.b+c@example.com", "2031-01-05T10:00:00Z"),
    *(
        "fe80::1",
        "00:1A:2B:3C:4D:5E",
        "v1.2.3-rc.1+build.5",
        "U+1F600",
        "https://example.com/" + "a/" * 200,
    ),
]


def pieces(identifier):
    """What a text about something else could share with the identifier."""
    plain = identifier
    for separator in "_./-:+#\\'":
        plain = plain.replace(separator, " ")
    spaced = "".join(f" {c}" if c.isupper() else c for c in plain)
    halves = identifier[: len(identifier) // 2], identifier[len(identifier) // 2 :]
    found = [piece for piece in (*plain.split(), *spaced.split()) if piece != identifier]
    return found or list(halves)


def random_identifier(rng):
    """One of the kinds of names that people look up."""
    words = ["get", "user", "name", "conn", "err", "reset", "db", "app", "src", "conf", "cache"]
    a, b, c = rng.sample(words, 3)
    number = rng.randint(1, 999)
    id = uuid.UUID(int=rng.getrandbits(128), version=4)
    return rng.choice(
        [
            str(id),
            f"{a}_{b}_{number}".upper(),
            a + b.title() + c.title(),
            f"v{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}",
            f"{a}/{b}/{c}-{b}.yaml",
            f"{a.upper()}-{number}",
            f"{a}.{b}.{c.title()}",
            f"__{a}_{b}__",
            f"{rng.choice('abcdfgx')}{rng.choice(['++', '#'])}",
            f"0x{rng.getrandbits(32):08x}",
            f"{a}::{b.title()}::{c}_{b}",
            f"C:\\{a.title()}\\{b}\\{c}.txt",
            f"https://{a}.example.com/{b}/{c}",
            f"http://10.0.{number % 256}.1:8080/{a}",
            f"{a}-{id}",
            f"{b}_{id}.log",
        ]
    )


def near_misses(identifier, rng):
    """Short texts made of the identifier's parts, repeated, reordered and joined otherwise."""
    parts = pieces(identifier)
    texts = [" ".join(parts), " ".join(parts * 5), " ".join(reversed(parts))]
    texts += [" ".join(rng.choices(parts, k=rng.randint(1, 12))) for _ in range(6)]
    texts += [joiner.join(p.lower() for p in reversed(parts)) for joiner in "_-./"]
    texts.append("x" + identifier.lstrip("\\"))  # longer names
    if identifier[-1].isalnum():  # `C++17` does speak of C++
        texts += [f"{identifier}x", f"{identifier}9"]
    texts += [part * 2 for part in parts]
    texts += [f"{part}'s" for part in parts]
    return texts


def test_bm25_7_identifiers_rank_first_in_every_trial():
    """200 adversarial trials: short texts made of the parts, the right text among them."""
    failures = []
    fixed = [*NAMES, "550e8400-e29b-41d4-a716-446655440000"]
    for trial in range(TRIALS):
        rng = random.Random(trial)
        identifier = fixed[trial] if trial < len(fixed) else random_identifier(rng)
        texts = near_misses(identifier, rng)
        filler = " ".join(rng.choices(["then", "we", "saw", "it", "fail", "again"], k=20))
        written = identifier + rng.choice(["", "", "'s", "\u2019s"])
        texts.append(f"{filler} {written} {filler}" if trial % 2 else f"saw {written}")
        rng.shuffle(order := list(range(len(texts))))
        index = BM25Index()
        index.add_batch([str(i) for i in order], [texts[i] for i in order])
        best = [id for id, _ in index.search(identifier, 3)]
        if best[:1] != [str(len(texts) - 1)]:
            failures.append((identifier, [texts[int(i)] for i in best]))
    assert failures == []


@pytest.mark.parametrize(
    "wrap",
    ["{}", "({})", "[{}],", "'{}'", "“{}”", "{}.", "see {}!", "{}\n", "{}'s", "the {}’s end"],
)
@pytest.mark.parametrize("identifier", NAMES)
def test_bm25_7_punctuation_around_an_identifier_does_not_hide_it(identifier, wrap):
    index = BM25Index()
    index.add("right", wrap.format(identifier))
    index.add("parts", " ".join(pieces(identifier) * 3))
    assert index.search(identifier)[0][0] == "right"


def test_tok4_an_absent_uuid_matches_nothing():
    rng = random.Random(1)
    known = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(50)]
    index = BM25Index()
    index.add_batch(known, known)
    for _ in range(50):
        assert index.search(str(uuid.UUID(int=rng.getrandbits(128)))) == []
    for id in known:
        assert [hit for hit, _ in index.search(id.upper())] == [id]
        assert index.search("{" + id + "}")[0][0] == id


UUID = "550e8400-e29b-41d4-a716-44665544000a"


@pytest.mark.parametrize(
    "text",
    ["req-{}", "u_{}.log", "span_{}", "{}'s owner", "{}’s owner", "{}-1", "{}_backup", "{}#",
     "{}#x", "{}++", "a/{}/b", "req-{{{}}}", "log/urn:uuid:{}.txt", "urn:uuid:{}-1", "__{}__",
     "a::{}::b", "C:\\{}\\x", "https://example.com/items/{}?page=2", "{}:{}", "x-{}-{}-y"],
)  # fmt: skip
def test_tok4_a_uuid_inside_a_longer_name_is_found(text):
    index = BM25Index()
    index.add_batch(["right", "other"], [text.format(UUID, UUID), text.format("1", "2")])
    for query in (UUID, UUID.upper(), UUID[:8], UUID.replace("-", "")):
        assert [id for id, _ in index.search(query)] == ["right"], query
    assert index.search(UUID[:-1] + "b") == []


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("std::vector::push_back", ["push_back", "vector::push_back", "vector", "std::vector"]),
        ("https://example.com/a/b", ["example.com/a/b", "example.com", "a/b", "https"]),
        (r"C:\Users\Bob\x.txt", [r"Bob\x.txt", "x.txt", "Bob", r"C:\Users\Bob\x.txt"]),
        ("a.b+c@example.com", ["a.b+c@example.com", "example.com", "a.b+c"]),
        ("v1.2.3-rc.1+build.5", ["v1.2.3", "1.2.3", "v1.2", "rc", "v1.2.3-rc.1+build.5"]),
        ("jquery-3.6.0.min.js", ["jquery", "3.6.0", "3.6", "min.js"]),
        ("2031-01-05T10:00:00Z", ["2031-01-05", "2031-01-05T10:00:00Z"]),
        ("backup_2031-01-05.tar.gz", ["2031-01-05", "tar.gz", "backup"]),
        ("the U.S.A. today", ["USA", "U.S.A.", "u.s.a", "usa"]),
        ("Łódź Øresund straße", ["lodz", "ŁÓDŹ", "oresund", "STRASSE", "strasse"]),
        ("Caroline's house", ["caroline", "Caroline's", "Caroline’s"]),
        ("caroline came", ["Caroline's", "Caroline’s", "CAROLINE"]),
        ("see O'Brien's note", ["O'Brien", "o'brien's"]),
        ("--dry-run and -x", ["--dry-run", "dry-run", "-x"]),
        ("set $VAR and %APPDATA%", ["$VAR", "VAR", "%APPDATA%", "appdata"]),
        ("#tag #1234 @user GH-1234", ["#tag", "tag", "#1234", "@user", "user", "GH-1234"]),
        ("foo() arr[0] a=b key:value", ["foo()", "foo", "arr[0]", "arr", "a=b", "key:value"]),
        ("x86_64 node.js .env ~/.bashrc ../x/y", ["x86_64", "node.js", ".env", "~/.bashrc"]),
        ("1,000,000 or 3.14e-10", ["1,000,000", "3.14e-10"]),
    ],
)  # fmt: skip
def test_what_people_look_up_is_found(text, queries):
    index = BM25Index()
    index.add_batch(["other", "right"], ["something else entirely", text])
    for query in queries:
        assert [id for id, _ in index.search(query)] == ["right"], query


def test_tok7_long_names_that_begin_alike_are_different():
    index = BM25Index()
    base = "https://example.com/" + "long-path/" * 60
    index.add_batch(["a", "b", "word"], [base + "a", base + "b", "x" * 300])
    for id in "ab":
        assert [hit for hit, _ in index.search(base + id)] == [id]
    assert [hit for hit, _ in index.search("X" * 300)] == ["word"]
    assert index.search("x" * 301) == []


def test_tok12_the_examples_are_identifiers_and_plain_words_are_not():
    identifiers = ["ERR-42", "CVE-2031-0042", "getUserName", "a.b", "a/b", "x1", "C++", "_x", "x_"]
    plain = ["word", "Word", "NASA", "well-known", "don't", "東京", "café"]
    for text, expected in itertools.chain(
        ((text, True) for text in identifiers), ((text, False) for text in plain)
    ):
        assert analyze(text)[0].identifier is expected, text
