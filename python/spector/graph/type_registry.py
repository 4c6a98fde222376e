"""Names of entity types, relation types and roles (TYP-1 to TYP-3, HYP-4)."""

import os
import unicodedata
from collections.abc import Iterable
from typing import Literal

from spector import _core, arguments

__all__ = ["TypeRegistry"]

Kind = Literal["entities", "relations", "roles"]

# By kind: its number in the core, and the name for a blank one.
_KINDS: dict[str, tuple[int, str]] = {
    "entities": (0, "OTHER"),
    "relations": (1, "RELATED_TO"),
    "roles": (2, "UNSPECIFIED"),
}


def _hash(name: str) -> str:
    return f"{_core.hash64(name):016x}"


class TypeRegistry:
    """Names and their numbers. A new name is registered on first use; numbers never change.

    A name is folded first: NFKC, trimmed, upper case, blanks and ``-`` to ``_``. A blank one is
    OTHER among entity types, RELATED_TO among relation types, UNSPECIFIED among roles; the role
    SUBJECT is AGENT.

    Parameters
    ----------
    kind : {"entities", "relations", "roles"}

    Examples
    --------
    >>> relations = TypeRegistry.relations()
    >>> relations.id("works on"), relations.find("DEPLOYED_ON"), relations.id("deployed-on")
    (5, None, 21)
    >>> relations.name(21)
    'DEPLOYED_ON'
    """

    __slots__ = ("_blank", "_core", "_kind")

    def __init__(self, kind: Kind) -> None:
        if not isinstance(kind, str):
            raise TypeError(f"kind must be str, not {arguments.kind(kind)}")
        if kind not in _KINDS:
            raise ValueError(f"kind must be one of {', '.join(_KINDS)}, not {kind!r}")
        number, self._blank = _KINDS[kind]
        self._kind: Kind = kind
        self._core = _core.TypeRegistry(number)

    @classmethod
    def entities(cls) -> "TypeRegistry":
        """Entity types: the 22 of TYP-1 from 0, then what was registered."""
        return cls("entities")

    @classmethod
    def relations(cls) -> "TypeRegistry":
        """Relation types: the 21 of TYP-2 from 0, then what was registered."""
        return cls("relations")

    @classmethod
    def roles(cls) -> "TypeRegistry":
        """Roles in events: the 8 of HYP-4 from 0, then what was registered."""
        return cls("roles")

    @classmethod
    def restored(cls, kind: Kind, hashes: Iterable[str], names: Iterable[str]) -> "TypeRegistry":
        """A registry whose further names have these `hashes`, in the order of their numbers.

        Those names of which `names` knows nothing are known again when `id` meets them.
        """
        registry = cls(kind)
        known = {_hash(name): name for name in names}
        registry._fill([known.get(one, " " + one) for one in hashes])
        return registry

    def _fill(self, further: Iterable[str]) -> None:
        """Have these names after the built-in ones. No normalised name begins with a blank, so a
        blank and a hash stand for one that is not known."""
        core = _core.TypeRegistry(_KINDS[self._kind][0])
        for name in further:
            core.add(name)
        self._core = core

    def _further(self) -> list[str]:
        built_in = _core.TypeRegistry(_KINDS[self._kind][0]).size()
        return [self._core.name(id) or "" for id in range(built_in, len(self))]

    def hashes(self) -> list[str]:
        """What `restored` takes: H64 of each name that is not built in (GEN-7), in hexadecimal."""
        return [name[1:] if name.startswith(" ") else _hash(name) for name in self._further()]

    @property
    def kind(self) -> str:
        return self._kind

    def normalize(self, name: str) -> str:
        """The form in which a name is registered (TYP-3)."""
        if not isinstance(name, str):
            raise TypeError(f"name must be str, not {arguments.kind(name)}")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"name must be text, not {arguments.kind(name)}") from None
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).upper())
        folded = "_".join(folded.split()).replace("-", "_")
        if self._kind == "roles" and folded == "SUBJECT":
            return "AGENT"
        return folded or self._blank

    def id(self, name: str) -> int:
        """The number of a name, a new one if it has none."""
        folded = self.normalize(name)
        found = self._core.find(folded)
        if found is not None:
            return found
        hashed = " " + _hash(folded)
        unknown = self._core.find(hashed)
        if unknown is None:
            return self._core.add(folded)
        self._fill([folded if one == hashed else one for one in self._further()])
        return unknown

    def find(self, name: str) -> int | None:
        """The number of a name, or None; registers nothing."""
        folded = self.normalize(name)
        found = self._core.find(folded)
        return self._core.find(" " + _hash(folded)) if found is None else found

    def name(self, id: int) -> str | None:
        """The name of a number, or None."""
        name = self._core.name(arguments.whole("id", id, 0, 2**32 - 1))
        return None if name is None or name.startswith(" ") else name

    def names(self) -> list[str]:
        """All names; each stands at its number. Empty where only the hash is known."""
        return [self.name(id) or "" for id in range(len(self))]

    def memory_usage(self) -> dict[str, int]:
        """Bytes by part: ``names``."""
        return {"names": self._core.memory_bytes()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a TREG file, which then is there entirely or not at all.

        Raises
        ------
        StorageError
            The file cannot be written (an OSError with its errno); the old one is as it was.
        """
        self._core.save(os.fsencode(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], kind: Kind) -> "TypeRegistry":
        """Read what `save` of a registry of the same kind wrote.

        Raises
        ------
        CorruptionError
            The file is damaged, or not one of `save`, or of another kind.
        VersionError
            It is of a newer release.
        StorageError
            It cannot be read (an OSError with its errno).
        """
        registry = cls(kind)
        registry._core.load(os.fsencode(path))
        return registry

    def __len__(self) -> int:
        return self._core.size()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def __repr__(self) -> str:
        return f"TypeRegistry({self._kind!r}, names={len(self)})"
