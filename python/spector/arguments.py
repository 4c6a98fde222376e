"""Checks of arguments: what is wrong names the argument, what came, and what is allowed."""

import operator
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spector import _core

MAX_SLOT = 2**32 - 2
_SLOT = np.dtype(np.uint32)


def kind(value: object) -> str:
    """What came, for a message: the type and the beginning of the value."""
    shown = ascii(value)
    return f"{type(value).__name__} ({shown if len(shown) <= 60 else shown[:57] + '...'})"


def number(name: str, value: float) -> float:
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise TypeError(f"{name} must be a number, not {kind(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is out of the range of a float: {kind(value)}") from None


def whole(name: str, value: int, low: int, high: int) -> int:
    """An int in [low, high]."""
    if type(value) is int and low <= value <= high:
        return value
    try:
        if isinstance(value, bool):
            raise TypeError
        value = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be int, not {kind(value)}") from None
    if not low <= value <= high:
        raise ValueError(f"{name} must be in [{low}, {high}], not {value}")
    return value


def real(name: str, value: float, low: float, high: float) -> float:
    """A finite float in [low, high]."""
    if type(value) is float and low <= value <= high:
        return value
    value = number(name, value)
    if not low <= value <= high:  # NaN is in no range
        raise ValueError(f"{name} must be in [{low:g}, {high:g}], not {value}")
    return value


def several(value: ArrayLike, n: int = 1) -> NDArray[Any]:
    """An array of any number of things, where a single one stands for `n` equal ones."""
    array = np.asarray(value)
    return np.full(n, array) if array.ndim == 0 else array


def integers(
    name: str, value: ArrayLike, dtype: type[np.integer[Any]] | np.dtype[Any]
) -> NDArray[Any]:
    """A one-dimensional array of integers in the range of `dtype`, without a copy if it is one."""
    array = np.asarray(value)
    if array.ndim != 1:
        raise ValueError(f"{name} must have 1 dimension, not {array.ndim}")
    if array.dtype == dtype and array.flags.c_contiguous:
        return array
    if array.size == 0:
        return np.empty(0, dtype)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, not {array.dtype}")
    cast = array.astype(dtype)
    if not (cast == array).all():  # cheaper than the limits where there are few
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        raise ValueError(
            f"{name} must be between {low} and {high}, but holds {array.min()} to {array.max()}"
        )
    return cast


def slot_array(name: str, value: ArrayLike) -> NDArray[np.uint32]:
    """A slot or an array of them. Whether the slots are there the core checks."""
    array = np.asarray(value)
    return integers(name, array if array.ndim else array.reshape(1), _SLOT)


def slots(name: str, value: ArrayLike) -> NDArray[np.uint32]:
    array = integers(name, value, np.uint32)
    highest = _core.highest(array)
    if highest > MAX_SLOT:
        raise ValueError(f"{name} must be at most {MAX_SLOT}, but holds {highest}")
    return array


def reals(name: str, value: ArrayLike, low: float, high: float) -> NDArray[np.float32]:
    """A one-dimensional float32 array of numbers in [low, high]."""
    array = np.asarray(value)
    if array.ndim != 1:
        raise ValueError(f"{name} must have 1 dimension, not {array.ndim}")
    if array.size == 0:
        return np.empty(0, np.float32)
    if array.dtype == np.bool_ or not np.issubdtype(array.dtype, np.number):
        raise TypeError(f"{name} must hold numbers, not {array.dtype}")
    if np.issubdtype(array.dtype, np.complexfloating):
        raise TypeError(f"{name} must hold real numbers, not {array.dtype}")
    ok = (array >= low) & (array <= high)
    if not ok.all():
        place = int(np.argmin(ok))
        raise ValueError(
            f"{name} must be in [{low:g}, {high:g}], but {name}[{place}] is {array[place]}"
        )
    return np.ascontiguousarray(array, np.float32)


def fold(text: str) -> str:
    """The folded form: NFKC, full casefold, trimmed, each run of whitespace one space (GEN-6)."""
    if text.isascii():
        return " ".join(text.lower().split())
    import unicodedata  # not before it is needed

    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def tag(name: str, value: str) -> str:
    """A folded tag."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be str, not {kind(value)}")
    folded = fold(value)
    if not folded:
        raise ValueError(f"{name} must not be empty, got {kind(value)}")
    if not folded.isascii() and any("\ud800" <= c <= "\udfff" for c in folded):
        raise ValueError(f"{name} must be valid Unicode, but has a lone surrogate: {kind(value)}")
    return folded


def tags(name: str, value: Iterable[str]) -> list[str]:
    """Folded tags without duplicates, in the order given; those of a set in their own."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be an iterable of str, not {kind(value)}")
    folded = dict.fromkeys(tag(f"each of {name}", one) for one in value)
    return sorted(folded) if isinstance(value, Set) else list(folded)
