"""Only blocks whose scales multiply to below the normal range may be lost."""

import numpy as np

from testing.oracles.error_model.flushing import scale_product_noise
from testing.oracles.error_model.product import Product
from testing.oracles.linear_formats.fp8 import Fp8Block


def test_a_kernel_that_flushes_the_product_of_scales_stays_within() -> None:
    fmt, rng = Fp8Block(), np.random.default_rng(6)
    tensors = fmt.random_weight(rng, 200, 384, 1.0)
    w_scale = tensors["weight_scale_inv"].astype(float)
    x = fmt.activations({}).lossless(rng, 6, 384)
    powers = np.array([-120, -112, -111, -110, -109, 0])
    x = np.ldexp(x, powers[:, None])
    x_scale = np.abs(x).reshape(6, 3, 128).max(axis=2) / 448
    product = Product(x, fmt.decode(tensors))
    kept = product.parts.copy()
    for block in range(3):
        scales = x_scale[:, block, None] * np.repeat(w_scale[:, block], 128)[None, :200]
        kept[block][scales < 2.0**-126] = 0
    lost = np.abs(kept.sum(axis=0) - product.exact)
    noise = scale_product_noise(product)
    assert (lost <= noise.bound).all()
    assert (noise.bound > 0).any(axis=1).tolist() == (lost > 0).any(axis=1).tolist()
    assert not noise.bound[-1].any()
    assert noise.bound[0].all()
