"""Ask a gated delta layer one call, and judge its output and every slot of its state."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from layers.attention.gdn.layer import GatedDeltaNet
from layers.attention.gdn.state import GDNState
from testing.attention.gdn.layer import GdnCase, build, count_run, inputs_of
from testing.harness.attention.excess import check_excess
from testing.harness.records import record
from testing.harness.tensors import to_numpy
from testing.harness.verdict import Finding, Verdict
from testing.oracles.arrays import Float64
from testing.oracles.attention.gdn.chunked import Rounding
from testing.oracles.attention.gdn.gdn import GdnAnswer, GdnCall, delta_rule
from testing.oracles.attention.gdn.noise import GdnNoise, gdn_noise
from testing.oracles.attention.gdn.readings import readings
from testing.oracles.attention.paging import Int64
from testing.oracles.attention.rows.rows import Rows
from testing.oracles.rounding import FP32, FloatType

FAST_LOG = 2.0**-21
"""`lg2.approx.f32` (PTX ISA): 2^-22 absolute between 0.5 and 2, and its product with ln 2."""

_OTHER_NOISE = 4.0
"""By how much more power another answer's errors may have: it may be twice as large."""


def seed_of(case: GdnCase) -> int:
    """From the case alone, so that a filter shows the same finding again."""
    return zlib.crc32(case.subject.encode())


def rounding_of(layer: GatedDeltaNet, mode: str, kind: FloatType) -> Rounding:
    """What the layer's backend rounds in that mode."""
    backend = layer.backends[f"gdn_{mode}"]
    if mode == "decode":
        return Rounding(chunk=1, log=FAST_LOG if backend == "flashinfer" else 0.0)
    return Rounding(None if backend == "torch" else kind, tf32=backend == "triton")


def examine_case(
    case: GdnCase, seed: int, device: torch.device | str, replicas: int = 16
) -> Verdict:
    """Weights, layer, call and judgement, all from one seed."""
    call = case.call(np.random.default_rng(seed))
    return examine(build(case, call, device), case, call, replicas=replicas)


@dataclass(frozen=True)
class Seen:
    """What a layer gave: output (T, Hv, Dv), and the bits of all slots before and after."""

    output: Float64
    state: GDNState
    before: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    changed: list[Finding]


def ask(layer: GatedDeltaNet, case: GdnCase, call: GdnCall) -> Seen:
    """One forward."""
    inputs = inputs_of(layer, case, call)
    before = _bits(inputs.state.conv), _bits(inputs.state.ssm)
    kept = [x.clone() for x in (inputs.mixed, inputs.a, inputs.b)]
    output = inputs.forward(layer)
    now = zip(("mixed_qkv", "a", "b"), kept, (inputs.mixed, inputs.a, inputs.b), strict=True)
    changed = [
        Finding("memory", "memory", name, f"{name} was changed by the layer")
        for name, old, new in now
        if not torch.equal(old, new)
    ]
    return Seen(output, inputs.state, before, changed)


def examine(
    layer: GatedDeltaNet,
    case: GdnCase,
    call: GdnCall,
    recorded: bool = True,
    replicas: int = 16,
) -> Verdict:
    """One call, judged; `recorded` keeps its figures: not for a layer with a planted fault."""
    start = time.perf_counter()
    seen = ask(layer, case, call)
    count_run(layer, case.mode)
    verdict = judge(layer, case, call, seen, replicas)
    if recorded:
        record(
            {
                "subject": verdict.subject,
                "format": case.dtype,
                "kind": "gdn",
                "backends": {f"gdn {case.mode}": layer.backends[f"gdn_{case.mode}"]},
                "device": torch.cuda.get_device_name() if layer.device.type == "cuda" else "cpu",
                "seconds": round(time.perf_counter() - start, 4),
                "ok": verdict.ok,
                "statistics": verdict.statistics,
            }
        )
    return verdict


def judge(
    layer: GatedDeltaNet,
    case: GdnCase,
    call: GdnCall,
    seen: Seen,
    replicas: int = 16,
    explained: bool = True,
) -> Verdict:
    """Output, states of the requests, and that no other slot was touched.

    explained: if the output is wrong, look for what the layer computes instead.
    """
    answer = delta_rule(call)
    noise = gdn_noise(call, answer, rounding_of(layer, case.mode, case.kind), replicas)
    verdict = Verdict(case.subject).add(seen.changed)
    rows = output_rows(call, seen.output, answer, noise)
    output = check_excess(rows, "output")
    verdict.add(output.findings, output.statistics)
    if output.findings and explained:
        verdict.add(_explained(rows, call))
    states = check_excess(state_rows(call, seen.state, answer, noise), "state")
    verdict.add(states.findings, {f"state.{k}": v for k, v in states.statistics.items()})
    return verdict.add(_conv_states(case, call, seen, answer)).add(_other_slots(call, seen))


def _explained(rows: Rows, call: GdnCall) -> list[Finding]:
    """What the layer computes instead: the readings that its output fits."""
    findings = []
    for name, other in readings(call):
        fitted = replace(rows, exact=other).excess()["whole"]
        # The noise is the right answer's; that of another one may be twice as large.
        if fitted.ratio[0] <= _OTHER_NOISE * fitted.limit[0]:
            message = f"the output is right for this: {name}"
            findings.append(Finding("reading", "reading", name, message))
    return findings


def output_rows(call: GdnCall, output: Float64, answer: GdnAnswer, noise: GdnNoise) -> Rows:
    """The output beside the oracle's."""
    requests: Int64 = np.repeat(np.arange(len(call.lengths)), call.lengths)
    return Rows(output, answer.output, noise.output, call.kind, requests)


def state_rows(call: GdnCall, state: GDNState, answer: GdnAnswer, noise: GdnNoise) -> Rows:
    """States (B, Hv, Dk·Dv) after the call, beside the oracle's."""
    got = to_numpy(state.ssm)[list(call.slots)]
    shape = noise.state.std.shape
    requests: Int64 = np.arange(len(call.lengths))
    return Rows(got.reshape(shape), answer.state.reshape(shape), noise.state, FP32, requests)


def _conv_states(case: GdnCase, call: GdnCall, seen: Seen, answer: GdnAnswer) -> list[Finding]:
    """The last inputs of each request, bit for bit."""
    got = to_numpy(seen.state.conv)[list(call.slots)]
    wrong = ~((got == answer.conv_state).all(axis=(1, 2)))
    findings = []
    for request in wrong.nonzero()[0]:
        differs = (got[request] != answer.conv_state[request]).sum()
        place = f"request {request}"
        message = f"{differs} inputs that the convolution keeps of {place} are not its last ones"
        findings.append(Finding("conv state", "request", place, message, float(differs)))
    return findings


def _other_slots(call: GdnCall, seen: Seen) -> list[Finding]:
    """Slots of no request keep their bits."""
    findings = []
    now = _bits(seen.state.conv), _bits(seen.state.ssm)
    for name, old, new in zip(("conv", "ssm"), seen.before, now, strict=True):
        changed = (old != new).any(axis=1)
        changed[list(call.slots)] = False
        if changed.any():
            slot = int(changed.nonzero()[0][0])
            message = f"{changed.sum()} slots of {name} that no request has were changed"
            findings.append(
                Finding("slots", "slot", f"slot {slot} of {name}", f"{message}, first {slot}")
            )
    return findings


def _bits(x: torch.Tensor) -> NDArray[np.uint8]:
    flat = x.detach().cpu().contiguous().flatten(1).view(torch.uint8)
    return np.array(flat.numpy())
