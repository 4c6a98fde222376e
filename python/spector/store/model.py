"""What a space holds: memories, and the events that made it what it is."""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from spector import _core
from spector._core import crc32c, hash64

#: The source of what stands for others (RFL-2).
MADE_BY_REFLECTION: Final = "consolidated"
# SQLite integers are signed 64-bit; sums of checksums are kept below that.
_SUM_MASK: Final = (1 << 63) - 1

MEMORY_COLUMNS: Final = (
    "slot",
    "id",
    "text",
    "context",
    "type",
    "source",
    "session",
    "author",
    "timestamp",
    "created",
    "updated",
    "tags",
    "metadata",
    "about",
    "importance",
    "surprise",
    "valence",
    "arousal",
    "flags",
    "entities",
    "recalls",
    "strength",
    "passive",
    "last_passive",
    "suppressed",
    "crc",
)

# One row of the table `memories`, columns as above.
MemoryRow = tuple[
    int,
    str,
    str,
    "str | None",
    str,
    str,
    "str | None",
    "str | None",
    int,
    int,
    int,
    str,
    str,
    str,
    float,
    float,
    int,
    int,
    int,
    str,
    int,
    float,
    int,
    int,
    "str | None",
    int,
]

# Bits of the column `flags`.
PINNED: Final = 1
UNRESOLVED: Final = 2
REMINDER: Final = 4  # due at its timestamp, and not yet delivered (IMP-4)
EXTRACT: Final = 8  # its entities are still to be extracted (EXT-7)
CONSOLIDATED: Final = 16  # a summary stands for it (RFL-2)
CONTRADICTED: Final = 32


class Stored(NamedTuple):
    """A memory from elsewhere with all its columns but slot and checksum, and its vectors."""

    id: str
    text: str
    context: str | None
    type: str
    source: str
    session: str | None
    author: str | None
    timestamp: int
    created: int
    updated: int
    tags: str
    metadata: str
    about: str
    importance: float
    surprise: float
    valence: int
    arousal: int
    flags: int
    entities: str
    recalls: int
    strength: float
    passive: int
    last_passive: int
    suppressed: str | None
    vectors: tuple[tuple[str, str, int, bytes], ...] = ()  # `values.Vector`


class VectorRow(NamedTuple):
    """One row of the table `vectors`: what a model made of a memory.

    `kind` is "dense", "sparse" or "tokens"; the names are stored.
    """

    slot: int
    kind: str
    model: str
    content: int
    data: bytes
    crc: int


class EventType(enum.IntEnum):
    """What an event says. The numbers are stored: never change or reuse one."""

    REMEMBER = 1
    FORGET = 2
    ENCODE = 3  # a model's vectors came later than the memory
    REINFORCE = 4  # an outcome was reported (PAD-7)
    RECALL = 5  # memories were returned by a recall that counts (AM-15); its slot is 0
    STATE = 6  # it was suppressed, pinned, resolved, reminded of, or the opposite
    ENTITY = 7  # its entities were extracted later than it was stored (EXT-7)
    REFLECT = 8  # a step of a reflection changed the graph or this memory (RFL); slot 0: the graph


class Event(NamedTuple):
    """One change of a space. Holds ids and numbers, never text (AM-17).

    `payload` of a REMEMBER: the memory's session as `session_payload` gives it. What the others
    hold is said where they are applied, in `learning.py`.
    """

    seq: int
    type: int
    at: int
    slot: int
    payload: str | None
    crc: int


class Entity(NamedTuple):
    """Somebody or something that a memory mentions.

    Attributes
    ----------
    name : str
    type : str
        One of TYP-1, or any other name.
    role : str or None
        What it is in what happened, of HYP-4 or any other name; None: as its type says.
    """

    name: str
    type: str = "OTHER"
    role: str | None = None


