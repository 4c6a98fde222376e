"""How long a recall takes, by mode and size, beside plain reading of the vectors' bytes.

``python -m bench.recall [--sizes 2000,100000,1000000]`` prints one JSON line per result, then a
table. Memories have 384 dimensions, in random clusters, and come through `vector=`; models and
journal are not measured: the memory is ephemeral, sizes above `--journal` (200,000) have no rows
and measure the stores alone. Path "graph" has memories in sessions, with several tags, entities,
relations, subjects and authors: what a recall costs with and without the graph, the difference for
each query, and what there is beside a scan of its own. Times are CPU times of the calling thread,
medians over queries that take turns; reading is `RecordStore.touch`, every vector once in the order
of memory. `--ann` adds HNSW and its recall (DEN-2); `--data` and `--cache` of `bench.quality` add
the recall of int8 on the built-in model's vectors (DEN-4).
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.machine import machine
from spector import SpectorMemory
from spector.records import RecordStore, ScoringOptions

DIMENSIONS = 384
CLUSTERS = 1000
WORDS = 20_000
TAGS = 100  # of which each memory has one: a filter keeps 1%
K = 10
NOW = 1_900_000_000_000
DAY = 86_400_000
BATCH = 10_000

Record = dict[str, Any]
Floats = NDArray[np.float32]


class Generator:
    """Clustered vectors, words by Zipf's law, and queries of both."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.centres = self.random.standard_normal((CLUSTERS, DIMENSIONS), np.float32)

    def vectors(self, n: int) -> Floats:
        near = self.centres[self.random.integers(CLUSTERS, size=n)]
        return near + 0.7 * self.random.standard_normal((n, DIMENSIONS), np.float32)

    def text(self, words: int) -> str:
        chosen = self.random.zipf(1.2, words) % WORDS
        return " ".join(f"word{number}" for number in chosen.tolist())

    def items(self, n: int) -> Iterator[Record]:
        for first in range(0, n, BATCH):
            for place, vector in enumerate(self.vectors(min(BATCH, n - first)), first):
                yield {
                    "text": self.text(12),
                    "vector": vector,
                    "tags": [f"tag{place % TAGS}"],
                    "timestamp": NOW - int(self.random.integers(0, 90 * DAY)),
                    "importance": float(self.random.uniform(0.05, 10)),
                }


class GraphGenerator(Generator):
    """Memories that every layer of the graph knows, and questions that name some of it."""

    NAMES = 50_000
    AUTHORS = 200
    SESSION = 20  # memories

    def drawn(self, most: int, count: int) -> list[int]:
        return (self.random.zipf(1.3, count) % most).tolist()

    def name(self, number: int) -> str:
        return f"Person{number} Of{number % 977}"

    def author(self) -> str:
        return f"author{int(self.random.integers(self.AUTHORS))}"

    def items(self, n: int) -> Iterator[Record]:
        for place, item in enumerate(super().items(n)):
            names = [self.name(number) for number in self.drawn(self.NAMES, 2)]
            subject = f"Thing{int(self.random.integers(n // 5 + 1))}"
            item["session"] = f"session{place // self.SESSION}"
            item["author"] = self.author()
            item["tags"] += [f"topic{number}" for number in self.drawn(3000, 2)]
            item["entities"] = [(name, "PERSON") for name in names]
            item["text"] += " " + " and ".join(names)
            if place % 3 == 0:
                item["text"] += f" {subject}"
            if place % 4 == 0 and names[0] != names[1]:
                item["relations"] = [(names[0], "KNOWS", names[1])]
            if place % 5 == 0:
                item["about"] = subject
            yield item

    def question(self, n: int) -> str:
        (number,) = self.drawn(self.NAMES, 1)
        subject = f" Thing{int(self.random.integers(n // 5 + 1))}"
        named = subject if self.random.random() < 0.5 else ""
        return f"{self.text(5)} {self.name(number)} {self.author()}{named}"


class SparseWords:
    """A sparse encoder without a model: words are their own terms."""

    name = "words"

    def encode_documents(self, texts: list[str]) -> list[dict[str, float]]:
        return [self.encode_query(text) for text in texts]

    def encode_query(self, text: str) -> dict[str, float]:
        return {word: 1.0 + len(word) % 3 for word in text.split()}


