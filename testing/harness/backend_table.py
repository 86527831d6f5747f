"""The table at the end of a test: which backends ran here, and which device the others need.

A pytest plugin, loaded by `testing.harness.main`; under plain pytest, `-p` with this module's name.
It knows no layer: `testing.harness.backends` tells it what operations there are and what they need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BackendRow:
    """One backend of an operation.

    devices: that can run it, such as "CUDA sm90 or newer".
    missing: what it lacks here, or None.
    """

    operation: str
    backend: str
    devices: str
    missing: str | None


_SOURCES: list[Callable[[], list[BackendRow]]] = []
_RAN: Counter[tuple[str, str]] = Counter()
_REFUSED: Counter[tuple[str, str]] = Counter()


def add_source(rows: Callable[[], list[BackendRow]]) -> None:
    """Have rows in the table; they are asked for when the tests have ended."""
    _SOURCES.append(rows)


def count_run(backends: Mapping[str, str]) -> None:
    """A layer that was built uses these backends, by operation."""
    _RAN.update(backends.items())


def count_refusal(backend: str, limit: str) -> None:
    """A backend refused a layer for its shape or form, in these words."""
    _REFUSED[backend, limit] += 1


def only_refused() -> list[str]:
    """Backends that refused every layer they were asked for: the pool promises what never ran."""
    return sorted({backend for backend, _ in _REFUSED} - {backend for _, backend in _RAN})


def lines() -> list[str]:
    """The table, or nothing if no test of this run has anything to say."""
    rows = {(row.operation, row.backend): row for source in _SOURCES for row in source()}
    table = [("operation", "backend", "ran here", "needs")]
    for (operation, backend), row in rows.items():
        runs = _RAN[operation, backend]
        table.append((operation, backend, _outcome(row, runs), row.devices))
    for (operation, backend), runs in sorted(_RAN.items()):
        if (operation, backend) not in rows:
            table.append((operation, backend, f"{runs} layers", ""))
    if len(table) == 1 and not _REFUSED:
        return []
    widths = [max(len(row[i]) for row in table) for i in range(4)]
    text = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    refusals = [
        f"{backend} refused {count} layers: {limit}"
        for (backend, limit), count in sorted(_REFUSED.items())
    ]
    return text + refusals + [f"FAILED: {name} refused all its layers" for name in only_refused()]


def _outcome(row: BackendRow, runs: int) -> str:
    if runs:
        return f"{runs} layers"
    return "no: it could, and was not asked" if row.missing is None else f"no: {row.missing}"


def pytest_sessionfinish(session: Any) -> None:
    """A run in which a promised backend took no layer fails: it has shown nothing of it."""
    if only_refused() and not session.exitstatus:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the table."""
    table = lines()
    if table:
        terminalreporter.section("backends")
        for line in table:
            terminalreporter.write_line(line)
