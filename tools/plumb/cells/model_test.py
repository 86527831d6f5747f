from __future__ import annotations

import pytest

from tools.plumb.cells.model import Cell, Claim, Model, Test, arch_order, fulfils


def model(*tests: Test, **levels: str) -> Model:
    claims = {name: Claim(name, "So.", level, (), f"//c:{name}") for name, level in levels.items()}
    return Model(claims, {test.label: test for test in tests})


def h100(label: str = "//t:a_h100", cadence: str = "per-commit", level: str = "layer") -> Test:
    return Test(label, "h100", "sm90", 1, 20, cadence, level=level, covers=("q",))


@pytest.mark.parametrize(
    ("cadence", "wanted", "answer"),
    [
        ("per-commit", "per-commit", True),
        ("per-commit", "nightly", True),
        ("per-commit", "labelled", True),
        ("per-commit", "weekly", True),
        ("nightly", "per-commit", False),
        ("nightly", "weekly", True),
        ("weekly", "nightly", False),
        ("nightly", "labelled", False),
        ("labelled", "nightly", False),
        ("labelled", "per-commit", False),
        ("odd", "odd", True),
    ],
)
def test_what_runs_at_least_as_often_fulfils(cadence: str, wanted: str, answer: bool) -> None:
    assert fulfils(cadence, wanted) is answer


def test_a_test_covers_its_own_cell_and_rarer_ones() -> None:
    guard = model(h100(), q="layer")

    assert [t.label for t in guard.covering(Cell("q", "sm90", "per-commit"))] == ["//t:a_h100"]
    assert [t.label for t in guard.covering(Cell("q", "sm90", "nightly"))] == ["//t:a_h100"]


def test_another_architecture_is_not_covered() -> None:
    assert model(h100(), q="layer").covering(Cell("q", "sm100", "per-commit")) == ()
    assert model(h100(), q="layer").covering(Cell("q", "cpu", "per-commit")) == ()


def test_a_weaker_level_does_not_cover() -> None:
    assert model(h100(level="layer"), q="e2e").covering(Cell("q", "sm90", "per-commit")) == ()


def test_a_test_that_skips_itself_or_never_runs_covers_nothing() -> None:
    skips = Test("//t:s", "h100", "sm90", 1, covers=("q",), skipped_on={"sm90": ""})
    manual = Test("//t:m", "h100", "sm90", 1, covers=("q",), idle="tagged manual")

    guard = model(skips, manual, q="layer")

    assert guard.covering(Cell("q", "sm90", "per-commit")) == ()
    assert guard.cells == ()


def test_a_test_or_a_claim_that_says_no_level_is_of_any() -> None:
    cell = Cell("q", "sm90", "per-commit")
    unsaid = Test("//t:u", "h100", "sm90", 1, covers=("q",))
    assert model(unsaid, q="layer").covering(cell) == (unsaid,)
    assert model(h100()).covering(cell) == (h100(),)


def test_a_test_of_a_weaker_level_gives_no_cell() -> None:
    assert model(h100(level="layer"), q="e2e").cells == ()


def test_a_claim_that_a_test_names_twice_has_the_test_once() -> None:
    twice = Test("//t:t", "h100", "sm90", 1, covers=("q", "q"))
    assert model(twice, q="layer").by_claim == {"q": (twice,)}


def test_cells_are_those_demanded_and_those_given() -> None:
    claim = Claim("q", "So.", "layer", (("sm100", "per-commit"), ("cpu", "per-commit")), "//c:q")
    nightly = h100("//t:b_h100", cadence="nightly")

    cells = Model({"q": claim}, {t.label: t for t in (h100(), nightly)}).cells

    assert [str(cell) for cell in cells] == [
        "q on cpu, per-commit",
        "q on sm90, per-commit",
        "q on sm90, nightly",
        "q on sm100, per-commit",
    ]


def test_architectures_are_sorted_by_number() -> None:
    assert sorted(["sm100", "sm90", "cpu", "sm120"], key=arch_order) == [
        "cpu",
        "sm90",
        "sm100",
        "sm120",
    ]
    assert arch_order("sm²") == (True, 0, "sm²")
    assert arch_order("sm" + "9" * 5000)[1] == 999_999_999


def test_gpu_seconds_count_each_gpu() -> None:
    assert Test("//t:x", "h100", "sm90", 4, 220).gpu_seconds == 880
    assert Test("//t:x", seconds=220).gpu_seconds == 0


def test_without_a_test_its_cells_are_open_and_still_known() -> None:
    claim = Claim("q", "So.", "layer", (("sm90", "per-commit"),), "//c:q")
    guard = Model({"q": claim}, {"//t:a_h100": h100()})

    left = guard.without(["//t:a_h100"])

    assert left.cells == guard.cells
    assert left.covering(left.cells[0]) == ()


def test_tests_can_be_put_in_place_of_others() -> None:
    guard = model(h100(), q="layer")
    added = Test("//t:new", covers=("q", "fresh"), seconds=3)

    changed = guard.with_tests([*guard.tests.values(), added])

    assert sorted(changed.tests) == ["//t:a_h100", "//t:new"]
    assert changed.claims["fresh"] == Claim("fresh")


def test_claims_that_nobody_registers_go_with_the_last_test_that_names_them() -> None:
    fresh = Test("//t:new", covers=("fresh",))
    guard = Model({"q": Claim("q", label="//c:q"), "fresh": Claim("fresh")}, {"//t:new": fresh})

    assert sorted(guard.with_tests([]).claims) == ["q"]
    assert sorted(guard.with_tests([fresh]).claims) == ["fresh", "q"]


def test_problems_of_the_declarations_are_not_those_of_what_is_left() -> None:
    assert Model({}, {}, ("a problem",)).without([]).problems == ()
