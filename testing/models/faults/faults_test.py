"""Each planted fault of the wiring is found, and its model is right again without it."""

from typing import Any

import pytest

from testing.models.batch import run, steps
from testing.models.examine import Examination
from testing.models.faults.wiring import FAULTS, Fault
from testing.oracles.models.configs import ALL

EXAMINED = {c["architectures"][0]: Examination(c) for c in ALL}


def name(value: Any) -> str:
    return value.__name__ if callable(value) else str(value["architectures"][0])


@pytest.mark.parametrize(("config", "fault"), FAULTS, ids=name)
def test_a_planted_fault_is_found(config: dict[str, Any], fault: Fault) -> None:
    examined = EXAMINED[config["architectures"][0]]
    with pytest.MonkeyPatch.context() as patch:
        fault(examined.model, patch)
        faulty = run(examined.model, examined.ids, steps())
    assert examined.problems_of_run(faulty)
    healthy = run(examined.model, examined.ids, steps())
    assert (healthy.logits == examined.seen.logits).all()


def test_nothing_is_found_where_nothing_was_planted() -> None:
    assert [p for examined in EXAMINED.values() for p in examined.problems()] == []
