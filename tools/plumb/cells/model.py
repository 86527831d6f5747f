"""What a coverage cell is, and which tests cover it: claims, tests, cells and their relation.

A cell is a claim on one architecture at one cadence. A test covers it if the test names the claim,
is of the claim's level, runs on that architecture, and runs at least as often as the cell asks.
Nothing weaker counts: a layer test on sm90 says nothing of sm100, a nightly one nothing of what a
commit breaks, and one that skips itself nothing at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

PER_COMMIT, LABELLED, NIGHTLY, WEEKLY = "per-commit", "labelled", "nightly", "weekly"
# Each cadence to those that it fulfils beside itself. What a label starts runs on no schedule.
_FULFILS = {
    PER_COMMIT: frozenset({LABELLED, NIGHTLY, WEEKLY}),
    LABELLED: frozenset[str](),
    NIGHTLY: frozenset({WEEKLY}),
    WEEKLY: frozenset[str](),
}
CADENCES = tuple(_FULFILS)
LEVELS = ("layer", "e2e", "perf", "unit")


def fulfils(cadence: str, wanted: str) -> bool:
    """True if what runs at `cadence` runs at least as often as `wanted` asks."""
    return cadence == wanted or wanted in _FULFILS.get(cadence, ())


@dataclass(frozen=True)
class Cell:
    """A claim on one architecture ('cpu', 'sm90') at one cadence."""

    claim: str
    arch: str
    cadence: str

    def __str__(self) -> str:
        return f"{self.claim} on {self.arch}, {self.cadence}"

    @property
    def order(self) -> tuple[str, bool, int, str, int, str]:
        """What cells are sorted by: claim, architecture (cpu first), cadence (most often first)."""
        rank = CADENCES.index(self.cadence) if self.cadence in CADENCES else len(CADENCES)
        return (self.claim, *arch_order(self.arch), rank, self.cadence)


def arch_order(arch: str) -> tuple[bool, int, str]:
    """What architectures are sorted by: cpu first, then sm80, sm90, sm100 by number."""
    # Not str.isdigit, which takes ² too; nor more digits than a number is made of.
    digits = "".join(re.findall("[0-9]", arch))[:9]
    return (arch != "cpu", int(digits or 0), arch)


@dataclass(frozen=True)
class Claim:
    """A behaviour that tests vouch for.

    sentence: what it says. level: the kind of test that can show it; None if it does not say.
    demands: (architecture, cadence) of each cell that has to be covered. label: where it is
    registered; None if tests name it and nothing registers it.
    """

    name: str
    sentence: str = ""
    level: str | None = None
    demands: tuple[tuple[str, str], ...] = ()
    label: str | None = None

    @property
    def cells(self) -> list[Cell]:
        """The cells that it demands."""
        return [Cell(self.name, arch, cadence) for arch, cadence in self.demands]


@dataclass(frozen=True)
class Test:
    """A test target.

    pool, arch, gpus: where it runs; arch is 'cpu' on the CPU, and the pool's name where nothing
    says which; gpus is 0 on the CPU. seconds: None if undeclared. cadence: per-commit where
    unsaid, since `bazel test` runs it. level: None if undeclared. covers: claims by name.
    skipped_on: architecture to why the test skips itself there ("" if unsaid).
    idle: why it never runs, such as 'tagged manual'; None if it does. srcs: labels of its sources.
    package: without '//'. place: 'pkg/BUILD.bazel:21', where it is declared; None if not known.
    """

    __test__ = False  # pytest would collect the name

    label: str
    pool: str = "cpu"
    arch: str = "cpu"
    gpus: int = 0
    seconds: int | None = None
    cadence: str = PER_COMMIT
    suite: str | None = None
    level: str | None = None
    covers: tuple[str, ...] = ()
    skipped_on: Mapping[str, str] = field(default_factory=dict, hash=False)
    idle: str | None = None
    srcs: tuple[str, ...] = ()
    place: str | None = None

    @property
    def package(self) -> str:
        """The package's path."""
        return self.label.removeprefix("//").partition(":")[0]

    @property
    def gpu_seconds(self) -> int:
        """Seconds times GPUs; 0 for a CPU test or an undeclared time."""
        return (self.seconds or 0) * self.gpus

    @property
    def skips(self) -> bool:
        """True if it skips itself where it runs."""
        return self.arch in self.skipped_on

    @property
    def runs(self) -> bool:
        """True if it asserts something, somewhere, some day."""
        return self.idle is None and not self.skips

    def given(self) -> list[Cell]:
        """The cells of its own architecture and cadence, if it runs."""
        return [Cell(claim, self.arch, self.cadence) for claim in self.covers] if self.runs else []


@dataclass(frozen=True)
class Model:
    """The claims and tests of a workspace, by name and label, and what covers what.

    Claims that tests name and nothing registers are among the claims, without label.
    problems: what contradicts itself in the declarations, a sentence each, with what to write.
    """

    claims: Mapping[str, Claim]
    tests: Mapping[str, Test]
    problems: tuple[str, ...] = ()

    @cached_property
    def by_claim(self) -> Mapping[str, tuple[Test, ...]]:
        """Claim to the tests that name it, running or not, sorted by label."""
        found: dict[str, list[Test]] = {name: [] for name in self.claims}
        for _, test in sorted(self.tests.items()):
            for claim in dict.fromkeys(test.covers):
                found.setdefault(claim, []).append(test)
        return {name: tuple(tests) for name, tests in found.items()}

    @cached_property
    def demanded(self) -> frozenset[Cell]:
        """The cells that claims demand."""
        return frozenset(cell for claim in self.claims.values() for cell in claim.cells)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Each cell that a claim demands or a test covers at its own cadence, sorted."""
        given = {
            cell for test in self.tests.values() for cell in test.given() if self.covers(test, cell)
        }
        return tuple(sorted(self.demanded | given, key=lambda cell: cell.order))

    def covers(self, test: Test, cell: Cell) -> bool:
        """True if the test covers the cell, in full."""
        return (
            cell.claim in test.covers
            and test.runs
            and test.arch == cell.arch
            and self.of_level(test, cell.claim)
            and fulfils(test.cadence, cell.cadence)
        )

    def of_level(self, test: Test, claim: str) -> bool:
        """True if the test is of the level that the claim needs; an undeclared level passes."""
        known = self.claims.get(claim)
        levels = {test.level, known.level if known else None} - {None}
        return len(levels) < 2

    def covering(self, cell: Cell) -> tuple[Test, ...]:
        """The tests that cover the cell, sorted by label."""
        return tuple(test for test in self.by_claim.get(cell.claim, ()) if self.covers(test, cell))

    def with_tests(self, tests: Iterable[Test]) -> Model:
        """The model of the same claims with these tests and no others; problems are left out."""
        kept = {test.label: test for test in tests}
        named = {claim for test in kept.values() for claim in test.covers}
        claims = {n: c for n, c in self.claims.items() if c.label is not None or n in named}
        unknown = {name: Claim(name) for name in named - claims.keys()}
        return Model({**claims, **unknown}, kept)

    def without(self, labels: Iterable[str]) -> Model:
        """The model after the tests of these labels are deleted.

        Claims that only they named are kept, so that their cells can be asked about.
        """
        gone = set(labels)
        kept = {label: test for label, test in self.tests.items() if label not in gone}
        return replace(self, tests=kept, problems=())

    def filtered(self, keep: Callable[[Test], bool]) -> Model:
        """The model of the tests that `keep` takes; claims stay."""
        kept = {label: test for label, test in self.tests.items() if keep(test)}
        return replace(self, tests=kept)
