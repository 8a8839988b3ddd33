"""A picture of curves, as SVG: for machines without matplotlib."""
from __future__ import annotations

import html
from typing import Dict, List, Tuple

_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 320, 60, 30
_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b")

Curves = Dict[str, List[Tuple[int, float]]]


def svg(curves: Curves, title: str = "", below: str = "batch") -> str:
    """All curves over one pair of axes, from zero or below; `below`: what the horizontal axis counts."""
    points = [point for curve in curves.values() for point in curve if abs(point[1]) < float("inf")] or [(0, 0.0)]
    right = max(max(x for x, _ in points), 1)
    low, high = min(0.0, min(y for _, y in points)), max(y for _, y in points)
    scale = (_HEIGHT - 2 * _TOP) / ((high - low) or 1.0)

    def at(x: float, y: float) -> str:
        return f"{_LEFT + x / right * (_WIDTH - _LEFT - 20):.1f},{_HEIGHT - _TOP - (y - low) * scale:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(_LEFT, 18, title),
    ]
    for step in range(5):
        y = low + step / 4 * (high - low)
        parts += [
            f'<polyline points="{at(0, y)} {at(right, y)}" stroke="#ddd" fill="none"/>',
            _text(_LEFT - 6, float(at(0, y).split(",")[1]) + 4, f"{y:.3g}", "end"),
        ]
    parts += [_text(_LEFT, _HEIGHT - 10, "0"), _text(_WIDTH - 20, _HEIGHT - 10, f"{right} {below}", "end")]
    for number, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(at(x, y) for x, y in curve if abs(y) < float("inf"))
        parts += [
            f'<polyline points="{path}" stroke="{colour}" fill="none"/>',
            _text(_WIDTH - 20, _TOP + 14 * (number + 1), name, "end", colour),
        ]
    return "\n".join([*parts, "</svg>\n"])


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "black") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}">{html.escape(text)}</text>'
