"""What changes cost: single ones, and queries on an index that has seen many."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.bm25.correctness import Reference, check
from bench.bm25.timing import ask_all, query_records
from bench.corpora import Corpus
from bench.peers import BATCH, Meter, Spector, Updatable

Record = dict[str, Any]


class Updates:
    """Changes to a built index, each seen by a search for a term that only it has."""

    def __init__(self, engine: Updatable, repeats: int) -> None:
        self.engine, self.repeats = engine, repeats
        self.next_key = engine.corpus.n_docs
        self.next_term = len(engine.corpus.df)
        self.cpu_ms: dict[str, list[float]] = {}
        self.wall_ms: dict[str, list[float]] = {}

    def record(self) -> Record:
        many = min(1000, self.engine.corpus.n_docs)
        added = [self._add_and_see(1, "add_1", "add_1_and_search") for _ in range(self.repeats)]
        for key, term in added:
            self._remove_and_see(key, term)
        for _ in range(max(3, self.repeats // 7)):
            self._add_and_see(many, f"add_{many}", f"add_{many}_and_search")
        record = {
            "kind": "updates",
            "engine": self.engine.name,
            "wall_ms": {name: _median(seen) for name, seen in self.wall_ms.items()},
            "cpu_ms": {name: _median(seen) for name, seen in self.cpu_ms.items()},
        }
        if isinstance(self.engine, Spector):
            record |= self._same_document_again()
        return record

    def _documents(self, n: int) -> tuple[range, NDArray[np.int64], NDArray[np.uint32], int]:
        """Documents of the corpus again under new keys, the last with a term of its own."""
        corpus = self.engine.corpus
        first = (self.next_key * 7919) % (corpus.n_docs - n + 1)
        ends = corpus.indptr[first : first + n + 1]
        term = self.next_term
        tokens = np.append(corpus.tokens[ends[0] : ends[-1]], np.uint32(term))
        ends = ends - ends[0]
        ends[-1] += 1
        keys = range(self.next_key, self.next_key + n)
        self.next_key += n
        self.next_term += 1
        return keys, ends, tokens, term

    def _add_and_see(self, n: int, name: str, with_search: str) -> tuple[int, int]:
        keys, ends, tokens, term = self._documents(n)
        documents = self.engine.documents(keys, ends, tokens)
        rows = self._timed(lambda: self.engine.add(*documents), term, name, with_search)
        if rows.tolist() != [keys[-1]]:
            raise SystemExit(f"{self.engine.name}: a search did not see the document just added")
        return keys[-1], term

    def _remove_and_see(self, key: int, term: int) -> None:
        rows = self._timed(lambda: self.engine.remove(key), term, "remove_1", "remove_1_and_search")
        if len(rows):
            raise SystemExit(f"{self.engine.name}: a search saw a document just removed")

    def _timed(
        self, change: Callable[[], None], term: int, name: str, with_search: str
    ) -> NDArray[np.int64]:
        query = self.engine.prepare(np.array([term], np.uint32))
        wall_0, cpu_0 = time.perf_counter(), time.process_time()
        change()
        wall_1, cpu_1 = time.perf_counter(), time.process_time()
        result = self.engine.search(query, 10)
        wall_2, cpu_2 = time.perf_counter(), time.process_time()
        self.wall_ms.setdefault(name, []).append(1000 * (wall_1 - wall_0))
        self.wall_ms.setdefault(with_search, []).append(1000 * (wall_2 - wall_0))
        self.cpu_ms.setdefault(name, []).append(1000 * (cpu_1 - cpu_0))
        self.cpu_ms.setdefault(with_search, []).append(1000 * (cpu_2 - cpu_0))
        return self.engine.hits(result)[0]

    def _same_document_again(self) -> Record:
        """1,000 updates of one document: the index afterwards beside what it was."""
        assert isinstance(self.engine, Spector)
        _, ends, tokens, _ = self._documents(1)
        document = self.engine.documents(range(1), ends, tokens)
        self.engine.add(*document)
        before = self.engine.index.stats()
        begin = time.perf_counter()
        for _ in range(1000):
            self.engine.add(*document)
        seconds = time.perf_counter() - begin
        after = self.engine.index.stats()
        counts = ("documents", "terms", "postings", "total_length")
        return {
            "same_document_again": {
                "updates": 1000,
                "wall_ms_each": round(seconds, 5),
                "same_statistics": all(before[name] == after[name] for name in counts),
                "bytes_grown": int(after["bytes"] - before["bytes"]),
            }
        }


def _median(seen: Sequence[float]) -> float:
    return float(f"{statistics.median(seen):.4g}")


class _Mixed(Spector):
    """90% of the documents, then the other 10% by the thousand, then 20% of all removed."""

    name = "spector-mixed"
    compact = False

    def build(self, meter: Meter) -> None:
        n = self.corpus.n_docs
        old = n - n // 10
        firsts = [*range(0, old, BATCH), *range(old, n, 1000), n]
        for first, end in pairwise(firsts):
            ends = self.corpus.indptr[first : end + 1]
            tokens = self.corpus.tokens[ends[0] : ends[-1]]
            self.add(*self.documents(range(first, end), ends, tokens))
        self.live = np.ones(n, bool)
        self.live[np.random.default_rng(3).choice(n, n // 5, replace=False)] = False
        for key in np.flatnonzero(~self.live).tolist():
            self.remove(key)
        if self.compact:
            self.index.compact()


class _Compacted(_Mixed):
    name = "spector-compacted"
    compact = True


def mixed_records(corpus: Corpus, folder: Path, options: argparse.Namespace) -> Iterator[Record]:
    copies = [_Mixed(corpus, folder), _Compacted(corpus, folder)]
    for copy in copies:
        with Meter() as meter:
            copy.build(meter)
    reference = Reference(corpus, copies[0].live)
    for k in options.k:
        for copy in copies:
            checked = check(reference, copy, corpus.queries[: options.checked], k)
            yield {"kind": "correctness", "engine": copy.name, "k": k, **checked}
        times = ask_all(copies, corpus.queries, k, options.rounds, options.budget)
        yield from query_records(times, k)
