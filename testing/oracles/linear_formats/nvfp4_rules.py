"""How NVFP4 layers quantise x: e2m1 codes under an e4m3 scale a block and the layer's scale."""

from collections.abc import Iterable

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.codecs import e2m1, e4m3, nvfp4
from testing.oracles.codecs.quantised import Quantised
from testing.oracles.linear_formats.fp8_rules import narrowed
from testing.oracles.linear_formats.rounding_rule import FloatRule


class Nvfp4Rule(FloatRule):
    """Block scale e4m3(amax/6/g), codes e2m1; g the largest `input_scale` of the layer's shards."""

    grid = e2m1.GRID
    block = nvfp4.BLOCK

    def __init__(self, input_scales: Iterable[object]) -> None:
        self.scale = max(float(np.asarray(s, np.float64).reshape(())) for s in input_scales)

    def lossless(self, rng: np.random.Generator, m: int, k: int) -> Float64:
        """The middle of a code under a scale that is beyond doubt, a hundredth of a step off.

        Each block has one ±6 times an e4m3 scale of its own, from 1/4 to 448, or in a quarter of
        the rows a subnormal one, which beside larger ones nobody would see: bf16 moves amax/6/g by
        2^-9, and half a step of e4m3 is 2^-5 at least.
        """
        codes = e2m1.decode(rng.integers(0, 16, (m, k)).astype(np.uint8))
        blocks = (m, k // self._width)
        usual, tiny = rng.integers(_QUARTER, e4m3.NAN, blocks), rng.integers(1, 8, blocks)
        # The smallest, 0.5·2^-9·g in eight bits, has to be exact in fp16.
        share = 0.25 if self.scale >= 2.0**-7 else 0.0
        scale = e4m3.decode(np.where(rng.random((m, 1)) < share, tiny, usual))
        return narrowed(self._topped(rng, codes) * self._spread(scale) * self.scale)

    def ties(self, rng: np.random.Generator, m: int, k: int) -> Float64 | None:
        """Halfway between two codes, all but one a block, if `input_scale` is a power of two.

        Block scales are powers of two as well: a quotient is then exact by every arithmetic.
        """
        if np.frexp(self.scale)[0] != 0.5:
            return None
        signs = rng.choice([-1.0, 1.0], (m, k))
        values = self._topped(rng, rng.choice(e2m1.GRID.midpoints, (m, k)) * signs)
        scale = np.exp2(rng.integers(-2, 8, (m, k // self._width)).astype(float))
        return values * self._spread(scale) * self.scale

    def detail(self, x: Float64) -> Quantised:
        """As the codec says."""
        return nvfp4.quantise_detail(x, self.scale)

    def scales(self, x: Float64) -> Float64:
        """Block scale times `input_scale`."""
        blocks = nvfp4.quantise(x, self.scale).block_scale
        return self._spread(e4m3.decode(blocks)) * self.scale

    def one_hot(self, k: int) -> Float64:
        """Code 6 under the block scale 64."""
        return narrowed(np.eye(k) * (6 * 64 * self.scale))

    @property
    def _width(self) -> int:
        return nvfp4.BLOCK

    def _spread(self, blocks: Float64) -> Float64:
        return np.repeat(blocks, self._width, axis=1)

    def _topped(self, rng: np.random.Generator, values: Float64) -> Float64:
        m, k = values.shape
        blocks = values.reshape(m, k // self._width, self._width).copy()
        place = rng.integers(0, self._width, blocks.shape[:2])
        top = rng.choice([-6.0, 6.0], place.shape)
        np.put_along_axis(blocks, place[..., None], top[..., None], axis=2)
        return blocks.reshape(m, k)


_QUARTER = int(e4m3.encode(np.asarray(0.25)))
