"""A proposal to delete or to merge, with what speaks for it and what against."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tools.plumb.cells.model import Test


class Kind(StrEnum):
    """Why a test is proposed."""

    TWINS = "twins"
    SERVERS = "mergeable servers"
    DEAD = "dead"
    DOMINATED = "dominated"
    STALE = "stale seconds"


@dataclass(frozen=True)
class Candidate:
    """One proposal.

    tests: labels that it is about; what goes comes first. saves: seconds and GPU-seconds, None if
    nothing can be said. evidence: lines that show it. doubts: lines that speak against it.
    """

    kind: Kind
    title: str
    tests: tuple[str, ...]
    seconds: int = 0
    gpu_seconds: int = 0
    evidence: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def cost(test: Test) -> tuple[int, int]:
    """What tests are compared by: GPU-seconds, then seconds."""
    return test.gpu_seconds, test.seconds or 0
