"""What the optimiser is asked and answers. Kept apart from scipy, which takes long to load."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tools.plumb.cells.model import Cell
from tools.plumb.trim.change import Change


@dataclass(frozen=True)
class Price:
    """What the cheapest choice saves if nobody asks for the claim, or for these claims together.

    claims: several where one test has to stay for each of them alone: giving one up saves nothing.
    exact: False if the time was up before HiGHS could prove it.
    """

    claims: tuple[str, ...]
    gpu_seconds: int
    cpu_seconds: int
    exact: bool


@dataclass(frozen=True)
class Proof:
    """What HiGHS proved. goal: 'GPU-seconds' (and CPU-seconds, added up) or 'weight of cells'.

    value: reached; bound: that no choice can beat; gap: between them, relative; nodes: of the
    branch and bound; rows, columns: of the problem.
    """

    goal: str
    value: int
    bound: float
    gap: float
    proven: bool
    nodes: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Choice:
    """change: what goes and what is merged. kept: cells that stay covered. given_up: that do not.

    undeclared: tests without seconds, which counted as free. prices: empty with a budget.
    unpriced: claims for whose price the time did not suffice. total_weight: of all cells.
    """

    change: Change
    proof: Proof
    gpu_seconds: int
    cpu_seconds: int
    kept: int
    given_up: tuple[Cell, ...]
    undeclared: tuple[str, ...]
    prices: tuple[Price, ...]
    unpriced: int
    total_weight: int


@dataclass(frozen=True)
class Wish:
    """budget: GPU-seconds, or None to keep every cell. waived: cells that may go.

    keep: labels that stay. weights: of claims, for a budget. seconds: of the solver.
    """

    budget: int | None = None
    waived: Collection[Cell] = ()
    keep: Collection[str] = ()
    weights: Mapping[str, int] | None = None
    seconds: float = 60.0
