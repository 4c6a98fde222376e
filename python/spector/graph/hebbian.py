"""Which memories were learned together (specification, section D.1)."""

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spector import _core
from spector.arguments import MAX_SLOT, integers, kind, real, reals, slot_array, whole
from spector.graph.export import Exportable

MAX_DEGREE = 256
LEAST_DELTA = 1e-6


class DecayReport(NamedTuple):
    """What one decay did.

    Attributes
    ----------
    cycle : int
        The cycle that began with it.
    edges : int
        Edges left.
    removed : int
        Edges that fell below the floor.
    floored : int
        Edges that would have, but are held at the floor because they are an only connection.
    """

    cycle: int
    edges: int
    removed: int
    floored: int


class HebbianEdge(NamedTuple):
    """An edge, the same from both ends (HEB-1, HEB-3).

    Attributes
    ----------
    weight : float
        In (0, 1].
    last_cycle : int
        The cycle in which it was strengthened, modulo 65536.
    bridge_score : int
        From 0 to 255; 255 for an only connection (HEB-10).
    flags : int
        Bit 0: created by a hint; bit 1: held at the floor in the last decay.
    """

    weight: float
    last_cycle: int
    bridge_score: int
    flags: int


class HebbianEdges(NamedTuple):
    """All edges as arrays of equal length, each edge once, ordered by `a`, then `b`.

    Attributes
    ----------
    a, b : ndarray of uint32
        The ends, ``a < b``.
    weight : ndarray of float32
    last_cycle : ndarray of uint16
    bridge_score, flags : ndarray of uint8
        As in `HebbianEdge`.
    """

    a: NDArray[np.uint32]
    b: NDArray[np.uint32]
    weight: NDArray[np.float32]
    last_cycle: NDArray[np.uint16]
    bridge_score: NDArray[np.uint8]
    flags: NDArray[np.uint8]


class Signals(NamedTuple):
    """What the header of a memory says that concerns its edges (EDG-1, GEN-9).

    Attributes
    ----------
    importance : float
        In [0.05, 10].
    storage_strength : float
        In [0.01, 5].
    arousal : int
        In [0, 255].
    valence : int
        In [-128, 127].
    open : bool
        The memory is unresolved or pinned.
    """

    importance: float
    storage_strength: float = 1.0
    arousal: int = 0
    valence: int = 0
    open: bool = False


def edge_importance(
    weight: float,
    age: int,
    bridge_score: int,
    shared: int,
    a: Signals | None = None,
    b: Signals | None = None,
) -> float:
    """How much an edge is worth keeping, as `HebbianGraph` judges it (EDG-1).

    Parameters
    ----------
    weight : float
        In [0, 1].
    age : int
        Cycles since the edge was strengthened, modulo 65536, in [0, 65535].
    bridge_score : int
        In [0, 255].
    shared : int
        Neighbours that both ends have.
    a, b : Signals, optional
        Of both ends. If one is missing, the four structural signals count alone, rescaled to 1.

    Returns
    -------
    float
        In [0, 1].

    Examples
    --------
    >>> edge_importance(1.0, age=0, bridge_score=255, shared=0)
    1.0
    """
    checked = [_signals(name, value) for name, value in (("a", a), ("b", b))]
    return _core.edge_importance(
        real("weight", weight, 0, 1),
        whole("age", age, 0, 65535),
        whole("bridge_score", bridge_score, 0, 255),
        whole("shared", shared, 0, MAX_SLOT),
        checked[0],
        checked[1],
    )


def _signals(name: str, value: Signals | None) -> tuple[float, float, int, int, bool] | None:
    if value is None:
        return None
    if not isinstance(value, Signals):
        raise TypeError(f"{name} must be Signals, not {kind(value)}")
    return (
        real(f"{name}.importance", value.importance, 0.05, 10),
        real(f"{name}.storage_strength", value.storage_strength, 0.01, 5),
        whole(f"{name}.arousal", value.arousal, 0, 255),
        whole(f"{name}.valence", value.valence, -128, 127),
        bool(value.open),
    )


def _deltas(value: ArrayLike) -> NDArray[np.float32]:
    array = np.asarray(value)
    return reals("delta", array.reshape(1) if array.ndim == 0 else array, LEAST_DELTA, 1)


