"""What one line of an import may hold, and the times a user may write."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

__all__ = ["Item", "item_from_json", "milliseconds"]

#: The arguments of `SpectorMemory.remember`.
Item = dict[str, Any]


def milliseconds(value: object) -> int:
    """Read a time: milliseconds since 1970 in UTC, or an ISO 8601 date and time.

    A time without a zone is UTC.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = value.strip()
        if text.removeprefix("-").isdecimal():
            return int(text)
        try:
            # Python 3.10 does not know the Z of 2026-11-29T12:00:00Z.
            moment = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in "Zz" else text)
        except ValueError:
            pass
        else:
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=timezone.utc)
            return round(moment.timestamp() * 1000)
    raise ValueError(
        f"{_shown(value)} is no time: write an ISO 8601 date such as 2026-11-29T12:00:00Z, "
        "or milliseconds since 1970"
    )


def item_from_json(line: str) -> Item:
    """Check one line of JSONL and turn it into the arguments of `remember`.

    Raises
    ------
    ValueError
        If the line is not a JSON object with a text and known keys of the right types. The
        message says which.
    """
    try:
        value = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object but {_kind(value)}")
    text = value.get("text")
    if text is None:
        raise ValueError('no "text"' + _hint("text", value))
    item: Item = {}
    for key, field in value.items():
        check = _FIELDS.get(key)
        if check is None:
            raise ValueError(f'unknown key "{key}"; known are {", ".join(_FIELDS)}')
        if field is not None:
            item[key] = check(key, field)
    if not text.strip():
        raise ValueError('"text" is empty')
    return item


def _reject_constant(name: str) -> object:
    raise ValueError(f"not JSON: {name} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)


def _string(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f'"{key}" must be a string, not {_kind(value)}')
    return value


def _strings(key: str, value: object) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f'"{key}" must be a list of strings, not {_kind(value)}')
    for one in value:
        if not isinstance(one, str):
            raise ValueError(f'"{key}" must hold strings only, not {_kind(one)}')
    return value


def _object(key: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f'"{key}" must be an object, not {_kind(value)}')
    return value


def _time(key: str, value: object) -> int:
    try:
        return milliseconds(value)
    except ValueError as error:
        raise ValueError(f'"{key}": {error}') from None


_FIELDS: dict[str, Callable[[str, object], Any]] = {
    "id": _string,
    "text": _string,
    "tags": _strings,
    "session": _string,
    "author": _string,
    "timestamp": _time,
    "context": _string,
    "metadata": _object,
    "type": _string,
    "source": _string,
}


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _hint(key: str, value: dict[str, Any]) -> str:
    near = difflib.get_close_matches(key, value, n=1)
    return f'; did you mean the key "{near[0]}" to be "{key}"?' if near else ""
