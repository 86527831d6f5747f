"""A fault to plant in a right layer, and whether the layer tests' own checks find and name it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from testing.harness.records import record
from testing.harness.verdict import Verdict
from testing.strength.places import ELEMENTS, Named

KINDS = {
    "accumulation": "sums over K that lose bits, blocks or an alpha",
    "activation": "the gated activation between two products",
    "combine weights": "what each chosen expert's output is multiplied by",
    "containment": "a NaN, an Inf, a zero row or a stride that reaches other outputs",
    "expert": "rows computed by another expert than the chosen one",
    "fold": "scales of several shards brought together after loading",
    "heads": "a head, or a request, that takes another's",
    "length": "a request that is taken for longer or shorter",
    "loader": "a checkpoint tensor that is missed, cut or taken for another",
    "mask": "keys that a query sees and should not, or the other way round",
    "memory": "writes into memory that a caller holds",
    "padding": "what lies beyond the weight's own rows and columns",
    "page": "keys and values from another page, or from memory that nobody owns",
    "placement": "a right value in another place",
    "range": "floors, flushes and clamps of activations that the rule does not have",
    "rounding": "another rounding than half to even, or one too many",
    "scale dtype": "a scale kept in, or rounded by the rule of, another type",
    "scale": "a scale that is off by a factor",
    "sink": "the logit of a head that no value has",
    "slot": "where a call's keys and values are written",
    "softmax": "the softmax of attention, its soft cap and its parts' merging",
    "swizzle": "block scales in an order that the kernel does not read",
    "top-k": "which experts are chosen",
}


KILLS = "kills.jsonl"
"""Record of which fault was found by whom: {"fault": FORMAT-NAME, "killed": whether}."""


class Bench(ABC):
    """A layer's setting: how to build it as a model does, and to examine it as its test does."""

    @abstractmethod
    def build(self) -> Any:
        """The right layer, loaded."""

    @abstractmethod
    def examine(self, loaded: Any) -> Verdict:
        """With every probe of the layer test."""


Plant = Callable[[Any, ExitStack], Any]
"""(bench, stack) → the loaded faulty layer; the stack keeps what must last while it is examined."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    kind: a key of `KINDS`.
    plant: builds the faulty layer.
    check: one that must find it.
    places: (family, place) of everything that this check names, and nothing else. Findings that no
        part is biased as a whole count only where there are no others. "expert 1" stands for any
        place in it.
    formats: those that can have it.
    bench: which of a format's benches shows it.
    places_in: places by format, where the codes' own values decide on them.
    exact: False where the check may name more places than these.
    """

    name: str
    kind: str
    plant: Plant
    check: str
    places: tuple[Named, ...]
    formats: tuple[str, ...]
    bench: str = "merged"
    places_in: Mapping[str, tuple[Named, ...]] = field(default_factory=dict)
    exact: bool = True

    def places_of(self, fmt: str) -> set[Named]:
        """What has to be named in that format."""
        return set(self.places_in.get(fmt, self.places))


def named(verdict: Verdict, check: str) -> set[Named]:
    """(family, place) of what a check found; where it names a part, elements say no more."""
    places = {(f.family, f.place) for f in verdict.findings if f.check == check}
    return places - {ELEMENTS} or places


@dataclass(frozen=True)
class Planted:
    """A fault in one format."""

    format: str
    fault: Fault
    bench: Bench

    def __str__(self) -> str:
        return f"{self.format}-{self.fault.name}"

    def examine(self) -> Verdict:
        """Plant the fault and ask the layer test's checks."""
        with ExitStack() as stack:
            loaded = self.fault.plant(self.bench, stack)
            return self.bench.examine(loaded)

    def require_caught(self) -> None:
        """Raise AssertionError unless the fault's check names its places and no others."""
        verdict = self.examine()
        found, wanted = named(verdict, self.fault.check), self.fault.places_of(self.format)
        missing = {w for w in wanted if not any(_lies_in(f, w) for f in found)}
        further = {f for f in found if not any(_lies_in(f, w) for w in wanted)}
        caught = not missing and not (self.fault.exact and further)
        record({"fault": str(self), "killed": caught}, KILLS)
        assert caught, (
            f"'{self.fault.name}' in {self.format}: {self.fault.check} names {sorted(found)}, "
            f"wanted {sorted(wanted)}; all findings:\n{verdict}"
        )


def _lies_in(place: Named, wanted: Named) -> bool:
    same = place[1] == wanted[1] or place[1].startswith(f"{wanted[1]},")
    return place[0] == wanted[0] and same


Benches = Mapping[str, Mapping[str, Bench]]
"""{format: {name of the bench: bench}}."""


def right_benches(benches: Benches, formats: Sequence[str]) -> list[tuple[str, str]]:
    """(format, name) of each bench of these formats."""
    return [(fmt, name) for fmt in formats for name in benches[fmt]]


def plantings(
    faults: Sequence[Fault], benches: Benches, formats: Sequence[str] | None = None
) -> list[Planted]:
    """Each fault in each of its formats.

    formats: those wanted; None: all.

    Raises:
        ValueError: a fault of an unknown kind, or of no place, or two of one name.
    """
    for fault in faults:
        if not all(fault.places_of(fmt) for fmt in fault.formats):
            raise ValueError(f"fault '{fault.name}' has no places: say what has to be named")
        if fault.kind not in KINDS:
            raise ValueError(f"fault '{fault.name}' is of kind '{fault.kind}': add it to KINDS")
    names = [fault.name for fault in faults]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two faults are called {sorted(twice)}: give each a name of its own")
    return [
        Planted(fmt, fault, benches[fmt][fault.bench])
        for fault in faults
        for fmt in fault.formats
        if formats is None or fmt in formats
    ]
