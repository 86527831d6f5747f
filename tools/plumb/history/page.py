"""One HTML page of seconds and flakes over time: a small plot a test, no network needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from tools.plumb.history.report import moment
from tools.plumb.history.summary import PASSED, Run, Summary, summaries

TEMPLATE = Path(__file__).parent / "page.html.jinja"
WIDTH, HEIGHT, MARGIN = 220, 40, 4
_DAY = 86_400_000


@dataclass(frozen=True)
class Point:
    """A run in a plot: pixels, and the words for whoever points at it."""

    x: float
    y: float
    status: str
    words: str


@dataclass(frozen=True)
class Plot:
    """The runs of a test. top: seconds at the plot's upper edge. declared: pixels, if declared."""

    summary: Summary
    points: tuple[Point, ...]
    line: str
    top: float
    declared: float | None
    seconds: int | None


@dataclass(frozen=True)
class Day:
    """All tests of a day (UTC): runs, and shares of them in percent."""

    name: str
    runs: int
    flaky: float
    failed: float


def render(runs: Sequence[Run], declared: dict[str, int | None], title: str) -> str:
    """The page's text. runs: sorted by label. declared: seconds by label."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    span = (min(run.start_ms for run in runs), max(run.start_ms for run in runs))
    plots = [
        _plot(list(group), span, declared.get(label))
        for label, group in groupby(runs, lambda run: run.label)
    ]
    return template.render(
        title=title,
        plots=sorted(plots, key=lambda plot: (-plot.summary.flake_rate, plot.summary.label)),
        days=_days(runs),
        first=moment(span[0]),
        last=moment(span[1]),
        total=len(runs),
        width=WIDTH,
        height=HEIGHT,
    )


def _plot(runs: list[Run], span: tuple[int, int], declared: int | None) -> Plot:
    top = max(*(run.ms / 1000 for run in runs), declared or 0, 0.001)

    def across(start_ms: int) -> float:
        share = (start_ms - span[0]) / (span[1] - span[0]) if span[1] > span[0] else 0.5
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)

    def down(seconds: float) -> float:
        return round(HEIGHT - MARGIN - seconds / top * (HEIGHT - 2 * MARGIN), 1)

    points = tuple(
        Point(
            across(run.start_ms),
            down(run.ms / 1000),
            run.status,
            f"{moment(run.start_ms)}: {run.ms / 1000:.1f} s, {run.status}",
        )
        for run in runs
    )
    line = " ".join(f"{point.x},{point.y}" for point in points)
    height = down(declared) if declared else None
    return Plot(next(summaries(runs)), points, line, top, height, declared)


def _days(runs: Sequence[Run]) -> list[Day]:
    found = []
    ordered = sorted(runs, key=lambda run: run.start_ms)
    for day, group in groupby(ordered, lambda run: run.start_ms // _DAY):
        own = [run.status for run in group]
        flaky = own.count("FLAKY")
        failed = len(own) - flaky - own.count(PASSED)
        found.append(
            Day(moment(day * _DAY)[:10], len(own), 100 * flaky / len(own), 100 * failed / len(own))
        )
    return found
