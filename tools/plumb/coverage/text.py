"""The matrix for people: a table of claims, tests below it if asked for, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tools.plumb.cells.missing import Missing
from tools.plumb.cells.model import Test
from tools.plumb.coverage.matrix import Entry, Matrix, Row, cost
from tools.plumb.coverage.sources import sources

_MISSING, _NONE = "[bold red]missing[/bold red]", "[dim]·[/dim]"


def print_matrix(console: Console, matrix: Matrix) -> None:
    """A row a claim, a column an architecture and cadence: number of tests and seconds."""
    table = Table(title="What guards each claim", title_justify="left")
    table.add_column("claim", no_wrap=True)
    table.add_column("level", no_wrap=True)
    for arch, cadence in matrix.columns:
        table.add_column(f"{arch}\n{cadence}", justify="right", no_wrap=True)
    table.add_column("GPU-s", justify="right", no_wrap=True)
    for row in matrix.rows:
        entries = {(entry.cell.arch, entry.cell.cadence): entry for entry in row.entries}
        cells = [_cell(entries.get(column)) for column in matrix.columns]
        figure = str(row.cost.gpu_seconds or "")
        table.add_row(escape(row.claim.name), escape(row.claim.level or "?"), *cells, figure)
    _print_wide(console, table)
    _print_totals(console, matrix)


def print_detail(console: Console, matrix: Matrix, text: Callable[[str], str | None]) -> None:
    """Each claim with its sentence, its cells, and their tests down to the line of a source."""
    for row in matrix.rows:
        console.print(_heading(row), soft_wrap=True)
        for entry in row.entries:
            where = f"  {entry.cell.arch}, {entry.cell.cadence}"
            if entry.missing is not None:
                said = escape(entry.missing.sentence)
                console.print(f"{where}: {_MISSING}, {said}", soft_wrap=True)
            else:
                asked = "" if entry.demanded else " [dim](not demanded)[/dim]"
                console.print(f"{where}{asked}:", soft_wrap=True)
            for test in entry.tests:
                _print_test(console, test, text)
        console.print()


def print_missing(console: Console, matrix: Matrix) -> None:
    """Each demanded cell that nothing covers, with the reason and the nearest test."""
    if not matrix.missing:
        console.print(f"Each of {matrix.demanded} demanded cells is covered.")
        return
    table = Table(title="Demanded, and not covered", title_justify="left")
    for column in ("claim", "architecture", "cadence"):
        table.add_column(column, no_wrap=True)
    table.add_column("because", overflow="fold")
    table.add_column("nearest test", no_wrap=True)
    for missing in matrix.missing:
        table.add_row(*(escape(text) for text in _missing_row(missing)))
    _print_wide(console, table)
    console.print(f"{len(matrix.missing)} of {matrix.demanded} demanded cells are not covered.")


def _missing_row(missing: Missing) -> Sequence[str]:
    nearest = missing.near[0].test.label if missing.near else ""
    cell = missing.cell
    return (cell.claim, cell.arch, cell.cadence, missing.sentence, nearest)


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return _NONE
    if entry.missing is not None:
        return _MISSING
    if not entry.tests:
        return "[dim]by others[/dim]"
    figures = cost(entry.tests)
    said = f"{figures.tests}: {figures.seconds} s" + ("+?" if figures.without_seconds else "")
    return said if entry.demanded else f"[dim]({said})[/dim]"


def _heading(row: Row) -> Text:
    claim = row.claim
    level = claim.level or "level unknown"
    text = Text.assemble((claim.name, "bold"), f" ({level})")
    if claim.sentence:
        text.append(f": {claim.sentence}")
    return text


def _print_test(console: Console, test: Test, text: Callable[[str], str | None]) -> None:
    seconds = "? s" if test.seconds is None else f"{test.seconds} s"
    gpus = f", {test.gpu_seconds} GPU-s" if test.gpus else ""
    declared = f" [dim]{escape(test.place)}[/dim]" if test.place else ""
    console.print(f"    {escape(test.label)}  {seconds}{gpus}{declared}", soft_wrap=True)
    for source in sources(test, text):
        console.print(f"      [dim]{escape(source.place)}[/dim]", soft_wrap=True)


def _print_totals(console: Console, matrix: Matrix) -> None:
    figures, entries = cost(matrix.tests), matrix.entries
    covered = sum(entry.demanded and entry.missing is None for entry in entries)
    unknown = figures.without_seconds
    console.print(
        f"{covered} of {matrix.demanded} demanded cells covered, "
        f"{len(entries) - matrix.demanded} more that no claim demands; "
        f"{figures.tests} tests, {figures.seconds} s, {figures.gpu_seconds} GPU-s"
        + (f" ({unknown} tests declare no seconds)" if unknown else "")
    )


def _print_wide(console: Console, table: Table) -> None:
    # A name that is cut cannot be copied: rather the terminal breaks the frame.
    width = console.width
    console.width = max(width, console.measure(table).minimum)
    console.print(table, crop=False)
    console.width = width
