"""fp8 per tensor, per channel and 128x128 block, as `LinearFormat`s."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testing.oracles.arrays import Float32, Float64, Tensors
from testing.oracles.codecs import e4m3, fp8
from testing.oracles.codecs.grid import Codes
from testing.oracles.error_model.accumulators import FP32, Accumulator
from testing.oracles.error_model.noise import Noise
from testing.oracles.error_model.product import Product
from testing.oracles.error_model.sums import scaled_block_sums_noise, scaled_sum_noise
from testing.oracles.formats import ActivationRule, LinearFormat
from testing.oracles.linear_formats.fp8_rules import (
    NATURAL_AMAX,
    DynamicFp8,
    StaticFp8,
    random_codes,
)
from testing.oracles.linear_formats.scales import as_bytes, as_e4m3, power_of_two, random_scales

_CENTRE = 2.0**-13
"""Of weight scales: an fp16 layer then has room for its outputs."""


class Fp8Tensor(LinearFormat):
    """`weight` e4m3 (N, K), `weight_scale` 0-dim fp32; `input_scale` 0-dim fp32 if static.

    Shards keep their own weight scales. x is quantised once, with the largest `input_scale`, or
    with a scale a token.

    static: activations use `input_scale`.
    exact_scale: `input_scale` is a power of two, so that x can lie on a tie.
    """

    def __init__(self, static: bool = False, exact_scale: bool = False) -> None:
        self._static, self._exact = static, exact_scale
        self.name = f"fp8_tensor_{'static' if static else 'dynamic'}"

    def random_weight(self, rng: np.random.Generator, n: int, k: int, gain: float) -> Tensors:
        """Every code; an input scale that expects the probes' natural data, times the gain."""
        weight = as_e4m3(random_codes(rng, (n, k)))
        tensors: Tensors = {
            "weight": weight,
            "weight_scale": random_scales(rng, (), gain * _CENTRE),
        }
        if self._static:
            tensors["input_scale"] = self._input_scale(gain * rng.uniform(0.95, 1.05))
        return tensors

    def decode(self, tensors: Mapping[str, NDArray[Any]]) -> Float64:
        """Codes times the scale, in float64."""
        return fp8.dequantise_tensor(as_bytes(tensors["weight"]), tensors["weight_scale"])

    def activations(self, shards: Mapping[str, Tensors]) -> ActivationRule:
        """A scale a token, or the largest of the shards' input scales."""
        if not self._static:
            return DynamicFp8()
        return StaticFp8([tensors["input_scale"] for tensors in shards.values()])

    def identity_weight(self, k: int) -> Tensors:
        """Code 1, scale 1."""
        tensors: Tensors = {"weight": _identity(k), "weight_scale": np.ones((), np.float32)}
        if self._static:
            tensors["input_scale"] = self._input_scale(1.0)
        return tensors

    def noise(self, product: Product, accumulator: Accumulator = FP32) -> Noise:
        """One sum, scales in fp32."""
        return scaled_sum_noise(product, accumulator)

    def _input_scale(self, gain: float) -> Float32:
        scale = gain * NATURAL_AMAX / e4m3.MAX
        return power_of_two(scale) if self._exact else np.asarray(scale).astype(np.float32)


class Fp8Channel(LinearFormat):
    """`weight` e4m3 (N, K), `weight_scale` fp32 (N, 1); activations per token."""

    name = "fp8_channel"

    def random_weight(self, rng: np.random.Generator, n: int, k: int, gain: float) -> Tensors:
        """Every code, and scales spread over a factor of four."""
        return {
            "weight": as_e4m3(random_codes(rng, (n, k))),
            "weight_scale": random_scales(rng, (n, 1), gain * _CENTRE),
        }

    def decode(self, tensors: Mapping[str, NDArray[Any]]) -> Float64:
        """Codes times scales, in float64."""
        return fp8.dequantise_channel(as_bytes(tensors["weight"]), tensors["weight_scale"])

    def activations(self, shards: Mapping[str, Tensors]) -> ActivationRule:
        """A scale a token."""
        return DynamicFp8()

    def identity_weight(self, k: int) -> Tensors:
        """Code 1, scale 1."""
        return {"weight": _identity(k), "weight_scale": np.ones((k, 1), np.float32)}

    def noise(self, product: Product, accumulator: Accumulator = FP32) -> Noise:
        """One sum, scales in fp32."""
        return scaled_sum_noise(product, accumulator)


class Fp8Block(LinearFormat):
    """`weight` e4m3 (N, K), `weight_scale_inv` fp32 (⌈N/128⌉, ⌈K/128⌉); activations 1x128."""

    name = "fp8_block"

    def random_weight(self, rng: np.random.Generator, n: int, k: int, gain: float) -> Tensors:
        """Every code, and scales spread over a factor of four."""
        return {
            "weight": as_e4m3(random_codes(rng, (n, k))),
            "weight_scale_inv": random_scales(rng, _blocks(n, k), gain * _CENTRE),
        }

    def decode(self, tensors: Mapping[str, NDArray[Any]]) -> Float64:
        """Codes times scales, in float64."""
        return fp8.dequantise_block(as_bytes(tensors["weight"]), tensors["weight_scale_inv"])

    def activations(self, shards: Mapping[str, Tensors]) -> ActivationRule:
        """A scale for 128 values of a token."""
        return DynamicFp8(128)

    def identity_weight(self, k: int) -> Tensors:
        """Code 1, scale 1."""
        return {"weight": _identity(k), "weight_scale_inv": np.ones(_blocks(k, k), np.float32)}

    def noise(self, product: Product, accumulator: Accumulator = FP32) -> Noise:
        """A sum a block, scales in fp32, then the blocks' sums in fp32."""
        return scaled_block_sums_noise(product, accumulator)


def _identity(k: int) -> NDArray[Any]:
    codes: Codes = e4m3.encode(np.eye(k))
    return as_e4m3(codes)


def _blocks(n: int, k: int) -> tuple[int, int]:
    return -(-n // 128), -(-k // 128)
