"""How fast attention is: our Triton kernel beside FlashInfer's, and the layer beside its kernel.

    tools/bazel run --config=h100 //testing/perf/attention:speed

For decode and extend, at several numbers of requests and lengths of context, both kernels run in
pairs on the same cache (testing/perf/timing.py), as CUDA graphs, with 32 query heads, 8 of keys,
head size 128, bfloat16 and pages of 16 in a random order. A rate is bytes of keys and values for
decode, arithmetic on visible pairs for extend. Goals: at least 0.7 of FlashInfer's rate for decode
and 0.5 for extend; and a layer's forward, which also writes keys and values, at most 5 % over its
kernel at 32 requests of 8192. Only the last column has the host's launches in it. Rows are printed
as they are measured, and kept in a file by `--out`. The exit code is 0, unless `--require` is given
and a goal is missed or not resolved. On a CPU, where goals do not hold, a small layer is timed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import torch

from layers.attention.layer import Attention
from layers.kernels.capability import BackendUnavailable
from testing.perf.attention.batch import Batch, Sizes, random_batch, ready_layer
from testing.perf.attention.goals import (
    KERNEL_HEADS,
    LAYER_HEADS,
    MET,
    MISSED,
    UNRESOLVED,
    KernelRow,
    LayerRow,
)
from testing.perf.attention.graphed import graphed
from testing.perf.attention.report import Report
from testing.perf.timing import alone, compare, gpu_time, quiet_host, wall_time

BACKENDS = ("triton", "flashinfer", "torch")
PAIRS = 3


def ready_layers(sizes: Sizes, device: torch.device) -> tuple[dict[str, Attention], list[str]]:
    """A layer a backend that can run here, and why the others cannot.

    Torch is left out where another can run: a loop over requests, it takes seconds.
    """
    layers: dict[str, Attention] = {}
    absent: list[str] = []
    for backend in BACKENDS:
        try:
            if backend != "torch" or not layers:
                layers[backend] = ready_layer(sizes, backend, device)
        except BackendUnavailable as error:
            absent.append(str(error).partition(". Backends")[0])
    return layers, absent


def compare_kernels(layers: dict[str, Attention], batch: Batch, rounds: int) -> KernelRow:
    """Times both kernels on one batch."""
    arguments = (batch.q, batch.cache, batch.metadata, None)
    ours, theirs = (
        graphed(partial(layers[name].attend, *arguments), batch.q.device)
        for name in ("triton", "flashinfer")
    )
    return KernelRow(batch, compare(ours, theirs, rounds * PAIRS, gpu_time))


def compare_layer(name: str, layer: Attention, batch: Batch, rounds: int) -> LayerRow:
    """Times a layer's forward and its kernel on one batch."""

    def forward() -> object:
        return layer(batch.q, batch.k, batch.v, batch.cache, batch.metadata)

    kernel = partial(layer.attend, batch.q, batch.cache, batch.metadata, None)
    device = batch.q.device
    times = compare(graphed(forward, device), graphed(kernel, device), rounds * PAIRS, gpu_time)
    return LayerRow(batch, name, times, alone(forward, rounds, wall_time))


def shapes(args: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    """(mode, requests, context) of every batch."""
    return product(args.modes, args.requests, args.contexts)


def warm(layers: dict[str, Attention], args: argparse.Namespace) -> None:
    """Compiles all that is measured, while the host still has all its cores.

    FlashInfer compiles as it plans, for a minute: both modes side by side, beside Triton's kernels.
    """
    started = time.monotonic()

    def plan(mode: str) -> None:
        batch = random_batch(args.sizes, mode, 1, args.contexts[0], args.device)
        layers["flashinfer"].plan(batch.cache, batch.metadata)
        _progress(f"flashinfer, {mode}", started)

    with ThreadPoolExecutor(len(args.modes)) as threads:
        planned = [threads.submit(plan, m) for m in args.modes if "flashinfer" in layers]
        for name in layers.keys() - {"flashinfer"}:
            for shape in shapes(args):
                batch = random_batch(args.sizes, *shape, args.device)
                layers[name](batch.q, batch.k, batch.v, batch.cache, batch.metadata)
            _progress(name, started)
        for done in planned:
            done.result()


def _progress(what: str, started: float) -> None:
    print(f"compiled: {what}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def measure(layers: dict[str, Attention], args: argparse.Namespace, report: Report) -> Counter[str]:
    """Both tables, a row as it is measured; gives how often each verdict on a goal."""
    judged = args.device.type == "cuda"
    verdicts: Counter[str] = Counter()
    if {"triton", "flashinfer"} <= layers.keys():
        for shape in shapes(args):
            batch = random_batch(args.sizes, *shape, args.device)
            kernel = compare_kernels(layers, batch, args.rounds)
            report.row(KERNEL_HEADS, kernel.cells(judged))
            verdicts[kernel.verdict] += 1
    for shape in shapes(args):
        batch = random_batch(args.sizes, *shape, args.device)
        for name, layer in layers.items():
            row = compare_layer(name, layer, batch, args.rounds)
            report.row(LAYER_HEADS, row.cells(judged))
            verdicts[row.verdict] += row.has_goal
    return verdicts


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}, wanted a whole number from 1")
    return int(text)


def parse() -> argparse.Namespace:
    """Arguments; a CPU is given a smaller layer, since a large one takes minutes."""
    small = not torch.cuda.is_available()
    parser = argparse.ArgumentParser(
        prog="tools/bazel run --config=h100 //testing/perf/attention:speed --",
        description="How fast attention is, and what a layer costs beyond its kernel.",
    )
    requests, contexts = ([1, 2], [64]) if small else ([1, 32, 256], [1024, 8192])
    modes = ("decode", "extend")
    parser.add_argument("--modes", nargs="+", choices=modes, default=modes)
    parser.add_argument("--requests", type=_count, nargs="+", default=requests, metavar="B")
    parser.add_argument("--contexts", type=_count, nargs="+", default=contexts, metavar="N")
    parser.add_argument("--rounds", type=_count, default=1 if small else 5, help="of 3 pairs")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keeps what is printed as well")
    parser.add_argument("--require", action="store_true", help="exit 1 unless every goal is met")
    args = parser.parse_args()
    args.sizes = Sizes(4, 2, 64) if small else Sizes(32, 8, 128)
    args.device = torch.device("cpu") if small else torch.device("cuda", 0)
    return args


def main() -> int:
    """Prints the tables; 1 if goals were required and one was not seen to be met."""
    args = parse()
    judged = args.device.type == "cuda"
    report = Report(args.out)
    name = torch.cuda.get_device_name(args.device) if judged else "CPU"
    report.say(f"{name}, torch {torch.__version__}, {args.sizes}, {args.rounds} rounds")
    layers, absent = ready_layers(args.sizes, args.device)
    with torch.inference_mode():
        warm(layers, args)
        with quiet_host():
            verdicts = measure(layers, args, report)
    if judged:
        goals = ", ".join(f"{verdicts[v]} {v}" for v in (MET, MISSED, UNRESOLVED))
        report.say(f"Goals: {goals}.")
    for reason in absent:
        report.say(f"Not run here: {reason}.")
    return int(args.require and judged and {v for v, n in verdicts.items() if n} != {MET})


if __name__ == "__main__":
    raise SystemExit(main())
