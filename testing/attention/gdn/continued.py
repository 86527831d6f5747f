"""A text in one call, and the same text in several: one answer, with states handed on between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from layers.attention.gdn.layer import GatedDeltaNet
from testing.attention.gdn.examine import output_rows, rounding_of, state_rows
from testing.attention.gdn.layer import GdnCase, build, inputs_of, metadata_of
from testing.harness.attention.excess import check_excess
from testing.harness.tensors import DTYPES, floats_to_torch
from testing.harness.verdict import Verdict
from testing.oracles.arrays import Float64
from testing.oracles.attention.gdn.gdn import GdnCall, delta_rule
from testing.oracles.attention.gdn.noise import gdn_noise


def examine_in_parts(
    case: GdnCase, cuts: Sequence[int], seed: int, device: torch.device | str
) -> Verdict:
    """One request, extended up to each of the cuts in turn and then decoded token by token.

    case: of one request; cuts: of its length, rising; what lies after the last is decoded.
    """
    call = case.call(np.random.default_rng(seed))
    layer = build(case, call, device)
    inputs = inputs_of(layer, case, call)
    outputs: list[Float64] = []
    start = 0
    ends = [*cuts, *range(cuts[-1] + 1, case.lengths[0] + 1)]
    for end in ends:
        mode = "extend" if end <= cuts[-1] else "decode"
        outputs.append(_part(layer, case, call, slice(start, end), mode, inputs.state))
        start = end
    answer = delta_rule(call)
    noise = gdn_noise(call, answer, rounding_of(layer, "extend", case.kind))
    verdict = Verdict(f"{case.subject}, cut at {list(cuts)}")
    output = output_rows(call, np.concatenate(outputs), answer, noise)
    checked = check_excess(output, "output in parts")
    verdict.add(checked.findings, checked.statistics)
    states = check_excess(state_rows(call, inputs.state, answer, noise), "state in parts")
    return verdict.add(states.findings)


def _part(
    layer: GatedDeltaNet, case: GdnCase, call: GdnCall, tokens: slice, mode: str, state: object
) -> Float64:
    dtype = DTYPES[case.dtype]
    length = tokens.stop - tokens.start
    initial = call.initial if tokens.start == 0 else (True,)
    part = replace(call, lengths=(length,), initial=initial)
    arrays = (call.mixed[tokens], call.a[tokens], call.b[tokens])
    mixed, a, b = (floats_to_torch(x, dtype, layer.device) for x in arrays)
    out = layer(mixed, a, b, state, metadata_of(mode, part, layer.device))
    return np.asarray(out.detach().to("cpu", torch.float64).numpy())
