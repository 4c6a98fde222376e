"""What a recall gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from spector.profiles import DEFAULT
from spector.store.model import Memory, MemoryRow, tags_of, to_memory

if TYPE_CHECKING:
    from spector.lexical import TermScore
    from spector.store.learning import Credit


@dataclass(frozen=True, slots=True)
class Edge:
    """One way on which the graph reached a memory (EXP-9).

    Attributes
    ----------
    layer : str
        "temporal", "hebbian", "author", "about", "mention", "entity", "hyperedge" or
        "cross_capture".
    seed : str or None
        The memory from which it started; None if the query itself led there.
    via : str
        What joins the two: a direction, a weight, a name.
    activation : float
        In [0, 1].
    gain : float
        What it adds to the score, if it is the strongest of its layer; of each layer one does.
    """

    layer: str
    seed: str | None
    via: str
    activation: float
    gain: float


@dataclass(slots=True, unsafe_hash=True)  # frozen it would take four times as long to make
class Hit:
    """One memory that was found.

    Attributes
    ----------
    score : float
        How well it matches; higher is better. Compare within one recall only.
    memory : Memory
        The memory. Its fields can be read from the hit directly: `hit.text`.
    trace : tuple of Edge
        How the graph reached it, the strongest first; empty without `trace=True`.
    mode : str
        "standard"; "graph" if no list found it; "hyperfocus"; "lateral" (SCO-15); "reminder"
        (IMP-4). The last two stand outside `k` and have scores of their own.
    """

    score: float
    _row: MemoryRow = field(repr=False)
    trace: tuple[Edge, ...] = ()
    mode: str = "standard"
    _memory: Memory | None = field(default=None, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"Hit({self.score!r}, {self.memory!r}, {self.trace!r}, {self.mode!r})"

    @property
    def memory(self) -> Memory:
        """See above. It is made when it is asked for first."""
        if self._memory is None:
            self._memory = to_memory(self._row)
        return self._memory

    def why(self) -> str:
        """One line about the score: what the lists gave, and what each layer of the graph added.

        Of a recall with `trace=True`.
        """
        strongest: dict[str, Edge] = {}
        for edge in self.trace:
            strongest.setdefault(edge.layer, edge)
        parts = [
            f"{edge.gain:.3f} {edge.layer} ({edge.via}{f' {edge.seed}' if edge.seed else ''})"
            for edge in strongest.values()
        ]
        base = self.score - sum(edge.gain for edge in strongest.values())
        if abs(base) > 1e-6 * self.score:
            parts.insert(0, f"{base:.3f} lists")
        return f"{self.score:.3f} = " + " + ".join(parts)

    @property
    def id(self) -> str:
        """The memory's id."""
        return self._row[1]

    @property
    def text(self) -> str:
        """The memory's text."""
        return self._row[2]

    @property
    def tags(self) -> tuple[str, ...]:
        """The memory's tags."""
        return tags_of(self._row)

    @property
    def type(self) -> str:
        """The memory's type."""
        return self._row[4]

    @property
    def source(self) -> str:
        """Where the memory came from."""
        return self._row[5]

    @property
    def session(self) -> str | None:
        """The memory's session."""
        return self._row[6]

    @property
    def author(self) -> str | None:
        """The memory's author."""
        return self._row[7]

    @property
    def context(self) -> str | None:
        """The memory's context."""
        return self._row[3]

    @property
    def timestamp(self) -> int:
        """When it happened, in milliseconds since 1970 UTC."""
        return self._row[8]

    @property
    def metadata(self) -> dict[str, Any]:
        """The memory's metadata."""
        return self.memory.metadata


class Results(Sequence[Hit]):
    """The hits of one recall, best first.

    Attributes
    ----------
    query : str
        What was asked.
    seconds : float
        How long it took.
    degraded : tuple of str
        What could not take part, and why; empty when all did (TSM-6).
    profile : str
        The profile that was used (PAD-8).
    explored : bool
        Whether "auto" took it by chance and not by what is known.
    token : str
        For `SpectorMemory.reinforce`, to credit this recall and no later one; empty if it did not
        count.
    """

    __slots__ = (
        "_credit",
        "_hits",
        "_slots",
        "_space",
        "degraded",
        "explored",
        "profile",
        "query",
        "seconds",
    )

    def __init__(
        self,
        hits: Sequence[Hit],
        query: str,
        seconds: float,
        degraded: Sequence[str] = (),
        profile: str = DEFAULT,
        explored: bool = False,
        credit: Credit | None = None,
        slots: tuple[int, ...] = (),
        space: str = "",
    ) -> None:
        self._hits = tuple(hits)
        self.query = query
        self.seconds = seconds
        self.degraded = tuple(degraded)
        self.profile = profile
        self.explored = explored
        self._credit = credit
        self._slots = slots
        self._space = space

    @property
    def token(self) -> str:
        """See above."""
        return "" if self._credit is None else self._credit.token(self._slots, self._space)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> Hit | Results:
        if isinstance(index, slice):
            return Results(
                self._hits[index],
                self.query,
                self.seconds,
                self.degraded,
                self.profile,
                self.explored,
                self._credit,
                self._slots,
            )
        return self._hits[index]

    def __len__(self) -> int:
        return len(self._hits)

    def __repr__(self) -> str:
        hits = "1 hit" if len(self) == 1 else f"{len(self)} hits"
        lines = [f"<{hits} for {self.query[:60]!r} in {1000 * self.seconds:.1f} ms>"]
        lines += [
            f"  {hit.score:8.3f}  {hit.id}  {' '.join(hit.text[:200].split())[:70]}"
            for hit in self._hits[:10]
        ]
        if len(self) > 10:
            lines.append(f"  ... {len(self) - 10} more")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a memory matches a query.

    Attributes
    ----------
    id : str
        The memory.
    score : float
        Its score for the query; 0 if it does not match.
    terms : tuple of TermScore
        What each term of the query that it has contributes; the contributions sum to the score.
    """

    id: str
    score: float
    terms: tuple[TermScore, ...]
