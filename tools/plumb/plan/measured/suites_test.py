"""On measured seconds every suite is planned within a hundredth of what is possible."""

import pytest

from tools.plumb.plan.job import Pool
from tools.plumb.plan.measured.suites import shards_of, suites
from tools.plumb.plan.plan import make

SUITES = suites()


@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("suite", sorted(SUITES))
def test_a_plan_is_within_a_hundredth_of_the_bound(suite: str, factor: int) -> None:
    jobs = SUITES[suite]
    plan = make(jobs, Pool(suite, factor * shards_of(jobs)))
    assert plan.gap <= 0.01, f"{plan.finish} s, bound {plan.bound}"
    assert plan.finish <= plan.plain
    assert sum(len(executor.placed) for executor in plan.executors) == len(jobs)
