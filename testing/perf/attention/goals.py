"""What was timed, and whether it meets its goal as far as the measurement can tell."""

from __future__ import annotations

from dataclasses import dataclass

from testing.perf.attention.batch import Batch
from testing.perf.timing import Comparison

# Of FlashInfer's rate, for our kernel; and of the bare kernel's time, for the layer's forward.
MIN_RATE = {"decode": 0.7, "extend": 0.5}
MAX_OVERHEAD = 0.05
OVERHEAD_AT = ("decode", 32, 8192)

MET, MISSED, UNRESOLVED, NO_GOAL = "met", "MISSED", "not resolved", "—"

KERNEL_HEADS = ["mode", "requests", "context", "query tokens", "triton µs", "flashinfer µs"]
KERNEL_HEADS += ["triton", "flashinfer", "ratio of rates", "goal", ""]
LAYER_HEADS = ["mode", "requests", "context", "backend", "layer µs", "kernel µs"]
LAYER_HEADS += ["difference µs", "over", "goal", "", "layer µs by the wall clock"]


@dataclass(frozen=True)
class KernelRow:
    """Our Triton kernel (first) beside FlashInfer's (second), microseconds on the GPU."""

    batch: Batch
    times: Comparison

    @property
    def ratio(self) -> float:
        """Our rate over theirs."""
        return self.times.second / self.times.first

    @property
    def verdict(self) -> str:
        """Whether our time lies within the goal, spread included."""
        return judge(
            self.times.first, self.times.spread, self.times.second / MIN_RATE[self.batch.mode]
        )

    def cells(self, judged: bool) -> list[str]:
        """Of the table."""
        b = self.batch
        return [
            *(b.mode, str(b.requests), str(b.context), str(b.queries * b.requests)),
            *(f"{self.times.first:.1f}", f"{self.times.second:.1f}"),
            *(self._rate(self.times.first), self._rate(self.times.second)),
            *(f"{self.ratio:.2f}", f"{MIN_RATE[b.mode]}", self.verdict if judged else NO_GOAL),
        ]

    def _rate(self, us: float) -> str:
        if self.batch.mode == "decode":
            return f"{self.batch.key_bytes / us / 1e6:.2f} TB/s"
        return f"{self.batch.operations / us / 1e6:.0f} TFLOP/s"


@dataclass(frozen=True)
class LayerRow:
    """A layer's forward (first) beside its kernel alone (second), microseconds on the GPU."""

    batch: Batch
    backend: str
    times: Comparison
    wall: float

    @property
    def has_goal(self) -> bool:
        """Where the goal is set, and not for the backend that only says what is right."""
        at = (self.batch.mode, self.batch.requests, self.batch.context)
        return at == OVERHEAD_AT and self.backend != "torch"

    @property
    def verdict(self) -> str:
        """Whether what the layer adds lies within the goal, spread included."""
        return judge(self.times.difference, self.times.spread, MAX_OVERHEAD * self.times.second)

    def cells(self, judged: bool) -> list[str]:
        """Of the table."""
        b, times = self.batch, self.times
        has_goal = self.has_goal and judged
        return [
            *(b.mode, str(b.requests), str(b.context), self.backend),
            *(f"{times.first:.1f}", f"{times.second:.1f}"),
            f"{times.difference:+.1f} ± {times.spread:.1f}",
            f"{100 * times.difference / times.second:+.1f} %",
            f"{100 * MAX_OVERHEAD:g} %" if has_goal else NO_GOAL,
            self.verdict if has_goal else NO_GOAL,
            f"{self.wall:.1f}",
        ]


def judge(value: float, spread: float, limit: float) -> str:
    """Whether a value that is known to within its spread is at most the limit."""
    if value + spread <= limit:
        return MET
    return MISSED if value - spread > limit else UNRESOLVED


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
