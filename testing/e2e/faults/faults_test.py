"""Each planted fault fails each smoke that it should: a server start for each, so by night."""

import pytest

from testing.e2e.faults.fault import FAULTS, KINDS
from testing.e2e.faults.table import SMOKES
from testing.harness.records import record

PLANTED = [(fault.name, smoke) for fault in FAULTS.values() for smoke in fault.smokes]


def test_every_kind_has_a_fault() -> None:
    assert {fault.kind for fault in FAULTS.values()} == set(KINDS)
    assert len(FAULTS) >= 10


@pytest.mark.parametrize(("fault", "smoke"), PLANTED, ids=[f"{s}-{f}" for f, s in PLANTED])
def test_a_planted_fault_fails_the_smoke(fault: str, smoke: str) -> None:
    # A start that failed, or an error of the fault's own, is raised.
    found = SMOKES[smoke].figures(fault).failures
    assert found, f"{smoke} does not see {fault}"
    record({"fault": fault, "smoke": smoke, "said": found[0][:200]}, "kills.jsonl")
