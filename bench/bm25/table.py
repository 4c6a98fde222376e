"""The results for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(records: Sequence[Record]) -> str:
    """What the records say, for people."""
    lines: list[str] = []

    def row(*cells: object) -> None:
        name, *rest = (_cell(cell) for cell in cells)
        lines.append(f"{name:36}" + "".join(f"{cell:>13}" for cell in rest))

    by_kind: dict[str, list[Record]] = {}
    for record in records:
        by_kind.setdefault(record["kind"], []).append(record)
    for record in by_kind.get("corpus", []):
        row(record["corpus"], record["documents"], "documents", record["postings"], "postings")
        touched = record["postings_per_query"]
        row("a query", record["terms_per_query"], "terms", touched["mean"], "postings")
    for record in by_kind.get("missing", []):
        row(f"{record['engine']} left out", f"no {record['module']}")

    if by_kind.get("build"):
        lines.append("")
        first = by_kind["build"][0]["engine"]
        row("build", "docs/cpu s", f"{first} x", "peak MB", "kept MB", "B/posting", "from")
        ours = by_kind["build"][0]["docs_per_cpu_s"]
        for record in by_kind["build"]:
            size = record["bytes_per_posting"]
            row(
                record["engine"],
                record["docs_per_cpu_s"],
                f"{ours / record['docs_per_cpu_s']:.2f}",
                record["peak_mb"],
                record["kept_mb"],
                " ".join(f"{size[place]}{place[0]}" for place in size),
                " " + record["input"].partition(",")[0],
            )
    if by_kind.get("texts"):
        lines.append("")
        first = by_kind["texts"][0]["engine"]
        row("build from raw texts", "docs/cpu s", f"{first} x", "peak MB")
        ours = by_kind["texts"][0]["docs_per_cpu_s"]
        for record in by_kind["texts"]:
            own = record["docs_per_cpu_s"]
            row(record["engine"], own, f"{ours / own:.2f}", record["peak_mb"])
    for k in dict.fromkeys(record["k"] for record in by_kind.get("queries", [])):
        lines.append("")
        row(f"k = {k}, CPU us", "mean", "p50", "p95", "p99", "QPS", "wall mean")
        for record in by_kind["queries"]:
            if record["k"] == k:
                wall = record["wall_us"]["mean"]
                row(record["engine"], *record["cpu_us"].values(), record["qps"], wall)
        row("ratio of CPU times", "mean", "p50", "p95", "p99", "", "wall mean")
        for record in by_kind.get("ratio", []):
            if record["k"] == k:
                row(
                    f"{record['engine']} / {record['to']}",
                    *record["cpu"].values(),
                    "",
                    record["wall"]["mean"],
                )
    for record in by_kind.get("floor", []):
        lines.append("")
        row("reading all postings, at the least", "ns/posting", "ns/document", "mean us")
        row("", record["ns_per_posting"], record["ns_per_document"], record["mean_us"])
        for query in by_kind["queries"]:
            if query["engine"] == record["engine"]:
                times = query["cpu_us"]["mean"] / record["mean_us"]
                row(f"{query['engine']} / floor, k = {query['k']}", "", "", f"{times:.2f}")
    if by_kind.get("batch"):
        lines.append("")
        row("batch", "k", "QPS, 1", "QPS, 2 thr.", "speed-up", "load")
        for record in by_kind["batch"]:
            row(record["engine"], *list(record.values())[2:])
    for record in by_kind.get("disk", []):
        lines.append("")
        row(f"disk, {record['engine']}", "wall ms", "best", "CPU ms")
        for name, wall in record["wall_ms"].items():
            row(name.replace("_", " "), wall, record["wall_ms_best"][name], record["cpu_ms"][name])
        row("bytes a posting", record["bytes_per_posting"])
    if by_kind.get("correctness"):
        lines.append("")
        row("against float64", "k", "queries", "recall", "max error", "exact", "same order")
        for record in by_kind["correctness"]:
            order = record.get("same_ids_in_order", "-")
            row(
                record["engine"],
                record["k"],
                record["queries"],
                f"{record['recall']:.4f}",
                f"{record['max_error']:.1e}",
                record.get("exact", "-"),
                order,
            )
    for record in by_kind.get("updates", []):
        lines.append("")
        row(f"updates, {record['engine']}", "wall ms", "CPU ms")
        for name, wall in record["wall_ms"].items():
            row("  " + name.replace("_", " "), wall, record["cpu_ms"][name])
        if "same_document_again" in record:
            again = record["same_document_again"]
            row("  one document 1,000 times, each", again["wall_ms_each"])
            row("  ... same statistics", again["same_statistics"], "bytes +", again["bytes_grown"])
    return "\n".join(lines)
