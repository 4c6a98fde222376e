"""The engines of the BM25 benchmark, each asked as a Python caller would: spector and its peers.

All get the same tokens with k1 = 1.2 and b = 0.75: token ids where an engine takes them, else
strings. `prepare` is not timed, `search` is.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import importlib.util
import os
import resource
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.corpora import Corpus, invert

K1, B = 1.2, 0.75
BATCH = 100_000  # documents handed over at a time
TEXTS = 10_000  # ... where strings have to be made of them

Item = TypeVar("Item")
Hits = tuple[NDArray[np.int64], NDArray[np.float64]]


class Meter:
    """CPU time of the process (all threads), wall time and memory of a stretch of work.

    Time of `untimed` parts is left out: there the engine's input is made.
    """

    def __enter__(self) -> Meter:
        gc.collect()
        self.cpu_s = self.wall_s = self._cpu_off = self._wall_off = 0.0
        self._resets = _reset_peak()
        self._rss = _status("VmRSS")
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s = time.process_time() - self._cpu - self._cpu_off
        self.wall_s = time.perf_counter() - self._wall - self._wall_off
        self.peak_mb = (_status("VmHWM") - self._rss) / 1024 if self._resets else None
        gc.collect()
        self.kept_mb = (_status("VmRSS") - self._rss) / 1024

    def making(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items; the making of each is not timed."""
        left = iter(items)
        while True:
            with self.untimed():
                item = next(left, None)
            if item is None:
                return
            yield item

    @contextmanager
    def untimed(self) -> Iterator[None]:
        cpu, wall = time.thread_time(), time.perf_counter()
        yield
        self._cpu_off += time.thread_time() - cpu
        self._wall_off += time.perf_counter() - wall


def _status(field: str) -> int:
    """A size in KiB that the kernel reports of this process."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1])
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _reset_peak() -> bool:
    """Let VmHWM begin anew."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


