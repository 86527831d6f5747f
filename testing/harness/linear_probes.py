"""The probes of a loaded linear layer: what it multiplies, holds, quantises and lets through."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from testing.harness.checks import (
    check_codes,
    check_finite,
    check_nan_row,
    check_noise,
    check_product,
    check_readback,
)
from testing.harness.linear import LinearCase, LoadedLinear, build
from testing.harness.memory import poisoned_memory
from testing.harness.records import record
from testing.harness.tensors import DTYPES, KINDS
from testing.harness.verdict import Finding, Verdict
from testing.oracles.arrays import Float64
from testing.oracles.bounds import Noise, float64_noise
from testing.oracles.checkpoints import LinearCheckpoint
from testing.oracles.matmul import blocked_matmul, matmul
from testing.oracles.probes import natural, one_hot
from testing.oracles.rounding import FloatType
from testing.oracles.statistics import Comparison

Probe = Callable[[LoadedLinear, LinearCheckpoint, np.random.Generator], Verdict]


def kind_of(case: LinearCase) -> FloatType:
    """The float type of a layer's inputs and outputs."""
    return KINDS[DTYPES[case.dtype]]


def compare(
    loaded: LoadedLinear,
    checkpoint: LinearCheckpoint,
    x: Float64,
    got: Float64,
    allowance: Noise | None = None,
) -> Comparison:
    """The layer's output for x beside the product of x and the checkpoint's weight."""
    parts = blocked_matmul(x, checkpoint.weight)
    bias = checkpoint.bias
    exact = parts.sum(axis=0) + (0.0 if bias is None else bias)
    noise = checkpoint.format.noise(parts, bias) + float64_noise(x, checkpoint.weight)
    if allowance is not None:
        noise = noise + allowance
    return Comparison(got, parts, exact, noise, kind_of(loaded.case), checkpoint.layout)


def probe_product(
    loaded: LoadedLinear, checkpoint: LinearCheckpoint, rng: np.random.Generator
) -> Verdict:
    """Lossless grid: quantising x loses nothing, so the output is x·wᵀ rounded once.

    x is contiguous once and a window into NaN once: the bits must not differ.
    """
    verdict = Verdict(loaded.case.subject)
    x = checkpoint.format.lossless(rng, loaded.case.m, loaded.case.k)
    with poisoned_memory():
        got = loaded(x)
        padded = loaded(x, padded=True)
    checked = check_product(compare(loaded, checkpoint, x, got), "lossless grid")
    verdict.add(checked.findings, checked.statistics)
    differs = ~((got == padded) | (np.isnan(got) & np.isnan(padded)))
    if differs.any():
        row, column = np.argwhere(differs)[0]
        place = f"row {row}, {checkpoint.layout.column_label(int(column))}"
        message = f"{differs.sum()} outputs change when x lies in a wider tensor, first {place}"
        verdict.add([Finding("padding", "element", place, message, float(differs.sum()))])
    return verdict


def probe_readback(
    loaded: LoadedLinear, checkpoint: LinearCheckpoint, rng: np.random.Generator
) -> Verdict:
    """x = I reads every weight cell back, without the bias's help: it is part of the comparison."""
    x = one_hot(loaded.case.k)
    with poisoned_memory():
        got = loaded(x)
    checked = check_readback(compare(loaded, checkpoint, x, got))
    return Verdict(loaded.case.subject).add(checked.findings, checked.statistics)


def probe_natural(
    loaded: LoadedLinear, checkpoint: LinearCheckpoint, rng: np.random.Generator
) -> Verdict:
    """Normal activations: the output is x̂·wᵀ, x̂ by the declared rule, rounded once.

    Where x lies on a tie of the quantiser x̂ may be a step off, which the bound allows.
    """
    if not checkpoint.format.quantises_activations:
        return Verdict(loaded.case.subject)
    x = natural(rng, loaded.case.m, loaded.case.k, kind_of(loaded.case))
    want = checkpoint.format.encode_activations(x)
    spread = matmul(want.near_tie * want.step, np.abs(checkpoint.weight))
    allowance = Noise(spread, spread / 2, np.zeros_like(spread))
    with poisoned_memory():
        got = loaded(x)
    comparison = compare(loaded, checkpoint, want.values, got, allowance)
    checked = check_product(comparison, "natural data")
    return Verdict(loaded.case.subject).add(checked.findings)


def probe_nan(
    loaded: LoadedLinear, checkpoint: LinearCheckpoint, rng: np.random.Generator
) -> Verdict:
    """One NaN in one row of x, another row all zeros."""
    case = loaded.case
    verdict = Verdict(case.subject)
    x = natural(rng, max(case.m, 3), case.k, kind_of(case))
    x[1] = 0.0
    clean = loaded(x)
    verdict.add(check_finite(clean, checkpoint.layout, "row of zeros"))
    row = int(rng.integers(len(x)))
    x[row, int(rng.integers(case.k))] = np.nan
    with poisoned_memory():
        return verdict.add(check_nan_row(clean, loaded(x), row))


def probe_activations(
    loaded: LoadedLinear, checkpoint: LinearCheckpoint, rng: np.random.Generator
) -> Verdict:
    """With an identity weight the output is x̂: codes by the declared rule, noise as predicted."""
    fmt = checkpoint.format
    x = natural(rng, loaded.case.m, loaded.case.k, kind_of(loaded.case))
    want = fmt.encode_activations(x)
    with poisoned_memory():
        read = loaded(x)
    verdict = Verdict(loaded.case.subject)
    verdict.add(check_finite(read, checkpoint.layout, "activation codes"))
    if verdict.ok:
        verdict.add(check_codes(read, x, want))
        checked = check_noise(fmt.snap(read, want), x, fmt)
        verdict.add(checked.findings, checked.statistics)
    return verdict


LINEAR_PROBES: tuple[Probe, ...] = (probe_product, probe_readback, probe_natural, probe_nan)


def examine(
    loaded: LoadedLinear,
    checkpoint: LinearCheckpoint,
    rng: np.random.Generator,
    probes: tuple[Probe, ...] = LINEAR_PROBES,
    recorded: bool = True,
) -> Verdict:
    """Run the probes on a layer and put their verdicts together.

    recorded: keep the statistics among the test's outputs; not for a layer with a planted fault.
    """
    start = time.perf_counter()
    verdict = Verdict(loaded.case.subject)
    for probe in probes:
        part = probe(loaded, checkpoint, rng)
        verdict.add(part.findings, part.statistics)
    if recorded:
        seconds = time.perf_counter() - start
        record_verdict(verdict, loaded.case, loaded.backends, loaded.device_name, seconds)
    return verdict


def record_verdict(
    verdict: Verdict, case: LinearCase, backends: dict[str, str], device: str, seconds: float
) -> None:
    """Keep one layer's statistics among the test's outputs."""
    record(
        {
            "subject": verdict.subject,
            "format": case.method.format.name,
            "kind": case.kind,
            "shape": case.shape,
            "dtype": case.dtype,
            "backends": backends,
            "device": device,
            "seconds": round(seconds, 4),
            "ok": verdict.ok,
            "statistics": verdict.statistics,
        }
    )


def examine_case(case: LinearCase, seed: int, device: torch.device | str) -> Verdict:
    """Checkpoint, layer and probes of one case, all from one seed."""
    rng = np.random.default_rng(seed)
    checkpoint = case.checkpoint(rng)
    return examine(build(case, checkpoint, device), checkpoint, rng)
