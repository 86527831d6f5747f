from __future__ import annotations

from dataclasses import replace

import pytest

from tools.plumb.cells.missing import Lack, explain, missing
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


def test_the_test_that_lacks_least_gives_the_reason() -> None:
    far = replace(GUARD, label="//t:far", arch="cpu", cadence="labelled")
    close = replace(GUARD, label="//t:z_close", cadence="nightly")

    found = explain(model(far, close), WANTED)

    assert found.reason is Lack.NIGHTLY
    assert [one.test.label for one in found.near] == ["//t:z_close", "//t:far"]
    assert found.near[1].lacks == (Lack.LABELLED, Lack.ARCHITECTURE)
