"""What recalls and their outcomes taught: the bandit, whom to credit, and which tags follow which.

Fed by the events of the journal alone and in their order, so that replicas agree (AM-16). Events
hold numbers: a tag or a session is its H64 in hexadecimal, a context its key (PAD-2).
"""

from __future__ import annotations

import functools
import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from spector._core import hash64
from spector.graph import TagCoActivation
from spector.profiles import PROFILES

from .bandit import Logged, ProfileAdaptor
from .model import Event, EventType, MemoryRow
from .values import show

#: How many memories keep whom to credit (PAD-6).
_CREDITED: Final = 65_536
#: Sessions whose last recall is remembered.
_SESSIONS: Final = 1024
#: Context tags of a session that count (HAB-2, PRO-15).
_CONTEXT_TAGS: Final = 20
_TOP_RESULTS: Final = 5  # whose tags a recall has (STDP-2)
_TAGS_OF_RESULT: Final = 8
_LATERAL_BATCH: Final = 50  # returned lateral results between two adjustments (SCO-16)
#: L2 from which a result is lateral (SCO-15).
LATERAL_DISTANCE: Final = 1.2


@functools.lru_cache(maxsize=8192)
def tag_hash(tag: str) -> str:
    """A folded tag as events have it."""
    return f"{hash64(tag):016x}"


class Credit(NamedTuple):
    """How a memory came to be returned: in which context, by which profile."""

    context: int
    tags: tuple[int, ...]  # H64 of each tag of the context
    profile: str
    propensity: float
    lateral: bool = False

    def token(self, slots: Iterable[int], space: str) -> str:
        """The same as a text that `from_token` reads, for one recall of a space that returned
        these."""
        tags = ",".join(f"{tag:x}" for tag in self.tags)
        returned = ",".join(f"{slot:x}" for slot in slots)
        chosen = f"{self.context:016x}.{self.profile}.{self.propensity:.6f}"
        return f"{chosen}.{tags}.{returned}.{space}"

    @classmethod
    def from_token(cls, token: str, space: str) -> tuple[Credit, frozenset[int]]:
        """What a recall said in its token, and the slots that it returned."""
        if not token:
            raise ValueError(
                "recall is the token of a recall that does not count: of recall_mode 'observe' or"
                " with as_of"
            )
        try:
            context, profile, rest = token.split(".", 2)
            propensity, tags, returned, made_by = rest.rsplit(".", 3)
            singles = tuple(int(tag, 16) for tag in tags.split(",") if tag)
            slots = frozenset(int(slot, 16) for slot in returned.split(",") if slot)
            share = float(propensity)
            if profile not in PROFILES or not 0 < share <= 1:
                raise ValueError
            credit = cls(int(context, 16), singles, profile, share)
        except ValueError:
            raise ValueError(f"recall must be the token of a Results, got {show(token)}") from None
        if made_by != space:
            raise ValueError(f"recall is the token of another space, got {show(token)}")
        return credit, slots


class RecallRecord(NamedTuple):
    """One recall that counts, as it waits for the journal (AM-15)."""

    at: int
    session: str  # H64, in hexadecimal
    credit: Credit
    slots: tuple[int, ...]
    lateral: tuple[int, ...]
    tags: tuple[str, ...]  # of the first results, hashed
    reminded: tuple[int, ...] = ()  # delivered with it (IMP-4)

    def payload(self) -> str:
        """As the event has it; `parse` reads it."""
        context = f"{self.credit.context:016x}"
        singles = [f"{tag:016x}" for tag in self.credit.tags]
        credit = [context, singles, self.credit.profile, round(self.credit.propensity, 6)]
        return _json([self.session, *credit, self.slots, self.lateral, self.tags])


def recalled_slots(event: Event) -> list[int]:
    """The memories that the recall of an event returned."""
    _, _, _, _, _, slots, lateral, _ = json.loads(event.payload or "")
    return [*slots, *lateral]


@functools.lru_cache(maxsize=8192)
def _hashed(tags: str) -> tuple[str, ...]:
    return tuple(tag_hash(tag) for tag in json.loads(tags)[:_TAGS_OF_RESULT])


def first_tags(results: Sequence[MemoryRow]) -> tuple[str, ...]:
    """The tags of a recall: of its results in their order (STDP-2)."""
    found: dict[str, None] = {}
    for row in results[:_TOP_RESULTS]:
        found.update(dict.fromkeys(_hashed(row[11])))
    return tuple(found)


def outcome_payload(valence: int | None, credit: Credit | None, pairs: Iterable[int] = ()) -> str:
    """What a REINFORCE event says: the valence that was reported, whom that credits, and with
    which other memories an edge is strengthened (HEB-5)."""
    who: list[Any] = []
    if credit is not None:
        context, singles = f"{credit.context:016x}", [f"{tag:016x}" for tag in credit.tags]
        who = [context, singles, credit.profile, round(credit.propensity, 6), int(credit.lateral)]
    return _json([valence, who, list(pairs)])


def partners(event: Event) -> list[int]:
    """With which memories a reinforced one is associated (HEB-5)."""
    return list(json.loads(event.payload or "[0,[],[]]")[2])


def logged(event: Event) -> Logged | None:
    """The choice of a profile that a REINFORCE event tells of, and what came of it."""
    valence, who, _ = json.loads(event.payload or "")
    if not who or not valence:
        return None
    return Logged(int(who[0], 16), who[2], who[3], valence > 0)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


class _Session:
    __slots__ = ("at", "recent", "tags")

    def __init__(self, at: int, tags: Iterable[str], recent: Iterable[str]) -> None:
        self.at = at
        self.tags = tuple(tags)
        self.recent = deque(recent, _CONTEXT_TAGS)


