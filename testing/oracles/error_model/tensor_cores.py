"""What a tensor core does to a sum: it aligns what it adds to the largest, and cuts the rest off.

One instruction adds c products to the partial sum. All c + 1 addends are aligned to the largest
exponent among them, what lies below `bits` significant bits of that one is cut off (towards zero),
and the rest is added exactly (Fasi, Higham, Mikaitis and Pranesh, PeerJ CS 7:e330, 2021, on V100,
T4 and A100; for e4m3 on sm90, DeepSeek-V3, section 3.5.2). With A, E and L of
`testing.oracles.error_model.sums`, for the products of one span (`Accumulator.span`):

- the grid g that is kept is at most 2^(1-bits) of the largest addend. The partial sum has the scale
  E at the end of the span, and a product none larger;
- each product loses between 0 and g, in its own direction. Losses have a second moment of at most
  g²/3 and random signs, so their sum is subgaussian of scale g·√(L/3): std ≤ 0.58·2^(1-bits)·√L·E;
- a loss leans against its product, and products lean towards the sum r: Σsign(p) given r is r·A/E²
  on average. With a mean loss of g/2 at most, g = 2^(1-bits)·|s|·0.72 (an exponent is below the
  value), |s| = 0.8·E·√(j/L) after j of L products, the sum over j is a gain of

      -½·2^(1-bits)·0.72·0.8·(2/3)·A/E = -0.38·2^-bits·A/E.

Both take every product to have bits below the grid. Codes have few bits, so less is lost: simulated
sums have a third to a fifth of either. The gain has one sign over a whole tensor: it is systematic.
Spans add up in fp32: their errors are independent, and their gains are the same.
"""

import numpy as np

from testing.oracles.error_model.accumulators import Accumulator
from testing.oracles.error_model.noise import Noise
from testing.oracles.error_model.product import Product

_DEVIATIONS = 8.0
"""The scale g and the sum of losses have gaussian tails of their own, and the model's scale is at
least three times what happens: 8 of it leave exp(-8·3) an element at most."""


def truncation_noise(product: Product, accumulator: Accumulator) -> Noise:
    """What cutting off does to the sum of all products."""
    k = product.x.shape[1]
    span = accumulator.span(k)
    share = span / k
    losses = np.minimum(product.terms, k)
    grid = 2.0 ** (1 - accumulator.bits)
    # A product that stands alone is cut only if it has more bits than are kept.
    several = product.terms > 1
    size = np.where(several, product.euclidean, 0.0)
    std = np.sqrt(1 / 3) * grid * np.sqrt(losses * share) * size
    lean = np.divide(
        product.absolute, product.euclidean, out=np.zeros_like(size), where=product.euclidean > 0
    )
    gain = 0.38 * 2.0**-accumulator.bits * lean * np.sqrt(share)
    systematic = np.where(several, gain * np.abs(product.without_bias), 0.0)
    worst = grid * (losses + k / accumulator.at_once) * product.absolute
    bound = np.minimum(worst, _DEVIATIONS * std + systematic)
    return Noise(bound, std, systematic)
