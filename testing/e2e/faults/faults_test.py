"""Each planted fault fails each smoke that it should: a server start for each, so by night."""

import pytest

from testing.e2e.faults.fault import FAULTS, KINDS
from testing.e2e.faults.table import README, SMOKES, found_by, planted
from testing.harness.records import record

PLANTED = [(fault.name, smoke) for fault in FAULTS.values() for smoke in fault.smokes]


def test_every_kind_has_a_fault() -> None:
    assert {fault.kind for fault in FAULTS.values()} == set(KINDS)
    assert len(FAULTS) >= 10


@pytest.mark.parametrize(("fault", "smoke"), PLANTED, ids=[f"{s}-{f}" for f, s in PLANTED])
def test_a_planted_fault_fails_the_smoke(fault: str, smoke: str) -> None:
    # A start that failed, or an error of the fault's own, is raised.
    found = found_by(FAULTS[fault], SMOKES[smoke].figures(fault))
    said = "; ".join(found)[:200]
    record({"fault": f"{smoke}-{fault}", "killed": bool(found), "said": said}, "kills.jsonl")
    assert found, f"{smoke} does not see {fault}"


def test_the_table_has_a_line_for_each() -> None:
    text = README.read_text()
    lines = text.split("<!-- faults: begin -->")[1].split("<!-- faults: end -->")[0].splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:4]] for line in lines[3:]]
    assert cells == [
        [smoke, fault.kind if fault else "", f"`{fault.name}`" if fault else "right"]
        for fault, smoke in planted(sorted(SMOKES))
    ]
    assert "**not found**" not in text
