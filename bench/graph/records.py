"""What the benchmark tells, and the table of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]


def result(
    part: str,
    name: str,
    value: float,
    unit: str,
    *,
    target: float | None = None,
    at_least: bool = False,
    java: float | None = None,
    checked: bool | None = None,
    **more: Any,
) -> Record:
    """One figure.

    Parameters
    ----------
    target : float or None
        What it should be at most, or at least if `at_least`; given at full size only.
    java : float or None
        What the Java system of the same name reached, in the same unit.
    checked : bool or None
        Whether the answers were those of a plain computation; None if they were not compared.
    """
    record: Record = {"kind": "result", "part": part, "name": name}
    record |= {"value": float(f"{value:.4g}"), "unit": unit}
    if target is not None:
        record["target"] = target
        record["met"] = value >= target if at_least else value <= target
    if java is not None:
        record["java"] = java
    if checked is not None:
        record["checked"] = checked
    return record | more


def table(records: Sequence[Record]) -> str:
    """The records for people."""
    lines: list[str] = []

    def row(*cells: object) -> None:
        name, *rest = (_cell(cell) for cell in cells)
        lines.append(f"{name:58}" + "".join(f"{cell:>12}" for cell in rest))

    results = [record for record in records if record["kind"] == "result"]
    if results:
        row("", "value", "unit", "target", "met", "java", "checked")
    for record in results:
        row(
            f"{record['part']}: {record['name']}",
            record["value"],
            record["unit"],
            *(record.get(column) for column in ("target", "met", "java", "checked")),
        )
    ratios = [record for record in records if record["kind"] == "ratio"]
    if ratios:
        lines.append("")
        row("beside peers", "ours", "theirs", "unit", "ratio", "equal", "peer")
    for record in ratios:
        row(
            f"{record['part']}: {record['name']}",
            record["value"],
            record["theirs"],
            record["unit"],
            record["ratio"],
            record["checked"],
            record["peer"],
        )
    for record in records:
        if record["kind"] == "missing":
            lines.append(f"{record['part']}: {record['peer']} left out: {record['why']}")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, int) or (isinstance(value, float) and abs(value) >= 1000):
        return f"{value:,.0f}"
    return str(value)
