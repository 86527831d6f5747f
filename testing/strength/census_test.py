"""How many faults there are, of how many kinds, and that no format is left out."""

from testing.strength.census import ATTENTION, LINEAR, MOE, by_format
from testing.strength.fault import KINDS


def test_at_least_sixty_different_faults() -> None:
    names = {("attention", fault.name) for fault in ATTENTION}
    names |= {("linear", fault.name) for fault in LINEAR} | {("moe", fault.name) for fault in MOE}
    print(f"{len(names)} different faults, {sum(map(len, by_format().values()))} plantings")
    assert len(names) >= 60


def test_every_kind_has_a_fault() -> None:
    assert {fault.kind for fault in [*ATTENTION, *LINEAR, *MOE]} == set(KINDS)


def test_every_format_has_a_dozen() -> None:
    few = {fmt: len(faults) for fmt, faults in by_format().items() if len(faults) < 12}
    assert not few, f"formats with fewer than a dozen faults: {few}"
