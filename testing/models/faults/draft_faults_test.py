"""Each planted fault of the wiring of the module that drafts is found."""

import pytest

from testing.models.batch import Seen, previous, run_draft, steps, without_last
from testing.models.examine import Examination
from testing.models.faults.wiring import DRAFT_FAULTS, Fault
from testing.models.judge import problems_of
from testing.models.truth import truth_of
from testing.oracles.models.configs import DEEPSEEK

EXAMINED = Examination(DEEPSEEK)


def drafted() -> Seen:
    calls = without_last(steps())
    return run_draft(EXAMINED.model, EXAMINED.ids, previous(EXAMINED.seen), calls)


def problems(seen: Seen) -> list[str]:
    given = [part.double() for part in previous(EXAMINED.seen)]
    arithmetic = EXAMINED.arithmetic(in_chunks=True)
    truth = truth_of(EXAMINED.reference, EXAMINED.ids, seen.experts, arithmetic, given)
    return problems_of(seen, truth, EXAMINED.reference, of_draft=True)


@pytest.mark.parametrize("fault", DRAFT_FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault: Fault) -> None:
    healthy = drafted()
    with pytest.MonkeyPatch.context() as patch:
        fault(EXAMINED.model, patch)
        faulty = drafted()
    assert problems(faulty)
    assert (drafted().logits == healthy.logits).all()


def test_nothing_is_found_where_nothing_was_planted() -> None:
    assert problems(drafted()) == []
