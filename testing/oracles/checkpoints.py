"""Synthetic checkpoints of a linear layer in which no two shards, rows or tiles are alike."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from testing.oracles.arrays import Float64, Tensors
from testing.oracles.formats import ActivationRule, LinearFormat
from testing.oracles.places import Layout, consecutive_shards

# Shards differ by more than the largest ratio seen in the wild (2.14).
_SHARD_GAINS = (1.0, 2.5, 0.4, 1.7)


@dataclass(frozen=True)
class LinearCheckpoint:
    """Tensors of each shard and what they mean.

    tensors: {shard name: {suffix: array}}, as a checkpoint stores them before fusing.
    weight: (N, K) float64, shards one after another.
    bias: (N,) float64 or None.
    """

    format: LinearFormat
    tensors: dict[str, Tensors]
    weight: Float64
    bias: Float64 | None
    layout: Layout
    bias_shards: dict[str, Float64] = field(default_factory=dict)

    @cached_property
    def activations(self) -> ActivationRule:
        """How a layer that holds these tensors quantises x."""
        return self.format.activations(self.tensors)


def linear_checkpoint(
    rng: np.random.Generator,
    fmt: LinearFormat,
    shards: dict[str, int],
    k: int,
    with_bias: bool = False,
    one_scale: bool = False,
) -> LinearCheckpoint:
    """A random checkpoint with `shards` {name: rows}; a single shard may be called ''.

    one_scale: shards share their 0-dim scales, as in a checkpoint that was fused before it was
        quantised.
    """
    tensors = {
        name: fmt.random_weight(rng, n, k, _SHARD_GAINS[i % len(_SHARD_GAINS)])
        for i, (name, n) in enumerate(shards.items())
    }
    if one_scale:
        first = next(iter(tensors.values()))
        shared = {suffix: array for suffix, array in first.items() if not array.ndim}
        tensors = {name: own | shared for name, own in tensors.items()}
    weight = np.concatenate([fmt.decode(t) for t in tensors.values()])
    biases: dict[str, Float64] = {}
    if with_bias:
        # Eighths up to 16: exact in bf16 and fp16, and of the outputs' size.
        biases = {name: rng.integers(-127, 128, n) / 8.0 for name, n in shards.items()}
    layout = Layout(consecutive_shards(shards), k)
    bias = np.concatenate(list(biases.values())) if with_bias else None
    return LinearCheckpoint(fmt, tensors, weight, bias, layout, biases)


def identity_checkpoint(fmt: LinearFormat, k: int) -> LinearCheckpoint:
    """A single (k, k) identity weight: the layer's output is its quantised input."""
    tensors = {"": fmt.identity_weight(k)}
    layout = Layout(consecutive_shards({"": k}), k)
    return LinearCheckpoint(fmt, tensors, fmt.decode(tensors[""]), None, layout)
