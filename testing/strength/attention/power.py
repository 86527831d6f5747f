"""The smallest bias of an attention layer that its tests find, beside other tests' criteria."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch

from layers.kernels.attention import attend_torch
from testing.harness.attention.case import (
    AttentionCase,
    Batch,
    Call,
    around_a_page_edge,
    make_batch,
)
from testing.harness.attention.examine import Wanted, wanted
from testing.harness.attention.layer import build, tensors_of
from testing.harness.attention.rows import check_rows
from testing.harness.device import device
from testing.harness.records import record
from testing.harness.tensors import to_numpy
from testing.oracles.arrays import Float64
from testing.strength.figures import FILE, percent
from testing.strength.peers import Criterion, allclose, calc_diff, cosine
from testing.strength.power import SEEDS, smallest

CALL = Call("extend", around_a_page_edge(16))
FAMILIES = ("scaling", "v_scale", "gain", "head", "token")
"""The logits' scaling and an fp8 cache's v_scale, in any backend's layer; the whole output, one
head and one token, before torch's output is rounded."""


@dataclass(frozen=True)
class Trial:
    """A right layer and a call, whose output a `gain` of one part can be planted in."""

    case: AttentionCase
    family: str
    seed: int
    batch: Batch
    sinks: Float64 | None
    want: Wanted
    outputs: dict[float, Float64] = field(default_factory=dict)

    def output(self, gain: float) -> Float64:
        """(T, Hq, Dv) when the family's part is off by `gain`."""
        if gain not in self.outputs:
            self.outputs[gain] = self._output(gain)
        return self.outputs[gain]

    def _output(self, gain: float) -> Float64:
        case = self.case
        if self.family == "scaling":
            case = replace(case, scaling=case.rule(None).scaling * (1 + gain))
        layer = build(case, np.random.default_rng(self.seed), device()).layer
        t = tensors_of(self.batch, layer.device)
        with ExitStack() as stack:
            if self.family == "v_scale":
                layer.write_cache = partial(_then_scaled, layer.write_cache, 1 + gain)
            elif self.family != "scaling":
                change = partial(_weigh, attend_torch.weigh, self._place(), 1 + gain)
                stack.enter_context(mock.patch.object(attend_torch, "weigh", change))
            return to_numpy(layer(t.q, t.k, t.v, t.cache, t.metadata)).reshape(
                -1, case.heads, case.dims[1]
            )

    def _place(self) -> tuple[Any, Any]:
        """Tokens and heads, of each request's outputs; of the first token of each, for a token."""
        head = int(np.random.default_rng(self.seed).integers(self.case.heads))
        everything = slice(None)
        return {
            "gain": (everything, everything),
            "head": (everything, slice(head, head + 1)),
            "token": (slice(0, 1), everything),
        }[self.family]


def _then_scaled(write: Callable[..., None], factor: float, cache: Any, *rest: Any) -> None:
    write(cache, *rest)
    cache.v_scale *= factor


def _weigh(
    weigh: Callable[..., torch.Tensor], place: tuple[Any, Any], factor: float, *arguments: Any
) -> torch.Tensor:
    out = weigh(*arguments)
    out[place] *= factor
    return out


def trial(case: AttentionCase, family: str, seed: int) -> Trial:
    """The layer and the call of one seed."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    batch = make_batch(case, CALL, rng)
    sinks = case.random_sinks(np.random.default_rng(seed))
    return Trial(case, family, seed, batch, sinks, wanted(batch, sinks))


def by_oracle(one: Trial, gain: float) -> bool:
    """The layer tests' own checks report anything at all."""
    comparison = one.want.compare(one.batch, one.output(gain))
    return bool(check_rows(comparison, one.want.labels).findings)


def by_peer(criterion: Criterion) -> Callable[[Trial, float], bool]:
    """Another project's criterion rejects the output."""

    def finds(one: Trial, gain: float) -> bool:
        exact = np.concatenate([a.output for a in one.want.attended])
        return not criterion(one.output(gain), exact)

    return finds


CRITERIA = {
    "oracle": by_oracle,
    "allclose": by_peer(allclose),
    "cosine": by_peer(cosine),
    "calc_diff": by_peer(calc_diff(0.001)),
}


def require_power(name: str, case: AttentionCase, family: str, goal: float) -> None:
    """Measure the smallest bias that each criterion finds in all but one of 20 seeds.

    Raises:
        AssertionError: the layer tests' checks find none as small as the goal.
    """
    if family == "v_scale":
        case = replace(case, fp8=True)
    trials = [trial(case, family, seed) for seed in range(SEEDS)]
    found = {label: smallest(trials, finds) for label, finds in CRITERIA.items()}
    print(f"{name} {family}: " + ", ".join(f"{label} {percent(g)}" for label, g in found.items()))
    entry: dict[str, object] = {
        "format": f"attention {name} {case.backend}",
        "family": family,
        "device": torch.cuda.get_device_name() if device().type == "cuda" else "cpu",
        "smallest": found,
    }
    record(entry, FILE)
    gain = found["oracle"]
    assert gain is not None and 0 < gain <= goal, (
        f"{name}: the smallest bias of a {family} that the checks find in {SEEDS} seeds is "
        f"{percent(gain)}, wanted at most {percent(goal)}"
    )
