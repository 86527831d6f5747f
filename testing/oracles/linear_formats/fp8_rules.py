"""How fp8 layers quantise x: e4m3 codes under a scale a token, a group of 128, or a layer."""

from collections.abc import Iterable

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.codecs import e4m3, fp8
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.quantised import Quantised
from testing.oracles.linear_formats.rounding_rule import FloatRule

NATURAL_AMAX = 40.0
"""About the largest value of the probes' natural data: a token of deviation 8, and its 5 sigma."""


class DynamicFp8(FloatRule):
    """s = amax/448 a token, or a group of a token's values; half to even, ±448.

    block: values that share a scale; None: the whole token.
    """

    grid = e4m3.GRID

    def __init__(self, block: int | None = None) -> None:
        self.block = block

    def lossless(self, rng: np.random.Generator, m: int, k: int) -> Float64:
        """Codes times a power of two with one ±448 a group: amax/448 is then that power exactly.

        448 is 7·2^6, and fp32(1/7)·7 rounds to 1: the scale is the same by every arithmetic.
        """
        return _scaled_groups(rng, e4m3.decode(random_codes(rng, (m, k))), self.block or k)

    def ties(self, rng: np.random.Generator, m: int, k: int) -> Float64 | None:
        """Halfway between two codes, all but one ±448 a group; they have at most five bits."""
        return _scaled_groups(rng, tied_values(rng, m, k), self.block or k)

    def detail(self, x: Float64) -> Quantised:
        """As the codec says."""
        return fp8.quantise_groups_detail(x, self.block or x.shape[1])

    def scales(self, x: Float64) -> Float64:
        """amax/448."""
        group = self.block or x.shape[1]
        return fp8.spread(fp8.quantise_groups(x, group)[1], x.shape, (1, group))


class StaticFp8(FloatRule):
    """One scale for all tokens, the largest `input_scale` of the layer's shards; ±448 beyond it."""

    grid = e4m3.GRID

    def __init__(self, input_scales: Iterable[object]) -> None:
        self.scale = max(float(np.asarray(s, np.float64).reshape(())) for s in input_scales)

    def lossless(self, rng: np.random.Generator, m: int, k: int) -> Float64:
        """The middle of a code, as near as bf16 and fp16 have it: a hundredth of a step off."""
        return narrowed(e4m3.decode(random_codes(rng, (m, k))) * self.scale)

    def ties(self, rng: np.random.Generator, m: int, k: int) -> Float64 | None:
        """Halfway between two codes, if the scale is a power of two."""
        if np.frexp(self.scale)[0] != 0.5:
            return None
        return tied_values(rng, m, k) * self.scale

    def detail(self, x: Float64) -> Quantised:
        """As the codec says."""
        return fp8.quantise_tensor_detail(x, self.scale)

    def scales(self, x: Float64) -> Float64:
        """The one scale."""
        return np.full(x.shape, self.scale)

    def one_hot(self, k: int) -> Float64:
        """Code 1."""
        return narrowed(np.eye(k) * self.scale)


def random_codes(rng: np.random.Generator, shape: tuple[int, ...]) -> Codes:
    """Half of them uniform over all finite codes, half codes of normal values up to 448."""
    uniform = rng.integers(0, e4m3.NAN, shape) | (rng.integers(0, 2, shape) << 7)
    normal = e4m3.encode(rng.standard_normal(shape) * (e4m3.MAX / 4))
    return np.where(rng.random(shape) < 0.5, uniform.astype(np.uint8), normal)


def tied_values(rng: np.random.Generator, m: int, k: int) -> Float64:
    """(m, k) values halfway between two codes, of either sign."""
    return rng.choice(e4m3.GRID.midpoints, (m, k)) * rng.choice([-1.0, 1.0], (m, k))


def narrowed(x: Float64) -> Float64:
    """x rounded to eight bits: exact in bf16, and in fp16 from 2^-17 on."""
    significand, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(significand, 8)), exponent - 8)


def _scaled_groups(rng: np.random.Generator, codes: Float64, group: int) -> Float64:
    """One ±448 and a power of two of its own for each group."""
    m, k = codes.shape
    groups = -(-k // group)
    for g in range(groups):
        place = rng.integers(g * group, min(k, (g + 1) * group), m)
        codes[np.arange(m), place] = e4m3.MAX * rng.choice([-1.0, 1.0], m)
    exponent = rng.integers(-8, -5, (m, groups))
    return codes * np.repeat(np.ldexp(1.0, exponent), group, axis=1)[:, :k]
