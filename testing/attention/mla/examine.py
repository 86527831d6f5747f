"""Ask a loaded MLA layer one call, and judge its output and what it wrote by the oracle."""

from __future__ import annotations

import time
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from testing.attention.mla.call import Call, as_stored, random_call
from testing.attention.mla.layer import (
    Inputs,
    LoadedMla,
    MlaCase,
    build,
    count_run,
    heads_of,
)
from testing.attention.mla.reading import explain
from testing.harness.attention.excess import check_excess
from testing.harness.attention.pages import check_writes, frozen
from testing.harness.memory import poisoned_memory
from testing.harness.records import record
from testing.harness.tensors import floats_to_torch
from testing.harness.verdict import Finding, Verdict
from testing.oracles.arrays import Float64
from testing.oracles.attention import cached
from testing.oracles.attention.mla.mla import MlaCall, attend, by_scale
from testing.oracles.attention.mla.noise import MlaArithmetic, mla_noise
from testing.oracles.attention.paging import Int64
from testing.oracles.attention.rope.rope import rotation_bound
from testing.oracles.attention.rows.rows import Rows
from testing.oracles.error_model.noise import Noise
from testing.oracles.error_model.product import Product
from testing.oracles.rounding import FP32, round_to


def seed_of(case: MlaCase) -> int:
    """From the case alone, so that a filter shows the same finding again."""
    return zlib.crc32(case.subject.encode())


def examine_case(case: MlaCase, seed: int, device: torch.device | str) -> Verdict:
    """Checkpoint, layer, call and judgement, all from one seed."""
    rng = np.random.default_rng(seed)
    checkpoint = case.checkpoint(rng)
    loaded = build(case, checkpoint, device)
    return examine(loaded, random_call(case, checkpoint, rng))


def examine(
    loaded: LoadedMla, call: Call, recorded: bool = True, explained: bool = True
) -> Verdict:
    """One call, judged.

    recorded: keep its figures; not for a layer with a planted fault.
    explained: if it is wrong, look for what the layer computes instead.
    """
    start = time.perf_counter()
    inputs = call.inputs(loaded.layer.device)
    before = frozen(inputs.cache.pages)
    kept = [x.clone() for x in (inputs.q, inputs.kv_c, inputs.k_pe)]
    absorbed = not loaded.layer.is_unabsorbed(inputs.cache, inputs.metadata)
    with poisoned_memory():
        output = heads_of(inputs.forward(loaded.layer), loaded.case)
    use = call.case.mode if absorbed else "unabsorbed"
    count_run(loaded, use)
    verdict = Verdict(loaded.case.subject)
    verdict.add(_changed(inputs, kept))
    written, findings = _written(call, inputs, before)
    verdict.add(findings)
    if call.case.fp8_scale is not None:
        call = as_stored(call, written)
    arithmetic = arithmetic_of(loaded, call, absorbed)
    rows = rows_of(call, output, arithmetic)
    checked = check_excess(rows, "output")
    verdict.add(checked.findings, checked.statistics)
    if checked.findings and explained:
        verdict.add(explain(seen_by(call, absorbed), arithmetic, rows))
    if recorded:
        _record(verdict, loaded, use, time.perf_counter() - start)
    return verdict


def arithmetic_of(loaded: LoadedMla, call: Call, absorbed: bool) -> MlaArithmetic:
    """What the layer's backends round in this call."""
    case, layer = loaded.case, loaded.layer
    backend = layer.backends[case.mode if absorbed else "unabsorbed"]
    return MlaArithmetic(
        case.kind,
        absorbed,
        FP32 if backend == "torch" else case.kind,
        # layers.kernels.mla.absorbed_flashinfer: splits of the keys are kept in the query's dtype.
        rounds_parts=backend == "flashinfer",
        projected=None if absorbed else _projected(loaded, call),
    )


