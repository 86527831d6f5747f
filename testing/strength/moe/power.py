"""The smallest bias of a MoE layer's second product that its tests find, beside other criteria."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import torch

from testing.harness.device import device
from testing.harness.moe.examine import examine
from testing.harness.moe.layer import LoadedMoe, MoeCase, MoeMethod, Question, build
from testing.harness.moe.probes import EndToEnd, MoeProbe
from testing.harness.moe.stage_probes import HiddenGrid, StageProbe
from testing.harness.moe.subject import MoeSubject
from testing.oracles.arrays import Float64
from testing.oracles.moe.checkpoints import MoeCheckpoint
from testing.oracles.moe.probes import router_logits
from testing.strength.figures import keep_figures
from testing.strength.peers import Criterion, allclose, calc_diff, cosine
from testing.strength.power import SEEDS, smallest

FAMILIES = ("gain", "expert", "row", "column")
GOALS = {"gain": 0.0002, "expert": 0.0005, "row": 0.001, "column": 0.005}
"""Relative bias that has to be found, by family; an expert's product is a tile of the output's."""


@dataclass
class MoeLever:
    """A planted bias; the layer's next call takes the `gain` that stands here."""

    family: str
    index: int
    gain: float = 0.0


def plant_bias(loaded: LoadedMoe, lever: MoeLever) -> None:
    """Make a part of the second product (1 + gain) times as large, before it is weighed."""
    layer: Any = loaded.layer
    select, multiply = layer.select_experts, layer.quant_method.multiply_w2
    chosen: list[torch.Tensor] = []

    def select_experts(*args: Any) -> Any:
        answer = select(*args)
        chosen[:] = [answer.ids]
        return answer

    def multiply_w2(*args: Any) -> torch.Tensor:
        out: torch.Tensor = multiply(*args)
        ids = chosen[0]
        if lever.family == "gain":
            out *= 1 + lever.gain
        elif lever.family == "expert":
            out[ids.flatten() == lever.index] *= 1 + lever.gain
        elif lever.family == "row":
            first = lever.index * ids.shape[1]
            out[first : first + ids.shape[1]] *= 1 + lever.gain
        else:
            out[:, lever.index] *= 1 + lever.gain
        return out

    layer.select_experts, layer.quant_method.multiply_w2 = select_experts, multiply_w2


@dataclass(frozen=True)
class MoeTrial:
    """A right layer of T 64, E 4, H 512, I 256, top 2, with a lever.

    x, logits: normal data, as other tests take it; reference: (T, H) in float64, x not quantised.
    """

    loaded: LoadedMoe
    checkpoint: MoeCheckpoint
    lever: MoeLever
    seed: int
    x: Float64
    logits: Float64
    reference: Float64

    def finds(
        self, gain: float, probes: tuple[MoeProbe, ...], stages: tuple[StageProbe, ...]
    ) -> bool:
        """Whether the probes report anything when the place is off by `gain`."""
        self.lever.gain = gain
        rng = np.random.default_rng(self.seed + 1)
        return not examine(self.loaded, self.checkpoint, rng, probes, stages, recorded=False).ok

    def output(self, gain: float) -> Float64:
        """The output for the normal data when the place is off by `gain`."""
        self.lever.gain = gain
        return self.loaded.answer([Question(self.x, self.logits)]).outputs[0]


def trial(method: MoeMethod, family: str, seed: int, backend: str = "torch") -> MoeTrial:
    """The layer of one seed, with a lever on a random place of the family."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    case = MoeCase(method, 64, 4, 512, 256, backend=backend)
    checkpoint = case.checkpoint(rng)
    loaded = build(case, checkpoint, device())
    size = {"gain": 1, "expert": case.experts, "row": case.tokens, "column": case.hidden}[family]
    lever = MoeLever(family, int(rng.integers(size)))
    plant_bias(loaded, lever)
    x = rng.standard_normal((case.tokens, case.hidden)) / 8
    x = x.astype(ml_dtypes.bfloat16).astype(np.float64)
    logits = router_logits(rng, case.tokens, case.experts)
    reference = _unquantised(MoeSubject(case, checkpoint), x, logits)
    return MoeTrial(loaded, checkpoint, lever, seed, x, logits, reference)


def _unquantised(subject: MoeSubject, x: Float64, logits: Float64) -> Float64:
    """(T, H) silu(x·gateᵀ)·(x·upᵀ)·downᵀ with dequantised weights, as other tests compute it."""
    checkpoint, choice = subject.checkpoint, subject.choice(logits)
    half = subject.case.intermediate
    out = np.zeros((len(x), subject.case.hidden))
    for token in range(len(x)):
        for expert, weight in zip(choice.ids[token], choice.weights[token], strict=True):
            gate_up = checkpoint.w13[expert] @ x[token]
            gate, up = gate_up[:half], gate_up[half:]
            out[token] += weight * (checkpoint.w2[expert] @ (gate / (1 + np.exp(-gate)) * up))
    return out


Finds = Callable[[MoeTrial, float], bool]


def _by_peer(criterion: Criterion, trial: MoeTrial, gain: float) -> bool:
    return not criterion(trial.output(gain), trial.reference)


def criteria(family: str, four_bits: bool) -> dict[str, Finds]:
    """Every criterion of the table, ours first; `four_bits`: an operand is fp4.

    The output's probe is asked for the whole output only, to save time.
    """
    natural_data: dict[str, Finds] = {}
    if family == "gain":
        natural_data["natural data"] = lambda trial, gain: trial.finds(gain, (EndToEnd(),), ())
    return {
        "lossless grid": lambda trial, gain: trial.finds(gain, (), (HiddenGrid(),)),
        **natural_data,
        "allclose": partial(_by_peer, allclose),
        "cosine": partial(_by_peer, cosine),
        "calc_diff": partial(_by_peer, calc_diff(0.02 if four_bits else 0.001)),
    }


def require_power(name: str, method: MoeMethod, family: str) -> None:
    """Measure the smallest bias that each criterion finds in one family of places.

    Raises:
        AssertionError: the lossless grid finds none as small as the family's goal.
    """
    trials = [trial(method, family, seed) for seed in range(SEEDS)]
    asked = criteria(family, "fp4" in name)
    keep_figures(
        f"moe {name}",
        family,
        {label: smallest(trials, finds) for label, finds in asked.items()},
        GOALS[family],
        trials[0].loaded.device_name,
    )
