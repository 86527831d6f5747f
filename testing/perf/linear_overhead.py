"""What a quantised linear layer's forward costs beyond its kernels, on each backend that can run.

    tools/bazel run --config=h100 //testing/perf:linear_overhead

For each method and backend, with N = K, one layer is loaded from a random checkpoint; then, side by
side in one run, are timed

- the layer's forward;
- its kernels alone: the activation quantiser and the matmul, called on the same prepared tensors;
- the matmul alone, on codes quantised before: what a checkpoint in this format gains at most.

Few rows are bound by the host, so they are measured by wall clock, many calls between two
synchronisations; many rows by events on the GPU. Goals: forward over kernels at most 1.03 at
M 4096, and at most 15 µs more at M 1. The backend `torch`, which says what is right and serves
nobody, has none. Backends that cannot run are listed with the device that they need. The exit code
is 0, unless `--require` is given and a goal is missed. On a CPU, where goals do not hold, a small
layer is timed.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass, field

import torch

from layers.kernels.capability import BackendUnavailable
from testing.perf.direct import matmul, quantiser
from testing.perf.methods import METHODS, TimedMethod
from testing.perf.random_layer import DTYPE, Loaded, load
from testing.perf.timing import medians

MAX_RATIO = 1.03
MAX_EXTRA_US = 15.0
# From this many rows on the GPU has more to do than the host.
MANY_ROWS = 1024


@dataclass(frozen=True)
class Row:
    """One method on one backend with M rows; times in microseconds."""

    method: str
    backends: str
    m: int
    layer: float
    kernels: float
    matmul: float

    @property
    def goal(self) -> str:
        """The goal that holds for this M."""
        return f"≤ {MAX_RATIO}" if self.m >= MANY_ROWS else f"≤ {MAX_EXTRA_US:g} µs"

    @property
    def has_goal(self) -> bool:
        """Not the backend that only says what is right."""
        return self.backends.split(" + ")[-1] != "torch"

    @property
    def met(self) -> bool:
        """Whether it is reached."""
        if self.m >= MANY_ROWS:
            return self.layer / self.kernels <= MAX_RATIO
        return self.layer - self.kernels <= MAX_EXTRA_US

    def cells(self, judged: bool) -> list[str]:
        """For the table."""
        mark = ("met" if self.met else "MISSED") if judged and self.has_goal else "—"
        return [
            *(self.method, self.backends, str(self.m)),
            *(f"{us:.1f}" for us in (self.layer, self.kernels)),
            *(f"{self.layer / self.kernels:.3f}", f"{self.layer - self.kernels:+.1f}"),
            *(self.goal, mark, f"{self.matmul:.1f}"),
        ]


HEADS = ["method", "backends", "M", "layer µs", "kernels µs", "ratio", "difference µs"]
HEADS += ["goal", "", "matmul alone µs"]
MEMORY_HEADS = ["method", "backends", "checkpoint", "held", "ratio"]


@dataclass
class Report:
    """What was measured: times, memory, and for each reason the backends that it kept away."""

    times: list[Row] = field(default_factory=list)
    memory: list[list[str]] = field(default_factory=list)
    absent: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def goals(self) -> list[bool]:
        """Whether each goal was met."""
        return [row.met for row in self.times if row.has_goal]

    def print(self, judged: bool) -> None:
        """Writes the tables; `judged` says whether the goals hold on this device."""
        print(table(HEADS, [row.cells(judged) for row in self.times]))
        if judged:
            print(f"\n{sum(self.goals)} of {len(self.goals)} goals met.")
        print("\nMemory after post-load, in bytes:\n")
        print(table(MEMORY_HEADS, self.memory))
        if self.absent:
            print("\nNot run here:\n")
        for reason, names in self.absent.items():
            print(f"- {reason}: {', '.join(names)}")


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def measure(name: str, loaded: Loaded, m: int, rounds: int) -> Row:
    """Times a layer that is ready with x (M, K)."""
    layer = loaded.layer
    x = torch.randn(m, layer.layout.inputs.size, dtype=DTYPE, device=layer.device)
    quantise, multiply = quantiser(layer), matmul(layer)
    operands = quantise(x)
    calls = {
        "layer": lambda: layer(x),
        "kernels": lambda: multiply(*quantise(x)),
        "matmul": lambda: multiply(*operands),
    }
    with torch.inference_mode():
        times = medians(calls, rounds=rounds, host=m < MANY_ROWS)
    return Row(name, _backends(loaded), m, **times)


def run_backend(
    report: Report, method: TimedMethod, backend: str, args: argparse.Namespace
) -> None:
    """Adds what one method's layer costs on one backend, or why it cannot run there."""
    try:
        loaded = load(method, backend, args.size, args.device)
    except BackendUnavailable as error:
        reason = str(error).partition(f"backend '{backend}' ")[2].partition(". Backends")[0]
        report.absent[reason].append(f"{method.name} ({backend})")
        return
    for m in args.rows:
        report.times.append(measure(method.name, loaded, m, args.rounds))
    sizes = (loaded.checkpoint_bytes, loaded.held_bytes)
    ratio = f"{sizes[1] / sizes[0]:.4f}"
    report.memory.append([method.name, _backends(loaded), *(f"{s:,}" for s in sizes), ratio])


def _backends(loaded: Loaded) -> str:
    return " + ".join(dict.fromkeys(getattr(loaded.layer.quant_method, "backends", {}).values()))


def parse() -> argparse.Namespace:
    """Arguments; a CPU is given a smaller layer, since a large one takes minutes."""
    small = not torch.cuda.is_available()
    parser = argparse.ArgumentParser(description="What a linear layer costs beyond its kernels.")
    parser.add_argument("--size", type=int, default=512 if small else 4096, help="N and K")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 64] if small else [1, 4096])
    parser.add_argument("--rounds", type=int, default=5 if small else 25)
    parser.add_argument("--method", default="", help="only methods whose name holds this")
    parser.add_argument("--backends", nargs="+", help="only these backends")
    parser.add_argument("--require", action="store_true", help="exit 1 if a goal is missed")
    args = parser.parse_args()
    args.device = torch.device("cpu") if small else torch.device("cuda", 0)
    return args


def main() -> int:
    """Prints the tables; 1 if goals were required and one is missed."""
    args = parse()
    judged = args.device.type == "cuda"
    name = torch.cuda.get_device_name(args.device) if judged else "CPU"
    print(f"{name}, torch {torch.__version__}, N = K = {args.size}, medians of {args.rounds}\n")
    report = Report()
    for method in METHODS:
        for backend in method.operation.backends:
            if args.method in method.name and backend.name in (args.backends or [backend.name]):
                run_backend(report, method, backend.name, args)
    report.print(judged)
    return int(args.require and judged and not all(report.goals))


if __name__ == "__main__":
    raise SystemExit(main())
