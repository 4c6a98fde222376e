"""Keyword search: the analyzer and exact BM25 over live documents (specification, section A)."""

import operator
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spector import _core, arguments
from spector.errors import ConfigurationError, SpectorError, UnknownMemoryError, VersionError

__all__ = ["BM25Index", "Compound", "TermScore", "TextIndex", "Token", "analyze"]

Analyzer = str | Callable[[str], Sequence[str]]

_ALL = 2**32  # more than any index holds


@dataclass(frozen=True, slots=True)
class Token:
    """One term that a position is found under.

    Attributes
    ----------
    text : str
        The term as it is indexed: folded, and stemmed if it is a word.
    part : bool
        False for the whole form of the compound, True for one of its parts.
    stop : bool
        A function word: a query ignores it beside other terms (TOK-8).
    """

    text: str
    part: bool
    stop: bool


@dataclass(frozen=True, slots=True)
class Compound:
    """One position of a text (TOK-9): a word, an identifier, or one CJK bigram.

    Attributes
    ----------
    text : str
        The stretch of the given text.
    start, end : int
        Where it stands in the given text, in characters.
    position : int
        0 for the first compound of the text.
    identifier : bool
        It counts as one exact string (TOK-12).
    tokens : tuple of Token
        The whole form first, then its parts.
    """

    text: str
    start: int
    end: int
    position: int
    identifier: bool
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class TermScore:
    """One term's part in a score; the contributions, added in order, are the score (BM25-1).

    Attributes
    ----------
    term : str
    f : int
        Occurrences in the document.
    n : int
        Documents that have the term.
    idf : float
    length : int
        Positions of the document.
    weight : float
        Of the term in the query (TOK-12).
    contribution : float
    """

    term: str
    f: int
    n: int
    idf: float
    length: int
    weight: float
    contribution: float


class _Stemmer:
    """PyStemmer behind a lock: its objects are not made for several threads at once."""

    def __init__(self, language: str) -> None:
        import Stemmer

        if not isinstance(language, str):
            raise TypeError(f"language must be str or None, not {arguments.kind(language)}")
        known = Stemmer.algorithms()
        if language not in known:
            raise ValueError(
                f"language {language!r} is not known: None or one of {', '.join(known)}"
            )
        self.version = str(Stemmer.version())
        # No cache: the vocabulary remembers, so each word comes once.
        self._stemmer = Stemmer.Stemmer(language, 0)
        self._lock = threading.Lock()

    def __call__(self, words: list[str]) -> list[str]:
        with self._lock:
            stems: list[str] = self._stemmer.stemWords(words)
        return stems


def _stemmer(analyzer: Analyzer, language: str | None) -> _Stemmer | None:
    """Only the ``code`` analyzer marks words for stemming (TOK-10)."""
    if language is None:
        return None
    stemmer = _Stemmer(language)
    return stemmer if analyzer == "code" else None


def _uses_stop_words(language: str | None) -> bool:
    """The list holds English words: it does not apply to a text known to be in another language."""
    return language in ("english", None)


def analyze(text: str, analyzer: str = "code", language: str | None = "english") -> list[Compound]:
    """Show what a text is found under: why something did or did not match.

    Parameters
    ----------
    text : str
        Any text; lone surrogates are read as U+FFFD (TOK-11).
    analyzer : {"code", "standard", "whitespace"}
    language : str or None
        The Snowball stemmer of plain words; None for no stemming (AM-1).

    Returns
    -------
    list of Compound
        In the order of the text. Index and query are analysed in the same way.

    Examples
    --------
    >>> for compound in analyze("renamed getUserName"):
    ...     print(compound.text, [token.text for token in compound.tokens])
    renamed ['renam']
    getUserName ['getusername', 'getusernam', 'get', 'user', 'name']
    """
    if not isinstance(analyzer, str):
        raise TypeError(f"analyzer must be str, not {arguments.kind(analyzer)}")
    stemmer = _stemmer(analyzer, language)
    found = _core.analyze(analyzer, text)
    words = sorted({token for *_, tokens in found for token, _, word, _ in tokens if word})
    stems = dict(zip(words, stemmer(words) if stemmer else words, strict=True))
    compounds = []
    for position, (start, end, identifier, tokens) in enumerate(found):
        terms: dict[str, Token] = {}
        for token, part, word, stop in tokens:
            term = stems[token] if word else token
            terms.setdefault(term, Token(term, part, stop and _uses_stop_words(language)))
        compounds.append(
            Compound(text[start:end], start, end, position, identifier, tuple(terms.values()))
        )
    return compounds


