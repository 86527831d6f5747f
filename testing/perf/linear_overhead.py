"""What a quantised linear layer's forward costs beyond its kernels, on each backend that can run.

    tools/bazel run --config=h100 //testing/perf:linear_overhead

For each method and backend, with N = K, one layer is loaded from a random checkpoint, and timed are

- the layer's forward beside its kernels, in pairs: the very kernels that it launches, the quantiser
  of the activations included, called directly on the same prepared tensors;
- the matmul alone, on codes quantised before: what a checkpoint in this format gains at most;
- the kernels on the GPU, whatever the host takes to launch them: what a CUDA graph would leave.

Few rows are bound by the host, so they are compared by wall clock; many rows by events on the GPU.
The difference is printed with its spread (testing/perf/timing.py), and judged with it. Goals:
forward over kernels at most 1.03 for M 1024 and more, and at most 15 µs more below. Where the
spread reaches over the goal, that is not resolved. The backend `torch`, which says what is right
and serves nobody, has none. Backends that cannot run are listed with the device that they need. The
exit code is 0, unless `--require` is given and a goal is missed or not resolved. On a CPU, where
goals do not hold, a small layer is timed.
"""

from __future__ import annotations

import argparse

import torch

from layers.kernels.capability import BackendUnavailable
from testing.perf.direct import matmul, quantiser
from testing.perf.methods import METHODS, TimedMethod
from testing.perf.random_layer import DTYPE, Loaded, load
from testing.perf.report import MANY_ROWS, MET, Report, Row
from testing.perf.timing import alone, compare, gpu_time, quiet_host, wall_time

BLOCK = 128
# In a round. Times of the host are the noisier ones.
PAIRS_OF_FEW_ROWS = 6
PAIRS_OF_MANY_ROWS = 3


def measure(method: TimedMethod, backend: str, loaded: Loaded, m: int, rounds: int) -> Row:
    """Times a layer that is ready with x (M, K)."""
    layer = loaded.layer
    x = torch.randn(m, layer.layout.inputs.size, dtype=DTYPE, device=layer.device)
    quantise, multiply = quantiser(layer), matmul(layer)
    operands = quantise(x)
    few = m < MANY_ROWS
    clock = wall_time if few else gpu_time
    pairs = rounds * (PAIRS_OF_FEW_ROWS if few else PAIRS_OF_MANY_ROWS)

    def kernels() -> object:
        return multiply(*quantise(x))

    with torch.inference_mode():
        # What is compiled, is while the host still has all its cores.
        layer(x)
        kernels()
    with torch.inference_mode(), quiet_host():
        times = compare(lambda: layer(x), kernels, pairs, clock)
        product = alone(lambda: multiply(*operands), rounds, clock)
        on_gpu = alone(kernels, rounds, gpu_time) if few else times.second
    return Row(method.name, backend, _backends(loaded), m, times, product, on_gpu)


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
        report.times.append(measure(method, backend, loaded, m, args.rounds))
    sizes = (loaded.checkpoint_bytes, loaded.held_bytes)
    ratio = f"{sizes[1] / sizes[0]:.4f}"
    report.memory.append([method.name, _backends(loaded), *(f"{s:,}" for s in sizes), ratio])


def _backends(loaded: Loaded) -> str:
    return " + ".join(dict.fromkeys(getattr(loaded.layer.quant_method, "backends", {}).values()))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}, wanted a whole number from 1")
    return int(text)


def _blocks(text: str) -> int:
    size = _count(text)
    if size % BLOCK:
        raise argparse.ArgumentTypeError(
            f"{text!r}, wanted a multiple of {BLOCK}, the largest block of a format"
        )
    return size


def parse() -> argparse.Namespace:
    """Arguments; a CPU is given a smaller layer, since a large one takes minutes."""
    small = not torch.cuda.is_available()
    parser = argparse.ArgumentParser(
        prog="tools/bazel run --config=h100 //testing/perf:linear_overhead --",
        description="What a linear layer costs beyond its kernels.",
    )
    parser.add_argument("--size", type=_blocks, default=512 if small else 4096, help="N and K")
    rows = [1, 64] if small else [1, 64, 4096]
    parser.add_argument("--rows", type=_count, nargs="+", default=rows, metavar="M", help=f"{rows}")
    parser.add_argument(
        "--rounds", type=_count, default=2 if small else 15, help="of 6 pairs, or 3 of many rows"
    )
    parser.add_argument("--method", default="", help="only methods whose name holds this")
    known = sorted({b.name for method in METHODS for b in method.operation.backends})
    parser.add_argument(
        "--backends", nargs="+", choices=known, metavar="NAME", help=f"only these of {known}"
    )
    parser.add_argument("--require", action="store_true", help="exit 1 unless every goal is met")
    args = parser.parse_args()
    names = [method.name for method in METHODS]
    if not any(args.method in name for name in names):
        parser.error(f"--method {args.method!r} is part of no name, wanted one of {names}")
    args.device = torch.device("cpu") if small else torch.device("cuda", 0)
    return args


def main() -> int:
    """Prints the tables; 1 if goals were required and one was not seen to be met."""
    args = parse()
    judged = args.device.type == "cuda"
    name = torch.cuda.get_device_name(args.device) if judged else "CPU"
    print(f"{name}, torch {torch.__version__}, N = K = {args.size}, {args.rounds} rounds\n")
    report = Report()
    for method in METHODS:
        for backend in method.operation.backends:
            if args.method in method.name and backend.name in (args.backends or [backend.name]):
                run_backend(report, method, backend.name, args)
    report.print(judged)
    return int(args.require and judged and set(report.verdicts) != {MET})


if __name__ == "__main__":
    raise SystemExit(main())
