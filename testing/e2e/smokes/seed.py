"""Which problems a run asks."""

from __future__ import annotations

import os
from itertools import islice

from testing.e2e.tasks.problems import Problem, problems


def seed() -> int:
    """Of this run: PLUMBLINE_SEED, or always the same."""
    return int(os.environ.get("PLUMBLINE_SEED", "20261130"))


def some_problems(count: int, tasks: tuple[str, ...] = ()) -> list[Problem]:
    """Held-out problems, of the tasks in turn."""
    return list(islice(problems(seed(), held_out=True, tasks=tasks), count))