def in_turn(kinds: dict[str, Callable[[int], object]], rounds: int) -> dict[str, list[float]]:
    """CPU milliseconds of each kind; the first round is not counted."""
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    gc.collect()
    for turn in range(rounds + 1):
        for kind, run in kinds.items():
            begin = time.thread_time_ns()
            run(turn)
            spent = (time.thread_time_ns() - begin) / 1e6
            if turn:
                times[kind].append(spent)
    return times


def summary(
    times: dict[str, list[float]], n: int, sizes: dict[str, int], whole: int
) -> list[Record]:
    plainly = statistics.median(times["read"])
    return [
        {
            "kind": kind,
            "memories": n,
            "ms": round(statistics.median(spent), 4),
            "p95_ms": round(float(np.quantile(spent, 0.95)), 4),
            "vector_bytes": sizes.get(kind, 0),
            "gb_per_s": round(sizes.get(kind, 0) / statistics.median(spent) / 1e6, 2),
            # Of a scan: how many times the reading of its bytes, and what else there is.
            "to_reading": round(statistics.median(spent) / (plainly * sizes[kind] / whole), 3)
            if sizes.get(kind)
            else None,
        }
        for kind, spent in times.items()
    ]


def through_python(n: int, rounds: int, ann: bool) -> list[Record]:
    """Every mode of `SpectorMemory.recall`."""
    made = Generator()
    options = {"ann": True} if ann else {}
    with SpectorMemory.ephemeral(sparse_encoder=SparseWords(), seed=0, **options) as memory:
        begin = time.perf_counter()
        memory.remember_many(made.items(n), batch_size=BATCH)
        built = time.perf_counter() - begin
        records = memory._space.replica.records
        whole = records.memory_usage()["vector_bytes"]
        queries = [(made.text(5), vector) for vector in made.vectors(rounds + 1)]

        models = memory._models
        without_sparse = dataclasses.replace(models, sparse=None)

        def ask(sparse: bool = False, **options: Any) -> Callable[[int], object]:
            def run(turn: int) -> object:
                memory._models = models if sparse else without_sparse
                text, vector = queries[turn]
                return memory.recall(text, vector=vector, k=K, **options)

            return run

        kinds: dict[str, Callable[[int], object]] = {
            "read": lambda turn: records.touch(),
            "hybrid": ask(),
            "hybrid, 1% tag": ask(tags=["tag7"]),
            "keyword_only": ask(text_search_mode="keyword_only"),
            "vector_only": ask(text_search_mode="vector_only"),
            "vector_only, 1% tag": ask(text_search_mode="vector_only", tags=["tag7"]),
            "splade": ask(True, text_search_mode="splade"),
            "splade_hybrid": ask(True, text_search_mode="splade_hybrid"),
            "hybrid, three lists": ask(True),
        }
        scans = ("read", "hybrid", "vector_only", "splade_hybrid", "hybrid, three lists")
        sizes = {} if ann else dict.fromkeys(scans, whole)
        sizes["read"] = whole
        found = summary(in_turn(kinds, rounds), n, sizes, whole)
        usage = memory._space.replica.bytes()
    label = "python, ann" if ann else "python"
    bytes_of = {"kind": "memory", "path": label, "memories": n, "built_s": round(built, 1), **usage}
    return [bytes_of, *({**record, "path": label} for record in found)]


