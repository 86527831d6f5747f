"""MXFP8 and MXFP4 linear layers, as `LinearFormat`s."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testing.oracles.arrays import Float64, Tensors
from testing.oracles.codecs import e2m1, e4m3, mx
from testing.oracles.codecs.grid import Codes
from testing.oracles.error_model.accumulators import FP32, Accumulator
from testing.oracles.error_model.noise import Noise
from testing.oracles.error_model.product import Product
from testing.oracles.error_model.sums import scaled_sum_noise
from testing.oracles.formats import ActivationRule, LinearFormat
from testing.oracles.linear_formats.fp8_rules import random_codes
from testing.oracles.linear_formats.mx_rules import BLOCK, MxRule
from testing.oracles.linear_formats.scales import as_bytes, as_e4m3
from testing.oracles.linear_formats.weight_only import ShortOperands


class Mxfp8(LinearFormat):
    """`weight` e4m3 (N, K), `weight_scale_inv` u8 E8M0 (N, K/32); x in blocks of 32, ceiling."""

    name = "mxfp8"

    def random_weight(self, rng: np.random.Generator, n: int, k: int, gain: float) -> Tensors:
        """Every code, and powers of two over a factor of eight."""
        return {
            "weight": as_e4m3(random_codes(rng, (n, k))),
            "weight_scale_inv": random_powers(rng, (n, k // BLOCK), gain, -14),
        }

    def decode(self, tensors: Mapping[str, NDArray[Any]]) -> Float64:
        """Codes times powers of two."""
        return mx.dequantise(as_bytes(tensors["weight"]), tensors["weight_scale_inv"], "e4m3")

    def activations(self, shards: Mapping[str, Tensors]) -> ActivationRule:
        """e4m3, the smallest power of two that keeps 448 from being exceeded."""
        return MxRule("e4m3", "ceil")

    def identity_weight(self, k: int) -> Tensors:
        """Code 1, scale 1."""
        codes: Codes = e4m3.encode(np.eye(k))
        return {"weight": as_e4m3(codes), "weight_scale_inv": _ones(k)}

    def noise(self, product: Product, accumulator: Accumulator = FP32) -> Noise:
        """One sum: scales are exact, and so are products."""
        return scaled_sum_noise(product, accumulator)


class Mxfp4(LinearFormat):
    """`weight` u8 (N, K/2), `weight_scale` u8 E8M0 (N, K/32).

    dynamic: x is quantised too (e2m1 in blocks of 32, floor); else it is multiplied as it comes.
    """

    def __init__(self, dynamic: bool = False) -> None:
        self._dynamic = dynamic
        self.name = "mxfp4_w4a4" if dynamic else "mxfp4_w4a16"

    def random_weight(self, rng: np.random.Generator, n: int, k: int, gain: float) -> Tensors:
        """Every byte, and powers of two over a factor of eight."""
        return {
            "weight": rng.integers(0, 256, (n, k // 2)).astype(np.uint8),
            "weight_scale": random_powers(rng, (n, k // BLOCK), gain, -9),
        }

    def decode(self, tensors: Mapping[str, NDArray[Any]]) -> Float64:
        """Codes times powers of two."""
        return mx.dequantise(e2m1.unpack(tensors["weight"]), tensors["weight_scale"], "e2m1")

    def activations(self, shards: Mapping[str, Tensors]) -> ActivationRule:
        """e2m1 with a floored power of two, or as it comes."""
        return MxRule("e2m1", "floor") if self._dynamic else ShortOperands()

    def identity_weight(self, k: int) -> Tensors:
        """Code 1, scale 1."""
        return {"weight": e2m1.pack(e2m1.encode(np.eye(k))), "weight_scale": _ones(k)}

    def noise(self, product: Product, accumulator: Accumulator = FP32) -> Noise:
        """One sum: scales are exact, and so are products."""
        return scaled_sum_noise(product, accumulator)


def random_powers(
    rng: np.random.Generator, shape: tuple[int, ...], gain: float, centre: int
) -> Codes:
    """E8M0 bytes of 2^(centre - 1) to 2^(centre + 2), times the power of two next to the gain."""
    shift = int(np.rint(np.log2(gain)))
    return (127 + centre + shift + rng.integers(-1, 3, shape)).astype(np.uint8)


def _ones(k: int) -> Codes:
    return np.full((k, k // BLOCK), 127, np.uint8)
