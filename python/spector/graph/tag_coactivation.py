"""Which tags occur together, and which follow which (specification, COA-1 to STDP-2)."""

import os
from collections.abc import Iterable

from spector import _core, arguments
from spector.graph.export import Exportable

__all__ = ["TagCoActivation"]

_MAX_CAPACITY = 2**24
_ALL = 2**32


class TagCoActivation(Exportable):
    """Counts of memories that share two tags, and weights of tags that follow others in recalls.

    Tags are folded (GEN-6): case, width and outer blanks never make two tags of one. Counts of
    memories per tag are exact. Pairs and directed edges are two tables of a fixed size: when one
    is full, its weakest tenth leaves, by count or weight, then by last use, then by name.

    Any thread may call any method: reads take no lock and see whole changes or none, writers take
    turns.

    Parameters
    ----------
    capacity : int
        Pairs, and edges, that are kept; [1, 2**24].

    Examples
    --------
    >>> tags = TagCoActivation()
    >>> tags.observe(["latency", "database"])
    >>> tags.observe(["Latency", "database", "p99"])
    >>> tags.co_activation("database", "latency")
    2
    >>> tags.associated("latency", 2)
    [('database', 2), ('p99', 1)]
    """

    def __init__(self, capacity: int = 10_000) -> None:
        self._core = _core.TagCoActivation(
            arguments.whole("capacity", capacity, 1, _MAX_CAPACITY),
        )

    def observe(self, tags: Iterable[str]) -> None:
        """Count a memory with these tags: each, and each pair of them, once (COA-1).

        Parameters
        ----------
        tags : iterable of str
            At most 1,000; a tag that occurs twice is one.

        Raises
        ------
        TypeError, ValueError
            Not str, empty, or too many; nothing has changed.
        """
        self._core.observe(arguments.tags("tags", tags))

    def observe_many(self, memories: Iterable[Iterable[str]]) -> None:
        """Count many memories in one transaction, in the order given."""
        self._core.observe_many([arguments.tags("memories", tags) for tags in memories])

    def observe_folded(self, memories: list[list[str]]) -> None:
        """`observe_many` of what `tags` gave: distinct tags in folded form, none empty."""
        self._core.observe_many(memories)

    def forget(self, tags: Iterable[str]) -> None:
        """Take a memory with these tags out of the counts.

        A pair that had left the table stays away. When it was counted anew since, its count is the
        number of memories since then.

        Raises
        ------
        ValueError
            No memory has one of the tags; nothing has changed.
        """
        self._core.forget(arguments.tags("tags", tags))

    def update(self, before: Iterable[str], after: Iterable[str]) -> None:
        """Let a memory's tags change: `forget` and `observe` in one transaction."""
        self._core.update(arguments.tags("before", before), arguments.tags("after", after))

    def n(self, tag: str) -> int:
        """Memories that have the tag."""
        return self._core.n(arguments.tag("tag", tag))

    def co_activation(self, a: str, b: str) -> int:
        """Memories that have both tags, in either order; 0 for a pair that left the table."""
        return self._core.co_activation(arguments.tag("a", a), arguments.tag("b", b))

    def degree(self, tag: str) -> int:
        """Distinct tags that share a memory with this one."""
        return self._core.degree(arguments.tag("tag", tag))

    def associated(self, tag: str, n: int = 10) -> list[tuple[str, int]]:
        """The tags that share the most memories with this one.

        Costs what the tag has of pairs, not what the table holds.

        Returns
        -------
        list of (str, int)
            At most n, by count from the highest, then by name (COA-2).
        """
        return self._core.associated(arguments.tag("tag", tag), arguments.whole("n", n, 1, _ALL))

    def observe_sequence(self, earlier: Iterable[str], later: Iterable[str], dt_ms: float) -> bool:
        """Learn from two recalls of a session, one after the other (STDP-2).

        For each tag a of the earlier and each other tag b of the later one, in the order given:
        ``weight(a, b)`` rises by 0.1 * exp(-dt / 30 s) and ``weight(b, a)``, if there is such an
        edge, falls by half of that; an edge that reaches 0 is gone.

        Parameters
        ----------
        earlier, later : iterable of str
            Tags of the recalls' first results; at most 40 each.
        dt_ms : float
            Milliseconds from one to the other.

        Returns
        -------
        bool
            False if `dt_ms` is not above 0 or is above 120,000: nothing was learned.
        """
        return self._core.observe_sequence(
            arguments.tags("earlier", earlier),
            arguments.tags("later", later),
            arguments.number("dt_ms", dt_ms),
        )

    def weight(self, a: str, b: str) -> float:
        """How surely b follows a, from 0 to 1; `weight(b, a)` is another matter (STDP-1)."""
        return self._core.weight(arguments.tag("a", a), arguments.tag("b", b))

    def predict(self, tag: str, n: int = 10) -> list[tuple[str, float]]:
        """The tags that follow this one, at most n, by weight from the highest, then by name."""
        return self._core.predict(arguments.tag("tag", tag), arguments.whole("n", n, 1, _ALL))

    def tags(self) -> list[tuple[str, int]]:
        """All tags of memories with their numbers of memories, by name."""
        return self._core.tags()

    def pairs(self) -> list[tuple[str, str, int]]:
        """All pairs with their counts; of each pair the lower name first; by name."""
        return self._core.pairs()

    def edges(self) -> list[tuple[str, str, float]]:
        """All directed edges with their weights, by name."""
        return self._core.edges()

    @property
    def collisions(self) -> list[tuple[str, str]]:
        """Tags that have the same hash (H64) as an earlier tag, which comes first.

        They are kept apart all the same; whatever knows tags by their hash alone would mix them.
        """
        return self._core.collisions()

    @property
    def capacity(self) -> int:
        """Pairs, and edges, that are kept."""
        return self._core.stats()["capacity"]

    def stats(self) -> dict[str, int]:
        """Numbers of ``pairs`` and ``edges``, the ``capacity`` of each, ``observations`` so far."""
        return self._core.stats()

    def memory_usage(self) -> dict[str, int]:
        """Bytes in use: ``tables`` (BUD-2) and ``names`` of all tags there were."""
        return self._core.memory_usage()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to a file (``coactivation.dat``), which then is there entirely or not.

        Readers and writers go on meanwhile; the file holds the state at the time of the call. Tags
        that say nothing any more are left out. Equal states give equal files but for their dates.

        Raises
        ------
        StorageError
            The file cannot be written (an OSError with its errno); an old one is as it was.
        """
        self._core.save(os.fsencode(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "TagCoActivation":
        """What `save` wrote, checked before anything of it is used.

        Raises
        ------
        CorruptionError
            The file is damaged, or is not one of `save`.
        VersionError
            The file is of a newer release.
        StorageError
            The file cannot be read (an OSError with its errno).
        """
        loaded = cls.__new__(cls)
        loaded._core = _core.TagCoActivation.load(os.fsencode(path))
        return loaded

    def __len__(self) -> int:
        return self._core.stats()["pairs"]

    def __repr__(self) -> str:
        stats = self.stats()
        return f"TagCoActivation({stats['pairs']} pairs, {stats['edges']} edges)"
