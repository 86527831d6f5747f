"""The matrix for people: a table of claims, tests below it if asked for, and what is missing."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tools.plumb.cells.missing import Missing
from tools.plumb.cells.model import Test
from tools.plumb.coverage.matrix import Entry, Matrix, Row, cost
from tools.plumb.coverage.sources import sources

_UNLIMITED = 10_000
_MISSING, _NONE = "[bold red]missing[/bold red]", "[dim]·[/dim]"


def print_matrix(console: Console, matrix: Matrix) -> None:
    """A row a claim, a column an architecture and cadence: number of tests and seconds."""
    table = Table(title="What guards each claim", title_justify="left")
    table.add_column("claim", no_wrap=True)
    table.add_column("level", no_wrap=True)
    for arch, cadence in matrix.columns:
        table.add_column(escape(f"{arch}\n{cadence}"), justify="right", no_wrap=True)
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
            where = escape(f"  {entry.cell.arch}, {entry.cell.cadence}")
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
    """The demanded cells that nothing covers, by reason, each with the nearest test."""
    if not matrix.missing:
        console.print(f"Each of {matrix.demanded} demanded cells is covered.")
        return
    groups: dict[str, list[Missing]] = {}
    for missing in matrix.missing:
        groups.setdefault(missing.sentence, []).append(missing)
    for sentence, members in groups.items():
        console.print(f"[bold]{escape(sentence)}[/bold] ({len(members)})", soft_wrap=True)
        rows = [(one.cell.claim, one.cell.arch, one.cell.cadence) for one in members]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        for row, one in zip(rows, members, strict=True):
            cell = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
            near = f"  [dim]{escape(one.near[0].test.label)}[/dim]" if one.near else ""
            console.print(f"  {escape(cell)}{near}", soft_wrap=True)
        console.print()
    console.print(f"{len(matrix.missing)} of {matrix.demanded} demanded cells are not covered.")


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
    needed = console.measure(table, options=console.options.update(width=_UNLIMITED)).maximum
    console.width = max(width, needed)
    console.print(table, crop=False)
    console.width = width
