"""What was timed of MLA, and whether it meets its goal as far as the measurement can tell."""

from __future__ import annotations

from dataclasses import dataclass

from testing.perf.attention.goals import MIN_RATE, NO_GOAL, judge
from testing.perf.mla.batch import Batch
from testing.perf.timing import Comparison

KERNEL_HEADS = ["mode", "heads", "requests", "context", "query tokens", "backend", "µs"]
KERNEL_HEADS += ["rate", "flashinfer µs", "ratio of rates", "goal", ""]
LAYER_HEADS = ["mode", "heads", "requests", "context", "backend", "layer µs", "products and kernel"]
LAYER_HEADS += ["difference µs", "over", "layer µs by the wall clock"]


@dataclass(frozen=True)
class KernelRow:
    """A kernel (first) beside FlashInfer's (second), microseconds on the GPU."""

    batch: Batch
    backend: str
    times: Comparison

    @property
    def has_goal(self) -> bool:
        """Our own kernel has."""
        return self.backend == "triton"

    @property
    def least_rate(self) -> float:
        """Of FlashInfer's; prompts are a kind of extend."""
        return MIN_RATE["decode" if self.batch.mode == "decode" else "extend"]

    @property
    def verdict(self) -> str:
        """Whether our time lies within the goal, spread included."""
        times = self.times
        return judge(times.first, times.spread, times.second / self.least_rate)

    def cells(self) -> list[str]:
        """Of the table."""
        b, times = self.batch, self.times
        work = b.latent_bytes if b.mode == "decode" else b.operations
        unit = "TB/s" if b.mode == "decode" else "TFLOP/s"
        goal = (f"{self.least_rate}", self.verdict) if self.has_goal else (NO_GOAL, NO_GOAL)
        return [
            *(b.mode, str(b.heads), str(b.requests), str(b.context), str(b.queries * b.requests)),
            *(self.backend, f"{times.first:.1f}", f"{work / times.first / 1e6:.3g} {unit}"),
            *(f"{times.second:.1f}", f"{times.second / times.first:.2f}", *goal),
        ]


@dataclass(frozen=True)
class LayerRow:
    """A layer's forward (first) beside its parts (second), microseconds on the GPU.

    wall: of the forward, the host's launches included, as no CUDA graph hides them.
    """

    batch: Batch
    backend: str
    times: Comparison
    wall: float

    def cells(self) -> list[str]:
        """Of the table."""
        b, times = self.batch, self.times
        return [
            *(b.mode, str(b.heads), str(b.requests), str(b.context), self.backend),
            *(f"{times.first:.1f}", f"{times.second:.1f}"),
            f"{times.difference:+.1f} ± {times.spread:.1f}",
            f"{100 * times.difference / times.second:+.1f} %",
            f"{self.wall:.1f}",
        ]
