"""Corpora of token ids for the benchmarks: drawn at random, or read from real texts.

    zipf:N        N documents of about 56 tokens, drawn by `draw_block`
    texts:FILE    JSON lines with "text" (and perhaps "title"), also gzipped, split into words
    docs:FOLDER   indptr.npy and tokens.npy, perhaps query_indptr.npy and query_tokens.npy

Drawn and read corpora are kept as .npy files in a cache folder. The same arguments give the same
corpus, and the first N documents of a larger drawn one are the drawn corpus of N.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 1  # of what is cached; raise it when a corpus would come out otherwise
BLOCK = 16_384  # documents drawn from one random stream

VOCABULARY = 500_000
EXPONENT, SHIFT = 1.07, 2.7  # Zipf-Mandelbrot: p(rank) ~ 1 / (rank + SHIFT) ** EXPONENT
MEAN_LENGTH, SIGMA = 56.0, 0.7  # log-normal
TOPICS, TOPIC_WIDTH, TOPIC_SHARE = 2_000, 2_000, 0.1
BURST = 0.15  # share of tokens that repeat one of the same document

DF_CAP = 0.14  # no query term is in more of the documents: what a stop list would drop
MIN_TERMS, MAX_TERMS = 2, 8
RARE = 0.1  # share of the query terms that are the rarest of their document

WORD = re.compile(r"[^\W_]+")


@dataclass
class Corpus:
    """Documents as token ids in CSR form, and queries of the same kind.

    Attributes
    ----------
    indptr : ndarray of int64, shape (n + 1,)
        Document d is ``tokens[indptr[d]:indptr[d + 1]]``; none is empty.
    df : ndarray of int64, shape (vocabulary,)
        Documents that have each token.
    words : list of str or None
        In byte order; None: see `word`.
    """

    name: str
    indptr: NDArray[np.int64]
    tokens: NDArray[np.uint32]
    df: NDArray[np.int64]
    queries: list[NDArray[np.uint32]]
    words: list[str] | None = None
    source: tuple[Path, int | None] | None = None  # file and limit of the texts

    @property
    def n_docs(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_postings(self) -> int:
        return int(self.df.sum())

    def word(self, token: int) -> str:
        """The term of a token, for engines that take strings; in byte order of the tokens."""
        if self.words is not None and token < len(self.words):
            return self.words[token]
        return f"\U0010fffd{token:09}" if self.words is not None else f"w{token:07}"

    def document(self, number: int) -> NDArray[np.uint32]:
        return self.tokens[self.indptr[number] : self.indptr[number + 1]]

    def batches(self, size: int) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.uint32]]]:
        """(first document, indptr from 0, tokens) of `size` documents at a time."""
        for first in range(0, self.n_docs, size):
            ends = self.indptr[first : first + size + 1]
            yield first, ends - ends[0], self.tokens[ends[0] : ends[-1]]

    def joined(self, indptr: NDArray[np.int64], tokens: NDArray[np.uint32]) -> list[str]:
        """Documents as strings: their terms with a space between."""
        words = [self.word(token) for token in tokens.tolist()]
        return [" ".join(words[a:b]) for a, b in pairwise(indptr.tolist())]

    def texts(self, size: int) -> Iterator[tuple[int, list[str]]]:
        """(first document, documents as strings) of `size` documents at a time."""
        for first, indptr, tokens in self.batches(size):
            yield first, self.joined(indptr, tokens)

    def raw_texts(self, size: int) -> Iterator[tuple[int, list[str]]]:
        """The texts as they were read, or `texts` of a corpus that was none."""
        if self.source is None:
            yield from self.texts(size)
            return
        path, limit = self.source
        found = (text_of(row) for row in read_rows(path, limit))
        kept = filter(WORD.search, found)
        for first in range(0, self.n_docs, size):
            yield first, list(islice(kept, size))

    def describe(self) -> dict[str, Any]:
        shares = [self.df[query] / self.n_docs for query in self.queries]
        touched = np.array([self.df[query].sum() for query in self.queries])
        return {
            "corpus": self.name,
            "documents": self.n_docs,
            "tokens": len(self.tokens),
            "postings": self.n_postings,
            "terms": int(np.count_nonzero(self.df)),
            "queries": len(self.queries),
            "terms_per_query": round(float(np.mean([len(q) for q in self.queries])), 2),
            "mean_df_share": round(float(np.concatenate(shares).mean()), 5),
            "postings_per_query": {
                "mean": round(float(touched.mean())),
                "p50": round(float(np.percentile(touched, 50))),
                "p95": round(float(np.percentile(touched, 95))),
            },
        }


@dataclass
class Postings:
    """Inverted lists: term i of the asked ones has ``docs[indptr[i]:indptr[i + 1]]``, ascending."""

    indptr: NDArray[np.int64]
    docs: NDArray[np.uint32]
    freqs: NDArray[np.uint32]


def zipf_ranks(uniform: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """Ranks from 0 by inverting the Zipf-Mandelbrot law's continuous form."""
    power = 1 - EXPONENT
    first, last = (1 + SHIFT) ** power, (n + 1 + SHIFT) ** power
    ranks = (first + uniform * (last - first)) ** (1 / power) - SHIFT
    return np.clip(ranks - 1, 0, n - 1).astype(np.int64)


