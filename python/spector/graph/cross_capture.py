"""From tags to memories, and to those that related tags lead to (specification, D.8)."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spector import _core, arguments
from spector.graph.export import Exportable
from spector.graph.tag_coactivation import TagCoActivation

__all__ = ["CrossCapture"]

_ALL = 2**32
_FLOAT32_MAX = float(np.finfo(np.float32).max)


class CrossCapture(Exportable):
    """The memories of each tag, the tags of each memory, and steps from one to the other.

    Tags are folded (GEN-6). There is no file: the index is made from the tags of the memories
    (`add_many`, or `restore` of what `table` gave), and is then equal to one that grew with them
    (XCP-1).

    Any thread may call any method: reads take no lock and see whole changes or none, writers take
    turns.

    Examples
    --------
    >>> index, counts = CrossCapture(), TagCoActivation()
    >>> for slot, tags in enumerate([["latency", "p99"], ["p99", "alerts"], ["lunch"]]):
    ...     index.add(slot, tags)
    ...     counts.observe(tags)
    >>> index.match(["p99"])
    array([0, 1], dtype=uint32)
    >>> index.expand(["alerts"], 1.0, counts)[2]
    [('alerts', 'p99'), ('alerts', 'p99')]
    """

    def __init__(self) -> None:
        self._core = _core.CrossCapture()

    def add(self, slot: int, tags: Iterable[str]) -> None:
        """Give tags to a memory that has none; with no tags nothing happens.

        Parameters
        ----------
        slot : int
            In [0, 2**32 - 2].
        tags : iterable of str
            At most 1,000; a tag that occurs twice is one.

        Raises
        ------
        TypeError, ValueError
            A bad argument, or the slot has tags already (`update` replaces them); nothing has
            changed.
        """
        self._core.add(_slot(slot), arguments.tags("tags", tags))

    def add_many(self, slots: ArrayLike, tags: Sequence[Iterable[str]]) -> None:
        """`add` for many memories in one transaction: all of them or, on an error, none.

        Parameters
        ----------
        slots : array_like of int, shape (n,)
        tags : sequence of n iterables of str
        """
        given = [arguments.tags("tags", own) for own in tags]
        self._core.add_many(arguments.slots("slots", slots), given)

    def add_folded(self, slots: NDArray[np.uint32], tags: list[list[str]]) -> None:
        """`add_many` of what `tags` gave: distinct tags in folded form, none empty."""
        self._core.add_many(slots, tags)

    def update(self, slot: int, tags: Iterable[str]) -> None:
        """Let a memory have these tags and no others."""
        self._core.update(_slot(slot), arguments.tags("tags", tags))

    def remove(self, slot: int) -> bool:
        """Take a memory out; False if it had no tags."""
        return self._core.remove(_slot(slot))

    def n(self, tag: str) -> int:
        """Memories that have the tag."""
        return self._core.n(arguments.tag("tag", tag))

    def among(self, words: list[str], most: int, around: str) -> list[str]:
        """The tags that are up to `most` of these words in a row, which are folded, without the
        ASCII characters `around` them; each once, in the order of the words."""
        return self._core.among(words, most, around)

    def slots(self, tag: str) -> NDArray[np.uint32]:
        """Memories that have the tag, newest first: from the highest slot."""
        return self._core.slots(arguments.tag("tag", tag))

    def tags(self, slot: int | None = None) -> list[str]:
        """The tags of a memory in the order given, none for an unknown one.

        Without a slot: all tags that some memory has, by name.
        """
        if slot is None:
            return [tag for tag, _ in self._core.all_tags()]
        return self._core.tags(_slot(slot))

    def table(
        self,
    ) -> tuple[list[str], NDArray[np.uint32], NDArray[np.uint64], NDArray[np.uint32]]:
        """All memories that have tags, and these, at one moment.

        Returns
        -------
        names : list of str
            As `tags()` gives them.
        slots : ndarray of uint32
            Ascending.
        ends : ndarray of uint64
            The tags of slots[i] end at ends[i] in the next one, where those of the next slot begin.
        tags : ndarray of uint32
            Places in `names`; those of a memory are in the order given.
        """
        return self._core.table()

    def restore(
        self, names: Sequence[str], slots: ArrayLike, ends: ArrayLike, tags: ArrayLike
    ) -> None:
        """Of a new index: have what the `table` of another one gave.

        Parameters
        ----------
        names : sequence of str
            In folded form.
        slots, ends, tags : array_like of int
            As `table` has them.

        Raises
        ------
        ValueError
            They do not belong together, or some memory has tags already; nothing has changed.
        """
        if isinstance(names, (str, bytes)) or not isinstance(names, Sequence):
            raise TypeError(f"names must be a sequence of str, not {arguments.kind(names)}")
        for name in names:
            if arguments.tag("each of names", name) != name:
                raise ValueError(f"each of names must be in folded form, got {name!r}")
        self._core.restore(
            names,
            arguments.slots("slots", slots),
            arguments.integers("ends", ends, np.uint64),
            arguments.integers("tags", tags, np.uint32),
        )

    def match(self, tags: Iterable[str], mode: str = "all") -> NDArray[np.uint32]:
        """The memories that have the tags, exactly (TAG-2).

        Costs what the rarest tag has ("all"), or what is found ("any"), however many memories
        there are.

        Parameters
        ----------
        tags : iterable of str
            At least one.
        mode : {"all", "any"}

        Returns
        -------
        ndarray of uint32
            Slots, ascending.
        """
        if mode not in ("all", "any"):
            raise ValueError(f"mode must be 'all' or 'any', not {arguments.kind(mode)}")
        given = arguments.tags("tags", tags)
        if not given:
            raise ValueError("tags must not be empty: no tags would match every memory")
        return self._core.match(given, mode == "all")

    def expand(
        self,
        query_tags: Iterable[str],
        best_score: float,
        coactivation: TagCoActivation,
        attenuation: float = 0.25,
        max_tag_neighbors: int = 5,
        max_memories_per_tag: int = 10,
        allow: ArrayLike | None = None,
        with_pairs: bool = True,
    ) -> tuple[NDArray[np.uint32], NDArray[np.float32], list[tuple[str, str]]]:
        """The memories that tags lead to which occur with the query's (XCP-4, XCP-5).

        From each query tag t to the tags u that most of its memories have too, query tags left
        out, and from each u to its newest memories. Affinity is the share of t's memories that
        have u (XCP-2). The score is best_score * attenuation * affinity / sqrt(degree of t), and
        a memory that is reached several times has its highest.

        Parameters
        ----------
        query_tags : iterable of str
        best_score : float
            Of the seeds; at least 0.
        coactivation : TagCoActivation
            Of the same memories.
        attenuation : float
            In [0, 1].
        max_tag_neighbors, max_memories_per_tag : int
            Tags u for each t, and memories for each u; at least 0.
        allow : array_like of int, optional
            The only slots that may be reached.
        with_pairs : bool
            False leaves `pairs` empty.

        Returns
        -------
        slots : ndarray of uint32, shape (n,)
            By score from the highest, then by slot.
        scores : ndarray of float32, shape (n,)
        pairs : list of n (str, str)
            The tags t and u that led there, of the first best way.
        """
        if not isinstance(coactivation, TagCoActivation):
            raise TypeError(
                f"coactivation must be a TagCoActivation, not {arguments.kind(coactivation)}"
            )
        return self._core.expand(
            arguments.tags("query_tags", query_tags),
            arguments.real("best_score", best_score, 0, _FLOAT32_MAX),
            coactivation._core,
            arguments.real("attenuation", attenuation, 0, 1),
            arguments.whole("max_tag_neighbors", max_tag_neighbors, 0, _ALL),
            arguments.whole("max_memories_per_tag", max_memories_per_tag, 0, _ALL),
            None if allow is None else arguments.slots("allow", allow),
            bool(with_pairs),
        )

    def expand_folded(
        self, tags: list[str], coactivation: TagCoActivation, with_pairs: bool
    ) -> tuple[NDArray[np.uint32], NDArray[np.float32], list[tuple[str, str]]]:
        """`expand` from distinct tags in folded form, for affinities as they are."""
        if not isinstance(coactivation, TagCoActivation):
            raise TypeError(
                f"coactivation must be TagCoActivation, not {arguments.kind(coactivation)}"
            )
        return self._core.expand(tags, 1.0, coactivation._core, 1.0, 5, 10, None, with_pairs)

    def stats(self) -> dict[str, int]:
        """Numbers of ``memories`` with tags and of ``entries``: tags of memories in all."""
        return self._core.stats()

    def memory_usage(self) -> dict[str, int]:
        """Bytes in use: ``slots`` of tags and ``tags`` of slots (BUD-3), ``names`` of tags."""
        return self._core.memory_usage()

    def __len__(self) -> int:
        return self._core.stats()["memories"]

    def __repr__(self) -> str:
        stats = self.stats()
        return f"CrossCapture({stats['memories']} memories, {stats['entries']} tags of them)"


def _slot(slot: int) -> int:
    return arguments.whole("slot", slot, 0, arguments.MAX_SLOT)
