"""Sums of products that are scaled in fp32: what adding them up, and scaling, may do to the result.

Notation: p_j = x_j·w_j the L products that are not zero, A = Σ|p_j|, E = √Σp_j², u = 2^-24.

Adding in fp32, to nearest, in any order. Each of the L - 1 additions changes its partial sum s by
at most u·|s|, and |s| ≤ A: the worst case is (L - 1)·u·A and terms of second order (Higham, section
4.2). It takes every rounding to one side, and is far too wide. What happens: signs of x are random
in every probe, so a partial sum is subgaussian of scale E (Hoeffding), and the errors of the
roundings are independent with mean zero (Higham and Mary, SIAM J. Sci. Comput. 41, 2019), so that
their sum is subgaussian of scale at most u·√(Σs²). The product of two subgaussian deviations has an
exponential tail,

    P(|ε| > t·u·√L·E) ≤ 2·exp(-t),

and t = 32 leaves 3e-14 an element. The smaller of the two bounds is taken. The standard deviation:
one rounding of a partial sum with significand m, uniform in log m, has (ulp²/12)/s² = u²·0.18 on
average, and s² averages E² at most (E²/2 in a running sum), hence √0.18·u·√L·E.

Products of e4m3 or e2m1 codes, with block scales of e4m3 or E8M0, have at most 12 bits: they are
exact in fp32. Where a kernel forms x̂ or Ŵ with a scale of 24 bits, each product is rounded once or
twice more; the sum of these errors is that of two more roundings of a value E.

Scaling. Six roundings at most: two for forming the activation's scale (amax·fp32(1/448)), two for
the products with scales, one for a product of scales, one for the bias. What forms a scale is
shared by a row, or by all: three count as systematic.
"""

import numpy as np

from testing.oracles.error_model.accumulators import FP32, Accumulator
from testing.oracles.error_model.flushing import scale_product_noise
from testing.oracles.error_model.noise import Noise, gamma
from testing.oracles.error_model.product import Product
from testing.oracles.error_model.tensor_cores import truncation_noise
from testing.oracles.rounding import FP32 as FLOAT32

TAIL = 32.0
"""t of the exponential tail: 2·exp(-32) is 2.5e-14 an element."""

_UNIT = FLOAT32.unit_roundoff
_PRODUCT_ROUNDINGS = 2


def accumulation_noise(product: Product, accumulator: Accumulator = FP32) -> Noise:
    """What adding up does to Σp_j, with the unit of the product itself.

    A tensor core cuts off, and where it promotes its sums, these are added in fp32.
    """
    if accumulator.truncates:
        spans = -(-product.x.shape[1] // accumulator.span(product.x.shape[1]))
        return truncation_noise(product, accumulator) + _rounding_walk(product, spans)
    return _rounding_walk(product, product.x.shape[1])


def _rounding_walk(product: Product, most: int) -> Noise:
    """Additions in fp32: one less than there are products, or `most` if these are fewer."""
    additions = np.maximum(np.minimum(product.terms, most) - 1, 0)
    worst = additions * _UNIT / (1 - additions * _UNIT) * product.absolute
    walk = _UNIT * np.sqrt(additions) * product.euclidean
    bound = np.minimum(worst, TAIL * walk)
    return Noise(bound, np.minimum(bound, np.sqrt(0.18) * walk), np.zeros_like(bound))


def operand_noise(product: Product) -> Noise:
    """What two roundings of each product do, where operands are formed with scales of 24 bits."""
    worst = gamma(_PRODUCT_ROUNDINGS) * product.absolute
    several = product.terms > 1
    walk = _UNIT * np.sqrt(_PRODUCT_ROUNDINGS) * product.euclidean
    bound = np.where(several, np.minimum(worst, TAIL * walk), worst)
    return Noise(bound, np.minimum(bound, walk), np.zeros_like(bound))


def scaled_sum_noise(product: Product, accumulator: Accumulator = FP32) -> Noise:
    """Σ of all products, then scales and bias."""
    bound = gamma(6) * product.magnitude
    scaling = Noise(bound, bound / np.sqrt(3), gamma(3) * product.magnitude)
    return scaling + accumulation_noise(product, accumulator) + operand_noise(product)


def scaled_block_sums_noise(product: Product, accumulator: Accumulator = FP32) -> Noise:
    """Each K block of 128 is added up and scaled, then the blocks are added in fp32."""
    parts = product.parts
    size = np.abs(parts).sum(axis=0)
    if product.bias is not None:
        size = size + np.abs(product.bias)
    bound = gamma(6) * size
    scaling = Noise(
        bound,
        gamma(6) / np.sqrt(3) * np.sqrt((parts**2).sum(axis=0) + product.magnitude**2),
        gamma(3) * np.abs(product.without_bias),
    )
    noise = scaling + accumulation_noise(product, accumulator) + operand_noise(product)
    return noise + scale_product_noise(product) if accumulator.scales_first else noise
