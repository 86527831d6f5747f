"""How MX layers quantise x: codes under a power of two for each 32 values of a token."""

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.codecs import e2m1, e4m3, e8m0, mx
from testing.oracles.codecs.quantised import Quantised
from testing.oracles.linear_formats.fp8_rules import random_codes, tied_values
from testing.oracles.linear_formats.rounding_rule import FloatRule

BLOCK = 32


class MxRule(FloatRule):
    """One element format under one rule for its scale.

    element: "e4m3" or "e2m1".
    rule: "ceil" or "floor", which makes a block's scale from its largest value.
    """

    block = BLOCK

    def __init__(self, element: mx.Element, rule: mx.Rule) -> None:
        self.element, self.rule = element, rule
        self.grid = e4m3.GRID if element == "e4m3" else e2m1.GRID
        # The codes for a block's largest value: away from where the scale would be another.
        self._tops = np.array([288.0, 416.0]) if element == "e4m3" else np.array([4.0, 6.0])

    def lossless(self, rng: np.random.Generator, m: int, k: int) -> Float64:
        """Codes times a power of two, whose largest leaves no doubt of that power."""
        if self.element == "e4m3":
            return self._scaled(rng, e4m3.decode(random_codes(rng, (m, k))))
        return self._scaled(rng, e2m1.decode(rng.integers(0, 16, (m, k)).astype(np.uint8)))

    def ties(self, rng: np.random.Generator, m: int, k: int) -> Float64 | None:
        """Halfway between two codes, all but one a block; a power of two divides them exactly."""
        if self.element == "e4m3":
            return self._scaled(rng, tied_values(rng, m, k))
        signs = rng.choice([-1.0, 1.0], (m, k))
        return self._scaled(rng, rng.choice(e2m1.GRID.midpoints, (m, k)) * signs)

    def detail(self, x: Float64) -> Quantised:
        """As the codec says."""
        return mx.quantise_detail(x, self.element, BLOCK, self.rule)

    def scales(self, x: Float64) -> Float64:
        """A power of two a block."""
        scales = mx.quantise(x, self.element, BLOCK, self.rule)[1]
        return np.repeat(e8m0.decode(scales), BLOCK, axis=1)

    def _scaled(self, rng: np.random.Generator, values: Float64) -> Float64:
        m, k = values.shape
        blocks = values.reshape(m, k // BLOCK, BLOCK).copy()
        top = rng.choice(self._tops, blocks.shape[:2])
        blocks = np.clip(blocks, -top[..., None], top[..., None])
        place = rng.integers(0, BLOCK, blocks.shape[:2])
        signed = top * rng.choice([-1.0, 1.0], top.shape)
        np.put_along_axis(blocks, place[..., None], signed[..., None], axis=2)
        exponent = rng.integers(-8, -5, top.shape) + (0 if self.element == "e4m3" else 6)
        return np.ldexp(blocks, exponent[..., None]).reshape(m, k)
