"""A picture of what each criterion finds: a row a format, a mark a criterion, on a log scale."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import log10

_LABEL, _WIDTH, _NEVER, _ROW, _TOP = 190, 640, 120, 22, 78
_LOW, _HIGH = -4.5, 2.0
_STYLE = {
    "lossless grid": ("#0b7a4b", "disc", "this repository, lossless grid"),
    "natural data": ("#58b98a", "ring", "this repository, natural data"),
    "calc_diff": ("#b3541e", "square", "calc_diff (1e-3; 2e-2 for fp4)"),
    "allclose": ("#3b5b92", "square", "allclose(5e-2, 1e-1)"),
    "cosine": ("#7d3c98", "square", "cosine .99"),
}


@dataclass(frozen=True)
class Mark:
    """The smallest bias by one criterion; None: never, 0.0: it rejects right code."""

    row: str
    criterion: str
    gain: float | None


def _x(percent: float) -> float:
    share = (log10(percent) - _LOW) / (_HIGH - _LOW)
    return _LABEL + _WIDTH * min(max(share, 0.0), 1.0)


def _symbol(criterion: str, x: float, y: float) -> str:
    colour, shape, _ = _STYLE[criterion]
    if shape != "square":
        fill = colour if shape == "disc" else "none"
        circle = f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{fill}"'
        return f'{circle} stroke="{colour}" stroke-width="2"/>'
    return f'<rect x="{x - 4.5:.1f}" y="{y - 4.5}" width="9" height="9" fill="{colour}"/>'


def _text(x: float, y: float, words: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y}" {extra}>{escape(words)}</text>'


def _grid(bottom: float, goal: float) -> list[str]:
    parts = []
    for power in range(-4, 3):
        x, label = _x(10.0**power), f"{10.0**power:g} %"
        line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 8}" y2="{bottom}" stroke="#ddd"/>'
        parts += [line, _text(x, bottom + 16, label, 'text-anchor="middle" fill="#555"')]
    x = _x(goal)
    parts.append(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 8}" y2="{bottom}" stroke="#0b7a4b" '
        'stroke-dasharray="4 3"/>'
    )
    parts.append(_text(x + 4, _TOP - 12, f"goal {goal:g} %", 'fill="#0b7a4b"'))
    for offset, words in ((1, "never"), (2, "rejects right code")):
        x = _LABEL + _WIDTH + _NEVER * offset - 60
        parts.append(_text(x, _TOP - 12, words, 'text-anchor="middle" fill="#555"'))
    return parts


def draw(marks: list[Mark], goal: float) -> str:
    """An SVG of the smallest bias of the whole output, in percent; `goal` likewise."""
    rows = list(dict.fromkeys(mark.row for mark in marks))
    bottom = _TOP + _ROW * len(rows)
    width, height = _LABEL + _WIDTH + 2 * _NEVER + 20, bottom + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(
            10, 20, "Smallest bias of the whole output found in 19 of 20 layers", 'font-size="15"'
        ),
        *_grid(bottom, goal),
    ]
    x = 14.0
    for criterion, (_, _, label) in _STYLE.items():
        parts += [_symbol(criterion, x, 42), _text(x + 10, 46, label)]
        x += 24 + 6.6 * len(label)
    for i, row in enumerate(rows):
        y = _TOP + _ROW * i + _ROW // 2
        parts.append(_text(_LABEL - 14, y + 4, row, 'text-anchor="end"'))
        beside = dict.fromkeys(("never", "rejects"), 0)
        for mark in (m for m in marks if m.row == row):
            if mark.gain:
                parts.append(_symbol(mark.criterion, _x(100 * mark.gain), y))
                continue
            where = "never" if mark.gain is None else "rejects"
            start = _LABEL + _WIDTH + _NEVER * (1 if where == "never" else 2) - 60
            parts.append(_symbol(mark.criterion, start + 12 * beside[where], y))
            beside[where] += 1
    return "\n".join([*parts, "</svg>"]) + "\n"
