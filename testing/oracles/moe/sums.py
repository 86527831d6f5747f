"""Float products added up in float32 where no lossless data keeps the sums exact."""

from __future__ import annotations

import numpy as np

from testing.oracles.error_model.noise import Noise, gamma
from testing.oracles.error_model.product import Product
from testing.oracles.rounding import FP32

# exp(-8²/2) is 1.3e-14: a false alarm in a thousand layers of a million elements is one in 10^5.
_DEVIATIONS = 8.0


def float_sum_noise(product: Product) -> Noise:
    """K products, exact in float32 as those of two bf16 or fp16 values are, and K - 1 additions.

    Each addition rounds by at most u·|s|, s a partial sum. Rounding errors of either sign add up
    as a random walk (Higham and Mary, SIAM J. Sci. Comput. 41, 2019): by Hoeffding at most
    λ·u·√(Σs²) but for a chance of 2·exp(-λ²/2). A partial sum lies between 0 and the result plus a
    random walk of the terms, so |s| ≤ |r| + λ·√Σ(x·w)², and never beyond Σ|x·w|. Both are bounded
    by the worst case, K·u·Σ|x·w|.
    """
    count = product.terms + 1
    bias = 0.0 if product.bias is None else np.abs(product.bias)
    largest = np.minimum(
        product.absolute + bias, product.magnitude + _DEVIATIONS * product.euclidean
    )
    walk = _DEVIATIONS * FP32.unit_roundoff * np.sqrt(count) * largest
    worst = gamma(int(count.max(initial=1)) + 1) * (product.absolute + bias)
    typical = product.magnitude + product.euclidean
    std = FP32.unit_roundoff * np.sqrt(count / 3) * typical
    return Noise(np.minimum(walk, worst), std, gamma(2) * product.magnitude)