def draw_block(block: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Draw `BLOCK` documents: (indptr, tokens).

    A token is its rank, but a share of each document comes from the document's topic (a band of
    the vocabulary), and a share repeats another token of the document: so terms occur together,
    and more than once.
    """
    rng = np.random.default_rng([seed, block])
    mean = np.log(MEAN_LENGTH) - SIGMA**2 / 2
    lengths = np.maximum(1, np.rint(np.exp(rng.normal(mean, SIGMA, BLOCK)))).astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    n = int(indptr[-1])
    doc = np.repeat(np.arange(BLOCK), lengths)
    tokens = zipf_ranks(rng.random(n), VOCABULARY)

    topical = np.flatnonzero(rng.random(n) < TOPIC_SHARE)
    band = np.random.default_rng(seed).integers(200, VOCABULARY - TOPIC_WIDTH, TOPICS)
    topic = rng.integers(0, TOPICS, BLOCK)[doc[topical]]
    tokens[topical] = band[topic] + zipf_ranks(rng.random(len(topical)), TOPIC_WIDTH)

    again = np.flatnonzero(rng.random(n) < BURST)
    source = indptr[doc[again]] + (rng.random(len(again)) * lengths[doc[again]]).astype(np.int64)
    tokens[again] = tokens[source]
    return indptr, tokens.astype(np.uint32)


def _distinct(tokens: NDArray[Any], lengths: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sorted (token << 32 | document) of a stretch of documents, and how often each occurs."""
    keys = np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths)
    keys |= tokens.astype(np.uint64) << np.uint64(32)
    keys.sort()
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], np.diff(starts, append=len(keys))


def invert(corpus: Corpus, terms: NDArray[np.integer[Any]] | None = None) -> Postings:
    """Invert the corpus, or only what belongs to the given distinct terms."""
    terms = np.arange(len(corpus.df)) if terms is None else terms
    slot = np.full(len(corpus.df), -1, np.int64)
    slot[terms] = np.arange(len(terms))
    indptr = np.concatenate([[0], np.cumsum(corpus.df[terms])])
    docs = np.empty(indptr[-1], np.uint32)
    freqs = np.empty(indptr[-1], np.uint32)
    at = indptr[:-1].copy()
    for first, ends, tokens in corpus.batches(BLOCK):
        slots = slot[tokens]
        wanted = slots >= 0
        if not wanted.any():
            continue
        number = np.repeat(np.arange(len(ends) - 1), np.diff(ends))[wanted]
        lengths = np.bincount(number, minlength=len(ends) - 1)
        keys, counts = _distinct(slots[wanted], lengths)
        term = (keys >> np.uint64(32)).astype(np.int64)
        runs = np.flatnonzero(np.diff(term, prepend=-1))
        sizes = np.diff(runs, append=len(term))
        to = np.repeat(at[term[runs]] - runs, sizes) + np.arange(len(term))
        docs[to] = (keys & np.uint64(0xFFFFFFFF)).astype(np.uint32) + np.uint32(first)
        freqs[to] = counts
        at[term[runs]] += sizes
    return Postings(indptr, docs, freqs)


def draw_queries(corpus: Corpus, n: int, seed: int) -> list[NDArray[np.uint32]]:
    """Queries of 2 to 8 distinct terms of one document, some of them its rarest ones."""
    rng = np.random.default_rng([seed, 99])
    cap = DF_CAP * corpus.n_docs
    found: list[NDArray[np.uint32]] = []
    for _ in range(200 * n):
        terms = np.unique(corpus.document(int(rng.integers(corpus.n_docs))))
        terms = terms[corpus.df[terms] <= cap]
        if len(terms) < MIN_TERMS:
            continue
        terms = terms[np.lexsort((terms, corpus.df[terms]))]
        wanted = min(MIN_TERMS + rng.binomial(MAX_TERMS - MIN_TERMS, 0.4), len(terms))
        rare = rng.binomial(wanted, RARE)
        rest = rng.choice(terms[rare:], wanted - rare, replace=False)
        query = np.concatenate([terms[:rare], rest])
        found.append(rng.permutation(query).astype(np.uint32))
        if len(found) == n:
            break
    if len(found) < n:
        raise ValueError(f"{corpus.name} is too small for {n} queries of {MIN_TERMS} terms")
    return found