class HebbianGraph(Exportable):
    """An undirected graph over memories: what is learned together is joined (HEB-1 to HEB-12).

    Any thread may call any method. Reads take no lock and see each change whole or not at all;
    writers take turns. Every method gives up the GIL.

    Parameters
    ----------
    max_degree : int
        The most edges of a memory, in [1, 256]. An edge beyond it takes the place of the one of
        lowest `edge_importance`, or is refused if it is worth less (HEB-7).

    Examples
    --------
    >>> graph = HebbianGraph()
    >>> graph.resize(3)
    >>> graph.strengthen(0, 1), graph.strengthen(1, 2, delta=0.5)
    (True, True)
    >>> slots, strengths = graph.spread(0)
    >>> slots.tolist(), strengths.round(2).tolist()
    ([1, 2], [0.30000001192092896, 0.15000000596046448])
    """

    def __init__(self, max_degree: int = 24) -> None:
        self._core = _core.HebbianGraph(whole("max_degree", max_degree, 1, MAX_DEGREE))

    @property
    def max_degree(self) -> int:
        return self._core.max_degree

    @property
    def edge_count(self) -> int:
        """Edges; each counts once, whatever end it is seen from."""
        return self._core.edge_count

    @property
    def cycle(self) -> int:
        """How often `decay` has been called."""
        return self._core.cycle

    def __len__(self) -> int:
        """How many slots there are."""
        return len(self._core)

    def __repr__(self) -> str:
        return f"HebbianGraph({len(self)} slots, {self.edge_count} edges)"

    def resize(self, n: int) -> None:
        """Make the slots 0 to ``n - 1`` known. Slots are never taken back: `n` does not descend.

        Raises
        ------
        ValueError
            There are more than `n` already, or `n` is over 2^32 - 1.
        """
        self._core.resize(whole("n", n, 0, 2**32 - 1))

    def strengthen(self, a: int, b: int, delta: float = 0.3, hinted: bool = False) -> bool:
        """Learn `a` and `b` together: ``w += delta * (1 - w)``, from 0 for a new edge (HEB-4).

        Parameters
        ----------
        a, b : int
            Two different slots.
        delta : float
            In [1e-6, 1].
        hinted : bool
            A new edge gets the flag of an explicit hint.

        Returns
        -------
        bool
            Whether the edge is there now. False: an end is full of edges worth more (HEB-7).

        Raises
        ------
        ValueError
            `a` is `b` (HEB-3), or `delta` is out of range.
        IndexError
            A slot is not known.
        """
        return self._core.strengthen(
            whole("a", a, 0, MAX_SLOT),
            whole("b", b, 0, MAX_SLOT),
            real("delta", delta, LEAST_DELTA, 1),
            bool(hinted),
        )

    def strengthen_many(
        self, a: ArrayLike, b: ArrayLike, delta: ArrayLike = 0.3, hinted: bool = False
    ) -> NDArray[np.bool_]:
        """`strengthen` for each pair in turn, as one change: all of it is seen, or nothing.

        Parameters
        ----------
        a, b : array_like of int, shape (n,)
        delta : float or array_like of float, shape (n,)
        hinted : bool

        Returns
        -------
        ndarray of bool, shape (n,)
            For each pair whether its edge was there after its turn.

        Raises
        ------
        ValueError, IndexError
            As `strengthen`; nothing has changed.
        """
        # Copies: the caller may change the arrays while the core reads them without the GIL.
        return self._core.strengthen_many(
            slot_array("a", a).copy(),
            slot_array("b", b).copy(),
            _deltas(delta).copy(),
            bool(hinted),
        )

    def neighbors(self, slot: int) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """The slots that `slot` has an edge to, ascending, and the weights of these edges."""
        return self._core.neighbors(slot)

    def edge(self, a: int, b: int) -> HebbianEdge | None:
        """The edge between two slots, if there is one."""
        found = self._core.edge(a, b)
        return None if found is None else HebbianEdge(*found)

    def edges(self) -> HebbianEdges:
        """All edges as arrays, of one state."""
        return HebbianEdges(*self._core.edges())

    def spread(
        self,
        seeds: ArrayLike,
        depth: int = 2,
        min_strength: float = 0.01,
        limit: int | None = None,
    ) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """What `seeds` bring to mind (HEB-11).

        Each seed is spread on its own: a slot that it reaches over a path of at most `depth` edges
        has the product of their weights as its strength, the greatest if there are several paths.
        The seed itself is never among them. The result is the greatest strength of each slot over
        all seeds; a seed is in it if *another* seed reaches it.

        Parameters
        ----------
        seeds : int or array_like of int
        depth : int
            In [1, 16].
        min_strength : float
            In [1e-6, 1]. A path whose product is below it is not followed, nor its end returned.
        limit : int, optional
            Return the strongest `limit` slots, at least 1. None: all.

        Returns
        -------
        slots : ndarray of uint32
            By strength descending, then ascending. Only what is returned is sorted.
        strengths : ndarray of float32
            In [min_strength, 1].

        Raises
        ------
        IndexError
            A seed is not known.
        """
        return self._core.spread(seeds, depth, min_strength, limit)

    def spread_each(
        self,
        seeds: ArrayLike,
        depth: int = 2,
        min_strength: float = 0.01,
        limit: int = 50,
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.float32]]:
        """`spread` from each seed by itself.

        Returns
        -------
        ends : ndarray of uint64, shape (len(seeds),)
            Where the slots of each seed end.
        slots : ndarray of uint32, shape (n,)
        strengths : ndarray of float32, shape (n,)
            Of each seed by strength descending, then ascending by slot; at most `limit`.
        """
        return self._core.spread_each(seeds, depth, min_strength, limit)

    def decay(self, factor: float = 0.9, by_arousal: bool = False) -> DecayReport:
        """Begin a new cycle: every weight fades, and what falls below 0.1 is removed (HEB-8).

        An only connection (a bridge score of at least 224) is held at 0.1 instead, for at most 365
        cycles without strengthening.

        Parameters
        ----------
        factor : float
            In [1e-6, 1].
        by_arousal : bool
            Edges of important, arousing or emotional memories fade less (HEB-9), where
            `set_signals` has told about them.
        """
        return DecayReport(
            *self._core.decay(real("factor", factor, LEAST_DELTA, 1), bool(by_arousal))
        )

    def remove(self, slots: ArrayLike) -> int:
        """Remove all edges of a slot, or of several; returns how many there were (HEB-12)."""
        return self._core.remove(slot_array("slots", slots))

    def recompute_bridges(self) -> int:
        """Score every edge by how much the graph would fall apart without it (HEB-10, AM-22).

        An only connection between two parts has 255. Any other edge has 255 times an estimate of
        its share of the spanning trees, at most 223. One pass over the edges, which neither waits
        for writers nor makes them wait; the scores are then given to the edges that are still
        there. Worth a call after each `decay`, in a background thread.

        Returns
        -------
        int
            How many edges are an only connection.
        """
        return self._core.recompute_bridges()

    def set_signals(
        self,
        slots: ArrayLike,
        importance: ArrayLike,
        storage_strength: ArrayLike = 1.0,
        arousal: ArrayLike = 0,
        valence: ArrayLike = 0,
        open: ArrayLike = False,
    ) -> None:
        """Tell what the headers of memories say, for `edge_importance` and `decay`.

        They belong to the memories and are not part of what `save` writes. An edge is judged by
        them if those of both its ends are known. Parameters are as in `Signals`: one number, or one
        for each slot.
        """
        at = slot_array("slots", slots)

        def spread_out(value: ArrayLike) -> NDArray[np.generic]:
            array = np.asarray(value)
            return np.broadcast_to(array, at.shape) if array.ndim == 0 else array

        def bounded(name: str, value: ArrayLike, low: int, high: int) -> NDArray[np.int64]:
            array = integers(name, spread_out(value), np.int64)
            if array.size and not (low <= int(array.min()) and int(array.max()) <= high):
                raise ValueError(
                    f"{name} must be in [{low}, {high}], but holds {array.min()} to {array.max()}"
                )
            return array

        flags = np.ascontiguousarray(spread_out(open))
        if flags.dtype != np.bool_:
            raise TypeError(f"open must hold bools, not {flags.dtype}")
        self._core.set_signals(
            at,
            reals("importance", spread_out(importance), 0.05, 10),
            reals("storage_strength", spread_out(storage_strength), 0.01, 5),
            bounded("arousal", arousal, 0, 255).astype(np.uint8),
            bounded("valence", valence, -128, 127).astype(np.int8),
            flags,
        )

    def compact(self) -> None:
        """Bring all rows into their compact form: 4 bytes a slot and 24 an edge (HEB-2).

        Changes since the last time lie beside it; `decay` and `save` do the same by themselves, and
        so does a change when there is half as much beside it as in it.
        """
        self._core.compact()

    def memory_usage(self) -> int:
        """Bytes in use (BUD-1)."""
        return self._core.memory_usage()

    def verify(self) -> str | None:
        """Check that rows, degrees, weights and both directions of every edge agree (F-057).

        Returns
        -------
        str or None
            What is wrong, by the same checks that `load` makes; None if nothing is.
        """
        return self._core.fault()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to a file (HCSR 3), which then is there entirely or not at all.

        One state is written; neither readers nor writers wait.

        Raises
        ------
        StorageError
            The file cannot be written (an OSError with its errno); the old one is as it was.
        """
        self._core.save(os.fsencode(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "HebbianGraph":
        """Read a graph that `save` wrote, or one of the legacy format (HGPH 2; PER-8).

        The whole file is checked before anything of it is used. A legacy file's counts become
        weights, 1 - 0.7^count; an edge that only one of its ends has was refused by the other, and
        is left out.

        Raises
        ------
        CorruptionError
            The file is damaged, or not one of `save`.
        VersionError
            The file is of a newer version.
        StorageError
            The file cannot be read (an OSError with its errno).
        """
        graph = cls.__new__(cls)
        graph._core = _core.HebbianGraph.load(os.fsencode(path))
        return graph
