"""No false alarm over fp8 layers that a simulated tensor core multiplies."""

from dataclasses import replace

import numpy as np
import pytest

from testing.oracles.checkpoints import linear_checkpoint
from testing.oracles.codecs import e4m3, fp8
from testing.oracles.error_model.accumulators import (
    HOPPER_BF16,
    HOPPER_FP8,
    HOPPER_FP8_PROMOTED,
    Accumulator,
)
from testing.oracles.error_model.product import Product
from testing.oracles.error_model.simulated import tensor_core
from testing.oracles.linear_formats.fp8 import Fp8Channel
from testing.oracles.rounding import BF16, FP16, FP32, round_to
from testing.oracles.statistics import Comparison, evidence

SHAPES = [(16, 128, 512), (5, 160, 1024), (33, 64, 1056)]


def simulated(seed: int, accumulator: Accumulator) -> Comparison:
    """A right kernel's output: sums of codes by the tensor core, scales in fp32, one rounding."""
    rng, fmt = np.random.default_rng([seed, 9]), Fp8Channel()
    m, n, k = SHAPES[seed % len(SHAPES)]
    checkpoint = linear_checkpoint(rng, fmt, {"gate": n // 2, "up": n // 2}, k)
    codes, x_scale = fp8.quantise_tokens(checkpoint.activations.lossless(rng, m, k))
    shards = checkpoint.tensors.values()
    weight = np.concatenate([tensors["weight"].astype(np.float64) for tensors in shards])
    w_scale = np.concatenate([tensors["weight_scale"].astype(np.float64) for tensors in shards])
    total = tensor_core(e4m3.decode(codes), weight, accumulator)
    scaled = round_to(round_to(total * x_scale, FP32) * w_scale.T, FP32)
    kind = [BF16, FP16][seed % 2]
    product = Product(e4m3.decode(codes) * x_scale, checkpoint.weight)
    noise = fmt.noise(product, accumulator)
    got = round_to(scaled, kind)
    return Comparison(got, product.parts, product.exact, noise, kind, checkpoint.layout)


@pytest.mark.parametrize(
    "accumulator", [HOPPER_FP8, HOPPER_FP8_PROMOTED, HOPPER_BF16], ids=lambda a: a.name
)
def test_no_false_alarm(accumulator: Accumulator) -> None:
    for seed in range(24):
        comparison = simulated(seed, accumulator)
        assert not comparison.outside().any(), seed
        found = [name for name, family in evidence(comparison).items() if family.rejected.any()]
        assert found == [], seed


def test_sums_of_fourteen_bits_do_not_pass_for_those_of_fp32() -> None:
    comparison = simulated(1, HOPPER_FP8)
    noise = simulated(1, HOPPER_BF16).noise
    assert replace(comparison, noise=noise).outside().any()