def through_graph(n: int, rounds: int) -> list[Record]:
    """What the layers of the graph add to a recall."""
    made = GraphGenerator()
    with SpectorMemory.ephemeral(seed=0) as memory:
        begin = time.perf_counter()
        memory.remember_many(made.items(n), batch_size=BATCH)
        built = time.perf_counter() - begin
        records = memory._space.replica.records
        queries = [(made.question(n), vector) for vector in made.vectors(rounds + 1)]
        everything = ScoringOptions(NOW)

        def ask(**options: Any) -> Callable[[int], object]:
            return lambda turn: memory.recall(
                queries[turn][0], vector=queries[turn][1], k=K, **options
            )

        times = in_turn(
            {
                "read": lambda turn: records.touch(),
                "scan": lambda turn: records.similar(queries[turn][1], everything, 50),
                "without graph": ask(graph_expansion=False),
                "with graph": ask(),
            },
            rounds,
        )
        usage = memory._space.replica.bytes()
        size = records.memory_usage()["vector_bytes"]
    for kind, without in (("the graph alone", "without graph"), ("all but the scan", "scan")):
        both = zip(times["with graph"], times[without], strict=True)
        times[kind] = [whole - part for whole, part in both]
    found = summary(times, n, dict.fromkeys(("read", "scan"), size), size)
    memory_of = {"kind": "memory", "path": "graph", "memories": n, "built_s": round(built, 1)}
    return [memory_of | usage, *({**record, "path": "graph"} for record in found)]


