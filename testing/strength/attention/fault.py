"""A fault of attention, and what has to be said of it: what the layer computes, and where."""

from __future__ import annotations

from dataclasses import dataclass

from testing.harness.verdict import Verdict
from testing.strength.fault import Fault, Plant, Planted
from testing.strength.places import Named


@dataclass(frozen=True)
class AttentionFault(Fault):
    """A fault whose `check` has to name `places`: each of them begins a place that was found.

    where: places that have to begin one of the check "output", besides.
    """

    where: tuple[Named, ...] = ()


BOTH, DENSE, SWA = ("dense", "swa"), ("dense",), ("swa",)


def fault(
    name: str,
    kind: str,
    plant: Plant,
    says: str | Named,
    bench: str = "extend",
    formats: tuple[str, ...] = BOTH,
    where: tuple[Named, ...] = (),
) -> AttentionFault:
    """says: a reading, or (family, place) of the output."""
    check, place = ("reading", ("reading", says)) if isinstance(says, str) else ("output", says)
    return AttentionFault(name, kind, plant, check, (place,), formats, bench, where=where)


def cache_fault(
    name: str, plant: Plant, family: str, place: str, bench: str = "extend"
) -> AttentionFault:
    """A fault that the check of the cache names."""
    return AttentionFault(name, "slot", plant, "cache", ((family, place),), BOTH, bench)


def element(place: str) -> Named:
    """What lies outside the error model."""
    return "element", place


def require_caught(planted: Planted) -> None:
    """Raise AssertionError unless what the fault asks for is named."""
    verdict, planting = planted.examine(), planted.fault
    assert isinstance(planting, AttentionFault)
    wanted = [(planting.check, place) for place in planting.places_of(planted.format)]
    wanted += [("output", place) for place in planting.where]
    missing = [place for check, place in wanted if not _names(verdict, check, place)]
    assert not missing, (
        f"'{planting.name}' in {planted.format}: {missing} not named; all findings:\n{verdict}"
    )


def _names(verdict: Verdict, check: str, place: Named) -> bool:
    return any(
        f.check == check and f.family == place[0] and f.place.startswith(place[1])
        for f in verdict.findings
    )
