"""The entities that memories speak of, and facts that relate two of them (ENT-1 to EEE-3)."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spector import _core, arguments
from spector.graph.export import Exportable
from spector.graph.hyper_graph import HyperGraph
from spector.graph.type_registry import TypeRegistry

__all__ = ["EntityDirectory", "Links", "Relations"]

_MOST_TYPES = 2**32 - 1
_MOST_HOPS = 2**32 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """An entity's memories as arrays of equal length, in the order of the first link.

    Attributes
    ----------
    memories : ndarray of uint32
        Slots.
    weights : ndarray of float32
        In (0, 3].
    about : ndarray of bool
        The memory is about the entity; else it mentions it (AM-10).
    """

    memories: NDArray[np.uint32]
    weights: NDArray[np.float32]
    about: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.memories)


@dataclass(frozen=True, slots=True, eq=False)
class Relations:
    """An entity's relations as arrays of equal length (EEE-1).

    Attributes
    ----------
    entities : ndarray of uint32
        The other end of each.
    types : ndarray of uint32
        Ids of relation types (TYP-2).
    weights : ndarray of float32
        In (0, 3].
    cycles : ndarray of uint16
        The cycle of the latest `add_relation`, modulo 65536.
    bridges : ndarray of uint8
        255 where nothing else is near both ends; from 224 on a decay stops at its threshold.
    """

    entities: NDArray[np.uint32]
    types: NDArray[np.uint32]
    weights: NDArray[np.float32]
    cycles: NDArray[np.uint16]
    bridges: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.entities)


class _Types:
    """Numbers and names of types: of a registry, or the built-in ones alone."""

    __slots__ = ("_built_in", "_registry")

    def __init__(
        self, name: str, kind: Literal["entities", "relations"], registry: TypeRegistry | None
    ) -> None:
        if registry is not None:
            if not isinstance(registry, TypeRegistry):
                raise TypeError(f"{name} must be a TypeRegistry, not {arguments.kind(registry)}")
            if registry.kind != kind:
                raise ValueError(f"{name} must be a registry of {kind}, not of {registry.kind}")
        self._built_in = registry is None
        self._registry = TypeRegistry(kind) if registry is None else registry

    def number(self, name: str, value: Any) -> int:
        if not isinstance(value, str):
            return arguments.whole(name, value, 0, _MOST_TYPES)
        if not self._built_in:
            return self._registry.id(value)
        found = self._registry.find(value)
        if found is None:
            known = ", ".join(self._registry.names())
            raise ValueError(f"{name} {value!r} needs a TypeRegistry: it is not one of {known}")
        return found


class EntityDirectory(Exportable):
    """Names of entities, the memories that speak of each, and relations between them.

    Entities are numbered from 0. A name is found whatever its case, width and white space; the
    first spelling is the one that is shown (ENT-3). A merged entity is another name of its
    survivor: wherever its id or name is given, the survivor is meant (ENT-9).

    Types are ids of type registries. They can be given by name as well: built-in ones (TYP-1,
    TYP-2), and with registries any, which are registered on first use (TYP-3).

    Parameters
    ----------
    max_entity_edges : int
        Relations from one entity, in [1, 256] (EEE-2).
    entity_types, relation_types : TypeRegistry, optional
        They are not saved with the directory.

    Examples
    --------
    >>> directory = EntityDirectory()
    >>> alice = directory.intern("Alice", "PERSON")
    >>> alpha = directory.intern("Project Alpha", "PROJECT")
    >>> directory.find_entity("  project  ALPHA ") == alpha
    True
    >>> directory.add_relation(alice, alpha, "MANAGES")
    True
    >>> directory.link(alpha, 7, about=True)
    >>> directory.collect_memories(alice, max_hops=1)
    array([7], dtype=uint32)
    >>> directory.collect_memories(alice, filter={"KNOWS"}, max_hops=1)
    array([], dtype=uint32)
    """

    __slots__ = ("_core", "_entity_types", "_relation_types")

    def __init__(
        self,
        max_entity_edges: int = 48,
        entity_types: TypeRegistry | None = None,
        relation_types: TypeRegistry | None = None,
    ) -> None:
        self._core = _core.EntityDirectory(
            arguments.whole("max_entity_edges", max_entity_edges, 1, 256)
        )
        self._entity_types = _Types("entity_types", "entities", entity_types)
        self._relation_types = _Types("relation_types", "relations", relation_types)

    @property
    def max_entity_edges(self) -> int:
        return self._core.max_relations()

    @property
    def cycle(self) -> int:
        """How often relations have decayed (EEE-3)."""
        return self._core.cycle()

    @property
    def link_count(self) -> int:
        """Links of all entities."""
        return self._core.n_links()

    @property
    def relation_count(self) -> int:
        """Relations of all entities."""
        return self._core.n_relations()

    @overload
    def intern(self, name: str, type: int | str) -> int: ...
    @overload
    def intern(self, name: list[str] | tuple[str, ...], type: ArrayLike) -> NDArray[np.uint32]: ...
    def intern(
        self, name: str | list[str] | tuple[str, ...], type: ArrayLike
    ) -> int | NDArray[np.uint32]:
        """Give a name a number, or return the one it has (ENT-3).

        Parameters
        ----------
        name : str or list of str
            Not blank. A list is one change: all of it or none.
        type : int or str, or a list or array of one for each name
            A known entity keeps its type, unless that is OTHER.

        Returns
        -------
        int, or ndarray of uint32 for a list
            That of the survivor for the name of a merged entity.

        Raises
        ------
        ValueError
            A name is blank or not valid Unicode, or a type is not known.
        """
        if isinstance(name, str):
            return self._core.intern(name, self._entity_types.number("type", type))
        if not isinstance(name, (list, tuple)):
            raise TypeError(f"name must be str or a list of str, not {arguments.kind(name)}")
        if isinstance(type, (list, tuple)):
            types = np.array(
                [self._entity_types.number("each of type", each) for each in type], np.uint32
            )
        elif isinstance(type, np.ndarray):
            types = arguments.integers("type", type, np.uint32)
        else:
            types = np.full(len(name), self._entity_types.number("type", type), np.uint32)
        return self._core.intern_many(list(name), types)

    def link(self, entity: ArrayLike, memory: ArrayLike, about: ArrayLike = False) -> None:
        """Link an entity to a memory that speaks of it (ENT-4).

        A new link has the weight 1; one that is there gains 0.2, up to 3, and keeps its place.

        Parameters
        ----------
        entity, memory : int or array of int
            Several are one change, all of it or none; a single one stands for as many as needed.
        about : bool or array of bool
            The memory is about the entity. A link that once was stays so (AM-10).

        Raises
        ------
        IndexError
            An entity is not known.
        """
        if isinstance(entity, int) and isinstance(memory, int) and isinstance(about, bool):
            self._core.link_one(_entity(entity), _memory(memory), about)
            return
        flags = np.asarray(about)
        if flags.dtype != np.bool_:
            raise TypeError(f"about must hold bool, not {flags.dtype}")
        entities = arguments.slots("entity", np.atleast_1d(entity))
        memories = arguments.slots("memory", np.atleast_1d(memory))
        try:
            entities, memories, flags = np.broadcast_arrays(
                entities, memories, np.atleast_1d(flags)
            )
        except ValueError:
            raise ValueError(
                "entity, memory and about must have equal lengths or be single, not "
                f"{len(entities)}, {len(memories)} and {flags.size}"
            ) from None
        self._core.link(
            np.ascontiguousarray(entities),
            np.ascontiguousarray(memories),
            np.ascontiguousarray(flags),
        )

    def find_entity(self, name: str) -> int:
        """The entity of that name, or -1; a blank name has none (ENT-3)."""
        return self._core.find(name)

    def resolve(self, entity: int) -> int:
        """The entity that `entity` was merged into in the end, or itself (ENT-9)."""
        return self._core.resolve(_entity(entity))

    def recognise(self, names: list[str]) -> NDArray[np.int64]:
        """The entity whose own name each is, not the one that it was merged into, or -1.

        Of a directory that was saved without names, those names are known from now on.
        """
        if not isinstance(names, list):
            raise TypeError(f"names must be a list of str, not {arguments.kind(names)}")
        return self._core.recognise(names)

    def name(self, entity: int) -> str:
        """Its name as first spelled; a merged entity keeps its own.

        It is a blank and `name_hash` in hexadecimal as long as only that is known.
        """
        return self._core.name(_entity(entity))

    def name_hash(self, entity: int) -> int:
        """H64 of its own name, folded (GEN-7)."""
        return self._core.name_hash(_entity(entity))

    def type(self, entity: int) -> int:
        """The id of its type; a merged entity keeps its own."""
        return self._core.type(_entity(entity))

    def memories_for_entity(self, entity: int) -> NDArray[np.uint32]:
        """Slots of its memories in the order of the first link (ENT-5)."""
        return self._core.memories(_entity(entity))

    def links(self, entity: int) -> Links:
        """Its memories with weights and roles, in the same order."""
        return Links(*self._core.links(_entity(entity)))

    def memory_ref_weight(self, entity: int, idx: int) -> float:
        """The weight of its link number `idx`, 0.0 out of range (ENT-5)."""
        return self._core.link_strength(
            _entity(entity), arguments.whole("idx", idx, -(2**63), 2**63 - 1)
        )

    def ref_count(self, entity: int) -> int:
        """How many memories it is linked to (ENT-5)."""
        return self._core.ref_count(_entity(entity))

    def entities_for_memory(self, memory: int) -> NDArray[np.uint32]:
        """Entities linked to the memory, ascending (ENT-5)."""
        return self._core.entities(_memory(memory))

    def fan_factor(self, entity: int) -> float:
        """1 / sqrt(ref_count), 1.0 without references (ENT-6)."""
        return self._core.fan_factor(_entity(entity))

    def remove_memory(self, slot: ArrayLike) -> int:
        """Forget a memory, or several: their links go (ENT-5). Returns how many links went."""
        return self._core.remove_memories(arguments.slots("slot", np.atleast_1d(slot)))

    def decay_adjacency_weights(self, factor: float = 0.95, threshold: float = 0.2) -> int:
        """Multiply the weights of all links and remove those below `threshold` (ENT-7).

        Parameters
        ----------
        factor : float
            In [0, 1].
        threshold : float
            In [0.001, 3].

        Returns
        -------
        int
            Links removed.
        """
        return self._core.decay_links(*_decay(factor, threshold))

    def compact_adjacency(self) -> int:
        """Rewrite the links without dead space; returns the bytes freed (ENT-8)."""
        return self._core.compact_links()

    def add_relation(self, source: int, target: int, type: int | str) -> bool:
        """Store a fact between two entities, or strengthen it (EEE-2).

        A new relation has the weight 1; one that is there gains 0.2, up to 3. Of an entity that has
        `max_entity_edges` relations the least important makes room, unless the new one is less
        important still.

        Returns
        -------
        bool
            False if it was too weak to be stored.

        Raises
        ------
        ValueError
            Source and target are one entity.
        IndexError
            An entity is not known.
        """
        return self._core.add_relation(
            _entity(source, "source"),
            _entity(target, "target"),
            self._relation_types.number("type", type),
        )

    def add_relations(self, source: ArrayLike, target: ArrayLike, type: ArrayLike) -> int:
        """`add_relation` for each of several, as one change: all of it or none.

        Parameters
        ----------
        source, target, type : array of int
            Of equal lengths; types are ids.

        Returns
        -------
        int
            How many were stored or strengthened.
        """
        return self._core.add_relations(*_triples(source, target, type))

    def relation_states(
        self, source: ArrayLike, target: ArrayLike, type: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[np.uint16]]:
        """Weights of relations, 0 for those that are not there, and the cycles in which each was
        strengthened last.

        Parameters
        ----------
        source, target, type : array of int
            Of equal lengths; types are ids.
        """
        return self._core.relation_states(*_triples(source, target, type))

    def restate_relations(
        self,
        source: ArrayLike,
        target: ArrayLike,
        type: ArrayLike,
        weight: ArrayLike,
        cycle: ArrayLike,
    ) -> None:
        """Give relations a weight and the cycle of their latest strengthening, whatever they had;
        with the weight 0 they go. One change.

        For facts that are told more or less often than before. One that is not there comes, unless
        its source has `max_entity_edges` that are all more important.

        Parameters
        ----------
        source, target, type : array of int
        weight : array of float
            In [0, 3], of the same length.
        cycle : array of int
            Modulo 65536 (EEE-1), of the same length.
        """
        triples = _triples(source, target, type)
        weights = arguments.reals("weight", weight, 0, 3)
        cycles = arguments.integers("cycle", np.asarray(cycle), np.uint16)
        for name, given in (("weight", weights), ("cycle", cycles)):
            if len(given) != len(triples[0]):
                raise ValueError(
                    f"{name} must have the length of source, {len(triples[0])}, not {len(given)}"
                )
        self._core.restate_relations(*triples, weights, cycles)

    def relations(self, entity: int, incoming: bool = False) -> Relations:
        """Relations from the entity in the order of the first mention, or to it, by entity."""
        return Relations(*self._core.relations(_entity(entity), bool(incoming)))

    def decay_relations(self, factor: float = 0.95, threshold: float = 0.2) -> int:
        """Count one cycle, multiply the weights of relations, remove those below `threshold`.

        A bridge stays at `threshold` until it was not strengthened for 365 cycles (EEE-3). Ranges
        are those of `decay_adjacency_weights`. Returns how many relations were removed.
        """
        return self._core.decay_relations(*_decay(factor, threshold))

    def merge_similar(self) -> NDArray[np.uint32]:
        """Merge entities whose names are one name written differently (ENT-9).

        Pairs are taken by distance, then the lower id, then the higher. Only two names that are
        similar themselves are merged, never by way of a third. The survivor has more references,
        or the lower id.

        Returns
        -------
        ndarray of uint32, shape (n, 2)
            (merged, survivor) in the order in which it was done. Stores that hold entity ids follow
            it, as with `HyperGraph.merge`.
        """
        return self._core.merge_similar()

    def unmerge(self, id: int) -> None:
        """Let a merged entity have its name for itself again; `merge_similar` leaves it alone then.

        What was linked to it stays with the survivor (ENT-9). ValueError if it is not merged.
        """
        self._core.unmerge(_entity(id, "id"))

    def traverse(
        self,
        start: ArrayLike,
        filter: Collection[int | str] | None = None,
        max_hops: int = 2,
        hyper: HyperGraph | None = None,
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Entities around others, over relations in both directions and hyperedges (ENT-10).

        Parameters
        ----------
        start : int or array of int
            Entities.
        filter : collection of int or str, optional
            Types of relations and hyperedges that may be followed; None: all.
        max_hops : int
            In [0, 2**32 - 1].
        hyper : HyperGraph, optional

        Returns
        -------
        entities, hops : ndarray of uint32
            Nearest first, then by id; the starts are there with 0 hops.
        """
        entities, types, hops, edges = self._walk(start, filter, max_hops, hyper)
        return self._core.traverse(entities, types, hops, edges)

    def collect_memories(
        self,
        start: ArrayLike,
        filter: Collection[int | str] | None = None,
        max_hops: int = 2,
        hyper: HyperGraph | None = None,
    ) -> NDArray[np.uint32]:
        """Slots of the memories of all entities that `traverse` gives, ascending (ENT-10)."""
        entities, types, hops, edges = self._walk(start, filter, max_hops, hyper)
        return self._core.collect_memories(entities, types, hops, edges)

    def spread(
        self,
        start: ArrayLike,
        strength: ArrayLike = 1.0,
        steps: int = 0,
        share: float = 0.25,
        most_memories: int = 1000,
        hyper: HyperGraph | None = None,
        least: float = 0.0,
        limit: int = 1_000_000,
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64], NDArray[np.uint32]]:
        """Activations of memories by entities and by what is around these (EXP-1, step 5e).

        An entity gives each of its memories its strength, times the weight of the link, at most 1,
        times its fan factor (ENT-6). In each step the strongest entities pass a share of their
        strength, times the weight, at most 1, to those that they are related to or took part in a
        hyperedge with.

        Parameters
        ----------
        start : int or array of int
            Entities.
        strength : float or array of float
            In [0, 1].
        steps : int
            0 to 2.
        share : float
            In [0, 1].
        most_memories : int
            An entity with more memories than that activates none of them.
        hyper : HyperGraph, optional
        least : float
            In [0, 1]: weaker activations are left out.
        limit : int
            How many memories at most; the strongest.

        Returns
        -------
        memories : ndarray of uint32
            Slots, ascending.
        activations : ndarray of float64
            The strongest of each.
        paths : ndarray of uint32, shape (n, 3)
            The entities on the way, from the start; 2**32 - 1 after the last.
        """
        entities = arguments.slots("start", np.atleast_1d(start))
        if type(strength) is float and 0 <= strength <= 1:
            strengths = np.full(len(entities), strength)
        else:
            strengths = np.ascontiguousarray(arguments.several(strength, len(entities)), np.float64)
            if strengths.shape != entities.shape:
                raise ValueError(
                    f"strength must be one, or one for each of {len(entities)} entities, not"
                    f" {strengths.size}"
                )
            if strengths.size and not (strengths.min() >= 0 and strengths.max() <= 1):
                raise ValueError("strength must be in [0, 1]")
        if hyper is not None and not isinstance(hyper, HyperGraph):
            raise TypeError(f"hyper must be a HyperGraph, not {arguments.kind(hyper)}")
        return self._core.spread(
            entities,
            strengths,
            arguments.whole("steps", steps, 0, 2),
            arguments.real("share", share, 0, 1),
            arguments.whole("most_memories", most_memories, 0, arguments.MAX_SLOT),
            arguments.real("least", least, 0, 1),
            arguments.whole("limit", limit, 0, arguments.MAX_SLOT),
            None if hyper is None else hyper._core,
        )

    def spread_each(
        self,
        memories: ArrayLike,
        strengths: ArrayLike,
        few: float = 3,
        most_memories: int = 1000,
        least: float = 0.0,
        limit: int = 1_000_000,
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float64], NDArray[np.uint32]]:
        """`spread` without steps from the entities of each of these memories by itself (EXP-1).

        Parameters
        ----------
        memories : array of int
        strengths : array of float
            One for each, in [0, 1]: that of its entities, where it has more than `few` times
            (few / their number)^(1/4).
        few : float
            Above 0.
        most_memories, least, limit
            As in `spread`, of each memory.

        Returns
        -------
        seeds : ndarray of uint32
            Places in `memories`, ascending.
        reached : ndarray of uint32
            Slots, of each seed ascending; the seed itself is among them.
        activations : ndarray of float64
        entities : ndarray of uint32
            The one that leads there.
        """
        seeds = arguments.slots("memories", memories)
        given = np.ascontiguousarray(strengths, np.float64)
        if given.shape != seeds.shape:
            raise ValueError(
                f"strengths must be one for each of {len(seeds)} memories, not {given.size}"
            )
        return self._core.spread_each(
            seeds,
            given,
            arguments.real("few", few, 1e-6, 1e6),
            arguments.whole("most_memories", most_memories, 0, arguments.MAX_SLOT),
            arguments.real("least", least, 0, 1),
            arguments.whole("limit", limit, 0, arguments.MAX_SLOT),
        )

    def _walk(
        self,
        start: ArrayLike,
        filter: Collection[int | str] | None,
        max_hops: int,
        hyper: HyperGraph | None,
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32] | None, int, "_core.HyperGraph | None"]:
        entities = arguments.slots("start", np.atleast_1d(start))
        types = None
        if filter is not None:
            if isinstance(filter, (str, bytes)):
                raise TypeError(
                    f"filter must be a collection of types, not {arguments.kind(filter)}"
                )
            types = np.array(
                [self._relation_types.number("each of filter", each) for each in filter], np.uint32
            )
        if hyper is not None and not isinstance(hyper, HyperGraph):
            raise TypeError(f"hyper must be a HyperGraph, not {arguments.kind(hyper)}")
        hops = arguments.whole("max_hops", max_hops, 0, _MOST_HOPS)
        return entities, types, hops, None if hyper is None else hyper._core

    def memory_usage(self) -> dict[str, int]:
        """Bytes by part (BUD-4): ``nodes`` is 64 for each entity and ``links`` 8 for each link.

        ``dead`` is what `compact_adjacency` frees; ``names`` spellings, folded names and their
        index; ``overhead`` entities of memories, relations, pages and lists partly used.
        """
        return self._core.memory_usage()

    def save(self, path: str | os.PathLike[str], hashed: bool = False) -> None:
        """Write an EDIR file, which then is there entirely or not at all.

        Parameters
        ----------
        path : path
        hashed : bool
            Without names: what `load` gives then has their hashes alone, and each name again as
            soon as `intern` or `recognise` meets it.

        Raises
        ------
        StorageError
            The file cannot be written (an OSError with its errno); the old one is as it was.
        """
        self._core.save(os.fsencode(path), bool(hashed))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        entity_types: TypeRegistry | None = None,
        relation_types: TypeRegistry | None = None,
    ) -> "EntityDirectory":
        """Read what `save` wrote; the registries are those of the constructor.

        Raises
        ------
        CorruptionError
            The file is damaged, or not one of `save`.
        VersionError
            The file is of a newer release.
        StorageError
            The file cannot be read (an OSError with its errno).
        """
        directory = cls(48, entity_types, relation_types)
        directory._core.load(os.fsencode(path))
        return directory

    def __len__(self) -> int:
        """How many ids there are; merged entities keep theirs."""
        return self._core.size()

    def __repr__(self) -> str:
        return (
            f"EntityDirectory(entities={len(self)}, links={self.link_count}, "
            f"relations={self.relation_count})"
        )


def _entity(value: int, name: str = "entity") -> int:
    return arguments.whole(name, value, 0, arguments.MAX_SLOT)


def _memory(value: int) -> int:
    return arguments.whole("memory", value, 0, arguments.MAX_SLOT)


def _triples(
    source: ArrayLike, target: ArrayLike, type: ArrayLike
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    sources = arguments.slots("source", source)
    targets = arguments.slots("target", target)
    types = arguments.integers("type", type, np.uint32)
    if not len(sources) == len(targets) == len(types):
        raise ValueError(
            "source, target and type must have equal lengths, not "
            f"{len(sources)}, {len(targets)} and {len(types)}"
        )
    return sources, targets, types


def _decay(factor: float, threshold: float) -> tuple[float, float]:
    return (
        arguments.real("factor", factor, 0, 1),
        arguments.real("threshold", threshold, 0.001, 3),
    )
