"""int8 per channel (W8A8) and int8 128x128 block, as `LinearFormat`s."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testing.oracles import int8
from testing.oracles.arrays import Float32, Float64, Int8, Tensors
from testing.oracles.error_model.accumulators import FP32, Accumulator
from testing.oracles.error_model.integers import scaled_block_noise, scaled_integer_noise
from testing.oracles.error_model.noise import Noise
from testing.oracles.error_model.product import Product
from testing.oracles.formats import ActivationRule, Activations, LinearFormat


class Int8Rule(ActivationRule):
    """amax/127 a token, or a group of a token's values; half to even, ±127.

    group: values that share a scale; None: the whole token.
    """

    def __init__(self, group: int | None = None) -> None:
        self._group = group

    def lossless(self, rng: np.random.Generator, m: int, k: int) -> Float64:
        """Codes times a power of two with one ±127 a group: amax/127 is then that power exactly.

        A code has seven bits, so the product is exact in bf16 and in fp16. Groups get different
        powers: a scale taken from a neighbour doubles or halves what it touches.
        """
        codes = rng.integers(-127, 128, (m, k)).astype(np.float64)
        return _scaled_groups(rng, codes, self._group or k)

    def ties(self, rng: np.random.Generator, m: int, k: int) -> Float64 | None:
        """Halfway between two codes, all but one ±127 a group.

        A code and a half has eight bits, so it is exact in bf16 and in fp16. With amax 127·2^p the
        scale is 2^p and the quotient exact by division, by fp32(1/127) and by 127/amax alike: half
        to even is then one answer, not two.
        """
        return _scaled_groups(rng, rng.integers(-127, 127, (m, k)) + 0.5, self._group or k)

    def encode(self, x: Float64) -> Activations:
        """amax/127, half to even, ±127."""
        group = self._group or x.shape[1]
        codes, scale = int8.encode_token_groups(x, group)
        step = int8.spread_blocks(scale, x.shape, (1, group))
        return Activations(codes.astype(np.float64) * step, step, int8.near_ties(x, step))

    def snap(self, read: Float64, like: Activations) -> Float64:
        """The nearest multiple of the step; bf16 moves a code by at most a quarter of it."""
        step = np.where(like.step == 0, 1.0, like.step)
        return np.rint(read / step) * like.step

    def relative_noise(self, x: Float64) -> float:
        """Rounding to a grid of step s leaves an error uniform in ±s/2: RMS s/√12, s = amax/127.

        Over all groups that is RMS(amax/rms)/(127·√12). The element that sets amax
        is exact, hence the factor √(1 - 1/group).
        """
        group = self._group or x.shape[1]
        step = int8.spread_blocks(int8.encode_block(x, (1, group))[1], x.shape, (1, group))
        inexact = 1 - 1 / min(group, x.shape[1])
        return float(np.sqrt(np.mean(step**2) / 12 * inexact / np.mean(x**2)))


class Int8Channel(LinearFormat):
    """`weight` int8 (N, K), `weight_scale` fp32 (N, 1); activations per token."""

    name = "int8_channel"

    def random_weight(self, rng: np.random.Generator, n: int, k: int, gain: float) -> Tensors:
        """Uniform codes and scales spread over a factor of four."""
        return {
            "weight": _random_codes(rng, n, k),
            "weight_scale": _random_scales(rng, (n, 1), gain),
        }

    def decode(self, tensors: Mapping[str, NDArray[Any]]) -> Float64:
        """Codes times scales, in float64."""
        return int8.decode_channel(
            tensors["weight"].astype(np.int8), tensors["weight_scale"].astype(np.float32)
        )

    def activations(self, shards: Mapping[str, Tensors]) -> ActivationRule:
        """A scale a token."""
        return Int8Rule()

    def identity_weight(self, k: int) -> Tensors:
        """Code 1, scale 1."""
        return {"weight": np.eye(k, dtype=np.int8), "weight_scale": np.ones((k, 1), np.float32)}

    def noise(self, product: Product, accumulator: Accumulator = FP32) -> Noise:
        """Exact integer sums, scales in fp32."""
        return scaled_integer_noise(product.without_bias, product.bias)


class Int8Block(LinearFormat):
    """`weight` int8 (N, K), `weight_scale_inv` fp32 (⌈N/128⌉, ⌈K/128⌉); activations 1x128."""

    name = "int8_block"

    def random_weight(self, rng: np.random.Generator, n: int, k: int, gain: float) -> Tensors:
        """Uniform codes and scales spread over a factor of four."""
        return {
            "weight": _random_codes(rng, n, k),
            "weight_scale_inv": _random_scales(rng, (-(-n // 128), -(-k // 128)), gain),
        }

    def decode(self, tensors: Mapping[str, NDArray[Any]]) -> Float64:
        """Codes times scales, in float64."""
        return int8.decode_block(
            tensors["weight"].astype(np.int8), tensors["weight_scale_inv"].astype(np.float32)
        )

    def activations(self, shards: Mapping[str, Tensors]) -> ActivationRule:
        """A scale for 128 values of a token."""
        return Int8Rule(128)

    def identity_weight(self, k: int) -> Tensors:
        """Code 1, scale 1."""
        return {
            "weight": np.eye(k, dtype=np.int8),
            "weight_scale_inv": np.ones((-(-k // 128), -(-k // 128)), np.float32),
        }

    def noise(self, product: Product, accumulator: Accumulator = FP32) -> Noise:
        """Exact integer sums, scales in fp32."""
        return scaled_block_noise(product.parts, product.bias)


def _random_codes(rng: np.random.Generator, n: int, k: int) -> Int8:
    # A checkpoint may hold -128, although no activation has that code.
    return rng.integers(-128, 128, (n, k), dtype=np.int8)


def _random_scales(rng: np.random.Generator, shape: tuple[int, ...], gain: float) -> Float32:
    """Spread over a factor of four around 2^-12·gain: fp32 values with full significands."""
    return (gain * 2.0**-12 * 2.0 ** rng.uniform(-1, 1, shape)).astype(np.float32)


def _scaled_groups(rng: np.random.Generator, codes: Float64, group: int) -> Float64:
    m, k = codes.shape
    groups = -(-k // group)
    for g in range(groups):
        place = rng.integers(g * group, min(k, (g + 1) * group), m)
        codes[np.arange(m), place] = 127.0 * rng.choice([-1.0, 1.0], m)
    exponent = rng.integers(-8, -5, (m, groups))
    return codes * np.repeat(np.ldexp(1.0, exponent), group, axis=1)[:, :k]
