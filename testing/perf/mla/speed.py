"""How fast MLA's absorbed path is: each kernel beside FlashInfer's, and the layer beside its parts.

    tools/bazel run --config=h100 //testing/perf/mla:speed

DeepSeek-V3's sizes in bfloat16, pages of 64 in a random order, with 128 heads and with the 16 of a
rank of eight. Kernels run in pairs on the same cache (testing/perf/timing.py). A rate is bytes of
latents for decode, arithmetic on visible pairs for extend. Goals: at least 0.7 of FlashInfer's rate
for decode and 0.5 for extend, of our Triton kernel. A layer is timed beside the products with its
weight's halves and the kernel, by which it adds rotation and the writing of the cache. The exit
code is 0, unless `--require` is given and a goal is missed or not resolved. On a CPU, where goals
do not hold, a small batch is timed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch

from layers.attention.mla.layer import MLAAttention
from layers.kernels.capability import BackendUnavailable
from testing.perf.attention.goals import MET, MIN_RATE, NO_GOAL, judge, table
from testing.perf.mla.batch import Batch, random_batch, ready_layer
from testing.perf.timing import Comparison, compare, gpu_time, quiet_host

KERNEL_HEADS = ["mode", "heads", "requests", "context", "query tokens", "backend", "µs"]
KERNEL_HEADS += ["rate", "flashinfer µs", "ratio of rates", "goal", ""]
LAYER_HEADS = ["mode", "heads", "requests", "context", "backend", "layer µs", "products and kernel"]
LAYER_HEADS += ["difference µs", "over"]
BACKENDS = {"decode": ("triton", "flashmla"), "extend": ("triton",)}
BESIDE = "flashinfer"
PAIRS = 3


@dataclass(frozen=True)
class Timed:
    """A kernel (first) beside FlashInfer's (second), or a layer beside its parts."""

    batch: Batch
    backend: str
    times: Comparison

    @property
    def has_goal(self) -> bool:
        """Our own kernel has."""
        return self.backend == "triton"

    @property
    def verdict(self) -> str:
        """Whether our time lies within the goal, spread included."""
        limit = self.times.second / MIN_RATE[self.batch.mode]
        return judge(self.times.first, self.times.spread, limit)

    def kernel_cells(self) -> list[str]:
        """Of the table of kernels."""
        b, times = self.batch, self.times
        work = b.latent_bytes if b.mode == "decode" else b.operations
        unit = "TB/s" if b.mode == "decode" else "TFLOP/s"
        goal = (f"{MIN_RATE[b.mode]}", self.verdict) if self.has_goal else (NO_GOAL, NO_GOAL)
        return [
            *(b.mode, str(b.heads), str(b.requests), str(b.context), str(b.queries * b.requests)),
            *(self.backend, f"{times.first:.1f}", f"{work / times.first / 1e6:.3g} {unit}"),
            *(f"{times.second:.1f}", f"{times.second / times.first:.2f}", *goal),
        ]

    def layer_cells(self) -> list[str]:
        """Of the table of layers."""
        b, times = self.batch, self.times
        return [
            *(b.mode, str(b.heads), str(b.requests), str(b.context), self.backend),
            *(f"{times.first:.1f}", f"{times.second:.1f}"),
            f"{times.difference:+.1f} ± {times.spread:.1f}",
            f"{100 * times.difference / times.second:+.1f} %",
        ]


def compare_kernels(name: str, layers: dict[str, MLAAttention], batch: Batch, pairs: int) -> Timed:
    """Times a backend's kernel beside FlashInfer's."""
    ours, theirs = layers[name], layers[BESIDE]
    arguments = (batch.latent, batch.cache, batch.metadata)
    ours.plan(batch.cache, batch.metadata)
    theirs.plan(batch.cache, batch.metadata)
    times = compare(
        lambda: ours.attend(*arguments), lambda: theirs.attend(*arguments), pairs, gpu_time
    )
    return Timed(batch, name, times)


