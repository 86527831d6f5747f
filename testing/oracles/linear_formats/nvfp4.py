"""NVFP4 linear layers, as `LinearFormat`s."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testing.oracles.arrays import Float32, Float64, Tensors
from testing.oracles.codecs import e2m1, e4m3, nvfp4
from testing.oracles.codecs.grid import Codes
from testing.oracles.error_model.accumulators import FP32, Accumulator
from testing.oracles.error_model.noise import Noise
from testing.oracles.error_model.product import Product
from testing.oracles.error_model.sums import scaled_sum_noise
from testing.oracles.formats import ActivationRule, LinearFormat
from testing.oracles.linear_formats.fp8_rules import NATURAL_AMAX
from testing.oracles.linear_formats.nvfp4_rules import Nvfp4Rule
from testing.oracles.linear_formats.scales import as_bytes, as_e4m3, power_of_two, random_scales
from testing.oracles.linear_formats.weight_only import ShortOperands

_CENTRE = 2.0**-16
_RANGE = 448.0 * 6.0


class Nvfp4(LinearFormat):
    """`weight` u8 (N, K/2), `weight_scale` e4m3 (N, K/16), 0-dim `weight_scale_2`, `input_scale`.

    weight_only: the backend leaves x as it comes; the checkpoint is the same.
    exact_scale: `input_scale` is a power of two, so that x can lie on a tie.
    """

    def __init__(self, weight_only: bool = False, exact_scale: bool = False) -> None:
        self._weight_only, self._exact = weight_only, exact_scale
        self.name = "nvfp4_w4a16" if weight_only else "nvfp4_w4a4"

    def random_weight(self, rng: np.random.Generator, n: int, k: int, gain: float) -> Tensors:
        """Every byte; block scales over a factor of 14, and a few of every e4m3 value, 0 included.

        Two thousandths of the block scales are what calibration never gives: zero, subnormal, tiny.
        """
        shape = (n, k // nvfp4.BLOCK)
        usual = rng.integers(_THIRTY_TWO, e4m3.NAN, shape)
        unusual = rng.integers(0, e4m3.NAN, shape)
        scales = np.where(rng.random(shape) < 0.002, unusual, usual).astype(np.uint8)
        return {
            "weight": rng.integers(0, 256, (n, k // 2)).astype(np.uint8),
            "weight_scale": as_e4m3(scales),
            "weight_scale_2": random_scales(rng, (), gain * _CENTRE),
            "input_scale": self._input_scale(gain * rng.uniform(0.95, 1.05)),
        }

    def decode(self, tensors: Mapping[str, NDArray[Any]]) -> Float64:
        """Code times block scale times `weight_scale_2`."""
        return nvfp4.dequantise(
            nvfp4.Nvfp4(
                tensors["weight"], as_bytes(tensors["weight_scale"]), tensors["weight_scale_2"]
            )
        )

    def activations(self, shards: Mapping[str, Tensors]) -> ActivationRule:
        """Blocks of 16 under the largest of the shards' input scales, or as it comes."""
        if self._weight_only:
            return ShortOperands()
        return Nvfp4Rule([tensors["input_scale"] for tensors in shards.values()])

    def identity_weight(self, k: int) -> Tensors:
        """Code 1, scales 1."""
        ones: Codes = e4m3.encode(np.ones((k, k // nvfp4.BLOCK)))
        return {
            "weight": e2m1.pack(e2m1.encode(np.eye(k))),
            "weight_scale": as_e4m3(ones),
            "weight_scale_2": np.ones((), np.float32),
            "input_scale": self._input_scale(1.0),
        }

    def noise(self, product: Product, accumulator: Accumulator = FP32) -> Noise:
        """One sum of products that fp32 holds exactly, then alpha in fp32."""
        return scaled_sum_noise(product, accumulator)

    def _input_scale(self, gain: float) -> Float32:
        scale = gain * NATURAL_AMAX / _RANGE
        return power_of_two(scale) if self._exact else np.asarray(scale).astype(np.float32)


_THIRTY_TWO = int(e4m3.encode(np.asarray(32.0)))