class Engine(ABC):
    """One index over a corpus."""

    name: ClassVar[str]
    package: ClassVar[str]
    modules: ClassVar[tuple[str, ...]]
    exact: ClassVar[bool] = False  # by its own claim: checked for ids and order, not for recall
    input: ClassVar[str] = "token ids"

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        self.corpus, self.folder = corpus, folder
        folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    def missing(cls) -> str | None:
        """What is not installed."""
        for module in cls.modules:
            if importlib.util.find_spec(module) is None:
                return module
        return None

    @classmethod
    def version(cls) -> str:
        return importlib.metadata.version(cls.package)

    @abstractmethod
    def build(self, meter: Meter) -> None: ...

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Bytes in memory or on disk, as far as they are known."""

    @abstractmethod
    def prepare(self, query: NDArray[np.uint32]) -> Any: ...

    @abstractmethod
    def search(self, query: Any, k: int) -> Any: ...

    @abstractmethod
    def hits(self, result: Any) -> Hits:
        """Rows and scores of what `search` returned, best first."""


class Updatable(Engine):
    """An engine that takes changes; each is visible to the search that follows the call."""

    @abstractmethod
    def documents(
        self, keys: range, indptr: NDArray[np.int64], tokens: NDArray[np.uint32]
    ) -> tuple[Any, ...]:
        """What `add` takes; not timed."""

    @abstractmethod
    def add(self, *documents: Any) -> None: ...

    @abstractmethod
    def remove(self, key: int) -> None: ...

    @abstractmethod
    def build_texts(self, batches: Iterable[tuple[int, list[str]]], meter: Meter) -> None:
        """A fresh index of raw texts; batches of (first key, texts) are not timed."""


class Spector(Updatable):
    name = "spector"
    package = "spector"
    modules = ("spector",)
    exact = True

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        super().__init__(corpus, folder)
        from spector.lexical import BM25Index

        self.index: Any = BM25Index(K1, B)
        self.saved = folder / "saved"
        self.search = self.index.search_tokens  # type: ignore[assignment,method-assign]

    def build(self, meter: Meter) -> None:
        for first, indptr, tokens in self.corpus.batches(BATCH):
            with meter.untimed():
                documents = self.documents(range(first, first + len(indptr) - 1), indptr, tokens)
            self.add(*documents)

    def sizes(self) -> dict[str, int]:
        stats = self.index.stats()
        sizes = {"memory": int(stats["bytes"] - stats["id_bytes"]), "ids": int(stats["id_bytes"])}
        if hasattr(self.index, "save"):
            self.index.save(self.saved)
            sizes["disk"] = folder_bytes(self.saved)
        return sizes

    def prepare(self, query: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return np.ascontiguousarray(query, np.uint32)

    def search(self, query: NDArray[np.uint32], k: int) -> Any:
        raise NotImplementedError  # the index's own method stands here

    def hits(self, result: Any) -> Hits:
        return result[0], result[1].astype(np.float64)

    def documents(
        self, keys: range, indptr: NDArray[np.int64], tokens: NDArray[np.uint32]
    ) -> tuple[list[str], NDArray[np.int64], NDArray[np.uint32]]:
        return [str(key) for key in keys], indptr - indptr[0], np.array(tokens)

    def add(self, *documents: Any) -> None:
        self.index.add_tokens(*documents)

    def remove(self, key: int) -> None:
        self.index.remove(str(key))

    def build_texts(self, batches: Iterable[tuple[int, list[str]]], meter: Meter) -> None:
        index = type(self.index)(K1, B, analyzer="standard", language=None)
        for first, texts in meter.making(batches):
            with meter.untimed():
                ids = [str(key) for key in range(first, first + len(texts))]
            index.add_batch(ids, texts)
        index._texts._core.settle()  # as the peer waits for its merges


class Tantivy(Updatable):
    """One writer thread, frequencies without positions, terms as given, on disk."""

    name = "tantivy"
    package = "tantivy"
    modules = ("tantivy",)
    input = "one string a document, split at spaces"
    # Enough for one segment at 1M documents, which is the best case of its queries.
    heap_bytes = 1_000_000_000

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        super().__init__(corpus, folder)
        import tantivy

        self._lib = tantivy
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("body", tokenizer_name="whitespace", index_option="freq")
        builder.add_unsigned_field("row", indexed=True, fast=True)
        self.schema = builder.build()
        self.index = tantivy.Index(self.schema, path=str(folder))

    def build(self, meter: Meter) -> None:
        self.writer = self.index.writer(self.heap_bytes, num_threads=1)
        self._fill(self.writer, self.corpus.texts(TEXTS), meter)
        self._refresh()
        self.writer = self.index.writer(100_000_000, num_threads=1)

    def build_texts(self, batches: Iterable[tuple[int, list[str]]], meter: Meter) -> None:
        builder = self._lib.SchemaBuilder()
        builder.add_text_field("body", tokenizer_name="default", index_option="freq")
        builder.add_unsigned_field("row", indexed=True, fast=True)
        folder = self.folder.with_name(self.folder.name + "-texts")
        folder.mkdir()
        index = self._lib.Index(builder.build(), path=str(folder))
        self._fill(index.writer(self.heap_bytes, num_threads=1), batches, meter)

    def _fill(self, writer: Any, batches: Iterable[tuple[int, list[str]]], meter: Meter) -> None:
        for first, texts in meter.making(batches):
            self._add(writer, range(first, first + len(texts)), texts)
        writer.commit()
        writer.wait_merging_threads()

    def _add(self, writer: Any, keys: range, texts: Sequence[str]) -> None:
        document, add = self._lib.Document, writer.add_document
        for key, text in zip(keys, texts, strict=True):
            doc = document()
            doc.add_text("body", text)
            doc.add_unsigned("row", key)
            add(doc)

    def _refresh(self) -> None:
        self.index.reload()
        self.searcher = self.index.searcher()

    def sizes(self) -> dict[str, int]:
        return {"disk": folder_bytes(self.folder)}

    def prepare(self, query: NDArray[np.uint32]) -> list[str]:
        return [self.corpus.word(token) for token in query.tolist()]

    def search(self, query: list[str], k: int) -> Any:
        lib, schema = self._lib, self.schema
        should, term = lib.Occur.Should, lib.Query.term_query
        clauses = [(should, term(schema, "body", word, "freq")) for word in query]
        return self.searcher.search(lib.Query.boolean_query(clauses), k, count=False)

    def hits(self, result: Any) -> Hits:
        addresses = [address for _, address in result.hits]
        rows = self.searcher.fast_field_values("row", addresses)
        return np.array(rows, np.int64), np.array([score for score, _ in result.hits], np.float64)

    def documents(
        self, keys: range, indptr: NDArray[np.int64], tokens: NDArray[np.uint32]
    ) -> tuple[range, list[str]]:
        return keys, self.corpus.joined(indptr, tokens)

    def add(self, *documents: Any) -> None:
        self._add(self.writer, *documents)
        self.writer.commit()
        self._refresh()

    def remove(self, key: int) -> None:
        # Not delete_documents_by_term: it takes the number for a signed one and finds nothing.
        self.writer.delete_documents_by_query(self._lib.Query.term_query(self.schema, "row", key))
        self.writer.commit()
        self._refresh()


class Bm25s(Engine):
    """bm25s with its numba backend; compiling is not timed."""

    name = "bm25s"
    package = "bm25s"
    modules = ("bm25s", "numba")

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        super().__init__(corpus, folder)
        os.environ.setdefault("DISABLE_TQDM", "1")
        self._lib = importlib.import_module("bm25s")
        warm = self._new()
        warm.index(([[0, 1], [1, 2]], {"a": 0, "b": 1, "c": 2}), show_progress=False)
        warm.retrieve([[0, 1]], k=1, show_progress=False)

    def _new(self) -> Any:
        return self._lib.BM25(k1=K1, b=B, method="lucene", backend="numba")

    def build(self, meter: Meter) -> None:
        with meter.untimed():
            ends, tokens = self.corpus.indptr.tolist(), self.corpus.tokens.tolist()
            rows = [tokens[a:b] for a, b in pairwise(ends)]
            del tokens
            vocabulary = {self.corpus.word(token): token for token in range(len(self.corpus.df))}
        self.index = self._new()
        self.index.index((rows, vocabulary), show_progress=False)

    def sizes(self) -> dict[str, int]:
        arrays = (self.index.scores[name] for name in ("data", "indices", "indptr"))
        return {"memory": sum(array.nbytes for array in arrays)}

    def prepare(self, query: NDArray[np.uint32]) -> list[list[int]]:
        return [query.tolist()]

    def search(self, query: list[list[int]], k: int) -> Any:
        k = min(k, self.corpus.n_docs)
        return self.index.retrieve(query, k=k, show_progress=False)

    def hits(self, result: Any) -> Hits:
        rows, scores = result.documents[0], result.scores[0].astype(np.float64)
        found = scores > 0
        return rows[found].astype(np.int64), scores[found]


class _Pisa(Engine):
    """PISA through the native module of pyterrier-pisa: SIMD-BP128 blocks of 128, bounds of 64."""

    package = "pyterrier-pisa"
    modules = ("pyterrier_pisa",)
    input = "inverted lists on disk"
    algorithm: ClassVar[str]
    quantize: ClassVar[int]

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        super().__init__(corpus, folder)
        self._lib = _native_pisa()
        inverted = folder.parent / "pisa-lists"
        if not inverted.exists():
            inverted.mkdir()
            _write_lists(corpus, inverted)
        for file in inverted.iterdir():
            os.link(file, folder / file.name)

    def build(self, meter: Meter) -> None:
        at, lib = str(self.folder), self._lib
        self._context = lib.RetrievalContext()
        options = {"quantize": self.quantize, "bm25_k1": K1, "bm25_b": B}
        with _silence():
            lib.build_binlex(f"{at}/fwd.documents", f"{at}/fwd.doclex")
            lib.build_binlex(f"{at}/fwd.terms", f"{at}/fwd.termlex")
            lib.prepare_index(self._context, at, "block_simdbp", "bm25", "", **options)

    def sizes(self) -> dict[str, int]:
        given = {"inv.docs", "inv.freqs", "inv.sizes", "fwd.documents", "fwd.terms"}
        files = [file for file in self.folder.iterdir() if file.name not in given]
        return {"disk": sum(file.stat().st_size for file in files)}

    def prepare(self, query: NDArray[np.uint32]) -> list[str]:
        return [self.corpus.word(token) for token in query.tolist()]

    def search(self, query: list[str], k: int) -> Any:
        names = np.empty(k, object)
        scores = np.empty(k, np.float32)
        numbers = np.empty((2, k), np.int32)
        n = self._lib.retrieve(
            self._context,
            self.algorithm,
            [(0, dict.fromkeys(query, 1.0))],
            k=k,
            threads=1,
            pretokenised=1,
            result_qidxs=numbers[0],
            result_docnos=names,
            result_ranks=numbers[1],
            result_scores=scores,
        )
        return names[:n], scores[:n]

    def hits(self, result: Any) -> Hits:
        return result[0].astype(np.int64), result[1].astype(np.float64)


class PisaBlockMaxMaxScore(_Pisa):
    name = "pisa-bmm"
    algorithm = "block_max_maxscore"
    quantize = 0


class PisaQuantised(_Pisa):
    name = "pisa-q8"
    algorithm = "maxscore"
    quantize = 1


@contextmanager
def _silence() -> Iterator[None]:
    """Native code that prints its progress on both streams."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        for copy, stream in zip(saved, (1, 2), strict=True):
            os.dup2(copy, stream)
            os.close(copy)


