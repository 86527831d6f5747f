"""Leaves out affected tests that would read the same: what --precise does.

The target graph shows that a rule or a generated file may come out different. Whether it does,
only building it at both revisions shows: a rule that was rewritten to the same actions, or a
generated file with the same content, makes no test run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from tools.plumb import bazel
from tools.plumb.answer.report import by_pool
from tools.plumb.cache import Notify
from tools.plumb.compare.affected import INPUT, Affected, Comparison
from tools.plumb.options import rc, reach
from tools.plumb.pool_options import configs_of
from tools.plumb.precise.read import NotBuiltError, Reader
from tools.plumb.revision import Revision


@dataclass(frozen=True)
class Side:
    """A revision to build.

    checkout: gives a folder that holds it, the same for both sides. where: which revision it is,
    in words. named: configs to build under instead of the pool's own.
    """

    revision: Revision
    checkout: Callable[[], AbstractContextManager[bazel.Place]]
    where: str
    named: Sequence[str] | None = None

    def options(self, pool: str) -> list[str]:
        """Options of `bazel build` that make what tests of the pool read.

        Those that .bazelrc gives `bazel test` alone are among them.
        """
        steering = self.revision.steering
        configs = configs_of(pool, steering.configs, self.named)
        alone = rc.of_tests_alone(steering.options, configs)
        telling = reach.of_every_test(alone) | reach.of_languages(alone)
        telling |= {k: v for k, v in alone.items() if reach.is_flag(k) or k == "define"}
        return [
            *(f"--config={config}" for config in configs),
            "--build_tag_filters=",
            *(f"--{name}={value}" for name, values in telling.items() for value in values),
        ]


def narrow(comparison: Comparison, base: Side, head: Side, notify: Notify) -> Comparison:
    """The comparison without tests whose action and inputs are the same at both revisions.

    What cannot be built at one of them stays affected.
    """
    asked = [test for test in comparison.tests if _is_open(comparison, test)]
    if not asked:
        return comparison
    older, newer = (_digests(side, asked, notify) for side in (base, head))
    same = {label for label, digest in newer.items() if older.get(label) == digest}
    return replace(
        comparison,
        tests=[test for test in comparison.tests if test.label not in same],
        unchanged=sorted(same),
    )


def _is_open(comparison: Comparison, test: Affected) -> bool:
    """True if the graph alone does not settle it: wheels and the like are never built here."""
    tracer = comparison.tracer
    if test.cause != INPUT or tracer is None or "#" in test.label or '"' in test.label:
        return False
    return not tracer.reaches_outside(test.label)


def _digests(side: Side, tests: list[Affected], notify: Notify) -> dict[str, str]:
    found: dict[str, str] = {}
    with side.checkout() as place:
        for pool, members in by_pool(tests).items():
            reader = Reader(place, side.options(pool), notify, side.where)
            try:
                found |= reader.digests([test.label for test in members])
            except NotBuiltError as error:
                notify(f"pool {pool} stays as it is, since not all can be built: {error}")
    return found
