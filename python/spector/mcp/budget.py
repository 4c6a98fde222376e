"""Results that fit into a number of tokens: long texts are cut first, then items left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = ["fit", "fit_report", "tokens", "whole"]

_T = TypeVar("_T")
_SHORT = 80  # bytes that a text keeps
_MARK = " [...]"


def tokens(text: str) -> int:
    """About how many tokens a text is: one for four bytes of UTF-8."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def fit(items: Sequence[dict[str, Any]], max_tokens: int) -> tuple[list[dict[str, Any]], str]:
    """Items with a ``text``, in `max_tokens` altogether, and what was done to them.

    The first items stay, each with the beginning of its text: short texts whole, long ones as much
    as there is room for. An item whose text was cut says in ``cut`` how many characters miss.
    """
    room = 4 * max_tokens
    kept: list[dict[str, Any]] = []
    for item in items:
        rest = _size({**item, "text": item["text"][:_SHORT], "cut": 0})
        if kept and rest > room:
            break
        room -= rest
        kept.append(item)
    texts = [item["text"].encode("utf-8", "replace") for item in kept]
    caps = _shares([max(0, len(text) - _SHORT) for text in texts], max(0, room))
    result = []
    cut = 0
    for item, text, cap in zip(kept, texts, caps, strict=True):
        if len(text) > _SHORT + cap:
            shown = text[: _SHORT + cap].decode("utf-8", "ignore")
            result.append({**item, "text": shown + _MARK, "cut": len(item["text"]) - len(shown)})
            cut += 1
        else:
            result.append(item)
    said = []
    if cut:
        said.append(f"{cut} texts were cut")
    if len(kept) < len(items):
        said.append(f"{len(items) - len(kept)} more were left out")
    note = f"{' and '.join(said)} to fit max_tokens={max_tokens}" if said else ""
    return result, note


def whole(items: Sequence[_T], max_tokens: int) -> tuple[list[_T], int]:
    """As many of the first items as fit, uncut, and how many were left out."""
    room = 4 * max_tokens
    for count, item in enumerate(items):
        room -= _size(item)
        if room < 0 and count:
            return list(items[:count]), len(items) - count
    return list(items), 0


def fit_report(report: dict[str, Any], max_tokens: int) -> tuple[dict[str, Any], str]:
    """A document in about `max_tokens`: its long texts are cut, wherever they are."""
    room = 4 * max_tokens
    if _size(report) <= room:
        return report, ""
    lengths: list[int] = []

    def measure(text: str) -> str:
        lengths.append(max(0, len(text.encode("utf-8", "replace")) - _SHORT))
        return text[:_SHORT]

    shares = iter(_shares(lengths, max(0, room - _size(_map(report, measure)))))

    def cut(text: str) -> str:
        data = text.encode("utf-8", "replace")
        cap = _SHORT + next(shares)
        return text if len(data) <= cap else data[:cap].decode("utf-8", "ignore") + _MARK

    return _map(report, cut), f"long texts were cut to fit max_tokens={max_tokens}"


def _map(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_map(inner, change) for inner in value]
    return value


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"))


def _shares(wanted: Sequence[int], total: int) -> list[int]:
    """What each gets of `total`: the small ones all they want, the large ones equal shares."""
    shares = [0] * len(wanted)
    left = total
    order = sorted(range(len(wanted)), key=lambda position: wanted[position])
    for done, position in enumerate(order):
        shares[position] = min(wanted[position], left // (len(order) - done))
        left -= shares[position]
    return shares
