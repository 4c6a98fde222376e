"""Learned sparse queries without a model: a stored weight for each piece (SPL-2).

The document side is that of the encoder the table was distilled from; a query is its pieces with
the weights of the table, so asking costs a tokenisation (Nardini et al., Li-LSR, SIGIR 2025).
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from spector import arguments
from spector.errors import CorruptionError
from spector.models import SparseEncoder, wordpiece

__all__ = ["QueryTable", "distill"]

_FORMAT = "spector-query-table-1"
_BATCH = 256
_LIMIT = 256


class QueryTable:
    """Weights of query terms by BERT's pieces.

    Parameters
    ----------
    model : str
        The name of the encoder whose documents it is for.
    weights : mapping
        From piece to a finite weight, not negative; a piece that is not there counts nothing.
    """

    def __init__(self, model: str, weights: Mapping[str, float]) -> None:
        self.model = model
        self._weights: dict[str, float] = {}
        for piece, weight in weights.items():
            value = arguments.number(f"weights[{piece!r}]", weight)
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"weights[{piece!r}] must be finite and not negative, not {value}")
            if value > 0:
                self._weights[piece] = value

    def __len__(self) -> int:
        return len(self._weights)

    def encode_query(self, text: str) -> Mapping[str, float]:
        """The weights of the pieces of a text, each once."""
        pieces = wordpiece.vocabulary()
        found: dict[str, float] = {}
        for number in wordpiece.tokenize(text, _LIMIT)[1:-1]:
            weight = self._weights.get(pieces[number])
            if weight is not None:
                found[pieces[number]] = weight
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a file, which then is there entirely or not at all."""
        target = Path(path)
        content = {"format": _FORMAT, "model": self.model, "weights": self._weights}
        data = gzip.compress(json.dumps(content, ensure_ascii=False).encode(), mtime=0)
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        part.write_bytes(data)
        part.replace(target)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> QueryTable:
        """Read what `save` wrote.

        Raises
        ------
        CorruptionError
            The file is damaged or something else.
        """
        try:
            content = json.loads(gzip.decompress(Path(path).read_bytes()))
            if content["format"] != _FORMAT:
                raise ValueError(f"the format is {content['format']!r}")
            return cls(str(content["model"]), content["weights"])
        except (ValueError, TypeError, KeyError, EOFError, gzip.BadGzipFile) as error:
            raise CorruptionError(
                f"{os.fspath(path)} is not a query table ({error}); make it again with"
                " `spector distill-lsr`"
            ) from error


def distill(encoder: SparseEncoder, progress: Callable[[int], object] | None = None) -> QueryTable:
    """A table of what the encoder gives each piece of the vocabulary that is asked for alone.

    Parameters
    ----------
    encoder : SparseEncoder
        Its terms are BERT's pieces, as those of "splade-tiny".
    progress : callable, optional
        Called with how many pieces are done.
    """
    pieces = [piece for piece in wordpiece.vocabulary() if not piece.startswith("[")]
    weights: dict[str, float] = {}
    for start in range(0, len(pieces), _BATCH):
        part = pieces[start : start + _BATCH]
        asked = [piece.removeprefix("##") for piece in part]
        for piece, found in zip(part, encoder.encode_documents(asked), strict=True):
            weight = found.get(piece, 0.0)
            if weight > 0:
                weights[piece] = float(weight)
        if progress is not None:
            progress(start + len(part))
    return QueryTable(encoder.name, weights)
