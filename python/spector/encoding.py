"""Models at work: vectors for memories and queries, with what was encoded before reused."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from spector import _core, arguments
from spector.errors import ConfigurationError
from spector.models import (
    EmbeddingProvider,
    SparseEncoder,
    TokenEncoder,
    embedding_provider,
    sparse_encoder,
    token_encoder,
)
from spector.models.query_table import QueryTable
from spector.store.replica import Shape
from spector.store.values import Draft, Vector, check_flag
from spector.store.vectors import MAX_DIMENSIONS, pack_dense, pack_sparse, pack_tokens

__all__ = ["Encoded", "Models", "encoder_text"]

T = TypeVar("T")

#: The name of the model of vectors that callers hand in without one.
GIVEN: Final = "given"
_ALL: Final = {
    "embedding_provider": "minilm",
    "sparse_encoder": "splade-tiny",
    "token_encoder": "minilm",
}


def encoder_text(text: str, context: str | None) -> str:
    """What a model reads of a memory (AM-3)."""
    return f"{context}: {text}" if context else text


def content_hash(text: str) -> int:
    """H64 of the text, as a number that SQLite can hold."""
    value = _core.hash64(text)
    return value - (1 << 64) if value >> 63 else value


@dataclass
class Encoded:
    """A query as the models see it; None where there is no such model or it failed."""

    dense: npt.NDArray[np.float32] | None = None
    sparse: dict[str, float] | None = None
    tokens: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Models:
    """The models of an open memory, any of which may be missing."""

    dense: EmbeddingProvider | None = None
    sparse: SparseEncoder | None = None
    tokens: TokenEncoder | None = None
    query_table: QueryTable | None = None

    @classmethod
    def of(
        cls,
        models: object,
        embedding: object,
        sparse: object,
        tokens: object,
        query_table: object = None,
        splade_enabled: object = True,
    ) -> Models:
        """The models that the keywords of `SpectorMemory.open` mean."""
        given = {
            "embedding_provider": embedding,
            "sparse_encoder": sparse,
            "token_encoder": tokens,
        }
        if models is not None:
            if models != "all":
                raise ValueError(f"models must be 'all' or None, got {models!r}")
            given = {name: _ALL[name] if value is None else value for name, value in given.items()}
        if not check_flag("splade_enabled", splade_enabled):
            given["sparse_encoder"] = None
        made = cls(
            dense=_made(embedding_provider, given["embedding_provider"]),
            sparse=_made(sparse_encoder, given["sparse_encoder"]),
            tokens=_made(token_encoder, given["token_encoder"]),
            query_table=_made(_query_table, query_table),
        )
        for name, model in (("embedding_provider", made.dense), ("token_encoder", made.tokens)):
            if model is not None:
                arguments.whole(f"dimensions of {name}", model.dimensions, 1, MAX_DIMENSIONS)
        return made

    def shape(self, stored: Shape) -> Shape:
        """The stored shape with the models that it has none of yet.

        Raises
        ------
        ConfigurationError
            The space has vectors of another model.
        """
        changes: dict[str, Any] = {}
        for kind, model in (
            ("dense", self.dense),
            ("sparse", self.sparse),
            ("tokens", self.tokens),
        ):
            if model is None:
                continue
            before = getattr(stored, kind)
            if before and before != model.name:
                raise ConfigurationError(
                    f"the space has {kind} vectors of the model {before!r}, not of"
                    f" {model.name!r}: open it with that one, or remember its texts in a new space"
                )
            changes[kind] = model.name
        if self.query_table is not None:
            model = changes.get("sparse", stored.sparse)
            if model and model != self.query_table.model:
                raise ConfigurationError(
                    f"the query_table is for sparse vectors of {self.query_table.model!r}, those of"
                    f" the space are of {model!r}"
                )
        if self.dense is not None:
            changes["dimensions"] = self.dense.dimensions
        if self.tokens is not None:
            changes["token_dimensions"] = self.tokens.dimensions
        return replace(stored, **changes)

    def encode(
        self,
        drafts: Sequence[Draft],
        before: Callable[[str, str, Sequence[int]], dict[int, bytes]],
        failed: Callable[[str, Exception], object],
    ) -> list[Draft]:
        """The drafts with their vectors.

        `before(kind, model, contents)` gives what is stored of equal texts. A model that raises
        leaves its vectors out and is told to `failed`.
        """
        texts = [encoder_text(draft.text, draft.context) for draft in drafts]
        contents = [content_hash(text) for text in texts]
        vectors: list[list[Vector]] = [[] for _ in drafts]
        for place, draft in enumerate(drafts):
            if draft.given is not None:
                name = GIVEN if self.dense is None else self.dense.name
                vectors[place].append(Vector("dense", name, 0, pack_dense(draft.given)))
        for kind, name, run in self._runs():
            wanted = [
                place
                for place, draft in enumerate(drafts)
                if not (kind == "dense" and draft.given is not None)
            ]
            if not wanted:
                continue
            known = before(kind, name, [contents[place] for place in wanted])
            missing: dict[int, str] = {
                contents[place]: texts[place] for place in wanted if contents[place] not in known
            }
            try:
                made = run(list(missing.values())) if missing else []
                if len(made) != len(missing):
                    raise ValueError(f"{name} gave {len(made)} results for {len(missing)} texts")
                known.update(zip(missing, made, strict=True))
            except Exception as error:  # whatever a model of somebody else raises or gives
                failed(kind, error)
            for place in wanted:
                if contents[place] in known:
                    data = known[contents[place]]
                    vectors[place].append(Vector(kind, name, contents[place], data))
        return [
            draft._replace(vectors=tuple(found)) if found else draft
            for draft, found in zip(drafts, vectors, strict=True)
        ]

    def names(self) -> list[tuple[str, str]]:
        """Kind and name of each model of documents."""
        made = (("dense", self.dense), ("sparse", self.sparse), ("tokens", self.tokens))
        return [(kind, model.name) for kind, model in made if model is not None]

    def _runs(self) -> list[tuple[str, str, Callable[[Sequence[str]], list[bytes]]]]:
        runs: list[tuple[str, str, Callable[[Sequence[str]], list[bytes]]]] = []
        both = getattr(self.dense, "encode", None)
        same: object = self.tokens
        if self.dense is not None and self.dense is same and both is not None:
            # One pass gives both; the second kind finds what the first left.
            left: dict[str, npt.NDArray[np.float32]] = {}
            model = self.dense

            def dense(texts: Sequence[str]) -> list[bytes]:
                pooled, states = both(texts)
                left.update(zip(texts, states, strict=True))
                return [pack_dense(row) for row in self._checked(pooled, len(texts))]

            def tokens(texts: Sequence[str]) -> list[bytes]:
                rest = [text for text in texts if text not in left]
                left.update(zip(rest, both(rest)[1] if rest else [], strict=True))
                return [pack_tokens(left[text], model.dimensions) for text in texts]

            runs += [("dense", model.name, dense), ("tokens", model.name, tokens)]
        else:
            if self.dense is not None:
                embed = self.dense.embed_documents
                runs.append(
                    (
                        "dense",
                        self.dense.name,
                        lambda texts: [
                            pack_dense(row) for row in self._checked(embed(texts), len(texts))
                        ],
                    )
                )
            if self.tokens is not None:
                states, width = self.tokens.encode_token_documents, self.tokens.dimensions
                runs.append(
                    (
                        "tokens",
                        self.tokens.name,
                        lambda texts: [pack_tokens(rows, width) for rows in states(texts)],
                    )
                )
        if self.sparse is not None:
            maps = self.sparse.encode_documents
            runs.append(
                (
                    "sparse",
                    self.sparse.name,
                    lambda texts: [pack_sparse(each) for each in maps(texts)],
                )
            )
        return runs

    def _checked(self, rows: Any, n: int) -> npt.NDArray[np.float32]:
        assert self.dense is not None
        vectors = np.asarray(rows, np.float32)
        if vectors.shape != (n, self.dense.dimensions):
            raise ValueError(
                f"{self.dense.name} gave an array of shape {vectors.shape} for {n} texts,"
                f" not {(n, self.dense.dimensions)}"
            )
        return vectors


def _query_table(value: object) -> QueryTable:
    if isinstance(value, QueryTable):
        return value
    if isinstance(value, (str, os.PathLike)):
        return QueryTable.load(value)
    raise TypeError(
        f"query_table must be a QueryTable or the path of one, not {arguments.kind(value)}"
    )


def _made(make: Callable[[object], T], value: object) -> T | None:
    return None if value is None else make(value)