class Lateral:
    """Whether lateral results pay, and how far they must be (SCO-16)."""

    def __init__(self) -> None:
        self.returned = self.reinforced = self.suppressed = 0
        self.enabled = True
        self.distance = LATERAL_DISTANCE
        self._judged = 0

    def note(self, returned: int, reinforced: int, suppressed: int) -> None:
        """Count, and adjust after each 50 returned ones."""
        self.returned += returned
        self.reinforced += reinforced
        self.suppressed += suppressed
        while self.returned - self._judged >= _LATERAL_BATCH:
            self._judged += _LATERAL_BATCH
            used = self.reinforced / self.returned
            if used < 0.05:
                self.enabled = False
            elif used < 0.10:
                self.distance *= 1.1

    def stats(self) -> dict[str, Any]:
        """Counts, LUR, LSR and LHI, and what followed from them."""
        reacted = self.reinforced + self.suppressed
        return {
            "returned": self.returned,
            "reinforced": self.reinforced,
            "suppressed": self.suppressed,
            "lur": self.reinforced / self.returned if self.returned else 0.0,
            "lsr": self.suppressed / self.returned if self.returned else 0.0,
            "lhi": self.suppressed / reacted if reacted else 0.0,
            "enabled": self.enabled,
            "distance": self.distance,
        }

    def as_list(self) -> list[Any]:
        """All of it as plain values."""
        return [
            self.returned,
            self.reinforced,
            self.suppressed,
            self.enabled,
            self.distance,
            self._judged,
        ]

    def take(self, values: Sequence[Any]) -> None:
        """The reverse of `as_list`."""
        (
            self.returned,
            self.reinforced,
            self.suppressed,
            self.enabled,
            self.distance,
            self._judged,
        ) = values


class Learning:
    """See the top of this file. Any thread may read; one at a time calls `feed`.

    The bandit, `sequence` and what `as_dict` gives are all there is to save.
    """

    def __init__(self, bandit: ProfileAdaptor) -> None:
        self.bandit = bandit
        self.sequence = TagCoActivation()  # of hashed tags: STDP-1
        self.lateral = Lateral()
        self._credit: dict[int, Credit] = {}  # the newest last
        self._sessions: dict[str, _Session] = {}

    def feed(self, event: Event) -> None:
        """Learn from one event."""
        if event.type == EventType.RECALL:
            self._recalled(event)
        elif event.type == EventType.REINFORCE:
            self._reinforced(event)
        elif event.type == EventType.STATE and event.payload == "suppress":
            credit = self._credit.get(event.slot)
            if credit is not None and credit.lateral:
                self.lateral.note(0, 0, 1)
        elif event.type == EventType.FORGET:
            self._credit.pop(event.slot, None)

    def _recalled(self, event: Event) -> None:
        session, context, singles, profile, propensity, slots, lateral, tags = json.loads(
            event.payload or ""
        )
        singles = tuple(int(tag, 16) for tag in singles)
        credit = Credit(int(context, 16), singles, profile, propensity)
        for slot in slots:
            self._credit.pop(slot, None)
            self._credit[slot] = credit
        for slot in lateral:
            self._credit.pop(slot, None)
            self._credit[slot] = credit._replace(lateral=True)
        while len(self._credit) > _CREDITED:
            del self._credit[next(iter(self._credit))]
        if lateral:
            self.lateral.note(len(lateral), 0, 0)
        before = self._sessions.pop(session, None)
        recent = [] if before is None else before.recent
        if before is not None and before.tags and tags:
            self.sequence.observe_sequence(before.tags, tags, float(event.at - before.at))
        self._sessions[session] = _Session(event.at, tags, recent)
        self._sessions[session].recent.extend(tags)
        if len(self._sessions) > _SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def _reinforced(self, event: Event) -> None:
        valence, who, _ = json.loads(event.payload or "")
        if not who or not valence:
            return
        context, singles, profile, _, lateral = who
        tags = [int(tag, 16) for tag in singles]
        self.bandit.record_key(int(context, 16), tags, profile, valence > 0, event.at)
        if lateral and valence > 0:
            self.lateral.note(0, 1, 0)

    def credit(self, slot: int) -> Credit | None:
        """How the memory was returned last (PAD-6)."""
        return self._credit.get(slot)

    def recent_tags(self, session: str) -> tuple[str, ...]:
        """The newest context tags of a session, hashed (HAB-2)."""
        known = self._sessions.get(session)
        return () if known is None else tuple(known.recent)

    def following(self, recent: Sequence[str]) -> dict[str, float]:
        """The hashed tags that follow these, each with its strongest weight (HAB-2, PRO-15)."""
        found: dict[str, float] = {}
        every = self.sequence.capacity
        for tag in recent:
            for target, weight in self.sequence.predict(tag, every):
                found[target] = max(weight, found.get(target, 0.0))
        return found

    def as_dict(self) -> dict[str, Any]:
        """Whom to credit, sessions and lateral counts as plain values; `take` reads them."""
        return {
            "credit": [
                [slot, f"{c.context:016x}", list(c.tags), c.profile, c.propensity, c.lateral]
                for slot, c in self._credit.items()
            ],
            "sessions": [
                [name, one.at, list(one.tags), list(one.recent)]
                for name, one in self._sessions.items()
            ],
            "lateral": self.lateral.as_list(),
        }

    def take(self, stored: Mapping[str, Any]) -> None:
        """Have what `as_dict` gave."""
        self._credit = {
            slot: Credit(int(context, 16), tuple(tags), profile, propensity, lateral)
            for slot, context, tags, profile, propensity, lateral in stored["credit"]
        }
        self._sessions = {
            name: _Session(at, tags, recent) for name, at, tags, recent in stored["sessions"]
        }
        self.lateral.take(stored["lateral"])
