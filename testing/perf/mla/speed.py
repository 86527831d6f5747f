"""How fast MLA is: each kernel beside FlashInfer's, and the layer beside its parts.

    tools/bazel run --config=h100 //testing/perf/mla:speed

DeepSeek-V3's sizes in bfloat16, pages of 64 in a random order, with 128 heads and with the 16 of a
rank of eight. Kernels run in pairs on the same cache (testing/perf/timing.py), as CUDA graphs. A
rate is bytes of latents for decode, arithmetic on visible pairs otherwise. Goals: at least 0.7 of
FlashInfer's rate for decode and 0.5 for extend, of our Triton kernel. A layer is timed beside the
products with its weight's halves and the kernel, by which it adds rotation and the writing of the
cache. Mode "unabsorbed", of whole prompts, has to be asked for: FlashInfer compiles for minutes.
Rows are printed as they are measured, and kept in a file by `--out`. The exit code is 0, unless
`--require` is given and a goal is missed or not resolved. On a CPU, where goals do not hold, a
small batch is timed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import torch

from layers.attention.mla.layer import MLAAttention
from layers.kernels.capability import BackendUnavailable
from testing.perf.attention.goals import MET, MISSED, UNRESOLVED
from testing.perf.attention.graphed import graphed
from testing.perf.attention.report import Report
from testing.perf.mla.batch import Batch, random_batch, ready_layer
from testing.perf.mla.rows import KERNEL_HEADS, LAYER_HEADS, KernelRow, LayerRow
from testing.perf.timing import alone, compare, gpu_time, quiet_host, wall_time

BACKENDS = {"decode": ("triton", "flashmla"), "extend": ("triton",), "unabsorbed": ("triton",)}
BESIDE = "flashinfer"
PAIRS = 3
# Keys and values of every head, of prompts beyond, would not fit a GPU.
MOST_PROMPT_TOKENS = 32768

Layers = dict[tuple[str, int], dict[str, MLAAttention]]
"""By mode and heads, then by backend."""


def ready_layers(args: argparse.Namespace) -> tuple[Layers, list[str]]:
    """A layer a backend that can run here, and why the others cannot.

    Torch is left out where another can run: a loop over requests, it takes seconds.
    """
    layers: Layers = {}
    absent: list[str] = []
    for mode, heads in product(args.modes, args.heads):
        found = layers[mode, heads] = {}
        for backend in (*BACKENDS[mode], BESIDE, "torch"):
            try:
                if backend != "torch" or not found:
                    found[backend] = ready_layer(heads, mode, backend, args.device)
            except BackendUnavailable as error:
                absent.append(str(error).partition(". Backends")[0])
    return layers, list(dict.fromkeys(absent))


def batches(args: argparse.Namespace, mode: str, heads: int) -> Iterator[Batch]:
    """One after another, since some take gigabytes."""
    for requests, context in product(args.requests, args.contexts):
        if mode != "unabsorbed" or requests * context <= MOST_PROMPT_TOKENS:
            yield random_batch(heads, mode, requests, context, args.device)


def kernel_of(layer: MLAAttention, batch: Batch) -> Callable[[], object]:
    """A call of a layer's kernel."""
    attend = layer.attend_unabsorbed if batch.mode == "unabsorbed" else layer.attend
    assert attend is not None
    return partial(attend, *batch.kernel)


def compare_kernels(
    name: str, layers: dict[str, MLAAttention], batch: Batch, pairs: int
) -> KernelRow:
    """Times a backend's kernel beside FlashInfer's."""
    device = batch.kernel[0].device
    for layer in (layers[name], layers[BESIDE]):
        layer.plan(batch.cache, batch.metadata)
    ours, theirs = (graphed(kernel_of(layers[n], batch), device) for n in (name, BESIDE))
    return KernelRow(batch, name, compare(ours, theirs, pairs, gpu_time))


