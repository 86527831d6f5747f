"""How fast the gated delta rule is: its convolution, its recurrence, and the layer beside both.

    tools/bazel run --config=h100 //testing/perf/gdn:speed

Qwen3-Next's sizes in bfloat16: 16 heads of keys and 32 of values of 128, four taps. Decode is timed
as CUDA graphs; of texts, whose kernels are launched by the host one by one, the time that the GPU
was busy is taken. The rate of a convolution is of the bytes of its inputs and outputs, that of
decode of the bytes of the states, and that of texts of their tokens. A layer is timed beside its
convolution and its delta rule, one after the other. There are no goals. Rows are printed as they
are measured, and kept in a file by `--out`. On a CPU a small layer is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from layers.attention.gdn.layer import GatedDeltaNet
from layers.kernels.capability import BackendUnavailable
from testing.perf.attention.graphed import graphed
from testing.perf.attention.report import Report
from testing.perf.gdn.batch import Batch, Sizes, random_batch, ready_layer
from testing.perf.timing import Call, Clock, alone, compare, gpu_time, quiet_host, wall_time

HEADS = ["mode", "requests", "tokens each", "backends", "convolution µs", "rate"]
HEADS += ["delta rule µs", "rate", "layer µs", "beside both µs", "difference µs"]
BACKENDS = ("triton", "flashinfer", "torch")
PAIRS = 3


def busy_time(call: Call, repeats: int) -> float:
    """Seconds that the GPU's kernels took together, however long the host took to launch them."""
    if not torch.cuda.is_available():
        return wall_time(call, repeats)
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiled:
        for _ in range(repeats):
            call()
        torch.cuda.synchronize()
    return sum(float(e.self_device_time_total) for e in profiled.key_averages()) / 1e6


def ready_layers(sizes: Sizes, device: torch.device) -> tuple[dict[str, GatedDeltaNet], list[str]]:
    """A layer a backend that can run here, and why the others cannot.

    Torch is left out where another can run: a loop over tokens, it takes seconds.
    """
    layers: dict[str, GatedDeltaNet] = {}
    absent: list[str] = []
    for backend in BACKENDS:
        try:
            if backend != "torch" or not layers:
                layers[backend] = ready_layer(sizes, backend, device)
        except BackendUnavailable as error:
            absent.append(str(error).partition(". Backends")[0])
    return layers, absent


def calls(layer: GatedDeltaNet, batch: Batch) -> tuple[Call, Call, Call]:
    """The convolution, the delta rule, and the layer's forward."""
    weight, state, metadata = layer.conv1d_weight.squeeze(1), batch.state, batch.metadata
    return (
        partial(layer.convolve, batch.mixed, weight, state.conv, metadata),
        partial(layer.delta_rule, batch.mixed, batch.gates, state.ssm, metadata, layer.heads),
        partial(layer.forward, batch.mixed, batch.a, batch.b, state, metadata),
    )


def cells(layer: GatedDeltaNet, batch: Batch, rounds: int) -> list[str]:
    """A row of the table, measured."""
    conv, rule, forward = calls(layer, batch)

    def both() -> None:
        conv()
        rule()

    clock: Clock = busy_time
    if batch.mode == "decode":
        clock = gpu_time
        conv, rule, forward, parts = (
            graphed(call, layer.device) for call in (conv, rule, forward, both)
        )
    else:
        parts = both
    conv_us, rule_us = alone(conv, rounds * PAIRS, clock), alone(rule, rounds * PAIRS, clock)
    whole = compare(forward, parts, rounds * PAIRS, clock)
    names = ", ".join(dict.fromkeys(layer.backends[f"gdn_{op}"] for op in ("conv", batch.mode)))
    return [
        *(batch.mode, str(batch.requests), str(batch.tokens), names),
        *(f"{conv_us:.1f}", f"{batch.conv_bytes / conv_us / 1e6:.2f} TB/s"),
        *(f"{rule_us:.1f}", _rate(batch, rule_us)),
        *(f"{whole.first:.1f}", f"{whole.second:.1f}"),
        f"{whole.difference:+.1f} ± {whole.spread:.1f}",
    ]


def _rate(batch: Batch, us: float) -> str:
    if batch.mode == "decode":
        return f"{batch.state_bytes / us / 1e6:.2f} TB/s"
    return f"{batch.requests * batch.tokens / us:.2f} tokens/µs"


def shapes(args: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    """(mode, requests, tokens of each): as many tokens of texts together as the longest has."""
    for requests in args.requests:
        yield "decode", requests, 1
    for requests in args.requests:
        yield "extend", requests, max(1, args.tokens // requests)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}, wanted a whole number from 1")
    return int(text)


def parse() -> argparse.Namespace:
    """Arguments; a CPU is given a smaller layer, since a large one takes minutes."""
    small = not torch.cuda.is_available()
    parser = argparse.ArgumentParser(
        prog="tools/bazel run --config=h100 //testing/perf/gdn:speed --",
        description="How fast the gated delta rule is, and what a layer adds to its operations.",
    )
    requests = [1, 2] if small else [1, 32, 256]
    parser.add_argument("--requests", type=_count, nargs="+", default=requests, metavar="B")
    parser.add_argument("--tokens", type=_count, default=64 if small else 8192, metavar="N")
    parser.add_argument("--rounds", type=_count, default=1 if small else 3, help="of 3 pairs")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keeps what is printed as well")
    args = parser.parse_args()
    args.sizes = Sizes(1, 2, 128) if small else Sizes(16, 32, 128)
    args.device = torch.device("cpu") if small else torch.device("cuda", 0)
    return args


def main() -> int:
    """Prints the table."""
    args = parse()
    report = Report(args.out)
    is_gpu = args.device.type == "cuda"
    name = torch.cuda.get_device_name(args.device) if is_gpu else "CPU"
    report.say(f"{name}, torch {torch.__version__}, {args.sizes}, {args.rounds} rounds")
    layers, absent = ready_layers(args.sizes, args.device)
    with torch.inference_mode():
        # What is compiled, is while the host still has all its cores.
        for layer in layers.values():
            for shape in shapes(args):
                calls(layer, random_batch(layer, *shape))[-1]()
        with quiet_host():
            for layer in layers.values():
                for shape in shapes(args):
                    report.row(HEADS, cells(layer, random_batch(layer, *shape), args.rounds))
    for reason in absent:
        report.say(f"Not run here: {reason}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
