"""Prints, for each measured suite, our plan beside plain longest-first at equal shards."""

from __future__ import annotations

import time

from tools.plumb.plan.job import Pool
from tools.plumb.plan.measured.suites import shards_of, suites
from tools.plumb.plan.plan import make


def main() -> None:
    """One row a suite and number of shards; ratios are to the lower bound."""
    heads = ("suite", "tests", "shards", "bound s", "longest-first", "plan")
    print("{:32} {:>5} {:>6} {:>8} {:>13} {:>6}  bound from".format(*heads))
    begun = time.perf_counter()
    total_plain = total_plan = 0.0
    for suite, jobs in sorted(suites().items()):
        own = shards_of(jobs)
        for shards in sorted({own, 2 * own}):
            plan = make(jobs, Pool(suite, shards))
            ratios = (plan.plain / plan.bound.seconds, plan.finish / plan.bound.seconds)
            print(
                f"{suite:32} {len(jobs):5} {shards:6} {plan.bound.seconds:8.1f} "
                f"{ratios[0]:13.4f} {ratios[1]:6.4f}  {plan.bound.why.partition(',')[0]}"
            )
            if shards == own:
                total_plain, total_plan = total_plain + plan.plain, total_plan + plan.finish
    every = time.perf_counter() - begun
    print(f"sum of finishing times: longest-first {total_plain:.0f} s, plan {total_plan:.0f} s")
    print(f"all plans made in {every:.1f} s")


if __name__ == "__main__":
    main()
