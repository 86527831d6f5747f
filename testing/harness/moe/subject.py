"""An MoE layer's case and checkpoint, and what a right layer makes of x and the router's logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from testing.harness.moe.layer import MoeCase
from testing.oracles.arrays import Float64
from testing.oracles.error_model.noise import Noise, rounding_noise
from testing.oracles.formats import ActivationRule
from testing.oracles.moe.checkpoints import MoeCheckpoint
from testing.oracles.moe.probes import natural_without_ties
from testing.oracles.moe.propagation import compare_output
from testing.oracles.moe.routing import Choice, Int64, choose
from testing.oracles.rounding import FloatType
from testing.oracles.statistics import Comparison

Draw = Callable[[ActivationRule, int, int], Float64 | None]


@dataclass(frozen=True)
class MoeSubject:
    """What a layer should hold.

    experts_of: for each rank the experts that it adds up, where ranks share them; each rank rounds
        its part of the output to the layer's type before the sum. None for one rank.
    """

    case: MoeCase
    checkpoint: MoeCheckpoint
    experts_of: tuple[tuple[int, ...], ...] | None = None

    @property
    def kind(self) -> FloatType:
        """The float type of x, h and the output."""
        return self.case.kind

    @property
    def experts(self) -> range:
        """Ids of all experts, shared ones last."""
        return range(len(self.checkpoint.experts))

    @property
    def input_rule(self) -> ActivationRule:
        """How x is quantised."""
        return self.checkpoint.input_rule

    def choice(self, logits: Float64) -> Choice:
        """What the router's rule makes of logits (T, E)."""
        return choose(logits, self.case.routing, self.case.correction())

    def natural(self, rng: np.random.Generator, tokens: int) -> Float64:
        """(T, H) normal x, one row all zeros."""
        x = natural_without_ties(rng, self.input_rule, tokens, self.case.hidden, self.kind)
        x[tokens // 2 : tokens // 2 + 1] = 0.0
        return x

    def hidden_lossless(self, rng: np.random.Generator, experts: Int64) -> Float64:
        """(P, I) h whose codes are beyond doubt, for pairs of these experts (P,)."""
        return self._by_expert(experts, lambda rule, m, k: rule.lossless(rng, m, k))

    def hidden_ties(self, rng: np.random.Generator, experts: Int64) -> Float64 | None:
        """(P, I) h halfway between two codes, if there are any."""
        size = self.case.intermediate
        if any(rule.ties(rng, 1, size) is None for rule in self.checkpoint.hidden_rules):
            return None
        return self._by_expert(experts, lambda rule, m, k: rule.ties(rng, m, k))

    def compare_output(self, x: Float64, logits: Float64, got: Float64) -> Comparison:
        """The layer's output (T, H) beside the whole reference."""
        choice = self.choice(logits)
        comparison = compare_output(self.checkpoint, x, choice, got, self.case.arithmetic)
        for experts in self.experts_of or ():
            partial = comparison.parts[list(experts)].sum(axis=0)
            noise = comparison.noise + self._rounded(partial)
            comparison = replace(comparison, noise=noise)
        return comparison

    def _rounded(self, partial: Float64) -> Noise:
        # A rank without experts for a token adds an exact zero.
        noise = rounding_noise(partial, self.kind)
        some = (partial != 0).astype(float)
        return Noise(noise.bound * some, noise.std * some, noise.systematic)

    def _by_expert(self, experts: Int64, draw: Draw) -> Float64:
        h = np.zeros((len(experts), self.case.intermediate))
        for expert in np.unique(experts):
            rows = np.flatnonzero(experts == expert)
            drawn = draw(self.checkpoint.hidden_rules[expert], len(rows), self.case.intermediate)
            assert drawn is not None
            h[rows] = drawn
        return h
