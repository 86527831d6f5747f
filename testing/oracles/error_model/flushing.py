"""What is lost where a kernel multiplies two scales with each other, and flushes their product."""

import numpy as np

from testing.oracles.arrays import Float64
from testing.oracles.error_model.noise import Noise
from testing.oracles.error_model.product import Product
from testing.oracles.rounding import FP32

_BLOCK = 128
_LARGEST_CODE = 448.0


def scale_product_noise(product: Product) -> Noise:
    """The whole of what a K block adds, where the scales of its fp8 codes multiply to below 2^-126.

    A dynamic scale is amax/448, and so is a weight block's, as each holds the code 448; a block of
    the weight is 128 rows from the first on.
    """
    x, weight = product.x, product.weight
    starts = np.arange(0, x.shape[1], _BLOCK)
    x_scale = np.maximum.reduceat(np.abs(x), starts, axis=1) / _LARGEST_CODE
    rows = np.arange(0, len(weight), _BLOCK)
    by_row = np.maximum.reduceat(np.abs(weight), starts, axis=1)
    tiles = np.maximum.reduceat(by_row, rows, axis=0) / _LARGEST_CODE
    w_scale = np.repeat(tiles, _BLOCK, axis=0)[: len(weight)]
    scales: Float64 = x_scale.T[:, :, None] * w_scale.T[:, None, :]
    lost = np.where(scales < 2.0**FP32.min_exponent, np.abs(product.parts), 0.0).sum(axis=0)
    return Noise(lost, lost, lost)
