"""What a caller can ask of a recall."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date
from typing import Any

from spector.store.filters import Filter
from spector.store.values import (
    MEMORY_TYPES,
    TAG_MATCHES,
    UNSET,
    check_choice,
    check_count,
    check_keys,
    check_label,
    check_tags,
    check_time,
)

# Each tag becomes a condition of one SQL query, and SQLite bounds their number.
_MAX_QUERY_TAGS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """Options of `SpectorMemory.recall`, for callers who keep them; its keywords win over these.

    Attributes
    ----------
    k : int
        How many hits at most; at least 1.
    tags : iterable of str
        Only memories with these tags.
    tag_match : {"all", "any"}
        Whether all of the tags must be there, or one is enough.
    type : str, optional
        Only memories of this type.
    author : str, optional
        Only memories of this author.
    since, until : int, datetime, date or str, optional
        Only memories whose timestamp is in this range, both ends included: milliseconds since
        1970 UTC, or a time or date in ISO 8601. Without a zone it is UTC; a date without a time
        is the whole day: its start as `since`, its end as `until`.

    Raises
    ------
    TypeError, ValueError
        A bad value, when the options are made.
    """

    k: int = 10
    tags: Iterable[str] = ()
    tag_match: str = "all"
    type: str | None = None
    author: str | None = None
    since: int | date | str | None = None
    until: int | date | str | None = None

    def __post_init__(self) -> None:
        # An iterable of tags may be one that can be read only once.
        object.__setattr__(self, "tags", check_tags("tags", self.tags)[0])
        object.__setattr__(self, "k", check_count("k", self.k))
        self.filter()

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> RecallOptions:
        """Options from plain values, such as a configuration file's; unknown keys are refused."""
        names = [field.name for field in fields(cls)]
        return cls(**check_keys("options", options, names))

    def filter(self) -> Filter:
        """The conditions in their normal form."""
        return make_filter(
            self.tags, self.tag_match, self.type, self.author, self.since, self.until
        )


def resolve(options: object, explicit: Mapping[str, Any]) -> RecallOptions:
    """The options with the keywords that were given put over them."""
    if options is None:
        base = RecallOptions()
    elif isinstance(options, RecallOptions):
        base = options
    elif isinstance(options, Mapping):
        base = RecallOptions.from_mapping(options)
    else:
        raise TypeError(
            f"options must be a RecallOptions or a mapping, got {type(options).__name__}"
        )
    given = {name: value for name, value in explicit.items() if value is not UNSET}
    return replace(base, **given) if given else base


def make_filter(
    tags: object, tag_match: object, type: object, author: object, since: object, until: object
) -> Filter:
    """Check the conditions that a recall and a listing share."""
    folded, _ = check_tags("tags", tags)
    if len(folded) > _MAX_QUERY_TAGS:
        raise ValueError(f"tags must be at most {_MAX_QUERY_TAGS} in a query, got {len(folded)}")
    return Filter(
        tags=folded,
        tag_match=check_choice("tag_match", tag_match, TAG_MATCHES),
        type=None if type is None else check_choice("type", type, MEMORY_TYPES),
        author=None if author is None else check_label("author", author),
        since=None if since is None else check_time("since", since),
        until=None if until is None else check_time("until", until, end_of_day=True),
    )
