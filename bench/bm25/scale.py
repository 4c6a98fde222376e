"""How the index grows: `python -m bench.bm25.scale --documents 100000,1000000,10000000`.

One index is filled with the drawn documents of `zipf:N` (about 56 tokens each), a batch at a time
and never all in memory; at each of the sizes it is measured and asked. One JSON line per size:

build        seconds and documents per second since the size before, merges included
bytes        what the index accounts for, and what the process has in memory
k=...        microseconds of CPU per query, the Python call included, and postings of its terms

10,000,000 documents take 4.0 GB and some nine minutes of CPU.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.bm25.timing import summary
from bench.corpora import BLOCK, MAX_TERMS, MIN_TERMS, VOCABULARY, draw_block
from spector.lexical import BM25Index

BLOCKS_AT_ONCE = 4
COMMON = 50  # the most frequent tokens are in no query: what a stop list would drop


def draw_queries(n: int, seed: int) -> list[NDArray[np.uint32]]:
    """Queries of 2 to 8 distinct terms of one of the first documents."""
    indptr, tokens = draw_block(0, seed)
    rng = np.random.default_rng([seed, 98])
    found: list[NDArray[np.uint32]] = []
    while len(found) < n:
        document = int(rng.integers(BLOCK))
        terms = np.unique(tokens[indptr[document] : indptr[document + 1]])
        terms = terms[terms >= COMMON]
        if len(terms) >= MIN_TERMS:
            wanted = min(MIN_TERMS + rng.binomial(MAX_TERMS - MIN_TERMS, 0.4), len(terms))
            found.append(rng.choice(terms, wanted, replace=False))
    return found


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def fill(index: BM25Index, first: int, last: int, df: NDArray[np.int64], seed: int) -> None:
    """Add documents [first, last); both are numbers of whole blocks, or `last` ends in one."""
    for begin in range(first, last, BLOCK * BLOCKS_AT_ONCE):
        lengths, parts = [], []
        for start in range(begin, min(begin + BLOCK * BLOCKS_AT_ONCE, last), BLOCK):
            indptr, tokens = draw_block(start // BLOCK, seed)
            n = min(BLOCK, last - start)
            lengths.append(np.diff(indptr[: n + 1]))
            parts.append(tokens[: indptr[n]])
            numbers = np.repeat(np.arange(n, dtype=np.int64), lengths[-1])
            pairs = np.unique(numbers * VOCABULARY + parts[-1])
            df += np.bincount(pairs % VOCABULARY, minlength=VOCABULARY)
        ends = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        ids = [str(i) for i in range(begin, begin + len(ends) - 1)]
        index.add_tokens(ids, ends, np.concatenate(parts))


def measure(
    index: BM25Index, queries: list[NDArray[np.uint32]], df: NDArray[np.int64], rounds: int
) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for k in (10, 1000):
        spent = np.empty((rounds, len(queries)))
        for turn in range(rounds):
            for number, query in enumerate(queries):
                begin = time.thread_time_ns()
                index.search_tokens(query, k)
                spent[turn, number] = (time.thread_time_ns() - begin) / 1000
        record[f"k={k}"] = summary(np.median(spent, axis=0))
    record["postings_per_query"] = round(float(np.mean([df[query].sum() for query in queries])))
    return record


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.bm25.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--documents", default="100000,1000000", help="sizes, ascending")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    # Whole blocks, so that each size goes on where the one before ended.
    sizes = [-(-int(size) // BLOCK) * BLOCK for size in options.documents.split(",")]
    index = BM25Index()
    queries = draw_queries(options.queries, 7)
    df = np.zeros(VOCABULARY, np.int64)
    before = 0
    for size in sizes:
        wall, cpu = time.perf_counter(), time.process_time()
        fill(index, before, size, df, 7)
        index._tokens.settle()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        stats = index.stats()
        record = {
            "documents": size,
            "postings": stats["postings"],
            "segments": stats["segments"],
            "wall_s": round(wall, 1),
            "cpu_s_with_drawing": round(cpu, 1),
            "documents_per_s": round((size - before) / wall),
            "bytes_per_posting": round((stats["bytes"] - stats["id_bytes"]) / stats["postings"], 2),
            "id_bytes_per_document": round(stats["id_bytes"] / size, 1),
            "index_mb": round(stats["bytes"] / 1e6, 1),
            "process_mb": round(resident_mb(), 1),
            **measure(index, queries, df, options.rounds),
        }
        print(json.dumps(record), flush=True)
        before = size


if __name__ == "__main__":
    main()
