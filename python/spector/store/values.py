"""Checks and normal forms of everything a caller hands in.

Each function takes the argument's name first, so that every message says which argument it was,
what came and what is allowed. Nothing here touches a store.
"""

from __future__ import annotations

import enum
import json
import math
import operator
import os
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from spector import arguments
from spector.arguments import fold
from spector.graph.type_registry import TypeRegistry
from spector.records.cognition import importance

from .model import PINNED, UNRESOLVED, Entity, Relation, encode_entities

MEMORY_TYPES: Final = ("working", "episodic", "semantic", "procedural")
TAG_MATCHES: Final = ("all", "any")
CONFLICTS: Final = ("update", "ignore", "error")
MAX_ENTITIES: Final = 10  # of one memory; the first ones count (EXT-2)
MAX_RELATIONS: Final = 20

_REGISTRIES: Final = {  # of built-in names: they only say how a name is written
    "entities": TypeRegistry.entities(),
    "relations": TypeRegistry.relations(),
    "roles": TypeRegistry.roles(),
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND: Final = timedelta(milliseconds=1)
# Years 1 to 9999: what datetime can show again.
MIN_TIME: Final = -62_135_596_800_000
MAX_TIME: Final = 253_402_300_799_999
# SQLite refuses values over 10^9 bytes; a character takes at most four.
_MAX_CHARACTERS: Final = 250_000_000

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# What `datetime.fromisoformat` reads differs between versions of Python, so this is spelled out:
# a date, then perhaps a time to the minute or finer, then perhaps a zone.
_TIME: Final = re.compile(
    r"([0-9]{4})(-?)([0-9]{2})\2([0-9]{2})"
    r"(?:[Tt ]([0-9]{2})(:?)([0-9]{2})(?:\6([0-9]{2})(?:[.,]([0-9]+))?)?"
    r" ?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)


class Unset(enum.Enum):
    """The type of `UNSET`, the default of keywords whose absence means something."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


class Vector(NamedTuple):
    """What a model made of a text, on its way into the journal: see `VectorRow`."""

    kind: str
    model: str
    content: int
    data: bytes


Hints = tuple["float | None", "float | None", "float | None"]


class Draft(NamedTuple):
    """A checked memory on its way into the journal.

    `id` is None when one is to be made. `hints` are interest, challenge and urgency, or None where
    the importance was stated (IMP-1). `given` is a vector that the caller brought; `vectors` is
    filled in before the journal sees the draft.
    """

    id: str | None
    text: str
    context: str | None
    type: str
    source: str
    session: str | None
    author: str | None
    timestamp: int
    tags: tuple[str, ...]
    tags_json: str
    metadata_json: str
    about_json: str
    valence: int
    arousal: int
    flags: int
    given: npt.NDArray[np.float32] | None
    importance: float
    surprise: float = 0.0
    entities_json: str = ""
    vectors: tuple[Vector, ...] = ()
    hints: Hints | None = None


_shortener = reprlib.Repr()
_shortener.maxstring = _shortener.maxother = 60


def show(value: object) -> str:
    """`value` as an error message shows it: its repr, at most about 60 characters."""
    return _shortener.repr(value)


def _type_error(name: str, value: object, allowed: str) -> TypeError:
    return TypeError(f"{name} must be {allowed}, got {type(value).__name__} {show(value)}")


def clean(text: str) -> str:
    """Replace each lone surrogate, which no UTF-8 file can hold, by U+FFFD."""
    if text.isascii():
        return text
    return _SURROGATE.sub("\ufffd", text)


def check_text(name: str, value: object) -> str:
    """Any text, the empty one included."""
    if not isinstance(value, str):
        raise _type_error(name, value, "a str")
    if len(value) > _MAX_CHARACTERS:
        raise ValueError(
            f"{name} has {len(value)} characters; at most {_MAX_CHARACTERS} are allowed"
        )
    return value if value.isascii() else clean(value)


def check_label(name: str, value: object) -> str:
    """A text that may not be empty."""
    if type(value) is str and 0 < len(value) <= _MAX_CHARACTERS and value.isascii():
        return value  # nearly always, so without much ado
    if not isinstance(value, str):
        raise _type_error(name, value, "a non-empty str")
    if not value:
        raise ValueError(f"{name} must be a non-empty str, got ''")
    return check_text(name, value)


def check_id(name: str, value: object) -> str:
    """A memory id: kept exactly, so what UTF-8 cannot hold is refused, not replaced."""
    label = check_label(name, value)
    if label != value:
        raise ValueError(f"{name} must be valid Unicode without lone surrogates, got {show(value)}")
    return label


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """One of a few words, whatever its case."""
    if isinstance(value, str) and (folded := value.lower()) in choices:
        return folded
    allowed = "one of " + ", ".join(repr(choice) for choice in choices)
    if not isinstance(value, str):
        raise _type_error(name, value, allowed)
    raise ValueError(f"{name} must be {allowed}, got {show(value)}{nearest(value, choices)}")


def check_count(name: str, value: object) -> int:
    """A whole number of at least 1 (numpy integers too, bool not)."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise _type_error(name, value, "an int of at least 1") from None
    if number < 1:
        raise ValueError(f"{name} must be an int of at least 1, got {number}")
    return number


def check_path(path: object) -> Path:
    """The folder of a space, as an absolute path."""
    try:
        folder = os.fspath(path)  # type: ignore[call-overload]
    except TypeError:
        folder = None
    if not isinstance(folder, str):
        raise _type_error("path", path, "a str or PathLike")
    try:
        named = bool(folder) and b"\0" not in os.fsencode(folder)
    except UnicodeEncodeError:
        named = False
    if not named:
        raise ValueError(f"path must be the name of a folder, got {show(folder)}")
    return Path(folder).absolute()


def check_seconds(name: str, value: object) -> float:
    """A finite duration in seconds, not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _type_error(name, value, "a number of seconds")
    if not 0 <= value <= 2_000_000:
        raise ValueError(f"{name} must be between 0 and 2000000 seconds, got {value!r}")
    return float(value)


def nearest(word: object, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the known word nearest to a mistyped one, or nothing."""
    import difflib

    found = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def check_keys(name: str, value: object, known: Sequence[str]) -> Mapping[str, Any]:
    """A mapping with no keys but the known ones."""
    if not isinstance(value, Mapping):
        raise _type_error(name, value, "a mapping")
    for key in value:
        if key not in known:
            raise TypeError(
                f"{name} has the unknown key {show(key)}{nearest(key, known)}"
                f" (known: {', '.join(known)})"
            )
    return value


@lru_cache(maxsize=4096)
def _folded_tags(tags: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    folded = dict.fromkeys(fold(clean(tag)) for tag in tags)
    if "" in folded:
        raise ValueError(f"tags must not be empty, got {show(tags)}")
    return tuple(folded), encode_json(list(folded))


def check_tags(name: str, value: object) -> tuple[tuple[str, ...], str]:
    """Folded tags in the order given, without duplicates, and the same as JSON."""
    if value is None or (isinstance(value, (tuple, list)) and not value):
        return (), "[]"
    if not isinstance(value, (tuple, list)) and (
        isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable)
    ):
        raise _type_error(name, value, "a list or tuple of str")
    tags = tuple(value)
    for tag in tags:
        if not isinstance(tag, str):
            raise _type_error(f"each of {name}", tag, "a str")
    if isinstance(value, Set):
        tags = tuple(sorted(tags))
    try:
        return _folded_tags(tags)
    except ValueError:
        raise ValueError(f"{name} must hold only non-empty tags, got {show(list(tags))}") from None


def encode_json(value: object) -> str:
    """Compact JSON, not escaped beyond need, lone surrogates replaced."""
    return clean(_ENCODER.encode(value))


def check_metadata(name: str, value: object) -> str:
    """JSON text of a mapping from str to what JSON can hold and give back."""
    if value is None:
        return "{}"
    if not isinstance(value, Mapping):
        raise _type_error(name, value, "a mapping with str keys")
    if not value:
        return "{}"
    try:
        encoded = encode_json(dict(value))
    except (TypeError, ValueError, RecursionError) as error:
        kind = ValueError if isinstance(error, (ValueError, RecursionError)) else TypeError
        raise kind(f"{name} must be JSON-serialisable, got {show(value)}: {error}") from None
    pending: list[object] = [value]
    while pending:  # json turns other keys into str silently, and then two may become one
        item = pending.pop()
        if isinstance(item, Mapping):
            for key, inner in item.items():
                if not isinstance(key, str):
                    raise _type_error(f"each key of {name}", key, "a str")
                if isinstance(inner, (Mapping, list, tuple)):
                    pending.append(inner)
        elif isinstance(item, (list, tuple)):
            pending.extend(inner for inner in item if isinstance(inner, (Mapping, list, tuple)))
    return encoded


def check_time(name: str, value: object, *, end_of_day: bool = False) -> int:
    """Milliseconds since 1970 UTC.

    An int is taken as such; a datetime without a zone, a date and a text without a zone are UTC.
    A date alone, however spelled, means its first millisecond, or its last with `end_of_day`.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if MIN_TIME <= value <= MAX_TIME:
            return value
        raise ValueError(
            f"{name} must be milliseconds between {MIN_TIME} (year 1) and {MAX_TIME}"
            f" (year 9999), got {show(value)}"
        )
    moment = value
    if isinstance(moment, str):
        moment = _parse_time(name, moment)
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        milliseconds = (moment - _EPOCH) // _MILLISECOND
        return check_time(name, milliseconds)  # a zone can push the year out of range
    if isinstance(moment, date):
        start = datetime.combine(moment, time(), timezone.utc)
        milliseconds = (start - _EPOCH) // _MILLISECOND
        return milliseconds + (86_400_000 - 1 if end_of_day else 0)
    raise _type_error(
        name, value, "an int of milliseconds since 1970 UTC, a datetime, a date or an ISO 8601 text"
    )


def _parse_time(name: str, text: str) -> date:
    found = _TIME.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError
        year, _, month, day, hour, _, minute, second, fraction, zone = found.groups()
        if hour is None:
            return date(int(year), int(month), int(day))
        return datetime(
            *(int(year), int(month), int(day), int(hour), int(minute), int(second or 0)),
            microsecond=int(f"{fraction or ''}000000"[:6]),
            tzinfo=_zone(zone or "Z"),
        )
    except ValueError:
        raise ValueError(
            f"{name} must be an ISO 8601 date or time such as '2031-01-31' or"
            f" '2031-01-31T12:00:00Z', got {show(text)}"
        ) from None


def _zone(text: str) -> timezone:
    if text in "Zz":
        return timezone.utc
    minutes = int(text[3:].removeprefix(":") or 0)
    if minutes > 59:
        raise ValueError
    offset = timedelta(hours=int(text[1:3]), minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


DRAFT_KEYS: Final = (
    "text",
    "id",
    "tags",
    "type",
    "source",
    "session",
    "author",
    "context",
    "timestamp",
    "metadata",
    "about",
    "entities",
    "relations",
    "vector",
    "importance",
    "interest",
    "challenge",
    "urgency",
    "valence",
    "arousal",
    "unresolved",
    "pinned",
)
_DRAFT_KEYS: Final = frozenset(DRAFT_KEYS)
#: A memory without anything to compare with counts as half new (IMP-1).
_NOVELTY: Final = 0.5
_PLAIN_IMPORTANCE: Final = round(importance(novelty=_NOVELTY), 6)
_LARGEST: Final = 1e18
_NO_HINTS: Final[Hints] = (None, None, None)


def check_vector(name: str, value: object) -> npt.NDArray[np.float32]:
    """A vector of finite numbers, not all of them zero."""
    if (
        type(value) is np.ndarray
        and value.dtype == np.float32
        and value.ndim == 1
        and value.flags.c_contiguous
        and 0.0 < float(value.dot(value)) < math.inf  # not so: it is looked at more closely
    ):
        return value
    vector = arguments.reals(name, value, -_LARGEST, _LARGEST)  # type: ignore[arg-type]
    if not vector.any():
        raise ValueError(f"{name} must not be empty or all zeros, got {show(value)}")
    return vector


def check_names(name: str, value: object) -> str:
    """JSON text of names that are not blank, in the order given, without duplicates."""
    names = (value,) if _is_plain_name(value) else check_name_list(name, value)
    return _encoded_names(names) if names else "[]"


@lru_cache(maxsize=4096)
def _encoded_names(names: tuple[str, ...]) -> str:
    return encode_json(list(names))


def _is_plain_name(value: object) -> TypeGuard[str]:
    """Whether `check_name_list` would give just this: it is worth knowing without much ado."""
    return (
        type(value) is str
        and 0 < len(value) <= _MAX_CHARACTERS
        and value.isascii()
        and value == value.strip()
    )


def check_name_list(name: str, value: object) -> tuple[str, ...]:
    """Names that are not blank, in the order given, without duplicates."""
    if value is None or (isinstance(value, (tuple, list)) and not value):
        return ()
    if isinstance(value, str):
        value = (value,)
    elif not isinstance(value, (tuple, list)) and (
        isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable)
    ):
        raise _type_error(name, value, "a str, or a list or tuple of str")
    names = dict.fromkeys(check_label(f"each of {name}", item).strip() for item in value)
    if "" in names:
        raise ValueError(f"each of {name} must hold more than blanks, got {show(value)}")
    return tuple(names)


_ENTITY_KEYS: Final = ("name", "type", "role", "relations")
_RELATION_KEYS: Final = ("source", "type", "target")
_ENTITY_FORM: Final = "a str, a mapping with 'name', or a tuple (name, type) or (name, type, role)"
_RELATION_FORM: Final = (
    "a tuple (source, type, target) or a mapping with 'source', 'type' and 'target'"
)


@lru_cache(maxsize=4096)
def _type_name(kind: Literal["entities", "relations", "roles"], name: str) -> str:
    return _REGISTRIES[kind].normalize(name)


def type_name(name: str, kind: Literal["entities", "relations", "roles"], value: object) -> str:
    """A type or role as it is stored: upper case, blanks and ``-`` to ``_`` (TYP-3)."""
    if value is None:
        value = ""
    if not isinstance(value, str):
        raise _type_error(name, value, "a str")
    return _type_name(kind, clean(value))


def check_entity_name(name: str, value: object) -> str:
    """The name of an entity, trimmed."""
    label = check_label(name, value).strip()
    if not fold(label):
        raise ValueError(f"{name} must hold more than blanks, got {show(value)}")
    return label


def check_entities(entities: object, relations: object) -> str:
    """What `encode_entities` makes of entities and relations as `remember` takes them.

    The first `MAX_ENTITIES` and `MAX_RELATIONS` count (EXT-2). Names that differ only in case or
    white space are one entity, of which the first is kept; the ends of relations are entities too,
    of the type OTHER if nothing else is said (EXT-5).
    """
    if _is_nothing(entities) and _is_nothing(relations):
        return ""
    found: dict[str, Entity] = {}
    facts: list[Relation] = []
    for item in _each("entities", entities, str, _ENTITY_FORM):
        entity, own = _entity(item)
        if len(found) == MAX_ENTITIES and fold(entity.name) not in found:
            break
        found.setdefault(fold(entity.name), entity)
        facts += own
    facts += [
        _relation("each of relations", item)
        for item in _each("relations", relations, (), f"a list or tuple of {_RELATION_FORM}")
    ]
    kept = list(dict.fromkeys(facts))[:MAX_RELATIONS]
    for fact in kept:
        for end in (fact.source, fact.target):
            found.setdefault(fold(end), Entity(end))
    return clean(encode_entities(found.values(), kept))


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, (tuple, list)) and not value)


def _each(name: str, value: object, single: type | tuple[()], allowed: str) -> Iterable[object]:
    """The items of an argument of which a single one may stand for itself."""
    if value is None:
        return ()
    if isinstance(value, single):
        return (value,)
    if isinstance(value, (str, bytes, Mapping, Set)) or not isinstance(value, Iterable):
        what = f"a list or tuple, each {allowed}" if single else allowed
        raise _type_error(name, value, what)
    return value


def _entity(item: object) -> tuple[Entity, list[Relation]]:
    """One entity, and the relations that its mapping says it has."""
    where = "each of entities"
    role: object = None
    kind: object = None
    own: object = None
    if isinstance(item, str):
        name: object = item
    elif isinstance(item, Mapping):
        check_keys(where, item, _ENTITY_KEYS)
        if "name" not in item:
            raise TypeError(f"{where} that is a mapping needs 'name', got {show(item)}")
        name, kind, role, own = (item.get(key) for key in _ENTITY_KEYS)
    elif isinstance(item, (tuple, list)) and 1 <= len(item) <= 3:
        name, kind, role = (*item, None, None)[:3]
    else:
        raise _type_error(where, item, _ENTITY_FORM)
    label = check_entity_name(f"the name of {where}", name)
    entity = Entity(
        label,
        type_name(f"the type of {where}", "entities", kind),
        None if role is None else type_name(f"the role of {where}", "roles", role),
    )
    facts = []
    for each in _each(f"the relations of {where}", own, (), "a list of (type, target)"):
        if isinstance(each, Mapping):
            check_keys("a relation of an entity", each, ("type", "target"))
            each = (each.get("type"), each.get("target"))
        if not isinstance(each, (tuple, list)) or len(each) != 2:
            raise _type_error("a relation of an entity", each, "(type, target)")
        facts.append(_relation("a relation of an entity", (label, *each)))
    return entity, facts


def _relation(where: str, item: object) -> Relation:
    if isinstance(item, Mapping):
        check_keys(where, item, _RELATION_KEYS)
        item = tuple(item.get(key) for key in _RELATION_KEYS)
    if not isinstance(item, (tuple, list)) or len(item) != 3:
        raise _type_error(where, item, _RELATION_FORM)
    source = check_entity_name(f"the source of {where}", item[0])
    target = check_entity_name(f"the target of {where}", item[2])
    if fold(source) == fold(target):
        raise ValueError(f"{where} must join two different entities, got {show(tuple(item))}")
    return Relation(source, type_name(f"the type of {where}", "relations", item[1]), target)


def check_flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise _type_error(name, value, "True or False")
    return bool(value)


def _hint(name: str, value: Any) -> float | None:
    return None if value is None else arguments.real(name, value, 0, 1)


def check_draft(item: Mapping[str, Any], now: int) -> Draft:
    """Check one memory as `remember_many` takes it; `now` is its time when it has none."""
    if not isinstance(item, dict) or not item.keys() <= _DRAFT_KEYS:
        check_keys("item", item, DRAFT_KEYS)
    if "text" not in item:
        raise TypeError("item has no 'text'")
    return make_draft(now, **item)


def make_draft(
    now: int,
    *,
    text: object,
    id: object = None,
    tags: object = (),
    type: object = "semantic",
    source: object = "user_stated",
    session: object = None,
    author: object = None,
    context: object = None,
    timestamp: object = None,
    metadata: object = None,
    about: object = None,
    entities: object = None,
    relations: object = None,
    vector: object = None,
    importance: Any = None,
    interest: Any = None,
    challenge: Any = None,
    urgency: Any = None,
    valence: Any = 0,
    arousal: Any = None,
    unresolved: object = False,
    pinned: object = False,
) -> Draft:
    """Check one memory as `remember` takes it; `now` is its time when it has none."""
    folded, tags_json = check_tags("tags", tags)
    weight = _PLAIN_IMPORTANCE  # IMP-1: what was stated, else what follows from the hints
    hints: Hints | None = _NO_HINTS
    if importance is not None:
        weight, hints = arguments.real("importance", importance, 0.05, 10), None
    elif not (interest is challenge is urgency is None):
        hints = (
            _hint("interest", interest),
            _hint("challenge", challenge),
            _hint("urgency", urgency),
        )
        weight = round(_weigh(*hints), 6)
    valence = arguments.whole("valence", valence, -128, 127)
    flags = 0
    if pinned is not False and check_flag("pinned", pinned):
        flags |= PINNED
    if unresolved is not False and check_flag("unresolved", unresolved):
        flags |= UNRESOLVED
    return Draft(  # by position, which is faster
        None if id is None else check_id("id", id),
        check_text("text", text),
        None if context is None else check_text("context", context),
        check_choice("type", type, MEMORY_TYPES),
        check_label("source", source),
        None if session is None else check_label("session", session),
        None if author is None else check_label("author", author),
        now if timestamp is None else check_time("timestamp", timestamp),
        folded,
        tags_json,
        "{}" if metadata is None else check_metadata("metadata", metadata),
        "[]" if about is None else check_names("about", about),
        valence,
        (
            min(255, 2 * abs(valence))  # HDR-3
            if arousal is None
            else arguments.whole("arousal", arousal, 0, 255)
        ),
        flags,
        None if vector is None else check_vector("vector", vector),
        weight,
        0.0,
        check_entities(entities, relations),
        (),
        hints,
    )


def _weigh(interest: float | None, challenge: float | None, urgency: float | None) -> float:
    return importance(interest=interest, challenge=challenge, urgency=urgency, novelty=_NOVELTY)