class Relation(NamedTuple):
    """How two entities of a memory are related: ``Relation("Ann", "MANAGES", "Project X")``."""

    source: str
    type: str
    target: str


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory as stored.

    Attributes
    ----------
    id : str
        The name it was stored under.
    text : str
        Its text, as given.
    tags : tuple of str
        Folded tags: normalised, lower case, single spaces.
    type : str
        "working", "episodic", "semantic" or "procedural".
    source : str
        Where it came from.
    session, author, context : str or None
        As given; the context is searched like the text.
    timestamp : int
        When it happened, in milliseconds since 1970 UTC.
    created, updated : int
        When it was stored first and last, likewise.
    metadata : dict
        As given.
    about : tuple of str
        Names of what it is about, as given.
    importance : float
        In [0.05, 10] (IMP-1).
    surprise : float
        How unlike the memories before it was when it was stored, in standard deviations (IMP-2).
    valence : int
        In [-128, 127]; below 0 is unpleasant.
    arousal : int
        In [0, 255].
    pinned, unresolved : bool
        Whether it is kept from fading, and whether it waits for something (SCO-12).
    entities : tuple of Entity
        What it mentions, as given or extracted (EXT-2).
    relations : tuple of Relation
        How these are related.
    recall_count : int
        How often an outcome was reported for it (PAD-7).
    storage_strength : float
        In [0.01, 5]; grows when what had nearly faded is reinforced (SCO-13).
    passive_recalls : int
        How often recalls returned it, once in five minutes at most (SCO-10).
    suppressed : str or None
        Why it is kept out of recalls, None if it is not (SUP-1).
    """

    id: str
    text: str
    tags: tuple[str, ...]
    type: str
    source: str
    session: str | None
    author: str | None
    context: str | None
    timestamp: int
    created: int
    updated: int
    metadata: dict[str, Any]
    about: tuple[str, ...] = ()
    importance: float = 0.05
    surprise: float = 0.0
    valence: int = 0
    arousal: int = 0
    pinned: bool = False
    unresolved: bool = False
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    recall_count: int = 0
    storage_strength: float = 1.0
    passive_recalls: int = 0
    suppressed: str | None = None


def memory_crc(*columns: Any) -> int:
    """CRC32C of a row, given all its columns but that: all numbers and lengths first (-1 for NULL),
    then the texts."""
    return _core.memory_crc(columns)


def vector_crc(slot: int, kind: str, model: str, content: int, data: bytes) -> int:
    """CRC32C of a row of the table `vectors`."""
    return crc32c(data, crc32c(f"{slot},{kind},{len(model)},{content};{model}".encode()))


def event_crc(seq: int, type: int, at: int, slot: int, payload: str | None) -> int:
    """CRC32C of an event."""
    return crc32c(f"{seq},{type},{at},{slot}{'' if payload is None else ',' + payload}".encode())


def vector_holds(vector: VectorRow) -> bool:
    """Whether the checksum of a row of the table `vectors` holds."""
    try:
        return vector_crc(*vector[:-1]) == vector.crc
    except TypeError:  # a column of another type
        return False


def event_holds(event: Event) -> bool:
    """Whether the checksum of an event holds."""
    try:
        return event_crc(*event[:5]) == event.crc
    except TypeError:  # a column of another type
        return False


@functools.lru_cache(maxsize=1024)
def _session_payload(session: str) -> str:
    return f"{hash64(session):016x}"


def session_payload(session: str | None) -> str | None:
    """What an event says of a session: its H64, in hexadecimal."""
    return None if session is None else _session_payload(session)


def checkpoint_crc(part: str, place: int, data: bytes) -> int:
    """CRC32C of a row of the table `checkpoint`."""
    return crc32c(data, crc32c(f"{part},{place};".encode()))


def meta_crc(key: str, value: str) -> int:
    """CRC32C of a setting."""
    return crc32c(f"{key}={value}".encode())


def add_crc(total: int, delta: int) -> int:
    """A sum of checksums after adding `delta`, which may be negative."""
    return (total + delta) & _SUM_MASK


def row_problem(row: MemoryRow) -> str | None:
    """What is wrong with a row, if its checksum does not hold."""
    try:
        if _core.memory_crc(row) == row[-1]:
            return None
    except TypeError:  # a column of another type
        pass
    return f"the memory in slot {row[0]} does not match its checksum"


def tags_of(row: MemoryRow) -> tuple[str, ...]:
    """The tags of a verified row."""
    return _strings(row[11])


def about_of(row: MemoryRow) -> tuple[str, ...]:
    """The names of what a verified row is about."""
    return _strings(row[13])


@functools.lru_cache(maxsize=4096)
def _strings(encoded: str) -> tuple[str, ...]:
    return tuple(json.loads(encoded)) if encoded != "[]" else ()


def entities_of(row: MemoryRow) -> tuple[tuple[Entity, ...], tuple[Relation, ...]]:
    """The entities and relations of a verified row."""
    if not row[19]:
        return (), ()
    stored = json.loads(row[19])
    return (
        tuple(Entity(*one) for one in stored["entities"]),
        tuple(Relation(*one) for one in stored["relations"]),
    )


def encode_entities(entities: Iterable[Entity], relations: Iterable[Relation]) -> str:
    """What `entities_of` reads; empty where there is nothing."""
    stored = {"entities": list(entities), "relations": list(relations)}
    if not stored["entities"] and not stored["relations"]:
        return ""
    return json.dumps(stored, ensure_ascii=False, separators=(",", ":"))


def to_memory(row: MemoryRow) -> Memory:
    """The public form of a row."""
    entities, relations = entities_of(row)
    return Memory(
        id=row[1],
        text=row[2],
        tags=tags_of(row),
        type=row[4],
        source=row[5],
        session=row[6],
        author=row[7],
        context=row[3],
        timestamp=row[8],
        created=row[9],
        updated=row[10],
        metadata=json.loads(row[12]) if row[12] != "{}" else {},
        about=about_of(row),
        importance=row[14],
        surprise=row[15],
        valence=row[16],
        arousal=row[17],
        pinned=bool(row[18] & PINNED),
        unresolved=bool(row[18] & UNRESOLVED),
        entities=entities,
        relations=relations,
        recall_count=row[20],
        storage_strength=row[21],
        passive_recalls=row[22],
        suppressed=row[24],
    )
