"""Which memories a recall or a listing may return."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filter:
    """Checked conditions on memories; all of them must hold. Times are inclusive milliseconds."""

    tags: tuple[str, ...] = ()
    tag_match: str = "all"
    type: str | None = None
    author: str | None = None
    since: int | None = None
    until: int | None = None

    def conditions(self) -> tuple[list[str], list[object]]:
        """SQL conditions on `memories`, to be joined by AND, and their parameters."""
        conditions: list[str] = []
        parameters: list[object] = []
        if self.tags and self.tag_match == "any":
            marks = ",".join("?" * len(self.tags))
            conditions.append(f"slot IN (SELECT slot FROM memory_tags WHERE tag IN ({marks}))")
            parameters.extend(self.tags)
        else:
            for tag in self.tags:
                conditions.append("slot IN (SELECT slot FROM memory_tags WHERE tag = ?)")
                parameters.append(tag)
        for condition, value in (
            ("type = ?", self.type),
            ("author = ?", self.author),
            ("timestamp >= ?", self.since),
            ("timestamp <= ?", self.until),
        ):
            if value is not None:
                conditions.append(condition)
                parameters.append(value)
        return conditions, parameters
