"""Which memories a recall or a listing may return."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filter:
    """Checked conditions on memories; all of them must hold. Times are inclusive milliseconds."""

    tags: tuple[str, ...] = ()
    tag_match: str = "all"
    types: tuple[str, ...] = ()
    author: str | None = None
    since: int | None = None
    until: int | None = None
    min_valence: int | None = None
    max_valence: int | None = None
    min_importance: float | None = None

    def conditions(self) -> tuple[list[str], list[object]]:
        """SQL conditions on `memories`, to be joined by AND, and their parameters.

        The first tag leads, the others are looked up for its memories only.
        """
        conditions: list[str] = []
        parameters: list[object] = list(self.tags)
        if self.tags and self.tag_match == "any":
            marks = ",".join("?" * len(self.tags))
            conditions.append(f"slot IN (SELECT slot FROM memory_tags WHERE tag IN ({marks}))")
        elif self.tags:
            conditions.append("slot IN (SELECT slot FROM memory_tags WHERE tag = ?)")
            conditions += [_also_tagged("memories")] * (len(self.tags) - 1)
        if self.types:
            # The plus keeps SQLite from leading with the type: there are only four.
            column = "+type" if self.tags else "type"
            conditions.append(f"{column} IN ({','.join('?' * len(self.types))})")
            parameters += self.types
        for condition, value in (
            ("author = ?", self.author),
            ("timestamp >= ?", self.since),
            ("timestamp <= ?", self.until),
            ("valence >= ?", self.min_valence),
            ("valence <= ?", self.max_valence),
            ("importance >= ?", self.min_importance),
        ):
            if value is not None:
                conditions.append(condition)
                parameters.append(value)
        return conditions, parameters

    def slots_query(self) -> tuple[str, list[object]]:
        """SQL for the slots that meet the conditions, and its parameters."""
        if self.tags and self == Filter(tags=self.tags, tag_match=self.tag_match):
            if self.tag_match == "any":
                marks = ",".join("?" * len(self.tags))
                query = f"SELECT DISTINCT slot FROM memory_tags WHERE tag IN ({marks})"
            else:
                others = [_also_tagged("lead")] * (len(self.tags) - 1)
                where = " AND ".join(["tag = ?", *others])
                query = f"SELECT slot FROM memory_tags AS lead WHERE {where}"
            return query, list(self.tags)
        conditions, parameters = self.conditions()
        return f"SELECT slot FROM memories WHERE {' AND '.join(conditions) or 'TRUE'}", parameters


def _also_tagged(table: str) -> str:
    return (
        "EXISTS (SELECT 1 FROM memory_tags AS other"
        f" WHERE other.tag = ? AND other.slot = {table}.slot)"
    )
