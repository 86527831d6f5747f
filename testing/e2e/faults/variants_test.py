"""Each quantised checkpoint is as accurate as was measured, and no longer so with a fault in it."""

import pytest

from testing.e2e.checkpoints.folders import CHECKPOINTS
from testing.e2e.faults.variants import Cell, cell, faults_of, table
from testing.harness.records import record


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_a_right_model_is_within_its_bound(checkpoint: str) -> None:
    right = cell(checkpoint)
    assert not right.is_found, f"{checkpoint} answers {right.accuracy:.2f} right, {right}"


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_each_fault_is_beyond_it(checkpoint: str) -> None:
    for fault in faults_of(checkpoint):
        found = cell(checkpoint, fault)
        said = f"accuracy is {found.accuracy:.2f}, at least {found.least:.2f} where all is right"
        entry = {"fault": f"{checkpoint}-{fault}", "killed": found.is_found, "said": said}
        record(entry, "kills.jsonl")
        assert found.is_found, f"{checkpoint} does not show {fault}: {said}"


def test_a_table_marks_what_is_not_found() -> None:
    cells = [Cell("", 1.0, 0.9), Cell("lost", 0.2, 0.9), Cell("kept", 0.95, 0.9)]
    lines = table({"dense": cells, "gpt_oss": cells[:2]}).splitlines()
    assert lines[0] == "| checkpoint | right | bound | `lost` | `kept` |"
    assert lines[2] == "| `dense` | 1.00 | 0.90 | 0.20 | **0.95** |"
    assert lines[3] == "| `gpt_oss` | 1.00 | 0.90 | 0.20 |  |"
