"""Curves as an SVG file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 640, 300, 56, 34, 40
_COLOURS = ("#0b6e4f", "#c1440e", "#2b4c7e", "#8c6a00", "#6a3d7c", "#444444")


def draw(
    path: Path, title: str, below: str, curves: Mapping[str, Sequence[tuple[float, float]]]
) -> None:
    """Draw each curve, named at its right end."""
    points = [point for curve in curves.values() for point in curve]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low, high = min(ys), max(ys)
    low, high = low - 0.05 * (high - low or 1), high + 0.05 * (high - low or 1)
    left, right = min(xs), max(xs)
    span_x, span_y = (right - left) or 1, (high - low) or 1
    inner = _WIDTH - _LEFT - 190

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + inner * (x - left) / span_x,
            _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (y - low) / span_y),
        )

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{title}</text>',
        f'<text x="{_LEFT + inner / 2}" y="{_HEIGHT - 8}" text-anchor="middle">{below}</text>',
    ]
    for part in range(5):
        value = low + span_y * part / 4
        _, y = place(left, value)
        lines.append(f'<path d="M{_LEFT} {y:.1f}H{_LEFT + inner}" stroke="#dddddd"/>')
        lines.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for value in (left, right):
        x, _ = place(value, low)
        lines.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{value:g}</text>'
        )
    ends: list[float] = []
    for number, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        steps = "L".join(f"{x:.1f} {y:.1f}" for x, y in (place(*point) for point in curve))
        lines.append(f'<path d="M{steps}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = place(*curve[-1])
        while any(abs(y - other) < 13 for other in ends):
            y += 13
        ends.append(y)
        lines.append(f'<text x="{x + 6:.1f}" y="{y + 4:.1f}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*lines, "</svg>"]) + "\n", "utf-8")