def _projected(loaded: LoadedMla, call: Call) -> Noise | None:
    method, exact = loaded.case.method, call.exact
    if method.config is None or exact.projected is None:
        return None
    product = Product(exact.projected, exact.weight)
    return method.format.noise(product, method.accumulator(loaded.made))


def seen_by(call: Call, absorbed: bool) -> MlaCall:
    """The call as a path takes it.

    Absorbed, W_UK and W_UV multiply what is in the cache, not what kv_b_proj's quantiser makes of
    it; and they are the checkpoint's values rounded to the layer's type, as post-load declares.
    Rounding them is no noise: codes of few bits times one scale are all off by the same few errors.
    """
    if not absorbed:
        return call.exact
    weight = round_to(call.exact.weight, call.case.kind)
    return replace(call.exact, projected=None, weight=weight)


def rows_of(call: Call, output: Float64, arithmetic: MlaArithmetic) -> Rows:
    """The output (T, H, v) beside the oracle's."""
    exact = seen_by(call, arithmetic.absorbed)
    requests: Int64 = np.repeat(np.arange(len(call.case.kv_lens)), call.case.query_lens)
    right = attend(exact)
    directions = {"gain": right, "scale": by_scale(exact)}
    noise = mla_noise(exact, arithmetic)
    return Rows(output, right, noise, call.case.kind, requests, directions)


def _changed(inputs: Inputs, kept: list[torch.Tensor]) -> list[Finding]:
    names = ("q", "kv_c", "k_pe")
    now = (inputs.q, inputs.kv_c, inputs.k_pe)
    return [
        Finding("memory", "memory", name, f"{name} was changed by the layer")
        for name, old, new in zip(names, kept, now, strict=True)
        if not torch.equal(old, new)
    ]


def _written(call: Call, inputs: Inputs, before: Any) -> tuple[Float64, list[Finding]]:
    """What the cache holds of this call's tokens, (T, R + rope), and what is wrong with it.

    kv_c has one right value; the rotated k_pe may be rounded either way where float32 arithmetic
    leaves a doubt.
    """
    case, exact = call.case, call.exact
    slots = exact.paged.new_slots()
    flat = inputs.cache.pages.flatten(0, 1)[torch.from_numpy(slots).to(inputs.cache.device)]
    error = np.zeros_like(exact.written)
    error[:, case.shape.rank :] = rotation_bound(
        exact.written[:, case.shape.rank :], case.shape.rope
    )
    low, high = (round_to(exact.written + sign * error, case.kind) for sign in (-1, 1))
    middle = round_to(exact.written, case.kind)
    scale = case.fp8_scale
    if scale is None:
        got = np.asarray(flat.detach().to("cpu", torch.float64).numpy())
        right = (low <= got) & (got <= high)
        wanted = floats_to_torch(np.where(right, got, middle), inputs.q.dtype)
    else:
        codes = flat.detach().cpu().view(torch.uint8).numpy()
        got = cached.decode(codes, scale)
        ends = [cached.decode(cached.encode(x, scale), scale) for x in (low, high)]
        right = (got >= np.minimum(*ends)) & (got <= np.maximum(*ends))
        right |= cached.near_ties(middle, scale) & (np.abs(got - middle) <= np.abs(middle) / 16)
        wanted = torch.from_numpy(np.where(right, codes, cached.encode(middle, scale)))
    findings = check_writes(
        "the latent cache", call.plan, before, inputs.cache.pages, slots, wanted
    )
    return got, findings


def _record(verdict: Verdict, loaded: LoadedMla, use: str, seconds: float) -> None:
    record(
        {
            "subject": verdict.subject,
            "format": loaded.case.method.format.name,
            "kind": "mla",
            "backends": {f"mla {use}": loaded.layer.backends[use]},
            "device": loaded.device_name,
            "seconds": round(seconds, 4),
            "ok": verdict.ok,
            "statistics": verdict.statistics,
        }
    )
