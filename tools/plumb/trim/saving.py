"""Seconds and GPU-seconds that a change saves, by suite and by pool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tools.plumb.cells.model import Model, Test


@dataclass(frozen=True)
class Sum:
    """tests, seconds, gpu_seconds; without_seconds: tests that declare none, and count as 0."""

    tests: int = 0
    seconds: int = 0
    gpu_seconds: int = 0
    without_seconds: int = 0

    def __sub__(self, other: Sum) -> Sum:
        return Sum(
            self.tests - other.tests,
            self.seconds - other.seconds,
            self.gpu_seconds - other.gpu_seconds,
            self.without_seconds - other.without_seconds,
        )


@dataclass(frozen=True)
class Saving:
    """What one suite or pool takes before and after a change."""

    before: Sum
    after: Sum

    @property
    def change(self) -> Sum:
        """After minus before: negative where something is saved."""
        return self.after - self.before


def total(tests: list[Test]) -> Sum:
    """The sum over tests; those that never run take nothing, and are left out."""
    running = [test for test in tests if test.idle is None]
    return Sum(
        len(running),
        sum(test.seconds or 0 for test in running),
        sum(test.gpu_seconds for test in running),
        sum(test.seconds is None for test in running),
    )


def suite_of(test: Test) -> str:
    """The suite that the test names, else its cadence and pool."""
    return test.suite or f"{test.cadence}-{test.pool}"


def by(key: Callable[[Test], str], before: Model, after: Model) -> dict[str, Saving]:
    """Each suite or pool (`key`) that the change touches, sorted by name."""
    old, new = _grouped(key, before.tests), _grouped(key, after.tests)
    found = {}
    for name in sorted({*old, *new}):
        saving = Saving(total(old.get(name, [])), total(new.get(name, [])))
        if set(old.get(name, [])) != set(new.get(name, [])):
            found[name] = saving
    return found


def _grouped(key: Callable[[Test], str], tests: Mapping[str, Test]) -> dict[str, list[Test]]:
    groups: dict[str, list[Test]] = defaultdict(list)
    for test in tests.values():
        groups[key(test)].append(test)
    return groups