def load(
    spec: str, n_queries: int, *, cache: Path | None = None, seed: int = 7, limit: int | None = None
) -> Corpus:
    """Draw or read a corpus, or take it from the cache; `limit`: at most so many texts."""
    kind, _, what = spec.partition(":")
    cache = cache or Path(tempfile.gettempdir()) / "spector-bench"
    if kind == "zipf":
        folder = _cached(cache / f"zipf-{int(what)}-{seed}-v{VERSION}", _Zipf(int(what), seed))
    elif kind == "texts":
        path = Path(what).resolve()
        mark = f"{path} {path.stat().st_mtime_ns} {limit}"
        key = hashlib.blake2b(mark.encode(), digest_size=8).hexdigest()
        folder = _cached(cache / f"texts-{key}-v{VERSION}", _Texts(path, limit))
    elif kind == "docs":
        folder = Path(what)
    else:
        raise ValueError(f"corpus must be zipf:N, texts:FILE or docs:FOLDER, not {spec!r}")
    corpus = _open(spec, folder, n_queries, seed)
    if kind == "texts":
        corpus.source = Path(what), limit
    return corpus


def _open(name: str, folder: Path, n_queries: int, seed: int) -> Corpus:
    indptr = np.load(folder / "indptr.npy")
    tokens = np.load(folder / "tokens.npy", mmap_mode="r")
    words = None
    if (folder / "words.txt").exists():
        words = (folder / "words.txt").read_text(encoding="utf-8").split("\n")
    corpus = Corpus(name, indptr, tokens, np.empty(0, np.int64), [], words)
    if (folder / "df.npy").exists():
        corpus.df = np.load(folder / "df.npy")
    else:
        corpus.df = _document_frequencies(corpus)
    if (folder / "query_tokens.npy").exists():
        ends = np.load(folder / "query_indptr.npy")[: n_queries + 1]
        asked = np.load(folder / "query_tokens.npy")
        corpus.queries = np.split(asked[: ends[-1]].astype(np.uint32), ends[1:-1])
    else:
        corpus.queries = draw_queries(corpus, n_queries, seed)
    return corpus


def _document_frequencies(corpus: Corpus) -> NDArray[np.int64]:
    df = np.zeros(int(corpus.tokens.max()) + 1, np.int64)
    for _, ends, tokens in corpus.batches(BLOCK):
        keys, _ = _distinct(tokens, np.diff(ends))
        df += np.bincount((keys >> np.uint64(32)).astype(np.int64), minlength=len(df))
    return df


def _cached(folder: Path, source: _Zipf | _Texts) -> Path:
    """The folder, made first if it is not there; never seen half made."""
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix="making-"))
    try:
        source.write(work)
        indptr = np.load(work / "indptr.npy")
        tokens = np.load(work / "tokens.npy", mmap_mode="r")
        df = _document_frequencies(Corpus("", indptr, tokens, np.empty(0, np.int64), []))
        np.save(work / "df.npy", df)
        try:
            work.rename(folder)
        except OSError:  # another run made it meanwhile
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


@dataclass
class _Zipf:
    n_docs: int
    seed: int

    def write(self, folder: Path) -> None:
        if self.n_docs < 1:
            raise ValueError(f"zipf needs at least 1 document, not {self.n_docs}")
        lengths = []
        with (folder / "tokens.raw").open("wb") as out:
            for first in range(0, self.n_docs, BLOCK):
                ends, tokens = draw_block(first // BLOCK, self.seed)
                ends = ends[: self.n_docs - first + 1]
                lengths.append(np.diff(ends))
                tokens[: ends[-1]].tofile(out)
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        np.save(folder / "indptr.npy", indptr)
        raw = np.memmap(folder / "tokens.raw", np.uint32, "r")
        np.save(folder / "tokens.npy", raw)
        (folder / "tokens.raw").unlink()


@dataclass
class _Texts:
    path: Path
    limit: int | None

    def write(self, folder: Path) -> None:
        numbers: dict[str, int] = {}
        tokens: list[NDArray[np.uint32]] = []
        for row in read_rows(self.path, self.limit):
            words = WORD.findall(text_of(row).lower())
            if words:
                found = [numbers.setdefault(word, len(numbers)) for word in words]
                tokens.append(np.array(found, np.uint32))
        if not tokens:
            raise ValueError(f"{self.path} holds no words")
        words = sorted(numbers)  # code points sort as their UTF-8 bytes do
        order = np.empty(len(words), np.uint32)
        order[[numbers[word] for word in words]] = np.arange(len(words))
        np.save(folder / "indptr.npy", np.cumsum([0] + [len(found) for found in tokens]))
        np.save(folder / "tokens.npy", order[np.concatenate(tokens)])
        (folder / "words.txt").write_text("\n".join(words), encoding="utf-8")


def text_of(row: dict[str, Any]) -> str:
    return f"{row.get('title') or ''} {row['text']}"


def read_rows(path: Path, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number == limit:
                return
            yield json.loads(line)
