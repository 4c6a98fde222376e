"""Models that need no weights: deterministic, and they say what they were asked."""

from __future__ import annotations

import re
import zlib

import numpy as np


def words(text):
    return re.findall(r"\w+", text.lower())


def _direction(word, dimensions):
    random = np.random.default_rng(zlib.crc32(word.encode()))
    vector = random.standard_normal(dimensions)
    return vector / np.linalg.norm(vector)


class Dense:
    """The sum of a random direction for each word; `same` gives words one direction."""

    def __init__(self, dimensions=32, same=(), name="fake-dense"):
        self.name = name
        self.dimensions = dimensions
        self.calls = []
        self.broken = False
        self._same = {word: group[0] for group in same for word in group}

    def _embed(self, text):
        self.calls.append(text)
        if self.broken:
            raise RuntimeError("the dense model is out of order")
        found = [self._same.get(word, word) for word in words(text)] or ["nothing"]
        return np.sum([_direction(word, self.dimensions) for word in found], axis=0)

    def embed_documents(self, texts):
        return np.asarray([self._embed(text) for text in texts], np.float32)

    def embed_query(self, text):
        return self._embed(text).astype(np.float32)


class Sparse:
    """Weight 1 for each word, and 0.5 for what `expand` adds to it."""

    def __init__(self, expand=None, name="fake-sparse"):
        self.name = name
        self.calls = []
        self.broken = False
        self._expand = expand or {}

    def encode_query(self, text):
        self.calls.append(text)
        if self.broken:
            raise RuntimeError("the sparse model is out of order")
        weights = {}
        for word in words(text):
            weights[word] = 1.0
            for other in self._expand.get(word, ()):
                weights.setdefault(other, 0.5)
        return weights

    def encode_documents(self, texts):
        return [self.encode_query(text) for text in texts]


class Tokens:
    """A random direction for each word."""

    def __init__(self, dimensions=16, name="fake-tokens"):
        self.name = name
        self.dimensions = dimensions
        self.calls = []
        self.broken = False

    def encode_token_query(self, text):
        self.calls.append(text)
        if self.broken:
            raise RuntimeError("the token model is out of order")
        rows = [_direction(word, self.dimensions) for word in words(text)]
        return np.asarray(rows, np.float32).reshape(-1, self.dimensions)

    def encode_token_documents(self, texts):
        return [self.encode_token_query(text) for text in texts]
