"""Float32 arithmetic as kernels do it, for tests of what the near-tie window has to cover.

Each function forms what the definition forms, in another order or with a reciprocal that is off by
an ulp, as `rcp.approx.ftz.f32` may be.
"""

import numpy as np

from testing.oracles.arrays import Float32, Float64

ULPS = (-1, 0, 1)
"""Errors of an approximate reciprocal, in units in the last place."""


def reciprocal(x: Float32, ulps: int) -> Float32:
    """fp32(1/x), moved by `ulps` neighbours."""
    value = (np.float32(1) / x).astype(np.float32)
    for _ in range(abs(ulps)):
        value = np.nextafter(value, np.float32(np.inf if ulps > 0 else 0))
    return value


def nvfp4_block_scale(amax: Float32, gs: Float32, ulps: int) -> Float64:
    """gs·(amax·rcp(6)), each step float32: FlashInfer's and TensorRT-LLM's order."""
    return (gs * (amax * reciprocal(np.float32(6), ulps))).astype(np.float64)


def nvfp4_quotient(x: Float32, block_scale: Float32, gs: Float32, ulps: int) -> Float64:
    """x·rcp(sf·rcp(gs)), each step float32: the same kernels'."""
    return (x * reciprocal(block_scale * reciprocal(gs, ulps), ulps)).astype(np.float64)


def fp8_quotients(x: Float32, amax: Float32) -> list[Float64]:
    """x/s in the ways that kernels form it, s from amax by division or by multiplication."""
    maximum = np.float32(448)
    found = [x / (amax / maximum), x * (maximum / amax)]
    for ulps in ULPS:
        scale = amax * reciprocal(maximum, ulps)
        found += [x / scale, x * reciprocal(scale, ulps)]
    return [np.asarray(q, np.float64) for q in found]
