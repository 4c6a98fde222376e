"""Events of three and more entities (HYP-1 to HYP-9)."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spector import _core, arguments
from spector.graph.export import Exportable

__all__ = ["HyperGraph", "Hyperedge", "Hyperedges"]

_NONE = 2**32 - 1  # no memory, in the core
_TIMES = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Hyperedge:
    """One event (HYP-1).

    Attributes
    ----------
    id : int
    type : int
        Id of a relation type (TYP-2).
    weight : float
        In [0, 3].
    memory : int or None
        The slot of the memory that tells of it.
    timestamp : int
        Of its creation, or of the latest reinforcement or use (HYP-6).
    entities, roles : tuple of int
        3 to 8 distinct entities in the order they were given, and the role of each (HYP-4).
    """

    id: int
    type: int
    weight: float
    memory: int | None
    timestamp: int
    entities: tuple[int, ...]
    roles: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Hyperedges:
    """Events as arrays: event i has ``entities[indptr[i]:indptr[i + 1]]``, and `roles` likewise.

    Attributes
    ----------
    ids, types : ndarray of uint32, shape (n,)
    weights : ndarray of float32, shape (n,)
    memories : ndarray of int64, shape (n,)
        Slots; -1 is none.
    timestamps : ndarray of int64, shape (n,)
    indptr : ndarray of int64, shape (n + 1,)
    entities, roles : ndarray of uint32, shape (indptr[-1],)
    """

    ids: NDArray[np.uint32]
    types: NDArray[np.uint32]
    weights: NDArray[np.float32]
    memories: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    indptr: NDArray[np.int64]
    entities: NDArray[np.uint32]
    roles: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.ids)

    def tolist(self) -> list[Hyperedge]:
        ends = self.indptr.tolist()
        entities, roles = self.entities.tolist(), self.roles.tolist()
        columns = zip(
            self.ids.tolist(),
            self.types.tolist(),
            self.weights.tolist(),
            self.memories.tolist(),
            self.timestamps.tolist(),
            strict=True,
        )
        return [
            Hyperedge(
                id,
                type,
                weight,
                None if memory < 0 else memory,
                timestamp,
                tuple(entities[ends[i] : ends[i + 1]]),
                tuple(roles[ends[i] : ends[i + 1]]),
            )
            for i, (id, type, weight, memory, timestamp) in enumerate(columns)
        ]


class HyperGraph(Exportable):
    """Which entities took part in which events, in which roles, and the memory that tells of it.

    An event of 3 to 8 entities is one hyperedge. An entity is in at most `max_per_entity` of them:
    a further one evicts the least recently used, which then leaves the lists of all its entities
    (HYP-6). Ids of hyperedges are never used again.

    Parameters
    ----------
    max_per_entity : int
        In [1, 65535].

    Examples
    --------
    >>> graph = HyperGraph()
    >>> alice, alpha, database = 0, 1, 2
    >>> deployed = graph.add(5, [alice, alpha, database], [1, 2, 4], memory=7, timestamp=1000)
    >>> graph.hyperedges_for(alice)
    array([0], dtype=uint32)
    >>> graph.common([alpha, database])
    array([0], dtype=uint32)
    >>> graph.edge(deployed).memory
    7
    """

    __slots__ = ("_core",)

    def __init__(self, max_per_entity: int = 64) -> None:
        self._core = _core.HyperGraph(
            arguments.whole("max_per_entity", max_per_entity, 1, 2**16 - 1)
        )

    @property
    def max_per_entity(self) -> int:
        return self._core.max_per_entity()

    def add(
        self,
        type: int,
        entities: ArrayLike,
        roles: ArrayLike | None = None,
        memory: int | None = None,
        timestamp: int = 0,
        weight: float = 1.0,
    ) -> int:
        """Add an event, or reinforce the one that says the same (HYP-5).

        An event of the same type, entities (in any order) and memory is reinforced: +0.2 to its
        weight, at most 3.0, and its timestamp becomes the given one if that is later. Its roles
        stay. Otherwise each entity that has `max_per_entity` hyperedges loses one, in the order
        of `entities`: the one with the lowest timestamp, then weight, then id. The new one does
        not compete.

        Parameters
        ----------
        type : int
            Id of a relation type, a u32.
        entities : array_like of int, 3 to 8 distinct ones
            Below 2**28.
        roles : array_like of int, optional
            One for each entity, u32; 0 (UNSPECIFIED) if not given.
        memory : int, optional
            The slot of the memory that tells of the event.
        timestamp : int
            i64; milliseconds elsewhere in spector, but only the order matters here.
        weight : float
            In (0, 3], for a new hyperedge.

        Returns
        -------
        int
            The id.
        """
        return self._core.add(*_event(type, entities, roles, memory, timestamp, weight))

    def add_event(
        self,
        type: int,
        entities: ArrayLike,
        roles: ArrayLike | None = None,
        memory: int | None = None,
        timestamp: int = 0,
        weight: float = 1.0,
    ) -> NDArray[np.uint32]:
        """Add an event of any number of entities from 3 on (HYP-3).

        More than 8 make several hyperedges, ⌈(n-1)/7⌉: each has the first entity, and the others
        are spread over them in their order, as evenly as can be. There may be as many as
        `max_per_entity`. Everything else is as in `add`.

        Returns
        -------
        ndarray of uint32
            The ids, in the order of the entities.
        """
        return self._core.add_event(*_event(type, entities, roles, memory, timestamp, weight))

    def add_many(
        self,
        types: ArrayLike,
        indptr: ArrayLike,
        entities: ArrayLike,
        roles: ArrayLike | None = None,
        memories: ArrayLike | None = None,
        timestamps: ArrayLike = 0,
        weights: ArrayLike = 1.0,
    ) -> NDArray[np.uint32]:
        """Call `add` for each of n events, all of them or, if one is refused, none.

        Parameters
        ----------
        types : int or array_like of int, shape (n,)
        indptr : array_like of int, shape (n + 1,)
            Event i has ``entities[indptr[i]:indptr[i + 1]]``.
        entities : array_like of int, shape (indptr[-1],)
        roles : array_like of int, shape (indptr[-1],), optional
        memories : array_like of int, shape (n,), optional
            -1 is none.
        timestamps : int or array_like of int, shape (n,)
        weights : float or array_like of float, shape (n,)

        Returns
        -------
        ndarray of uint32, shape (n,)
            The ids. A later event may have evicted an earlier one.
        """
        ends = arguments.integers("indptr", indptr, np.int64)
        n = max(len(ends) - 1, 0)
        members = arguments.integers("entities", entities, np.uint32)
        slots = _several("memories", -1 if memories is None else memories, np.int64, n)
        if len(slots) and not -1 <= int(slots.min()) <= int(slots.max()) <= arguments.MAX_SLOT:
            raise ValueError(
                f"memories must be in [-1, {arguments.MAX_SLOT}], "
                f"but hold {slots.min()} to {slots.max()}"
            )
        return self._core.add_many(
            _several("types", types, np.uint32, n),
            # Copies: the caller may change them while the core reads them without the GIL.
            ends.copy(),
            members.copy(),
            _roles(roles, len(members)),
            slots.astype(np.uint32),
            _several("timestamps", timestamps, np.int64, n),
            arguments.reals("weights", arguments.several(weights, n), 0, 3),
        )

    def edge(self, id: int) -> Hyperedge:
        """One hyperedge. Raises IndexError if there is none of the id."""
        return self.edges([arguments.whole("id", id, 0, 2**32 - 1)]).tolist()[0]

    def edges(self, ids: ArrayLike | None = None) -> Hyperedges:
        """The hyperedges of the ids in their order, all of them by id if `ids` is not given.

        Raises
        ------
        IndexError
            There is none of an id, or no longer.
        """
        chosen = None if ids is None else _several("ids", ids, np.uint32)
        return Hyperedges(*self._core.edges(chosen))

    def hyperedges_for(self, entity: int) -> NDArray[np.uint32]:
        """Ids of the entity's hyperedges, highest weight first, then id (HYP-7)."""
        return self._core.hyperedges_for(arguments.whole("entity", entity, 0, 2**32 - 1))

    def common(self, entities: ArrayLike) -> NDArray[np.uint32]:
        """Ids of the hyperedges that all the entities take part in, in the same order (HYP-7)."""
        return self._core.common(_several("entities", entities, np.uint32))

    def touch(self, ids: ArrayLike, timestamp: int) -> int:
        """Say that hyperedges were used in a recall at a time (HYP-6).

        Returns how many there were: those that are gone are passed over. An id that never was is
        an IndexError. A time before an edge's own changes nothing.
        """
        return self._core.touch(_several("ids", ids, np.uint32), _time(timestamp))

    def decay(self, factor: float = 0.95, threshold: float = 0.2) -> int:
        """Multiply all weights by `factor` and remove hyperedges below `threshold` (HYP-5).

        Parameters
        ----------
        factor : float
            In (0, 1].
        threshold : float
            In [0, 3].

        Returns
        -------
        int
            How many were removed.
        """
        return self._core.decay(
            arguments.real("factor", factor, 0, 1), arguments.real("threshold", threshold, 0, 3)
        )

    def remove_memory(self, slot: ArrayLike) -> int:
        """Remove the hyperedges of a memory, or of several; returns how many they were."""
        return self._core.remove_memories(arguments.slots("slot", arguments.several(slot)))

    def merge(self, source: int, target: int) -> list[Hyperedge]:
        """Let the entity `target` take the place of `source` in all events (ENT-9).

        An event that names both keeps the first of their two vertices. One that comes to say the
        same as another joins it: the lower id stays, with the higher weight + 0.2 and the later
        timestamp (HYP-5). Then `target` loses the least recently used of what is too much for it.

        Returns
        -------
        list of Hyperedge
            What was left with two entities and therefore removed: such facts are entity edges
            (HYP-2), and this is all that is needed to store them as such.
        """
        return Hyperedges(
            *self._core.merge(
                arguments.whole("source", source, 0, 2**32 - 1),
                arguments.whole("target", target, 0, 2**32 - 1),
            )
        ).tolist()

    def compact(self) -> None:
        """Free the space of removed hyperedges; happens by itself above a quarter."""
        self._core.compact()

    def atom_counts(self) -> tuple[int, int]:
        """Nodes and links of the hyperedges, and of entity pairs in their place (HYP-8)."""
        return self._core.atom_counts()

    def memory_usage(self) -> dict[str, int]:
        """Bytes by part (BUD-5): ``nodes``, ``vertices`` and ``incidence`` are what the events
        need, ``overhead`` is removed ones, pages and lists partly used and heads of lists,
        ``indexes`` serves to find an event by what it says and by its memory.
        """
        return self._core.memory_usage()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a HYEG file, which then is there entirely or not at all.

        Raises
        ------
        StorageError
            The file cannot be written (an OSError with its errno); the old one is as it was.
        """
        self._core.save(os.fsencode(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "HyperGraph":
        """Read what `save` wrote.

        Raises
        ------
        CorruptionError
            The file is damaged, or not one of `save`.
        VersionError
            It is of a newer release.
        StorageError
            It cannot be read (an OSError with its errno).
        """
        graph = cls()
        graph._core.load(os.fsencode(path))
        return graph

    def __len__(self) -> int:
        return self._core.size()

    def __repr__(self) -> str:
        return f"HyperGraph(max_per_entity={self.max_per_entity}, hyperedges={len(self)})"


def _time(timestamp: int) -> int:
    return arguments.whole("timestamp", timestamp, _TIMES.min, _TIMES.max)


def _several(name: str, value: ArrayLike, dtype: type[np.integer[Any]], n: int = 1) -> NDArray[Any]:
    return arguments.integers(name, arguments.several(value, n), dtype)


def _roles(roles: ArrayLike | None, n: int) -> NDArray[np.uint32]:
    if roles is None:
        return np.zeros(n, np.uint32)
    return arguments.integers("roles", roles, np.uint32)


def _event(
    type: int,
    entities: ArrayLike,
    roles: ArrayLike | None,
    memory: int | None,
    timestamp: int,
    weight: float,
) -> tuple[int, NDArray[np.uint32], NDArray[np.uint32], int, int, float]:
    members = arguments.integers("entities", entities, np.uint32)
    return (
        arguments.whole("type", type, 0, 2**32 - 1),
        members,
        _roles(roles, len(members)),
        _NONE if memory is None else arguments.whole("memory", memory, 0, arguments.MAX_SLOT),
        _time(timestamp),
        arguments.real("weight", weight, 0, 3),
    )