def compare_layer(name: str, layer: MLAAttention, batch: Batch, pairs: int) -> LayerRow:
    """Times a layer's forward beside its two products and its kernel."""
    q = batch.forward[0]
    q_nope, q_pe = q.split((layer.spec.qk_nope_head_dim, layer.spec.qk_rope_head_dim), dim=-1)

    def parts() -> object:
        absorbed = layer.absorb(q_nope, q_pe)
        return layer.unabsorb(layer.attend(absorbed, batch.cache, batch.metadata))

    def forward() -> object:
        return layer(*batch.forward)

    layer.plan(batch.cache, batch.metadata)
    second = kernel_of(layer, batch) if batch.mode == "unabsorbed" else parts
    times = compare(graphed(forward, q.device), graphed(second, q.device), pairs, gpu_time)
    return LayerRow(batch, name, times, alone(forward, max(2, pairs // PAIRS), wall_time))


def warm(layers: Layers, args: argparse.Namespace) -> None:
    """Compiles all that is measured, while the host still has all its cores.

    FlashInfer compiles as it plans, which the other backends need not wait for.
    """
    started = time.monotonic()

    def plan(mode: str, heads: int) -> None:
        batch = random_batch(heads, mode, 1, min(args.contexts), args.device)
        layers[mode, heads][BESIDE].plan(batch.cache, batch.metadata)
        _progress(f"{BESIDE}, {mode}, {heads} heads", started)

    with ThreadPoolExecutor(1) as thread:
        planned = [thread.submit(plan, *key) for key, found in layers.items() if BESIDE in found]
        for (mode, heads), found in layers.items():
            for batch in batches(args, mode, heads):
                for layer in (found[name] for name in found if name != BESIDE):
                    layer(*batch.forward)
            _progress(f"the others, {mode}, {heads} heads", started)
        for done in planned:
            done.result()


def _progress(what: str, started: float) -> None:
    print(f"compiled: {what}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def measure(layers: Layers, args: argparse.Namespace, report: Report) -> Counter[str]:
    """Both tables, a row as it is measured; gives how often each verdict on a goal."""
    verdicts: Counter[str] = Counter()
    pairs = args.rounds * PAIRS
    for (mode, heads), found in layers.items():
        for batch in batches(args, mode, heads) if BESIDE in found else ():
            for name in (n for n in found if n != BESIDE):
                row = compare_kernels(name, found, batch, pairs)
                report.row(KERNEL_HEADS, row.cells())
                verdicts[row.verdict] += row.has_goal
    for (mode, heads), found in layers.items():
        for batch in batches(args, mode, heads):
            for name, layer in found.items():
                report.row(LAYER_HEADS, compare_layer(name, layer, batch, pairs).cells())
    return verdicts


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}, wanted a whole number from 1")
    return int(text)


def parse() -> argparse.Namespace:
    """Arguments; a CPU is given less, since it takes minutes."""
    small = not torch.cuda.is_available()
    parser = argparse.ArgumentParser(
        prog="tools/bazel run --config=h100 //testing/perf/mla:speed --",
        description="How fast MLA is, and what a layer adds to its parts.",
    )
    requests, contexts = ([1, 2], [64]) if small else ([1, 32, 256], [1024, 8192])
    parser.add_argument("--modes", nargs="+", choices=BACKENDS, default=["decode", "extend"])
    parser.add_argument("--heads", type=_count, nargs="+", default=[2] if small else [16, 128])
    parser.add_argument("--requests", type=_count, nargs="+", default=requests, metavar="B")
    parser.add_argument("--contexts", type=_count, nargs="+", default=contexts, metavar="N")
    parser.add_argument("--rounds", type=_count, default=1 if small else 3, help="of 3 pairs")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keeps what is printed as well")
    parser.add_argument("--require", action="store_true", help="exit 1 unless every goal is met")
    args = parser.parse_args()
    args.device = torch.device("cpu") if small else torch.device("cuda", 0)
    return args


def main() -> int:
    """Prints the tables; 1 if goals were required and one was not seen to be met."""
    args = parse()
    judged = args.device.type == "cuda"
    report = Report(args.out)
    name = torch.cuda.get_device_name(args.device) if judged else "CPU"
    report.say(f"{name}, torch {torch.__version__}, {args.rounds} rounds")
    layers, absent = ready_layers(args)
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
