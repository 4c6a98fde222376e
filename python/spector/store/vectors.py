"""Vectors as the journal keeps them: bytes that do not depend on the machine.

What is packed is checked, whoever made it: the stores of every later opening have to take it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int8]
Floats = npt.NDArray[np.float32]


MAX_DIMENSIONS: Final = 65_536
_LONGEST: Final = 1e18  # norm of a vector
_HEAVIEST: Final = 1e30  # weight of a term
_LIGHTEST: Final = 1e-30


def pack_dense(vector: Floats) -> bytes:
    """Little-endian float32; a vector that is not finite, all zeros or too long is refused."""
    if vector.ndim != 1 or not 1 <= len(vector) <= MAX_DIMENSIONS:
        raise ValueError(
            f"vector must have 1 dimension of 1 to {MAX_DIMENSIONS}, not the shape {vector.shape}"
        )
    norm = float(np.linalg.norm(vector.astype(np.float64)))
    if not 0 < norm <= _LONGEST:  # NaN is in no range
        raise ValueError(f"vector must be finite with a norm in (0, {_LONGEST:g}], not {norm}")
    data: bytes = vector.astype("<f4").tobytes()
    return data


def unpack_dense(data: bytes) -> Floats:
    """The same back."""
    return np.frombuffer(data, "<f4").astype(np.float32, copy=False)


def usable_weights(weights: Mapping[str, float]) -> dict[str, float]:
    """The weights that count, by term in order; what float32 cannot tell from 0 does not."""
    for term, weight in weights.items():
        if not isinstance(term, str) or "\0" in term:
            raise ValueError(f"a term must be a str without a zero byte, not {term!r}")
        if not 0 <= weight <= _HEAVIEST:
            raise ValueError(f"the weight of {term!r} must be in [0, {_HEAVIEST:g}], not {weight}")
    return {term: float(weights[term]) for term in sorted(weights) if weights[term] > _LIGHTEST}


def pack_sparse(weights: Mapping[str, float]) -> bytes:
    """The weights as little-endian float32, then the terms in UTF-8, each ended by a zero."""
    usable = usable_weights(weights)
    values = np.asarray(list(usable.values()), "<f4").tobytes()
    names = "".join(f"{term}\0" for term in usable).encode()
    return struct.pack("<I", len(usable)) + values + names


def unpack_sparse(data: bytes | None) -> dict[str, float]:
    """The same back; nothing for None."""
    if data is None:
        return {}
    (count,) = struct.unpack_from("<I", data)
    values = np.frombuffer(data, "<f4", count, 4)
    names = data[4 + 4 * count :].decode().split("\0")[:count]
    return dict(zip(names, values.tolist(), strict=True))


def check_tokens(vectors: object, dimensions: int) -> Floats:
    """Token vectors as float32 of shape (tokens, dimensions), finite."""
    rows = np.asarray(vectors, np.float32)
    if rows.ndim != 2 or rows.shape[1] != dimensions:
        raise ValueError(
            f"token vectors must have the shape (tokens, {dimensions}), not {rows.shape}"
        )
    if not (np.abs(rows) <= _LONGEST).all():
        raise ValueError(f"token vectors must be finite and at most {_LONGEST:g}")
    return rows


def pack_tokens(vectors: object, dimensions: int) -> bytes:
    """Rows as int8 codes with a float32 scale each (value = code * scale), scales first."""
    vectors = check_tokens(vectors, dimensions)
    if not len(vectors):
        return b""
    highest = np.abs(vectors).max(axis=1)
    scales = (highest / 127).astype("<f4")
    steps = np.where(scales > 0, scales, 1)[:, None]
    codes = np.clip(np.rint(vectors / steps), -127, 127).astype(np.int8)
    data: bytes = scales.tobytes() + codes.tobytes()
    return data


def unpack_tokens(data: bytes | None, dimensions: int) -> tuple[Codes, Floats]:
    """Codes, one row after the other, and scales; nothing for None."""
    if not data:
        return np.empty(0, np.int8), np.empty(0, np.float32)
    count = len(data) // (4 + dimensions)
    scales = np.frombuffer(data, "<f4", count).astype(np.float32, copy=False)
    return np.frombuffer(data, np.int8, count * dimensions, 4 * count), scales