def compare_layer(name: str, layer: MLAAttention, batch: Batch, pairs: int) -> Timed:
    """Times a layer's forward beside its two products and its kernel."""
    q = batch.forward[0]
    q_nope, q_pe = q.split((layer.spec.qk_nope_head_dim, layer.spec.qk_rope_head_dim), dim=-1)

    def parts() -> object:
        absorbed = layer.absorb(q_nope, q_pe)
        return layer.unabsorb(layer.attend(absorbed, batch.cache, batch.metadata))

    layer.plan(batch.cache, batch.metadata)
    return Timed(batch, name, compare(lambda: layer(*batch.forward), parts, pairs, gpu_time))


def ready_layers(
    heads: int, mode: str, device: torch.device
) -> tuple[dict[str, MLAAttention], list[str]]:
    """A layer a backend of that mode that can run here, and why the others cannot.

    Torch is left out where another can run: a loop over requests, it takes seconds.
    """
    layers: dict[str, MLAAttention] = {}
    absent: list[str] = []
    for backend in (*BACKENDS[mode], BESIDE, "torch"):
        try:
            if backend != "torch" or not layers:
                layers[backend] = ready_layer(heads, {mode: backend}, device)
        except BackendUnavailable as error:
            absent.append(str(error).partition(". Backends")[0])
    return layers, absent


def measure(args: argparse.Namespace) -> tuple[list[Timed], list[Timed], list[str]]:
    """All that can run here."""
    kernels: list[Timed] = []
    whole: list[Timed] = []
    absent: list[str] = []
    shapes = [(r, c) for r in args.requests for c in args.contexts]
    for mode in BACKENDS:
        for heads in args.heads:
            layers, missing = ready_layers(heads, mode, args.device)
            absent += missing
            for requests, context in shapes:
                batch = random_batch(heads, mode, requests, context, args.device)
                for name, layer in layers.items():
                    pairs = args.rounds * PAIRS
                    if name != BESIDE and BESIDE in layers:
                        kernels.append(compare_kernels(name, layers, batch, pairs))
                    whole.append(compare_layer(name, layer, batch, pairs))
    return kernels, whole, list(dict.fromkeys(absent))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}, wanted a whole number from 1")
    return int(text)


def parse() -> argparse.Namespace:
    """Arguments; a CPU is given less, since it takes minutes."""
    small = not torch.cuda.is_available()
    parser = argparse.ArgumentParser(
        prog="tools/bazel run --config=h100 //testing/perf/mla:speed --",
        description="How fast MLA's absorbed path is, and what a layer adds to its parts.",
    )
    requests, contexts = ([1, 2], [64]) if small else ([1, 32, 256], [1024, 8192])
    parser.add_argument("--heads", type=_count, nargs="+", default=[2] if small else [16, 128])
    parser.add_argument("--requests", type=_count, nargs="+", default=requests, metavar="B")
    parser.add_argument("--contexts", type=_count, nargs="+", default=contexts, metavar="N")
    parser.add_argument("--rounds", type=_count, default=1 if small else 4, help="of 3 pairs")
    parser.add_argument("--require", action="store_true", help="exit 1 unless every goal is met")
    args = parser.parse_args()
    args.device = torch.device("cpu") if small else torch.device("cuda", 0)
    return args


def main() -> int:
    """Prints the tables; 1 if goals were required and one was not seen to be met."""
    args = parse()
    judged = args.device.type == "cuda"
    name = torch.cuda.get_device_name(args.device) if judged else "CPU"
    print(f"{name}, torch {torch.__version__}, {args.rounds} rounds\n")
    with torch.inference_mode(), quiet_host():
        kernels, whole, absent = measure(args)
    print(table(KERNEL_HEADS, [row.kernel_cells() for row in kernels]) + "\n")
    print(table(LAYER_HEADS, [row.layer_cells() for row in whole]) + "\n")
    goals = [row.verdict for row in kernels if row.has_goal]
    if judged:
        print(f"Goals met: {goals.count(MET)} of {len(goals)}.\n")
    for reason in absent:
        print(f"Not run here: {reason}.")
    return int(args.require and judged and set(goals) != {MET})


if __name__ == "__main__":
    raise SystemExit(main())
