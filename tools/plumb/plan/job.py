"""What is planned, and onto what: tests with their seconds and GPUs, and pools of hosts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Job:
    """A test to run.

    seconds: expected, at least 0. width: slots of one host that it takes at a time (its GPUs, or
    one). failure_rate: of its recent runs, 0 if nothing is known.
    """

    label: str
    seconds: float
    width: int = 1
    failure_rate: float = 0.0


@dataclass(frozen=True)
class Pool:
    """Identical hosts.

    slots: of each host, such as its GPUs. start_seconds: before the first test of a slot. saved:
    seconds that each further test of a slot takes less than its own, such as an import that a
    process makes once.
    """

    name: str
    hosts: int = 1
    slots: int = 1
    start_seconds: float = 0.0
    saved_seconds: float = 0.0

    def cost(self, job: Job) -> float:
        """Seconds of a test that is not the first in its slot."""
        return max(job.seconds - self.saved_seconds, 0.0)


@dataclass(frozen=True)
class Placed:
    """A test with its time: seconds since the plan's beginning."""

    job: Job
    start: float
    end: float


@dataclass
class Executor:
    """What one slot of a host (or `width` of them) runs, in order."""

    host: int
    placed: list[Placed] = field(default_factory=list)

    @property
    def finish(self) -> float:
        """When it is done; 0 if it has nothing to do."""
        return max((one.end for one in self.placed), default=0.0)
