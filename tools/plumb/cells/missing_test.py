from __future__ import annotations

from dataclasses import replace

import pytest

from tools.plumb.cells.missing import Lack, explain, lacks, missing
from tools.plumb.cells.model import Cell, Claim, Model, Test

WANTED = Cell("q", "sm90", "per-commit")
GUARD = Test("//t:a", "h100", "sm90", 1, 20, level="layer", covers=("q",))


def model(*tests: Test) -> Model:
    claim = Claim("q", "So.", "layer", (("sm90", "per-commit"),), "//c:q")
    return Model({"q": claim}, {test.label: test for test in tests})


def test_a_covered_cell_is_not_missing() -> None:
    assert missing(model(GUARD)) == []


@pytest.mark.parametrize(
    ("test", "reason", "sentence"),
    [
        (None, Lack.NOTHING, "nothing covers it"),
        (replace(GUARD, cadence="nightly"), Lack.NIGHTLY, "only nightly"),
        (replace(GUARD, cadence="labelled"), Lack.LABELLED, "only label-gated"),
        (replace(GUARD, cadence="weekly"), Lack.CADENCE, "only less often"),
        (replace(GUARD, level="e2e"), Lack.LEVEL, "only another level"),
        (replace(GUARD, arch="sm100"), Lack.ARCHITECTURE, "only another architecture"),
        (
            replace(GUARD, idle="tagged manual"),
            Lack.NEVER_RUNS,
            "only tests that never run: tagged manual",
        ),
        (
            replace(GUARD, arch="cpu", skipped_on={"cpu": "no GPU"}),
            Lack.NEVER_RUNS,
            "only tests that never run: skipped on its own architecture",
        ),
        (
            replace(GUARD, skipped_on={"sm90": "no int8 there"}),
            Lack.SKIPPED,
            "skipped on that architecture: no int8 there",
        ),
        (
            replace(GUARD, arch="cpu", skipped_on={"sm90": ""}),
            Lack.SKIPPED,
            "skipped on that architecture",
        ),
    ],
)
def test_the_reason_is_what_the_test_lacks(test: Test | None, reason: Lack, sentence: str) -> None:
    found = missing(model(*([test] if test else [])))

    assert [(m.cell, m.reason, m.sentence) for m in found] == [(WANTED, reason, sentence)]


@pytest.mark.parametrize("arch", ["cpu", "sm90", "sm100"])
@pytest.mark.parametrize("cadence", ["per-commit", "labelled", "nightly", "weekly"])
@pytest.mark.parametrize("idle", [None, "disabled"])
@pytest.mark.parametrize("skips", [(), ("sm90",), ("sm100",)])
def test_a_test_lacks_nothing_exactly_if_it_covers(
    arch: str, cadence: str, idle: str | None, skips: tuple[str, ...]
) -> None:
    skipped = dict.fromkeys(skips, "")
    for level in ("layer", "e2e", None):
        test = replace(
            GUARD, arch=arch, cadence=cadence, idle=idle, skipped_on=skipped, level=level
        )
        guard = model(test)
        for wanted in (Cell("q", a, c) for a in ("cpu", "sm90") for c in ("nightly", "weekly")):
            assert (lacks(guard, test, wanted) == ()) is guard.covers(test, wanted)


def test_the_test_that_lacks_least_gives_the_reason() -> None:
    far = replace(GUARD, label="//t:far", arch="cpu", cadence="labelled")
    close = replace(GUARD, label="//t:z_close", cadence="nightly")

    found = explain(model(far, close), WANTED)

    assert found.reason is Lack.NIGHTLY
    assert [one.test.label for one in found.near] == ["//t:z_close", "//t:far"]
    assert found.near[1].lacks == (Lack.LABELLED, Lack.ARCHITECTURE)


def test_the_nearest_is_told_by_the_number_of_its_lacks_first() -> None:
    rarer_elsewhere = replace(GUARD, label="//t:a", arch="sm100", cadence="nightly")
    elsewhere = replace(GUARD, label="//t:b", arch="sm100")

    found = explain(model(rarer_elsewhere, elsewhere), WANTED)

    assert found.reason is Lack.ARCHITECTURE
    assert [one.test.label for one in found.near] == ["//t:b", "//t:a"]


def test_of_tests_that_lack_one_thing_each_the_one_that_runs_there_is_nearest() -> None:
    tests = [
        replace(GUARD, label="//t:a_elsewhere", arch="sm100"),
        replace(GUARD, label="//t:b_skips", skipped_on={"sm90": ""}),
        replace(GUARD, label="//t:c_disabled", idle="disabled"),
        replace(GUARD, label="//t:d_e2e", level="e2e"),
        replace(GUARD, label="//t:e_weekly", cadence="weekly"),
        replace(GUARD, label="//t:f_labelled", cadence="labelled"),
        replace(GUARD, label="//t:g_nightly", cadence="nightly"),
    ]

    found = explain(model(*tests), WANTED)

    assert [one.test.label for one in found.near] == [test.label for test in reversed(tests)]
    assert found.sentence == "only nightly"
