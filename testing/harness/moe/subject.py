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
from testing.oracles.moe.split import SplitCheckpoint
from testing.oracles.rounding import FloatType
from testing.oracles.statistics import Comparison

Draw = Callable[[ActivationRule, int, int], Float64 | None]


@dataclass(frozen=True)
class MoeSubject:
    """What a layer should hold.

    ranks: how many share the layer; each rounds its part of the output to the layer's type before
        the sum.
    splits: every rank holds a part of every expert; else each holds some experts, the last one the
        shared ones too.
    """

    case: MoeCase
    checkpoint: MoeCheckpoint
    ranks: int = 1
    splits: bool = False

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
        checkpoint, choice = self.checkpoint, self.choice(logits)
        if self.splits:
            checkpoint = SplitCheckpoint(checkpoint, self.ranks)
            choice = checkpoint.split_choice(choice)
        comparison = compare_output(checkpoint, x, choice, got, self.case.arithmetic)
        if self.ranks > 1:
            for experts in self._experts_by_rank():
                partial = comparison.parts[experts].sum(axis=0)
                comparison = replace(comparison, noise=comparison.noise + self._rounded(partial))
        return comparison

    def _experts_by_rank(self) -> list[list[int]]:
        whole = len(self.experts)
        if self.splits:
            return [[r * whole + e for e in self.experts] for r in range(self.ranks)]
        size = self.case.experts // self.ranks
        held = [list(range(r * size, (r + 1) * size)) for r in range(self.ranks)]
        held[-1] += list(range(self.case.experts, whole))
        return held

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
