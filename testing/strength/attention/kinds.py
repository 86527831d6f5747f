"""Faults by what has to be said of them: a reading, or a place."""

from __future__ import annotations

from testing.strength.fault import Fault, Plant
from testing.strength.places import Named

WHOLE: Named = ("whole", "the whole output")


def reads(
    formats: tuple[str, ...],
    name: str,
    kind: str,
    plant: Plant,
    reading: str,
    bench: str = "extend",
) -> Fault:
    """A fault that has to be explained by this reading and no other."""
    return Fault(name, kind, plant, "reading", (("reading", reading),), formats, bench)


def shows(
    formats: tuple[str, ...],
    name: str,
    kind: str,
    plant: Plant,
    *places: Named,
    bench: str = "extend",
    check: str = "output",
) -> Fault:
    """A fault that no reading explains, but whose places have to be named."""
    return Fault(name, kind, plant, check, places, formats, bench, exact=False)