def stores(n: int, rounds: int) -> list[Record]:
    """The record store alone, with exact lists of slots as filters."""
    made = Generator()
    store = RecordStore(DIMENSIONS)
    begin = time.perf_counter()
    for first in range(0, n, BATCH):
        slots = np.arange(first, min(n, first + BATCH), dtype=np.uint32)
        store.put(
            slots,
            made.vectors(len(slots)),
            timestamp=NOW - made.random.integers(0, 90 * DAY, len(slots)),
            importance=made.random.uniform(0.05, 10, len(slots)).astype(np.float32),
        )
    built = time.perf_counter() - begin
    usage = store.memory_usage()
    whole = usage["vector_bytes"]
    queries = made.vectors(rounds + 1)
    of_tag = np.sort(made.random.choice(n, max(1, n // TAGS), replace=False)).astype(np.uint32)
    everything = ScoringOptions(NOW)
    tagged = ScoringOptions(NOW, tags=[of_tag])

    def ask(method: str, options: ScoringOptions) -> Callable[[int], object]:
        search = getattr(store, method)
        return lambda turn: search(queries[turn % len(queries)], options, K)

    scans = {
        "read": lambda turn: store.touch(),
        "similar": ask("similar", everything),
        "search": ask("search", everything),
    }
    filtered = {"similar, 1% tag": ask("similar", tagged), "search, 1% tag": ask("search", tagged)}
    found = summary(in_turn(scans, rounds), n, dict.fromkeys(scans, whole), whole)
    # By themselves, as an agent that works on one subject asks; and after a scan of everything.
    found += [
        record
        for record in summary(
            in_turn({"read": lambda turn: None, **filtered}, 10 * rounds), n, {}, whole
        )
        if record["kind"] != "read"
    ]
    cold = {"read": lambda turn: store.touch()}
    for kind, run in filtered.items():
        cold[f"{kind}, cold"] = run
        cold[f"touch {len(cold)}"] = lambda turn: store.touch()
    found += [
        record
        for record in summary(in_turn(cold, rounds), n, {}, whole)
        if record["kind"].endswith("cold")
    ]
    memory = {"kind": "memory", "path": "stores", "memories": n, "built_s": round(built, 1)}
    return [memory | usage, *({**record, "path": "stores"} for record in found)]


def recall_of_int8(vectors: Floats, queries: Floats) -> float:
    """The share of the ten nearest by float32 that the scan of int8 finds (DEN-4)."""
    found = 0
    answers = []
    for storage in ("f32", "int8"):
        store = RecordStore(vectors.shape[1], storage=storage)
        store.put(np.arange(len(vectors)), vectors)
        options = ScoringOptions(NOW, staleness=False)
        answers.append([set(store.similar(query, options, K).slots.tolist()) for query in queries])
    for exact, rounded in zip(*answers, strict=True):
        found += len(exact & rounded)
    return found / (K * len(queries))


def recall_on_texts(data: Path, cache: Path) -> list[Record]:
    """`recall_of_int8` of the texts and queries of each set of `bench.quality`."""
    from bench.quality.sets import SETS, load
    from bench.quality.vectors import Cache, CachedMiniLM
    from spector.encoding import encoder_text

    model = CachedMiniLM(Cache(cache))
    records = []
    for name in SETS:
        collections = load(name, data)
        texts = [
            encoder_text(item["text"], item.get("context"))
            for collection in collections
            for item in collection.documents
        ]
        queries = [query.text for collection in collections for query in collection.queries]
        share = recall_of_int8(model.embed_documents(texts), model.embed_documents(queries))
        records.append(
            {"kind": "int8", "set": name, "recall@10": round(share, 4), "vectors": len(texts)}
        )
    return records


def recall_of_hnsw() -> list[Record]:
    """DEN-2: 100,000 vectors of 128 dimensions in 1,000 clusters."""
    from spector.ann import HnswIndex

    n, dimensions = 100_000, 128
    random = np.random.default_rng(3)
    centres = random.standard_normal((CLUSTERS, dimensions), np.float32)

    def some(count: int) -> Floats:
        near = centres[random.integers(CLUSTERS, size=count)]
        return near + 0.5 * random.standard_normal((count, dimensions), np.float32)

    vectors, queries = some(n), some(300)
    index, store = HnswIndex(dimensions), RecordStore(dimensions, storage="f32")
    begin = time.perf_counter()
    index.put(np.arange(n), vectors)
    built = time.perf_counter() - begin
    store.put(np.arange(n), vectors)
    options = ScoringOptions(NOW, staleness=False)
    exact = [set(store.similar(query, options, K).slots.tolist()) for query in queries]
    records = []
    for ef_search in (50, 200):
        begin = time.perf_counter()
        answers = [index.search(query, K, ef_search=ef_search).tolist() for query in queries]
        spent = time.perf_counter() - begin
        shared = sum(len(one & set(other)) for one, other in zip(exact, answers, strict=True))
        records.append(
            {
                "kind": "hnsw",
                "ef_search": ef_search,
                "recall@10": round(shared / (K * len(queries)), 4),
                "us": round(1e6 * spent / len(queries), 1),
                "built_s": round(built, 1),
                "bytes": index.memory_usage(),
            }
        )
    return records


def main(arguments: list[str] | None = None) -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser(prog="python -m bench.recall", description=__doc__)
    parser.add_argument("--sizes", default="2000,100000,1000000", help="numbers of memories")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--journal", type=int, default=200_000, help="largest size with rows")
    parser.add_argument("--ann", action="store_true", help="with HNSW as well (extra ann)")
    parser.add_argument("--data", type=Path, help="the folder of the sets of bench.quality")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/spector/quality")
    options = parser.parse_args(arguments)
    records: list[Record] = []

    def emit(record: Record) -> None:
        records.append(record)
        print(json.dumps(record), flush=True)

    emit(machine(dimensions=DIMENSIONS, k=K))
    made = Generator(1)
    near = made.vectors(5000)
    share = recall_of_int8(near, made.vectors(200))
    emit({"kind": "int8", "recall@10": round(share, 4), "vectors": len(near)})
    for record in recall_on_texts(options.data, options.cache) if options.data else []:
        emit(record)
    ann = options.ann and importlib.util.find_spec("usearch") is not None
    for record in recall_of_hnsw() if ann else []:
        emit(record)
    for n in map(int, options.sizes.split(",")):
        if n <= options.journal:
            rounds = options.rounds * (10 if n <= 10_000 else 1)
            for record in through_python(n, rounds, False):
                emit(record)
            if ann:
                for record in through_python(n, rounds, True):
                    emit(record)
            for record in through_graph(n, rounds):
                emit(record)
        for record in stores(n, options.rounds):
            emit(record)
    print(f"\n{'':22}{'path':>12}{'memories':>11}{'ms':>10}{'p95':>10}{'GB/s':>8}{'x reading':>11}")
    for record in records:
        if "ms" in record:
            ratio = "" if record["to_reading"] is None else f"{record['to_reading']:.2f}"
            print(
                f"{record['kind']:22}{record['path']:>12}{record['memories']:>11,}"
                f"{record['ms']:>10.3f}{record['p95_ms']:>10.3f}{record['gb_per_s']:>8.2f}"
                f"{ratio:>11}"
            )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
