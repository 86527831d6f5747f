"""What a kernel reads of packed weights and swizzled scales, by the formats' definitions."""

from __future__ import annotations

import numpy as np
import torch

from testing.oracles.arrays import Float64
from testing.oracles.codecs import e2m1, e4m3, e8m0, swizzle
from testing.oracles.codecs.grid import Codes


def as_bytes(tensor: torch.Tensor) -> Codes:
    """A tensor's memory as uint8, the last dimension in bytes."""
    return np.asarray(tensor.detach().contiguous().view(torch.uint8).numpy())


DECODE = {16: e4m3.decode, 32: e8m0.decode}


def values(weight: torch.Tensor, scales: torch.Tensor, group: int) -> Float64:
    """Weights (E, N, K / 2 bytes) under swizzled scales of `group` columns -> (E, N, K)."""
    codes = e2m1.decode(e2m1.unpack(as_bytes(weight)))
    experts, rows, columns = codes.shape
    shape = swizzle.padded(rows, columns // group)
    spread = [
        np.repeat(DECODE[group](swizzle.unswizzle(one, rows, columns // group)), group, axis=1)
        for one in as_bytes(scales).reshape(experts, *shape)
    ]
    return np.asarray(codes * np.stack(spread))
