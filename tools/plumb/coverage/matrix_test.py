from __future__ import annotations

from tools.plumb.cells.missing import Lack
from tools.plumb.cells.read import model_of
from tools.plumb.coverage.made_up import LINEAR, LOADER, SERVE, small_graph
from tools.plumb.coverage.matrix import Cost, Matrix, build
from tools.plumb.coverage.select import Wanted, select

MODEL = model_of(small_graph())


def matrix(wanted: Wanted | None = None) -> Matrix:
    return build(MODEL, select(MODEL, wanted or Wanted()))


def test_a_row_is_a_claim_with_its_cells_and_their_tests() -> None:
    row = next(row for row in matrix().rows if row.claim.name == LINEAR)

    assert [
        (entry.cell.arch, [test.label for test in entry.tests], entry.missing is None)
        for entry in row.entries
    ] == [
        ("cpu", ["//quant:a_test_cpu"], True),
        ("sm90", ["//quant/deep:d_test_h100", "//quant:a_test_h100"], True),
        ("sm100", [], False),
    ]


def test_a_claim_costs_its_tests_and_what_covers_nothing_else_is_told_apart() -> None:
    rows = {row.claim.name: row for row in matrix().rows}

    assert rows[LINEAR].cost == Cost(3, 31, 45, 0)
    assert rows[LINEAR].alone == Cost(2, 25, 45, 0)
    assert rows[SERVE].cost == Cost(0, 0, 0, 0)


def test_a_test_that_covers_two_cells_of_a_claim_counts_once() -> None:
    rows = {row.claim.name: row for row in matrix().rows}

    assert rows[LOADER].cost == Cost(2, 36, 30, 0)


def test_missing_cells_come_with_their_reason() -> None:
    assert [(m.cell.claim, m.cell.arch, m.reason) for m in matrix().missing] == [
        (LINEAR, "sm100", Lack.ARCHITECTURE),
        (LOADER, "sm90", Lack.NIGHTLY),
        (SERVE, "sm90", Lack.NOTHING),
    ]


def test_a_filter_of_tests_does_not_make_a_cell_missing() -> None:
    found = matrix(Wanted(tests=("//quant:a_test_h100",)))

    shown = {entry.cell.arch: entry for entry in found.entries}
    assert [test.label for test in shown["sm90"].tests] == ["//quant:a_test_h100"]
    assert shown["sm100"].missing is not None
    assert "cpu" not in shown


def test_columns_are_sorted_by_architecture_and_cadence() -> None:
    assert matrix().columns == [
        ("cpu", "per-commit"),
        ("sm90", "per-commit"),
        ("sm90", "nightly"),
        ("sm100", "per-commit"),
    ]


def test_only_missing_leaves_out_what_is_covered() -> None:
    assert [str(entry.cell) for entry in matrix().only_missing().entries] == [
        f"{LINEAR} on sm100, per-commit",
        f"{LOADER} on sm90, per-commit",
        f"{SERVE} on sm90, nightly",
    ]
