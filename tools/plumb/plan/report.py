"""A plan as a terminal, a program and a CI system read it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.markup import escape

from tools.plumb.cells.model import Test
from tools.plumb.plan.job import Executor
from tools.plumb.plan.plan import Plan
from tools.plumb.pool_options import test_options
from tools.plumb.pools import PER_COMMIT


def clock(seconds: float) -> str:
    """`4:05`, or `1:02:03`; whole seconds, rounded."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def _share(plan: Plan) -> str:
    return f"{100 * plan.gap:.1f} %"


def lines(plans: Sequence[Plan], guessed: Sequence[str], every: bool) -> Iterator[str]:
    """What rich prints; `every`: each executor's tests too."""
    for plan in plans:
        pool, tests = plan.pool, sum(len(e.placed) for e in plan.executors)
        hosts = f"{pool.hosts} host{'s' * (pool.hosts != 1)} of {pool.slots}"
        yield (
            f"[bold]{escape(pool.name)}[/bold]: {tests} test{'s' * (tests != 1)}, "
            f"{clock(plan.work)} of work on {hosts}"
        )
        yield (
            f"  done after [bold]{clock(plan.finish)}[/bold]; no plan before "
            f"{clock(plan.bound.seconds)} ({escape(plan.bound.why)}), gap {_share(plan)}; "
            f"longest-first alone {clock(plan.plain)}"
        )
        if every:
            for number, executor in enumerate(plan.executors, 1):
                yield from _of_executor(executor, number)
    if guessed:
        yield (
            f"[yellow]{len(guessed)} of unknown length, taken for a minute: "
            f"{escape(', '.join(guessed[:5]))}{', …' * (len(guessed) > 5)}[/yellow]"
        )


def _of_executor(executor: Executor, number: int) -> Iterator[str]:
    yield f"  {number} (host {executor.host + 1}), {clock(executor.finish)}"
    for one in executor.placed:
        words = f"{one.job.seconds:.0f} s"
        if one.job.failure_rate:
            words += f", fails {100 * one.job.failure_rate:.0f} %"
        yield f"    {clock(one.start):>7} {escape(one.job.label)} ({words})"


def as_json(plans: Sequence[Plan], guessed: Sequence[str]) -> str:
    """One object: pools with their executors; seconds everywhere."""
    return json.dumps(
        {
            "pools": [
                {
                    "pool": plan.pool.name,
                    "finish": round(plan.finish, 3),
                    "lower_bound": round(plan.bound.seconds, 3),
                    "lower_bound_from": plan.bound.why,
                    "gap": round(plan.gap, 6),
                    "longest_first": round(plan.plain, 3),
                    "work": round(plan.work, 3),
                    "executors": [
                        {
                            "host": executor.host,
                            "finish": round(executor.finish, 3),
                            "tests": [
                                {
                                    "label": one.job.label,
                                    "start": round(one.start, 3),
                                    "seconds": round(one.job.seconds, 3),
                                    "gpus": one.job.width,
                                    "failure_rate": round(one.job.failure_rate, 6),
                                }
                                for one in executor.placed
                            ],
                        }
                        for executor in plan.executors
                    ],
                }
                for plan in plans
            ],
            "seconds_guessed": list(guessed),
        },
        indent=1,
    )


def as_matrix(plans: Sequence[Plan], tests: Mapping[str, Test], configs: Collection[str]) -> str:
    """A GitHub job matrix: an entry for each executor that has work.

    `options` and `targets` go to Bazel, parted by spaces. gpus: how many the entry takes of a host;
    all of them where tests of one and of several share it. tests: by label, those of the plans.
    configs: what .bazelrc defines.
    """
    entries = []
    for plan in plans:
        used = [executor for executor in plan.executors if executor.placed]
        for number, executor in enumerate(used, 1):
            own = [tests[one.job.label] for one in executor.placed]
            gpus = plan.width if any(test.gpus for test in own) else 0
            rare = any(test.cadence != PER_COMMIT for test in own)
            entries.append(
                {
                    "pool": plan.pool.name,
                    "gpus": gpus,
                    "shard": number,
                    "shards": len(used),
                    "seconds": round(executor.finish),
                    "options": " ".join(test_options(plan.pool.name, gpus, configs, rare=rare)),
                    "targets": " ".join(test.label for test in own),
                }
            )
    return json.dumps({"include": entries})
