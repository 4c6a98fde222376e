"""The built-in models with their output kept on disk, by content: a second run needs no model."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spector.models import embedding_provider, sparse_encoder
from spector.store import vectors as packed

_PART = 64  # texts between two commits: what an interrupted run loses


class Cache:
    """Bytes by model and text, in one SQLite file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(folder / "vectors.db")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS vectors(key BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID"
        )

    def get(
        self, name: str, texts: Sequence[str], compute: Callable[[Sequence[str]], list[bytes]]
    ) -> list[bytes]:
        """compute(texts), from the cache where it is there."""
        keys = [hashlib.sha256(f"{name}\0{text}".encode()).digest() for text in texts]
        found: dict[bytes, bytes] = {}
        for key in keys:
            row = self._connection.execute(
                "SELECT data FROM vectors WHERE key = ?", (key,)
            ).fetchone()
            if row is not None:
                found[key] = row[0]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        order = list(missing)
        for start in range(0, len(order), _PART):
            part = order[start : start + _PART]
            made = dict(zip(part, compute([missing[key] for key in part]), strict=True))
            with self._connection:
                self._connection.executemany(
                    "INSERT OR REPLACE INTO vectors VALUES(?, ?)", made.items()
                )
            found |= made
        return [found[key] for key in keys]


class CachedMiniLM:
    """MiniLM as an `EmbeddingProvider` and a `TokenEncoder`; the model is loaded when needed."""

    name = "all-MiniLM-L6-v2-int8"
    dimensions = 384

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def _compute(self, texts: Sequence[str]) -> list[bytes]:
        model: Any = embedding_provider("minilm")
        pooled, states = model.encode(texts)
        return [
            packed.pack_dense(vector) + packed.pack_tokens(tokens, self.dimensions)
            for vector, tokens in zip(pooled, states, strict=True)
        ]

    def encode(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        rows = self._cache.get(self.name, texts, self._compute)
        size = 4 * self.dimensions
        pooled = np.stack([packed.unpack_dense(row[:size]) for row in rows])
        states = []
        for row in rows:
            codes, scales = packed.unpack_tokens(row[size:], self.dimensions)
            states.append(codes.reshape(len(scales), -1) * scales[:, None])
        return pooled, states

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encode(texts)[0]

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.encode([text])[0][0]
        return vector

    def encode_token_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        return self.encode(texts)[1]

    def encode_token_query(self, text: str) -> NDArray[np.float32]:
        return self.encode([text])[1][0]


class CachedSplade:
    """SPLADE-tiny as a `SparseEncoder`; the model is loaded when needed."""

    name = "splade-tiny"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def _compute(self, texts: Sequence[str]) -> list[bytes]:
        return [
            packed.pack_sparse(weights)
            for weights in sparse_encoder("splade-tiny").encode_documents(texts)
        ]

    def encode_documents(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
        return [
            packed.unpack_sparse(row) for row in self._cache.get(self.name, texts, self._compute)
        ]

    def encode_query(self, text: str) -> Mapping[str, float]:
        return self.encode_documents([text])[0]
