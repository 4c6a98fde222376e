"""A space as JSON lines: everything that is primary, and back without loss.

The first line says what follows (`HEADER_START` tells it from other JSON lines), each line after it
is a memory with all its columns, in the order of slots. What is learned between memories is in the
events, which a backup keeps and an export does not.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Any, Final, Literal, cast

import numpy as np

from spector import arguments
from spector.errors import ConfigurationError, CorruptionError, VersionError

from .model import Entity, MemoryRow, Relation, Stored, VectorRow, encode_entities, entities_of
from .reader import Reader
from .replica import Settings, Shape
from .transaction import Transaction
from .values import (
    MEMORY_TYPES,
    Vector,
    check_choice,
    check_id,
    check_label,
    check_metadata,
    check_names,
    check_tags,
    check_text,
    check_time,
    encode_json,
)
from .vectors import pack_dense, pack_sparse, unpack_dense, unpack_sparse, unpack_tokens

VERSION: Final = 1
HEADER_START: Final = b'{"spector":{"export":'
KINDS: Final = ("dense", "sparse", "tokens")
_LARGEST_FLOAT: Final = float(np.finfo(np.float64).max)
_COUNT: Final = 2**32 - 1
_FLAGS: Final = 2**31 - 1
_OPTIONAL: Final = ("context", "session", "author", "suppressed")
_KEYS: Final = frozenset(
    (
        *("id", "text", "type", "source", "timestamp", "created", "updated", "tags", "metadata"),
        *("about", "importance", "surprise", "valence", "arousal", "flags", "entities"),
        *("relations", "recalls", "strength", "passive", "last_passive", "vectors", *_OPTIONAL),
    )
)


class Header:
    """What the first line of an export says."""

    def __init__(self, settings: Settings, shape: Shape) -> None:
        self.settings = settings
        self.shape = shape

    def line(self) -> str:
        """The line."""
        content = {"export": VERSION, "settings": asdict(self.settings), "vectors": {}}
        content["vectors"] = asdict(self.shape)
        return encode_json({"spector": content}) + "\n"

    @classmethod
    def of(cls, line: bytes, where: str) -> Header:
        """What a line says.

        Raises
        ------
        CorruptionError, VersionError
            It is none, or one of a newer release.
        """
        if not line.startswith(HEADER_START):
            raise CorruptionError(
                f"{where} is not an export: its first line must start with {HEADER_START.decode()}"
            )
        try:
            content = json.loads(line)["spector"]
            if content["export"] != VERSION:
                raise VersionError(
                    f"{where} is an export of version {content['export']}; this spector knows"
                    f" version {VERSION}"
                )
            return cls(Settings(**content["settings"]), Shape(**content["vectors"]))
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptionError(f"{where}: the first line of the export is damaged") from error


def is_export(start: bytes) -> bool:
    """Whether a file that starts with these bytes is an export."""
    return start.startswith(HEADER_START)


@contextmanager
def opened(path: Path, mode: Literal["rb", "xb"]) -> Iterator[IO[bytes]]:
    """A file, compressed if its name ends with .gz."""
    with path.open(mode) as raw:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(fileobj=raw, mode=mode) as file:
                yield cast("IO[bytes]", file)
        else:
            yield raw


# --- out ----------------------------------------------------------------------------------------


def lines(reader: Reader, settings: Settings, vectors: bool) -> Iterator[str]:
    """All lines of the export of one state of a space; what is damaged raises."""
    yield Header(settings, Shape(**reader.setting("vectors")) if vectors else Shape()).line()
    slots = [slot for slot, _ in reader.slots()]
    for start in range(0, len(slots), 1000):
        part = slots[start : start + 1000]
        rows = reader.rows(part)
        found = reader.vectors(part) if vectors else {}
        for slot in part:
            yield encode_json(_as_dict(rows[slot], found.get(slot, ()))) + "\n"


def _as_dict(row: MemoryRow, vectors: Iterable[VectorRow]) -> dict[str, Any]:
    entities, relations = entities_of(row)
    item: dict[str, Any] = {
        "id": row[1],
        "text": row[2],
        "context": row[3],
        "type": row[4],
        "source": row[5],
        "session": row[6],
        "author": row[7],
        "timestamp": row[8],
        "created": row[9],
        "updated": row[10],
        "tags": json.loads(row[11]),
        "metadata": json.loads(row[12]),
        "about": json.loads(row[13]),
        "importance": row[14],
        "surprise": row[15],
        "valence": row[16],
        "arousal": row[17],
        "flags": row[18],
        "entities": entities,
        "relations": relations,
        "recalls": row[20],
        "strength": row[21],
        "passive": row[22],
        "last_passive": row[23],
        "suppressed": row[24],
    }
    stored = [
        {
            "kind": vector.kind,
            "model": vector.model,
            "content": vector.content,
            "data": base64.b64encode(vector.data).decode(),
        }
        for vector in vectors
    ]
    if stored:
        item["vectors"] = stored
    return {key: value for key, value in item.items() if value is not None}


def write(path: Path, content: Iterable[str]) -> int:
    """Write an export to a file that then is there entirely or not at all; how many memories."""
    count = -1
    new = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    if path.suffix.lower() == ".gz":
        new = new.with_suffix(".gz")
    try:
        with opened(new, "xb") as file:
            for line in content:
                file.write(line.encode())
                count += 1
        with new.open("rb") as written:
            os.fsync(written.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return count


# --- in -----------------------------------------------------------------------------------------


def parse(line: bytes, shape: Shape) -> Stored:
    """The memory that a line says, checked like what callers hand in."""
    item = json.loads(line)
    if not isinstance(item, dict):
        raise ValueError("not a JSON object")
    unknown = sorted(item.keys() - _KEYS)
    if unknown:
        raise ValueError(f"the unknown key {unknown[0]!r}")
    missing = sorted(_KEYS - item.keys() - {"vectors", *_OPTIONAL})
    if missing:
        raise ValueError(f"no {missing[0]!r}")

    def optional(name: str, check: Callable[[str, object], str]) -> str | None:
        return None if item.get(name) is None else check(name, item[name])

    def whole(name: str, low: int, high: int) -> int:
        return arguments.whole(name, item[name], low, high)

    def real(name: str, low: float, high: float) -> float:
        return arguments.real(name, item[name], low, high)

    entities = [
        Entity(
            check_label("name of an entity", name),
            check_label("type of an entity", kind),
            None if role is None else check_label("role of an entity", role),
        )
        for name, kind, role in item["entities"]
    ]
    relations = [
        Relation(*(check_label("part of a relation", part) for part in relation))
        for relation in item["relations"]
    ]
    stored = (
        check_id("id", item["id"]),
        check_text("text", item["text"]),
        optional("context", check_text),
        check_choice("type", item["type"], MEMORY_TYPES),
        check_label("source", item["source"]),
        optional("session", check_label),
        optional("author", check_label),
        check_time("timestamp", item["timestamp"]),
        check_time("created", item["created"]),
        check_time("updated", item["updated"]),
        check_tags("tags", item["tags"])[1],
        check_metadata("metadata", item["metadata"]),
        check_names("about", item["about"]),
        real("importance", 0.05, 10),
        real("surprise", -_LARGEST_FLOAT, _LARGEST_FLOAT),
        whole("valence", -128, 127),
        whole("arousal", 0, 255),
        whole("flags", 0, _FLAGS),
        encode_entities(entities, relations),
        whole("recalls", 0, _COUNT),
        real("strength", 0.01, 5),
        whole("passive", 0, _COUNT),
        check_time("last_passive", item["last_passive"]),
        optional("suppressed", check_text),
    )
    vectors = tuple(_vector(each, shape) for each in item.get("vectors", ()))
    return Stored(*stored, vectors=vectors)


def _vector(item: Any, shape: Shape) -> Vector:
    if not isinstance(item, dict) or item.keys() != {"kind", "model", "content", "data"}:
        raise ValueError("a vector must have a kind, a model, a content and data")
    kind = check_choice("kind of a vector", item["kind"], KINDS)
    model = check_label("model of a vector", item["model"])
    if model != getattr(shape, kind):
        raise ValueError(f"a {kind} vector of {model!r}, which the first line does not name")
    try:
        data = base64.b64decode(item["data"], validate=True)
    except (TypeError, binascii.Error) as error:
        raise ValueError(f"a {kind} vector that is not base64") from error
    content = arguments.whole("content of a vector", item["content"], -(2**63), 2**63 - 1)
    try:
        sound = _is_sound(kind, data, shape)
    except Exception as error:  # whatever unpacking what was never packed raises
        raise ValueError(f"a {kind} vector that is damaged") from error
    if not sound:
        raise ValueError(f"a {kind} vector that is damaged")
    return Vector(kind, model, content, data)


def _is_sound(kind: str, data: bytes, shape: Shape) -> bool:
    if kind == "dense":
        vector = unpack_dense(data)
        return len(vector) == shape.dimensions and pack_dense(vector) == data
    if kind == "sparse":
        return pack_sparse(unpack_sparse(data)) == data
    codes, scales = unpack_tokens(data, shape.token_dimensions)
    sound = bool((np.isfinite(scales) & (scales >= 0)).all() and (codes != -128).all())
    return sound and len(data) == len(scales) * (4 + shape.token_dimensions)


def joined(stored: Shape, given: Shape) -> Shape:
    """The shape of a space that takes in vectors of another.

    Raises
    ------
    ConfigurationError
        Both have vectors of one kind, and of different models or dimensions.
    """
    values: dict[str, Any] = {}
    for kind, size in (("dense", "dimensions"), ("sparse", ""), ("tokens", "token_dimensions")):
        names = (kind, size) if size else (kind,)
        ours = [getattr(stored, name) for name in names]
        theirs = [getattr(given, name) for name in names]
        if ours[0] and theirs[0] and ours != theirs:
            raise ConfigurationError(
                f"the export has {kind} vectors of {theirs[0]!r}, the space of {ours[0]!r}: import"
                " it into a new space, or export it without vectors"
            )
        values.update(zip(names, ours if ours[0] else theirs, strict=True))
    assert values.keys() == {field.name for field in fields(Shape)}
    return Shape(**values)


def batches(
    content: Iterable[bytes], shape: Shape, where: str, size: int
) -> Iterator[tuple[int, list[Stored]]]:
    """Checked memories, with the number of the line of the first."""
    batch: list[Stored] = []
    first = 2
    for number, line in enumerate(content, 2):
        if not line.strip():
            continue
        try:
            batch.append(parse(line, shape))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{where}, line {number}: {error}") from None
        if len(batch) == size:
            yield first, batch
            batch, first = [], number + 1
    if batch:
        yield first, batch


def take_shape(transaction: Transaction, given: Shape, check: Callable[[Shape], object]) -> None:
    """Let the space have the vectors of an export."""
    stored: Mapping[str, Any] = transaction.setting("vectors")
    wanted = joined(Shape(**stored), given)
    if wanted != Shape(**stored):
        check(wanted)
        transaction.set_meta({"vectors": asdict(wanted)})
