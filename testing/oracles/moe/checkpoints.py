"""Synthetic checkpoints of a fused MoE layer in which no two experts, shards or tiles are alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testing.oracles.arrays import Float64, Tensors
from testing.oracles.formats import ActivationRule, LinearFormat
from testing.oracles.places import Layout, consecutive_shards, single_shard

GATE, UP, DOWN = "w1", "w3", "w2"
# RMS of gate and up where x has an RMS of a half, as the lossless grids have: the swish then bends.
_GATE_UP_SIZE, _X_SIZE = 1.5, 0.5
# An input scale of gain 1 expects values up to 40; here x reaches 5, and h 160.
_X_RANGE, _H_RANGE, _SHORT = 2.0**-3, 2.0**2, 32


@dataclass(frozen=True)
class MoeCheckpoint:
    """Tensors of each expert and what they mean.

    experts: for each expert {"w1" | "w3" | "w2": tensors by suffix}, as a checkpoint stores them;
        shared experts stand behind the routed ones.
    biases: for each expert {"w1" | "w3": (I,), "w2": (H,)} float64, or nothing.
    activation: "silu" or "swiglu_oai".
    """

    format: LinearFormat
    experts: tuple[dict[str, Tensors], ...]
    biases: tuple[dict[str, Float64], ...]
    activation: str = "silu"

    @cached_property
    def w13(self) -> Float64:
        """(E, 2I, H): gate's rows, then up's."""
        pairs = [[self.format.decode(e[s]) for s in (GATE, UP)] for e in self.experts]
        return np.stack([np.concatenate(pair) for pair in pairs])

    @cached_property
    def w2(self) -> Float64:
        """(E, H, I)."""
        return np.stack([self.format.decode(e[DOWN]) for e in self.experts])

    @property
    def hidden_size(self) -> int:
        """H."""
        return int(self.w2.shape[1])

    @property
    def intermediate_size(self) -> int:
        """I."""
        return int(self.w2.shape[2])

    def bias13(self, expert: int) -> Float64 | None:
        """(2I,), or None."""
        own = self.biases[expert]
        return np.concatenate([own[GATE], own[UP]]) if own else None

    def bias2(self, expert: int) -> Float64 | None:
        """(H,), or None."""
        return self.biases[expert].get(DOWN)

    @cached_property
    def input_rule(self) -> ActivationRule:
        """How x is quantised: once, for all experts."""
        shards = {f"{e}.{s}": t[s] for e, t in enumerate(self.experts) for s in (GATE, UP)}
        return self.format.activations(shards)

    @cached_property
    def hidden_rules(self) -> tuple[ActivationRule, ...]:
        """How h is quantised, by expert."""
        return tuple(self.format.activations({DOWN: e[DOWN]}) for e in self.experts)

    @property
    def layout13(self) -> Layout:
        """Where gate and up lie in a row of the first product."""
        size = self.intermediate_size
        return Layout(consecutive_shards({"gate": size, "up": size}), self.hidden_size)

    @property
    def layout2(self) -> Layout:
        """Of a row of the second product."""
        return Layout(single_shard(self.hidden_size), self.intermediate_size)


def moe_checkpoint(
    rng: np.random.Generator,
    fmt: LinearFormat,
    experts: int,
    hidden: int,
    intermediate: int,
    activation: str = "silu",
    with_bias: bool = False,
) -> MoeCheckpoint:
    """A random checkpoint; the scales of experts, and of an expert's three weights, all differ."""
    gain13 = _gain(rng, fmt, intermediate, hidden, _GATE_UP_SIZE / _X_SIZE)
    gain2 = _gain(rng, fmt, hidden, intermediate, 1.0)
    plans = [
        (GATE, intermediate, hidden, gain13, _X_RANGE),
        (UP, intermediate, hidden, gain13, _X_RANGE),
        (DOWN, hidden, intermediate, gain2, _H_RANGE),
    ]
    tensors, biases = [], []
    for e in range(experts):
        own: dict[str, Tensors] = {}
        for i, (shard, n, k, gain, expected) in enumerate(plans):
            spread = _spread(3 * e + i)
            own[shard] = fmt.random_weight(rng, n, k, gain * spread)
            if "input_scale" in own[shard]:
                donor = fmt.random_weight(rng, 1, _SHORT, expected * spread)
                own[shard]["input_scale"] = donor["input_scale"]
        tensors.append(own)
        # Eighths up to 2: exact in bf16 and fp16.
        sizes = {GATE: intermediate, UP: intermediate, DOWN: hidden} if with_bias else {}
        biases.append({s: rng.integers(-16, 17, n) / 8.0 for s, n in sizes.items()})
    return MoeCheckpoint(fmt, tuple(tensors), tuple(biases), activation)


def _gain(rng: np.random.Generator, fmt: LinearFormat, n: int, k: int, growth: float) -> float:
    """The gain with which a product's RMS is `growth` times that of its input."""
    sample = fmt.decode(fmt.random_weight(rng, min(n, 256), k, 1.0))
    return float(growth / np.sqrt(np.mean(sample**2) * k))


def _spread(i: int) -> float:
    """Steps of 2^(1/3) in [1/2, 2], with no two neighbours, nor an expert's three, alike."""
    return float(2.0 ** ((i * 4 % 7 - 3) / 3))
