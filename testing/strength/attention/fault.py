"""A fault of attention, and what has to be said of it: what the layer computes, and where."""

from __future__ import annotations

from dataclasses import dataclass

from testing.harness.verdict import Verdict
from testing.strength.fault import Fault, Planted
from testing.strength.places import Named


@dataclass(frozen=True)
class AttentionFault(Fault):
    """A fault whose `check` has to name `places`: each of them begins a place that was found.

    where: places that have to begin one of the check "output", besides.
    """

    where: tuple[Named, ...] = ()


def require_caught(planted: Planted) -> None:
    """Raise AssertionError unless what the fault asks for is named.

    A reading has to be the only one, but for others that give the same output.
    """
    verdict, fault = planted.examine(), planted.fault
    assert isinstance(fault, AttentionFault)
    wanted = [(fault.check, place) for place in fault.places_of(planted.format)]
    wanted += [("output", place) for place in fault.where]
    missing = [place for check, place in wanted if not _names(verdict, check, place)]
    assert not missing, (
        f"'{fault.name}' in {planted.format}: {missing} not named; all findings:\n{verdict}"
    )


def _names(verdict: Verdict, check: str, place: Named) -> bool:
    return any(
        f.check == check and f.family == place[0] and f.place.startswith(place[1])
        for f in verdict.findings
    )
