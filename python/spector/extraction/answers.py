"""What a language model answered: entities and relations, however it wrapped them (EXT-4).

Pure functions over texts; they never raise for a text, whatever is in it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

__all__ = ["Answer", "parse"]

_LONGEST: Final = 100_000  # characters that are looked at
_MOST_OBJECTS: Final = 200  # beginnings of objects that are tried
_MOST_LENIENT: Final = 20  # of which so many as what is nearly JSON
_DEEPEST: Final = 50

_REASONING: Final = ("think", "thinking", "reasoning", "reflection", "thought")
_BULLET: Final = " \t*•-0123456789.)"
_SPACE: Final = " \t\r\n"


class Answer(NamedTuple):
    """What was found in a model's answer; its items are as the model gave them.

    Attributes
    ----------
    entities, relations : list
    malformed : bool
        Nothing in the text is an answer.
    """

    entities: list[Any]
    relations: list[Any]
    malformed: bool = False


def parse(text: str) -> Answer:
    """Read an answer.

    It is the first JSON object that has a list "entities" or "relations", wherever it stands: in a
    code fence, after a block of reasoning, between sentences. Single quotes, trailing commas and
    Python's True, False and None are read as what they must mean. Without such an object, lines
    that begin with ``ENTITY:`` or ``RELATION:`` count, their fields separated by ``|``.

    Examples
    --------
    >>> parse('Sure! ```json\\n{"entities": [{"name": "Ann"}],}\\n``` Anything else?').entities
    [{'name': 'Ann'}]
    >>> parse("ENTITY: Ann | PERSON\\nRELATION: Ann | MANAGES | Alpha").relations
    [['Ann', 'MANAGES', 'Alpha']]
    >>> parse("I found nothing.").malformed
    True
    """
    text = text[:_LONGEST]
    after, before = _around_reasoning(text)
    for part in (after, before):
        found = _first_object(part)
        if found is not None:
            return Answer(_list(found.get("entities")), _list(found.get("relations")))
    answer = _lines(after)
    return _lines(before) if answer.malformed and before else answer


def _around_reasoning(text: str) -> tuple[str, str]:
    """What stands after the last block of reasoning, and before the first."""
    if "</" not in text:
        return text, ""
    low = text.lower()
    if len(low) != len(text):  # a capital that has no single small letter
        low = text
    ends = [(low.rfind(f"</{tag}>"), len(tag) + 3) for tag in _REASONING]
    end, length = max(ends)
    if end < 0:
        return text, ""
    begins = [place for tag in _REASONING if (place := low.find(f"<{tag}>")) >= 0]
    return text[end + length :], text[: min(begins, default=0)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _first_object(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    place = -1
    lenient = _MOST_LENIENT
    for _ in range(_MOST_OBJECTS):
        place = text.find("{", place + 1)
        if place < 0:
            return None
        value: Any
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            if not lenient:
                continue
            lenient -= 1
            try:
                value, end = _Lenient(text).read(place)
            except _Unreadable:
                continue
        if isinstance(value, dict):
            if any(isinstance(value.get(key), list) for key in ("entities", "relations")):
                return value
            place = end - 1  # what is inside of it is not an answer either
    return None


class _Unreadable(Exception):
    pass


class _Lenient:
    """JSON with single quotes, trailing commas and Python's constants."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def read(self, place: int) -> tuple[Any, int]:
        """The value that begins here, and where it ends."""
        self._place = place
        return self._value(0), self._place

    def _peek(self) -> str:
        text, place = self._text, self._place
        while place < len(text) and text[place] in _SPACE:
            place += 1
        self._place = place
        if place == len(text):
            raise _Unreadable
        return text[place]

    def _value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise _Unreadable
        first = self._peek()
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._array(depth)
        if first in "\"'":
            return self._string(first)
        match = _SCALAR.match(self._text, self._place)
        if match is None:
            raise _Unreadable
        self._place = match.end()
        word = match.group()
        return _CONSTANTS[word] if word in _CONSTANTS else float(word)

    def _object(self, depth: int) -> dict[str, Any]:
        self._place += 1
        found: dict[str, Any] = {}
        while self._peek() != "}":
            quote = self._peek()
            if quote not in "\"'":
                raise _Unreadable
            key = self._string(quote)
            if self._peek() != ":":
                raise _Unreadable
            self._place += 1
            found.setdefault(key, self._value(depth + 1))
            self._separator("}")
        self._place += 1
        return found

    def _array(self, depth: int) -> list[Any]:
        self._place += 1
        found = []
        while self._peek() != "]":
            found.append(self._value(depth + 1))
            self._separator("]")
        self._place += 1
        return found

    def _separator(self, end: str) -> None:
        following = self._peek()
        if following == ",":
            self._place += 1
        elif following != end:
            raise _Unreadable

    def _string(self, quote: str) -> str:
        """In single quotes one ends where a value can end: an apostrophe inside does not."""
        text = self._text
        place = self._place + 1
        parts: list[str] = []
        while place < len(text):
            character = text[place]
            if character == "\\" and place + 1 < len(text):
                character, place = _escaped(text, place + 1)
                parts.append(character)
                continue
            if character == quote and (quote == '"' or self._ends(place + 1)):
                self._place = place + 1
                return "".join(parts)
            parts.append(character)
            place += 1
        raise _Unreadable

    def _ends(self, place: int) -> bool:
        text = self._text
        while place < len(text) and text[place] in _SPACE:
            place += 1
        return place < len(text) and text[place] in ",:]}"


_SCALAR: Final = re.compile(
    r"(?:true|false|null|True|False|None)\b|-?\d{1,300}(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?"
)
_CONSTANTS: Final = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_HEXADECIMAL: Final = re.compile(r"[0-9a-fA-F]{4}")


def _escaped(text: str, place: int) -> tuple[str, int]:
    """The character that an escape means, and where the text goes on."""
    if text[place] == "u" and (code := _HEXADECIMAL.match(text, place + 1)):
        return chr(int(code.group(), 16)), place + 5
    return _ESCAPES.get(text[place], text[place]), place + 1


def _lines(text: str) -> Answer:
    entities: list[Any] = []
    relations: list[Any] = []
    for line in text.splitlines():
        kind, colon, rest = line.lstrip(_BULLET).partition(":")
        if not colon or kind not in ("ENTITY", "RELATION"):
            continue
        fields = [field.strip() for field in rest.split("|")]
        if kind == "ENTITY" and fields[0]:
            entities.append([field or None for field in fields[:3]])
        elif kind == "RELATION" and len(fields) >= 3 and fields[0] and fields[2]:
            relations.append(fields[:3])
    return Answer(entities, relations, not entities and not relations)