def _check_k(k: int | None) -> int:
    if k is None:
        return _ALL
    try:
        if isinstance(k, bool):
            raise TypeError
        k = operator.index(k)
    except TypeError:
        raise TypeError(f"k must be int or None, not {arguments.kind(k)}") from None
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    return min(k, _ALL)


def _check_analyzer(analyzer: Analyzer) -> Analyzer:
    if not isinstance(analyzer, str) and not callable(analyzer):
        raise TypeError(
            "analyzer must be 'code', 'standard', 'whitespace' or a callable, "
            f"not {arguments.kind(analyzer)}"
        )
    return analyzer


def _check_threads(threads: int) -> int:
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise TypeError(f"threads must be int, not {arguments.kind(threads)}")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    return min(threads, 256)


def _check_list(name: str, value: Sequence[Any]) -> Sequence[Any]:
    # A str is a sequence of str: a single text by mistake would become a batch of letters.
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
        raise TypeError(f"{name} must be a sequence, not {arguments.kind(value)}")
    return value


class TextIndex:
    """BM25 over texts that the caller numbers: the keyword index of a memory space.

    Slots are small integers of the caller (memory is kept up to the highest one). Equal scores are
    ordered by lower slot (GEN-4). All methods may be called from any thread; searches run beside
    each other and give up the GIL.

    Parameters
    ----------
    k1 : float
        In [0, 3] (BM25-3).
    b : float
        In [0, 1].
    analyzer : {"code", "standard", "whitespace"} or callable
        A callable takes a text and returns its terms, one per position (TOK-10).
    language : str or None
        Stemmer of plain words, used by ``analyzer="code"`` (AM-1).
    """

    def __init__(
        self,
        k1: float = 1.2,
        b: float = 0.75,
        analyzer: Analyzer = "code",
        language: str | None = "english",
    ) -> None:
        self.k1 = arguments.number("k1", k1)
        self.b = arguments.number("b", b)
        self.analyzer = _check_analyzer(analyzer)
        self.language = language
        stemmer = _stemmer(analyzer, language)
        self._core = _core.TextIndex(
            self.k1,
            self.b,
            analyzer,
            stemmer,
            _uses_stop_words(language),
        )
        name = analyzer if isinstance(analyzer, str) else "callable"
        self.fingerprint: str = f"{name}-{_core.ANALYZER_VERSION}/unicode-{_core.UNICODE_VERSION}"
        if stemmer:
            self.fingerprint += f"/snowball-{stemmer.version}-{language}"

    def put(
        self,
        slots: ArrayLike,
        texts: Sequence[str],
        contexts: Sequence[str | None] | None = None,
    ) -> None:
        """Store a text under each slot, replacing what the slot held; equal slots: the last wins.

        Parameters
        ----------
        slots : array_like of int, shape (n,)
        texts : sequence of str, length n
        contexts : sequence of str or None, length n, optional
            Indexed before the text in the same field (AM-3).
        """
        if contexts is not None:
            contexts = _check_list("contexts", contexts)
        prepared = self._core.prepare(_check_list("texts", texts), contexts)
        if prepared.error is not None:
            raise prepared.error
        if prepared.refusal is not None:
            raise TypeError(prepared.refusal)
        self._core.put(arguments.slots("slots", slots), prepared)

    def erase(self, slots: ArrayLike) -> int:
        """Remove slots; return how many of them existed."""
        return self._core.erase(arguments.slots("slots", slots))

    def search(
        self, query: str, k: int | None = 10, allow: ArrayLike | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return slots and scores of the best `k` texts with a score above 0, best first.

        Parameters
        ----------
        query : str
            Any text; there is no query syntax.
        k : int or None
            At least 1; None for all that match.
        allow : array_like of int, optional
            Only these slots may be returned; statistics stay those of all texts (BM25-4).
        """
        allowed = None if allow is None else arguments.slots("allow", allow)
        return self._core.search(query, _check_k(k), allowed)

    def search_batch(
        self,
        queries: Sequence[str],
        k: int | None = 10,
        threads: int = 1,
        allow: ArrayLike | None = None,
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """`search` for many queries over one state of the index, with one filter for all."""
        allowed = None if allow is None else arguments.slots("allow", allow)
        return self._core.search_many(
            _check_list("queries", queries), _check_k(k), _check_threads(threads), allowed
        )

    def explain(self, slot: int, query: str) -> list[TermScore]:
        """Terms of the query that the text has; their contributions add up to its score."""
        (number,) = arguments.slots("slot", [slot]).tolist()
        return [TermScore(*term) for term in self._core.explain(query, number)]

    def stats(self) -> dict[str, Any]:
        """Counts, sizes in bytes, and the settings that make scores comparable (IDX-3)."""
        counts = self._core.stats()
        documents = counts["documents"]
        return {
            **counts,
            "average_length": counts["total_length"] / documents if documents else 0.0,
            "analyzer": self.analyzer if isinstance(self.analyzer, str) else "callable",
            "language": self.language,
            "fingerprint": self.fingerprint,
        }

    def compact(self) -> None:
        """Free what removed and replaced texts still hold; scores do not change (IDX-2)."""
        self._core.compact()

    def save(self, path: str | os.PathLike[str], bound: int) -> None:
        """Write the index to a file, which then is there entirely or not at all.

        It is compacted first. Changes wait until the file is written; searches do not.

        Parameters
        ----------
        path : path-like
        bound : int
            Above all slots.

        Raises
        ------
        StorageError
            The file cannot be written (an OSError with its errno); the old one is as it was.
        """
        rows = _core.RowTable()
        rows.assign_numbers(bound)  # the file has an id for each document
        name = self.analyzer if isinstance(self.analyzer, str) else "callable"
        settings = _core.IndexSettings(name, self.language or "", self.fingerprint)
        self._core.save(os.fsencode(path), settings, rows)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Of an empty index: take what `save` wrote; the file is used where it is.

        Raises
        ------
        CorruptionError
            The file is damaged, or not one of `save`.
        VersionError
            It was made with other settings.
        StorageError
            It cannot be read (an OSError with its errno).
        """
        file = _core.IndexFile(os.fsencode(path), True)
        saved = file.settings
        if (saved.fingerprint, saved.k1, saved.b) != (self.fingerprint, self.k1, self.b):
            raise VersionError(
                f"{os.fspath(path)} was made with {saved.fingerprint}, k1={saved.k1} and"
                f" b={saved.b}, but this is {self.fingerprint}, k1={self.k1} and b={self.b}"
            )
        self._core.load(file)

    def __len__(self) -> int:
        return self._core.size()

    def __contains__(self, slot: object) -> bool:
        return (
            isinstance(slot, int) and 0 <= slot <= arguments.MAX_SLOT and self._core.contains(slot)
        )


class BM25Index:
    """Exact, incremental BM25 over documents with ids.

    Holds texts, or documents that come as token ids (`add_tokens`); what is added first decides,
    and mixing is a ValueError. Every change is seen by every search that starts after the call
    returned (IDX-1). All methods may be called from any thread.

    Parameters
    ----------
    k1 : float
        In [0, 3] (BM25-3).
    b : float
        In [0, 1].
    analyzer : {"code", "standard", "whitespace"} or callable
        A callable takes a text and returns its terms, one per position (TOK-10).
    language : str or None
        Stemmer of plain words, used by ``analyzer="code"`` (AM-1); None for no stemming.

    Examples
    --------
    >>> index = BM25Index()
    >>> index.add("a", "getUserName raised ERR_CONN_42")
    >>> index.add("b", "the user has a name")
    >>> [id for id, score in index.search("ERR_CONN_42")]
    ['a']
    """

    def __init__(
        self,
        k1: float = 1.2,
        b: float = 0.75,
        analyzer: Analyzer = "code",
        language: str | None = "english",
    ) -> None:
        self._texts = TextIndex(k1, b, analyzer, language)
        self._tokens = _core.TokenIndex(float(k1), float(b))
        self._holds: str | None = None  # "texts" or "token ids", set by the first addition
        self._rows = _core.RowTable()
        self._write = threading.Lock()

    def add(self, id: str, text: str, context: str | None = None) -> None:
        """Add a document, or replace it entirely if the id exists (IDX-1).

        Parameters
        ----------
        id : str
            Not empty.
        text : str
        context : str, optional
            Indexed with the text, such as a speaker, a title or a path (AM-3).
        """
        self._add_texts([id], [text], [context], numbered=False)

    def add_batch(
        self,
        ids: Sequence[str],
        texts: Sequence[str],
        contexts: Sequence[str | None] | None = None,
    ) -> None:
        """Add many documents; equal ids: the last wins.

        If one document is refused, those before it are added and the exception says which it was
        (IDX-6). Searches see all of them at once. Texts are analysed on all cores, a mebibyte of
        them at a time, except by a callable. Until the call returns it holds about 4 bytes for each
        token of the batch and 8 for each distinct term of up to 131,072 documents beside what the
        index keeps, so a corpus is best added in batches of some 10,000 texts.
        """
        ids, texts = _check_list("ids", ids), _check_list("texts", texts)
        if len(ids) != len(texts):
            raise ValueError(f"ids has {len(ids)} entries for {len(texts)} texts")
        self._add_texts(ids, texts, contexts, numbered=True)

    def _add_texts(
        self,
        ids: Sequence[str],
        texts: Sequence[str],
        contexts: Sequence[str | None] | None,
        *,
        numbered: bool,
    ) -> None:
        if contexts is not None:
            contexts = _check_list("contexts", contexts)
            if len(contexts) != len(texts):
                raise ValueError(f"contexts has {len(contexts)} entries for {len(texts)} texts")
        good, id_error = self._check_ids(ids)
        if good < len(ids):
            texts = texts[:good]
            contexts = None if contexts is None else contexts[:good]
        prepared = self._texts._core.prepare(texts, contexts)
        if len(prepared) < good:
            good = len(prepared)
        error: BaseException | None = prepared.error
        if error is None and prepared.refusal is not None:
            error = TypeError(prepared.refusal)
        if error is None:
            error = id_error
        if good:
            with self._write:
                self._become("texts")
                self._texts._core.put(self._rows.assign(ids[:good]), prepared)
        if error is None:
            return
        where = f"document {good}: " if numbered else ""
        if error is prepared.error:
            raise SpectorError(f"{where}the analyzer raised {error!r}") from error
        raise type(error)(f"{where}{error}")

    @staticmethod
    def _check_ids(ids: Sequence[str]) -> tuple[int, Exception | None]:
        """How many ids are good, counted from the front, and what is wrong with the next."""
        for position, id in enumerate(ids):
            if not isinstance(id, str):
                return position, TypeError(f"id must be str, not {arguments.kind(id)}")
            if not id:
                return position, ValueError("id must be a non-empty str, not ''")
            if not id.isascii() and any("\ud800" <= c <= "\udfff" for c in id):
                return position, ValueError(f"id must not hold lone surrogates: {id!a}")
        return len(ids), None

    def add_tokens(self, ids: Sequence[str], indptr: ArrayLike, token_ids: ArrayLike) -> None:
        """Add pre-tokenised documents in CSR form, or replace those whose ids exist.

        Parameters
        ----------
        ids : sequence of str, length n
        indptr : array_like of int64, shape (n + 1,)
            Document i has ``token_ids[indptr[i]:indptr[i + 1]]``.
        token_ids : array_like of uint32
            Any numbers; a document's length is its number of tokens.
        """
        _check_list("ids", ids)
        good, error = self._check_ids(ids)
        if error is not None:
            raise type(error)(f"document {good}: {error}")
        ends = arguments.integers("indptr", indptr, np.int64)
        tokens = arguments.integers("token_ids", token_ids, np.uint32)
        if len(ends) != len(ids) + 1:
            raise ValueError(f"indptr must have {len(ids) + 1} entries for {len(ids)} ids, "
                             f"not {len(ends)}")  # fmt: skip
        self._check_indptr(ends, len(tokens))
        if not len(ids):
            return
        with self._write:
            self._become("token ids")
            self._tokens.put(self._rows.assign(ids), ends, tokens)

    @staticmethod
    def _check_indptr(ends: NDArray[np.int64], n_tokens: int) -> None:
        if len(ends) == 0 or ends[0] != 0 or ends[-1] != n_tokens or (np.diff(ends) < 0).any():
            raise ValueError(
                f"indptr must begin with 0, not descend and end with {n_tokens}, "
                "the number of token_ids"
            )

    def _become(self, kind: str) -> None:
        if len(self) and self._holds != kind:
            raise ValueError(f"this index holds {self._holds}; {kind} need an index of their own")
        self._holds = kind

    def remove(self, id: str) -> bool:
        """Remove a document; True if it existed. It is in no search that starts afterwards."""
        with self._write:
            row = self._rows.remove(id)
            if row is None:
                return False
            self._store.erase(np.array([row], np.uint32))
            return True

    @property
    def _store(self) -> "_core.TextIndex | _core.TokenIndex":
        return self._tokens if self._holds == "token ids" else self._texts._core

    def _named(
        self, hits: tuple[NDArray[np.int64], NDArray[np.float32]]
    ) -> list[tuple[str, float]]:
        rows, scores = hits
        pairs = zip(self._rows.ids(rows), scores.tolist(), strict=True)
        # An id is gone if another thread removed it since the search.
        return [(id, score) for id, score in pairs if id is not None]

    def _check_text_query(self) -> None:
        if self._holds == "token ids":
            raise ValueError("this index holds token ids: use search_tokens")

    def _allowed(self, allow: Iterable[str] | None) -> NDArray[np.uint32] | None:
        if allow is None:
            return None
        if isinstance(allow, (str, bytes)) or not isinstance(allow, Iterable):
            raise TypeError(f"allow must be an iterable of ids, not {arguments.kind(allow)}")
        return self._rows.find_known(allow)

    def search(
        self, query: str, k: int | None = 10, allow: Iterable[str] | None = None
    ) -> list[tuple[str, float]]:
        """Return (id, score) of the best `k` documents with a score above 0, best first.

        Equal scores are in the order of first insertion (GEN-4). No text raises: there is no
        query syntax.

        Parameters
        ----------
        query : str
        k : int or None
            At least 1; None for all that match.
        allow : iterable of str, optional
            Only documents with these ids may be returned: the best `k` of them, with the scores
            they have without a filter (BM25-4). Ids that no document has are ignored, as one may
            have been removed since the filter was made. Each call looks every id up once.
        """
        self._check_text_query()
        return self._named(self._texts.search(query, k, self._allowed(allow)))

    def search_batch(
        self,
        queries: Sequence[str],
        k: int | None = 10,
        threads: int = 1,
        allow: Iterable[str] | None = None,
    ) -> list[list[tuple[str, float]]]:
        """`search` for many queries over one state of the index, on up to `threads` threads.

        `allow` holds for all of them.
        """
        self._check_text_query()
        allowed = self._allowed(allow)
        found = self._texts.search_batch(queries, k, threads, allowed)
        return [self._named(hits) for hits in found]

    def search_tokens(
        self, token_ids: ArrayLike, k: int | None = 10, allow: Iterable[str] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Search an index of token ids; `k` and `allow` as in `search`.

        Returns
        -------
        rows : ndarray of int64, shape (n,), n <= k
            Documents by order of first insertion, from 0; best first.
        scores : ndarray of float32, shape (n,)
        """
        if allow is None and self._holds != "texts":
            found = self._tokens.search_plain(token_ids, k)
            if found is not None:
                return found
        self._check_token_query()
        return self._tokens.search(
            arguments.integers("token_ids", token_ids, np.uint32), _check_k(k), self._allowed(allow)
        )

    def search_tokens_batch(
        self,
        indptr: ArrayLike,
        token_ids: ArrayLike,
        k: int | None = 10,
        threads: int = 1,
        allow: Iterable[str] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """`search_tokens` for many queries in CSR form.

        Returns
        -------
        rows : ndarray of int64, shape (n_queries, k)
            -1 where a query has fewer than k hits. If `k` is None, the width is the number of hits
            of the query that has the most.
        scores : ndarray of float32, shape (n_queries, k)
            0 where there is no hit.
        """
        self._check_token_query()
        ends = arguments.integers("indptr", indptr, np.int64)
        tokens = arguments.integers("token_ids", token_ids, np.uint32)
        self._check_indptr(ends, len(tokens))
        rows, scores = self._tokens.search_many(
            ends, tokens, _check_k(k), _check_threads(threads), self._allowed(allow)
        )
        if k is None or rows.shape[1] == k:
            return rows, scores
        padded = ((0, 0), (0, k - rows.shape[1]))
        return np.pad(rows, padded, constant_values=-1), np.pad(scores, padded)

    def _check_token_query(self) -> None:
        if self._holds == "texts":
            raise ValueError("this index holds texts: use search")

    def score(self, id: str, query: str) -> float:
        """Score of one document; 0.0 if it does not match.

        Raises
        ------
        UnknownMemoryError
            No document has this id (a KeyError).
        """
        total = np.float32(0)
        for term in self.explain(id, query):
            total += np.float32(term.contribution)
        return float(total)

    def explain(self, id: str, query: str) -> list[TermScore]:
        """How a document's score comes about; empty if it does not match.

        Raises
        ------
        UnknownMemoryError
            No document has this id (a KeyError).
        """
        self._check_text_query()
        row = self._rows.find(id)
        if row is None:
            raise UnknownMemoryError(f"no document has the id {id!r}")
        return self._texts.explain(row, query)

    def stats(self) -> dict[str, Any]:
        """Counts, sizes in bytes, and the settings that make scores comparable.

        ``bytes`` includes the ids, which take ``id_bytes``.
        """
        stats = self._texts.stats()
        if self._holds == "token ids":
            counts = self._tokens.stats()
            documents = counts["documents"]
            average = counts["total_length"] / documents if documents else 0.0
            stats |= {**counts, "average_length": average, "analyzer": None, "language": None}
        stats["id_bytes"] = self._rows.memory_bytes()
        stats["bytes"] += stats["id_bytes"]
        return stats

    def compact(self) -> None:
        """Free what removed and replaced documents still hold; scores do not change (IDX-2)."""
        self._store.compact()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file, which then is there entirely or not at all.

        The index is compacted first. Changes wait until the file is written; searches do not. A
        file that is there is replaced, not written over: an index that was loaded from it with
        ``mmap=True`` keeps the old one. A callable analyzer is not saved.

        Raises
        ------
        StorageError
            The file cannot be written (an OSError with its errno); the old one is as it was.
        """
        analyzer = self._texts.analyzer
        settings = _core.IndexSettings(
            analyzer if isinstance(analyzer, str) else "callable",
            self._texts.language or "",
            self._texts.fingerprint,
        )
        with self._write:
            self._store.save(os.fsencode(path), settings, self._rows)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        mmap: bool = False,
        analyzer: Callable[[str], Sequence[str]] | None = None,
    ) -> "BM25Index":
        """Read an index that `save` wrote, with the settings it had.

        The whole file is checked before anything of it is used; what its posting lists say, when
        they are unpacked. The index gives the hits that the saved one gave, and changes as any
        other; `path` stays as it is until the next `save`. The file does not say which terms a
        document has: once 64 documents of a large one are removed or updated, a thread finds that
        out from all posting lists, as a merge, `stats` or `save` would (``python -m bench.bm25
        --parts disk`` measures removals).

        Parameters
        ----------
        path : path-like
        mmap : bool
            Use the file where it is, and unpack the postings of a term when it is first asked for,
            instead of copying and unpacking all. The file must not be shortened or written over
            while the index is in use: reading behind its new end ends the process (SIGBUS). `save`
            never does that.
        analyzer : callable, optional
            For an index that was made with one: the same one.

        Raises
        ------
        CorruptionError
            The file is damaged, or not one of `save`; rebuild it from the texts. Of a file that
            was made to look whole, `search` and whatever else unpacks postings raise it too.
        VersionError
            The file, or the analyzer it was made with, is not of this release.
        ConfigurationError
            `analyzer` is missing, or given for an index that has its own.
        StorageError
            The file cannot be read (an OSError with its errno).

        Examples
        --------
        >>> import tempfile
        >>> index = BM25Index(k1=0.9, analyzer="whitespace")
        >>> index.add("a", "plum pear")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     index.save(f"{folder}/bm25.idx")
        ...     BM25Index.load(f"{folder}/bm25.idx").search("plum") == index.search("plum")
        True
        """
        file = _core.IndexFile(os.fsencode(path), bool(mmap))
        saved = file.settings
        named = os.fspath(path)
        chosen: Analyzer = saved.analyzer
        if analyzer is not None and not callable(analyzer):
            raise TypeError(f"analyzer must be a callable, not {type(analyzer).__name__}")
        if saved.analyzer == "callable":
            if analyzer is None and file.holds_texts:
                raise ConfigurationError(
                    f"{named} was saved with a callable as its analyzer, which is not in the file: "
                    "pass it to load"
                )
            chosen = analyzer or "code"
        elif analyzer is not None:
            raise ConfigurationError(
                f"{named} was saved with analyzer={saved.analyzer!r}: load it without another one"
            )
        try:
            index = cls(saved.k1, saved.b, chosen, saved.language or None)
        except ValueError as error:
            raise VersionError(f"{named}: {error}") from error
        if file.holds_texts and index._texts.fingerprint != saved.fingerprint:
            raise VersionError(
                f"{named} was made with the analyzer {saved.fingerprint}, but this is "
                f"{index._texts.fingerprint}: rebuild the index from the texts and save it again"
            )
        if file.holds_texts:
            index._texts._core.load(file)
        else:
            index._tokens.load(file)
        index._rows.load(file)
        if len(file):
            index._holds = "texts" if file.holds_texts else "token ids"
        return index

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and bool(id) and self._rows.find(id) is not None

    def __repr__(self) -> str:
        return f"BM25Index({len(self)} documents, {self._texts.fingerprint})"
