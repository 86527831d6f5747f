"""The history as a terminal and a program read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from tools.plumb.history.declared import Edit
from tools.plumb.history.events import LATEST_MS
from tools.plumb.history.summary import Summary


def moment(ms: int) -> str:
    """`2026-11-30 19:32`, in UTC; of a time before 1970 or after 9999 the nearest."""
    seconds = min(max(ms, 0), LATEST_MS) // 1000
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def plain(text: str) -> Text:
    """A name as it is, no markup in it; what a terminal would obey is written as an escape."""
    return Text("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text))


def table(summaries: Sequence[Summary], served: dict[str, int]) -> Table:
    """A row a test."""
    made = Table(box=None, pad_edge=False)
    for head in ("test", "pool"):
        made.add_column(head, overflow="fold")
    for head in ("runs", "cached", "failed", "flaky", "median s", "p90 s"):
        made.add_column(head, justify="right")
    made.add_column("last (UTC)")
    for one in summaries:
        times = one.seconds
        made.add_row(
            *(plain(one.label), plain(one.pool), str(one.runs), str(served.get(one.label, 0))),
            *(str(one.failed or ""), str(one.flaky or "")),
            f"{times.median:.1f}" if times else "",
            f"{times.p90:.1f}" if times else "",
            plain(f"{moment(one.last_ms)} {one.last_status}"),
        )
    return made


def drift_table(edits: Sequence[Edit]) -> Table:
    """A row a test whose declared seconds are to change."""
    made = Table(box=None, pad_edge=False)
    made.add_column("test", overflow="fold")
    for head in ("declared s", "median s", "p90 s", "runs", "to be"):
        made.add_column(head, justify="right")
    made.add_column("by hand", overflow="fold")
    for edit in edits:
        for drift in edit.drifts:
            times = drift.measured
            made.add_row(
                plain(drift.test.label),
                "" if drift.test.seconds is None else str(drift.test.seconds),
                f"{times.median:.1f}",
                f"{times.p90:.1f}",
                str(times.count),
                str(drift.wanted),
                plain(edit.by_hand),
            )
    return made


def as_json(summaries: Sequence[Summary], served: dict[str, int]) -> str:
    """A list of objects, a test each; seconds are of passing runs, null if it never passed."""
    return json.dumps(
        [
            {
                "label": one.label,
                "pool": one.pool,
                "runs": one.runs,
                "served_from_cache": served.get(one.label, 0),
                "failed": one.failed,
                "flaky": one.flaky,
                "flake_rate": round(one.flake_rate, 6),
                "seconds": None
                if one.seconds is None
                else {
                    "runs": one.seconds.count,
                    "median": round(one.seconds.median, 3),
                    "p90": round(one.seconds.p90, 3),
                    "min": round(one.seconds.low, 3),
                    "max": round(one.seconds.high, 3),
                },
                "last": {"start": moment(one.last_ms), "status": one.last_status},
            }
            for one in summaries
        ],
        indent=1,
    )


def drifts_as_json(edits: Sequence[Edit]) -> str:
    """A list of objects, a test each."""
    return json.dumps(
        [
            {
                "label": drift.test.label,
                "declared": drift.test.seconds,
                "median": round(drift.measured.median, 3),
                "p90": round(drift.measured.p90, 3),
                "runs": drift.measured.count,
                "wanted": drift.wanted,
                "by_hand": edit.by_hand or None,
            }
            for edit in edits
            for drift in edit.drifts
        ],
        indent=1,
    )
