"""Vectors as the journal keeps them: bytes that do not depend on the machine."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int8]
Floats = npt.NDArray[np.float32]


def pack_dense(vector: Floats) -> bytes:
    """Little-endian float32."""
    data: bytes = vector.astype("<f4").tobytes()
    return data


def unpack_dense(data: bytes) -> Floats:
    """The same back."""
    return np.frombuffer(data, "<f4").astype(np.float32, copy=False)


def pack_sparse(weights: Mapping[str, float]) -> bytes:
    """The weights as little-endian float32, then the terms in UTF-8, each ended by a zero."""
    terms = sorted(term for term, weight in weights.items() if weight > 0)
    values = np.asarray([weights[term] for term in terms], "<f4").tobytes()
    names = "".join(f"{term}\0" for term in terms).encode()
    return struct.pack("<I", len(terms)) + values + names


def unpack_sparse(data: bytes | None) -> dict[str, float]:
    """The same back; nothing for None."""
    if data is None:
        return {}
    (count,) = struct.unpack_from("<I", data)
    values = np.frombuffer(data, "<f4", count, 4)
    names = data[4 + 4 * count :].decode().split("\0")[:count]
    return dict(zip(names, values.tolist(), strict=True))


def pack_tokens(vectors: Floats) -> bytes:
    """Rows as int8 codes with a float32 scale each (value = code * scale), scales first."""
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
