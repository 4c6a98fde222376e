"""What an extractor is, and how its answers are cleaned (EXT-1, EXT-2, EXT-5)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from spector.arguments import fold
from spector.store.model import Entity, Relation, encode_entities
from spector.store.values import MAX_ENTITIES, MAX_RELATIONS, clean, type_name

from .words import PLACEHOLDERS, PRONOUNS

__all__ = ["EntityExtractor", "Extraction", "cleaned", "encoded"]

LONGEST_NAME: Final = 256  # EXT-5

_MARKUP: Final = re.compile(r"<[^<>]*>|[<>{}\[\]|]|```|\\[nrt]|&[a-z]+;|^[#*`=_~/\\-]+$")
_EMPTY: Final = re.compile(r"[\W_]*")


class Extraction(NamedTuple):
    """What an extractor found.

    Attributes
    ----------
    entities : iterable
        Each an `Entity`, a name, a tuple or a mapping, as `SpectorMemory.remember` takes them.
    relations : iterable
        Each a `Relation`, a tuple (source, type, target) or a mapping.
    """

    entities: Iterable[Any] = ()
    relations: Iterable[Any] = ()


@runtime_checkable
class EntityExtractor(Protocol):
    """Anything that finds entities in a text.

    It may also have ``is_available()``: while that is False, memories wait for it. And
    ``immediate = True`` if it is so fast that `remember` may wait for it.
    """

    def extract(self, id: str, text: str) -> Any:
        """An `Extraction`, a pair of entities and relations, or anything with these attributes or
        keys. May raise; the text is then tried again."""


def cleaned(
    found: Any, max_entities: int = MAX_ENTITIES, max_relations: int = MAX_RELATIONS
) -> Extraction:
    """What counts of an extractor's answer: the first ones that are names of something (EXT-5).

    Nothing here raises for a bad item: it is left out, and so is a relation with a bad end.

    Returns
    -------
    Extraction
        Of `Entity` and `Relation`. An end of a relation that is no entity yet has become one of
        type OTHER.

    Raises
    ------
    TypeError
        The answer as a whole is not one.
    """
    entities, relations = _parts(found)
    kept: dict[str, Entity] = {}
    facts: list[Relation] = []
    for item in entities:
        entity = _entity(item)
        if entity is None:
            continue
        folded = fold(entity.name)
        if folded not in kept and len(kept) == max_entities:
            continue
        kept.setdefault(folded, entity)
        facts += _own_relations(item, entity)
    facts += filter(None, map(_relation, relations))
    facts = list(dict.fromkeys(facts))[:max_relations]
    for fact in facts:
        for end in (fact.source, fact.target):
            kept.setdefault(fold(end), Entity(end))
    return Extraction(tuple(kept.values()), tuple(facts))


def encoded(extraction: Extraction) -> str:
    """A cleaned extraction as the journal keeps it."""
    return clean(encode_entities(extraction.entities, extraction.relations))


def _parts(found: Any) -> tuple[Iterator[Any], Iterator[Any]]:
    if found is None:
        return iter(()), iter(())
    if isinstance(found, Mapping):
        return _items(found.get("entities")), _items(found.get("relations"))
    if hasattr(found, "entities"):
        return _items(found.entities), _items(getattr(found, "relations", ()))
    if isinstance(found, tuple) and len(found) == 2 and not _is_entity(found):
        return _items(found[0]), _items(found[1])
    if isinstance(found, Iterable) and not isinstance(found, (str, bytes)):
        return _items(found), iter(())
    raise TypeError(
        "extract must return entities and relations: a pair of lists, or an object or mapping with"
        f" 'entities' and 'relations', got {type(found).__name__}"
    )


def _is_entity(found: tuple[Any, ...]) -> bool:
    return all(isinstance(part, (str, Entity)) for part in found)


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return iter(())
    return iter(value)


def name_of(value: Any) -> str | None:
    """The name that a value is, or None if it is none (EXT-5)."""
    if not isinstance(value, str):
        return None
    name = " ".join(clean(value).split())
    folded = fold(name)
    if len(folded) < 2 or len(name) > LONGEST_NAME:
        return None
    plain = folded.strip(" .,;:!?\"'`")
    if plain in PRONOUNS or plain.removeprefix("the ").removeprefix("a ") in PLACEHOLDERS:
        return None
    return None if _MARKUP.search(name) or _EMPTY.fullmatch(folded) else name


def _entity(item: Any) -> Entity | None:
    kind: Any = None
    role: Any = None
    if isinstance(item, str):
        name: Any = item
    elif isinstance(item, Mapping):
        name, kind, role = item.get("name"), item.get("type"), item.get("role")
    elif isinstance(item, (tuple, list)) and 1 <= len(item) <= 3:
        name, kind, role = (*item, None, None)[:3]
    else:
        name = getattr(item, "name", None)
        kind, role = getattr(item, "type", None), getattr(item, "role", None)
    label = name_of(name)
    if label is None:
        return None
    return Entity(
        label,
        _word("entities", kind, "OTHER"),
        _word("roles", role, "") or None if isinstance(role, str) else None,
    )


def _word(kind: Any, value: Any, default: str) -> str:
    """A type or role, if it looks like one."""
    if not isinstance(value, str) or not value.strip() or len(value) > 64:
        return default
    if _MARKUP.search(value) or _EMPTY.fullmatch(value):
        return default
    return type_name("type", kind, value)


def _own_relations(item: Any, entity: Entity) -> Iterator[Relation]:
    own = item.get("relations") if isinstance(item, Mapping) else getattr(item, "relations", None)
    for each in _items(own):
        if isinstance(each, Mapping):
            kind, target = each.get("type"), each.get("target")
        elif isinstance(each, (tuple, list)) and len(each) == 2:
            kind, target = each
        else:
            continue
        fact = _relation((entity.name, kind, target))
        if fact is not None:
            yield fact


def _relation(item: Any) -> Relation | None:
    if isinstance(item, Mapping):
        source, kind, target = item.get("source"), item.get("type"), item.get("target")
    elif isinstance(item, (tuple, list)) and len(item) == 3:
        source, kind, target = item
    else:
        source, kind, target = (getattr(item, key, None) for key in ("source", "type", "target"))
    start, end = name_of(source), name_of(target)
    if start is None or end is None or fold(start) == fold(end):
        return None
    return Relation(start, _word("relations", kind, "RELATED_TO"), end)
