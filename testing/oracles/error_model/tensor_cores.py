"""What a tensor core does to a sum: it aligns what it adds to the largest, and cuts the rest off.

One instruction adds c products to the partial sum. All c + 1 addends are aligned to the largest
exponent among them, what lies below `bits` significant bits of that one is cut off (towards zero),
the rest is added exactly, and the sum is cut to `stored` bits (Fasi, Higham, Mikaitis and Pranesh,
PeerJ CS 7:e330, 2021, on V100, T4 and A100). With A, E and L of
`testing.oracles.error_model.sums`, for the products of one span (`Accumulator.span`):

Products. The grid g that is kept is at most 2^(1-bits) of the largest addend. The partial sum has
the scale E at the end of the span, and a product none larger.

- Each product loses between 0 and g, in its own direction. Losses have a second moment of at most
  g²/3 and random signs, so their sum is subgaussian of scale g·√(L/3): 0.58·2^(1-bits)·√L·E.
- A loss leans against its product, and products lean towards the sum r: Σsign(p) given r is r·A/E²
  on average. With a mean loss of g/2 at most, g = 2^(1-bits)·|s|·0.72 (an exponent is below the
  value), |s| = 0.8·E·√(j/L) after j of L products, the sum over j is a gain of

      -½·2^(1-bits)·0.72·0.8·(2/3)·A/E = -0.38·2^-bits·A/E.

Both take every product to have bits below the grid. A product of codes has eight, so only the
smaller ones do. On an H200, M 256, N 512, K 512 to 8192, two distributions of codes: deviations
of 0.21 to 0.32, and gains of 0.18 to 0.30, of these; simulated sums the same within a tenth, and
those of normal data, whose codes have fewer small values, 0.15 to 0.26 and 0.14 to 0.17. The model
takes 0.4 and 0.45: a quarter and a half more than the largest that any gave. Measured gains:
-0.008 % at K 1024 and -0.015 % at K 4096 without promotion, -0.004 % with it at any K.

The sum. Where `stored` is below `bits`, each of the S = span/c instructions cuts the partial sum
too, by up to 2^(1-stored)·|s|, always towards zero: with |s| as above and a mean of half of 0.72 of
that, 0.19·2^(1-stored)·S·E in all, and a gain of -0.18·2^(1-stored)·S (s after j of L leans on r by
j/L). On an H200 a product of bf16 at K 2048 had -1.9e-6, where this says -2.7e-6.

Gains have one sign over a whole tensor: they are systematic. Spans add up in fp32: their errors are
independent, and their gains are the same.
"""

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.error_model.accumulators import Accumulator
from testing.oracles.error_model.noise import Noise
from testing.oracles.error_model.product import Product

_LOSING = 0.4
_LEANING = 0.45
_TAIL = 20.0
"""The scale g of a loss and the sum of losses have gaussian tails of their own: an exponential one
together. 20 of the model's deviation, itself above what happens, leave exp(-20·1.25) an element; on
an H200 the largest of 131072 was 12 of those that happen."""
_SUBGAUSSIAN = 8.0
"""Of E, which a partial sum exceeds with 2·exp(-32)."""


def truncation_noise(product: Product, accumulator: Accumulator) -> Noise:
    """What cutting off does to the sum of all products."""
    share = accumulator.span(product.x.shape[1]) / product.x.shape[1]
    # A product that stands alone is cut only if it has more bits than are kept.
    several = product.terms > 1
    size = np.where(several, product.euclidean, 0.0)
    noise = _products(product, accumulator, size, share)
    if accumulator.stored < accumulator.bits:
        noise = noise + _partial_sums(product, accumulator, size, share)
    return noise


def _products(product: Product, accumulator: Accumulator, size: Float64, share: float) -> Noise:
    grid = 2.0 ** (1 - accumulator.bits)
    std = _LOSING * np.sqrt(1 / 3) * grid * np.sqrt(product.terms * share) * size
    lean = np.divide(product.absolute, size, out=np.zeros_like(size), where=size > 0)
    gain = _LEANING * 0.38 * 2.0**-accumulator.bits * lean * np.sqrt(share)
    systematic = gain * np.abs(product.without_bias)
    instructions = product.x.shape[1] / accumulator.at_once
    worst = grid * (product.terms + instructions) * product.absolute
    return Noise(np.minimum(worst, _TAIL * std + systematic), std, systematic)


def _partial_sums(product: Product, accumulator: Accumulator, size: Float64, share: float) -> Noise:
    grid = 2.0 ** (1 - accumulator.stored)
    spans = 1 / share
    cuts = product.x.shape[1] / accumulator.at_once / spans * grid
    # Of a span, whose scale is √share of E; spans are independent.
    std = 0.19 * cuts * size
    bound = _SUBGAUSSIAN * cuts * size
    return Noise(bound, std, 0.18 * cuts * np.where(size > 0, np.abs(product.without_bias), 0.0))
