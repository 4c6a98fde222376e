"""BM25-7: a query that is one exact string finds the text that has it, first."""

import itertools
import random
import uuid

import pytest

from spector.lexical import BM25Index, analyze

TRIALS = 200


def pieces(identifier):
    """What a text about something else could share with the identifier."""
    plain = identifier
    for separator in "_./-:+#":
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
    return rng.choice(
        [
            str(uuid.UUID(int=rng.getrandbits(128), version=4)),
            f"{a}_{b}_{number}".upper(),
            a + b.title() + c.title(),
            f"v{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}",
            f"{a}/{b}/{c}-{b}.yaml",
            f"{a.upper()}-{number}",
            f"{a}.{b}.{c.title()}",
            f"__{a}_{b}__",
            f"{rng.choice('abcdfgx')}{rng.choice(['++', '#'])}",
            f"0x{rng.getrandbits(32):08x}",
        ]
    )


def near_misses(identifier, rng):
    """Short texts made of the identifier's parts, repeated, reordered and joined otherwise."""
    parts = pieces(identifier)
    texts = [" ".join(parts), " ".join(parts * 5), " ".join(reversed(parts))]
    texts += [" ".join(rng.choices(parts, k=rng.randint(1, 12))) for _ in range(6)]
    texts += [joiner.join(p.lower() for p in reversed(parts)) for joiner in "_-./"]
    texts.append(f"x{identifier}")  # longer names
    if identifier[-1].isalnum():  # `C++17` does speak of C++
        texts += [f"{identifier}x", f"{identifier}9"]
    texts += [part * 2 for part in parts]
    return texts


def test_bm25_7_identifiers_rank_first_in_every_trial():
    """200 adversarial trials: short texts made of the parts, the right text among them."""
    failures = []
    fixed = ["ERR_CONN_42", "getUserName", "v1.2.3", "src/app/db-conf.yaml", "C++"]
    fixed.append("550e8400-e29b-41d4-a716-446655440000")
    for trial in range(TRIALS):
        rng = random.Random(trial)
        identifier = fixed[trial] if trial < len(fixed) else random_identifier(rng)
        texts = near_misses(identifier, rng)
        filler = " ".join(rng.choices(["then", "we", "saw", "it", "fail", "again"], k=20))
        texts.append(f"{filler} {identifier} {filler}" if trial % 2 else f"saw {identifier}")
        rng.shuffle(order := list(range(len(texts))))
        index = BM25Index()
        index.add_batch([str(i) for i in order], [texts[i] for i in order])
        best = [id for id, _ in index.search(identifier, 3)]
        if best[:1] != [str(len(texts) - 1)]:
            failures.append((identifier, [texts[int(i)] for i in best]))
    assert failures == []


@pytest.mark.parametrize("wrap", ["{}", "({})", "[{}],", "'{}'", "“{}”", "{}.", "see {}!", "{}\n"])
@pytest.mark.parametrize(
    "identifier", ["ERR_CONN_42", "getUserName", "v1.2.3", "src/app/db-conf.yaml", "C++"]
)
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


def test_tok12_the_examples_are_identifiers_and_plain_words_are_not():
    identifiers = ["ERR-42", "CVE-2031-0042", "getUserName", "a.b", "a/b", "x1", "C++", "_x", "x_"]
    plain = ["word", "Word", "NASA", "well-known", "don't", "東京", "café"]
    for text, expected in itertools.chain(
        ((text, True) for text in identifiers), ((text, False) for text in plain)
    ):
        assert analyze(text)[0].identifier is expected, text
