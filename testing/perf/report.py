"""The tables of what was timed, and whether each goal is met as far as the measurement can tell."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from testing.perf.timing import Comparison

MAX_RATIO = 1.03
MAX_EXTRA_US = 15.0
# From this many rows on the GPU has more to do than the host.
MANY_ROWS = 1024

MET, MISSED, UNRESOLVED = "met", "MISSED", "not resolved"

_HEADS = ["method", "backends", "layer µs", "kernels µs", "difference µs", "ratio"]
_HEADS += ["goal", "matmul alone µs", "kernels on the GPU µs"]
_FASTEST_HEADS = ["method", "M", "fastest", "µs", "chosen unasked", "µs"]
_MEMORY_HEADS = ["method", "backends", "checkpoint", "held", "ratio"]


@dataclass(frozen=True)
class Row:
    """One method on one backend with M rows; times in microseconds.

    method, backend: the backend that the matmul was asked of.
    backends: all that the layer uses, the quantiser's first.
    times: the layer's forward, and its kernels called directly.
    matmul: the matmul alone.
    on_gpu: the kernels' time on the GPU, whatever the host takes.
    """

    method: str
    backend: str
    backends: str
    m: int
    times: Comparison
    matmul: float
    on_gpu: float

    @property
    def ratio(self) -> float:
        """The layer's time over that of its kernels."""
        return 1 + self.times.difference / self.times.second

    @property
    def has_goal(self) -> bool:
        """Not the backend that only says what is right."""
        return self.backend != "torch"

    @property
    def verdict(self) -> str:
        """Whether the layer's extra time lies within the goal, spread included."""
        many = self.m >= MANY_ROWS
        goal = (MAX_RATIO - 1) * self.times.second if many else MAX_EXTRA_US
        if self.times.difference + self.times.spread <= goal:
            return MET
        return MISSED if self.times.difference - self.times.spread > goal else UNRESOLVED

    def cells(self, judged: bool) -> list[str]:
        """For the table of its M."""
        times = self.times
        return [
            *(self.method, self.backends, f"{times.first:.1f}", f"{times.second:.1f}"),
            f"{times.difference:+.1f} ± {times.spread:.1f}",
            f"{self.ratio:.3f}",
            self.verdict if judged and self.has_goal else "—",
            *(f"{self.matmul:.1f}", f"{self.on_gpu:.1f}"),
        ]


@dataclass
class Report:
    """What was measured: times, memory, and for each reason the backends that it kept away."""

    times: list[Row] = field(default_factory=list)
    memory: list[list[str]] = field(default_factory=list)
    absent: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def verdicts(self) -> Counter[str]:
        """How many goals were met, missed or not resolved."""
        return Counter(row.verdict for row in self.times if row.has_goal)

    def print(self, judged: bool) -> None:
        """Writes the tables; `judged` says whether the goals hold on this device."""
        for m in sorted({row.m for row in self.times}):
            goal = (
                f"ratio at most {MAX_RATIO}" if m >= MANY_ROWS else f"at most {MAX_EXTRA_US:g} µs"
            )
            print(f"M = {m}" + (f", goal: {goal}" if judged else "") + "\n")
            print(_table(_HEADS, [row.cells(judged) for row in self.times if row.m == m]) + "\n")
        if judged:
            seen = self.verdicts
            counts = ", ".join(f"{seen[name]} {name}" for name in (MET, MISSED, UNRESOLVED))
            print(f"Goals: {counts}.\n")
        fastest = self.fastest()
        if judged and fastest:
            print("Fastest backend by the kernels' time on the GPU, and the layer's own choice:\n")
            print(_table(_FASTEST_HEADS, fastest) + "\n")
        print("Memory after post-load, in bytes:\n")
        print(_table(_MEMORY_HEADS, self.memory))
        if self.absent:
            print("\nNot run here:\n")
        for reason, names in self.absent.items():
            print(f"- {reason}: {', '.join(names)}")

    def fastest(self) -> list[list[str]]:
        """For each method and M with several backends beside `torch`: the fastest, and the first.

        A layer chooses the first that can run, and `times` has them in that order.
        """
        groups: dict[tuple[str, int], list[Row]] = defaultdict(list)
        for row in self.times:
            if row.has_goal:
                groups[row.method, row.m].append(row)
        lines = []
        for (method, m), rows in groups.items():
            best, first = min(rows, key=lambda row: row.on_gpu), rows[0]
            if len(rows) > 1:
                pairs = [(row.backend, f"{row.on_gpu:.1f}") for row in (best, first)]
                lines.append([method, str(m), *pairs[0], *pairs[1]])
        return lines


def _table(heads: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