def _native_pisa() -> Any:
    """The native module alone: the package around it would start pyterrier."""
    spec = importlib.util.find_spec("pyterrier_pisa")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("pyterrier_pisa")
    (path,) = Path(spec.submodule_search_locations[0]).glob("_pisathon.*.so")
    native = importlib.util.spec_from_file_location("_pisathon", path)
    if native is None or native.loader is None:
        raise ImportError("pyterrier_pisa._pisathon")
    if native.name not in sys.modules:
        sys.modules[native.name] = importlib.util.module_from_spec(native)
        native.loader.exec_module(sys.modules[native.name])
    return sys.modules[native.name]


def _write_lists(corpus: Corpus, folder: Path) -> None:
    """What PISA reads: each list as its length and its members, all uint32; terms in byte order."""
    postings = invert(corpus)
    sizes = np.diff(postings.indptr)
    terms = np.flatnonzero(sizes)
    lists = {"docs": postings.docs, "freqs": postings.freqs}
    heads = postings.indptr[terms] + np.arange(len(terms))
    is_head = np.zeros(len(postings.docs) + len(terms), bool)
    is_head[heads] = True
    for name, members in lists.items():
        flat = np.empty(len(is_head), np.uint32)
        flat[heads] = sizes[terms]
        flat[~is_head] = members
        with (folder / f"inv.{name}").open("wb") as out:
            if name == "docs":
                np.array([1, corpus.n_docs], np.uint32).tofile(out)
            flat.tofile(out)
    lengths = np.diff(corpus.indptr).astype(np.uint32)
    with (folder / "inv.sizes").open("wb") as out:
        np.array([len(lengths)], np.uint32).tofile(out)
        lengths.tofile(out)
    words = [corpus.word(int(term)) for term in terms]
    (folder / "fwd.terms").write_text("\n".join(words) + "\n", encoding="utf-8")
    rows = "\n".join(map(str, range(corpus.n_docs)))
    (folder / "fwd.documents").write_text(rows + "\n", encoding="utf-8")


def folder_bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


ENGINES: dict[str, type[Engine]] = {
    engine.name: engine for engine in (Spector, PisaBlockMaxMaxScore, PisaQuantised, Tantivy, Bm25s)
}
