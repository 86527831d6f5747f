"""Grouped fp8 block matmul of sgl_kernel (CUTLASS), for sm90: one product an expert, in one launch.

    out[r] = Σ_g (a[r]_g · w[e]_gᵀ) · a_scale[r, g] · w_scale[e]_g,   e the expert of row r

Groups of 128 along K are multiplied on fp8 tensor cores, scaled and summed in float32; the result
is rounded to float16 or bfloat16 *here*, where the torch and Triton runners keep float32: a layer
on this backend rounds gate, up and the down projection once more each.

Sources: sgl-kernel/csrc/moe/fp8_blockwise_moe_kernel.cu, cutlass_moe_helper.cu and
prepare_moe_input.cu of sglang; python signatures of sgl_kernel 0.4.2 and 0.4.8, which agree.

Left out, though sgl_kernel has them, as their arithmetic is another than that of the layer:
`silu_and_mul` takes gate and up rounded to 16 bits and gives h of the same dtype, as do the layer's
own steps on this backend, but a layer's `activate` reads float32 on the others; `moe_sum` and
`moe_sum_reduce` read products that were weighted and rounded to 16 bits before they are summed;
`apply_shuffle_mul_sum` rounds the weights, and the sum after each of its terms, to 16 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

BLOCK = 128
# TMA descriptors of every multiprocessor, which the kernel writes: sglang gives it 90 kB.
WORKSPACE_BYTES = 1 << 20


@dataclass(frozen=True)
class Order:
    """Where the pairs (token, choice) lie once they are sorted by expert.

    Attributes:
        offsets: (E + 1,) int32, the first row of each expert, and behind the last one.
        sizes_w13, sizes_w2: (E, 3) int32, (M, N, K) of each expert's two products.
        tokens: (T · K,) int32, the token of each row; 0 behind the last expert's rows.
        rows: (T · K,) int32, the row of each pair; 0 where another rank holds the expert.
    """

    offsets: torch.Tensor
    sizes_w13: torch.Tensor
    sizes_w2: torch.Tensor
    tokens: torch.Tensor
    rows: torch.Tensor


def sort_pairs(ids: torch.Tensor, experts: int, intermediate: int, hidden: int) -> Order:
    """Sorts pairs by expert on the GPU, without waiting for it.

    The rows of one expert come in any order (sgl_kernel counts with atomics): no result depends on
    it, since each row is a product of its own.

    Args:
        ids: (T, K) int32 of this rank's experts; others are outside 0 … experts - 1.
        experts: of this rank.
        intermediate, hidden: I of this rank, and H.
    """
    import sgl_kernel

    device = ids.device
    pairs = ids.numel()
    offsets = torch.empty(experts + 1, dtype=torch.int32, device=device)
    sizes = torch.empty((2, experts, 3), dtype=torch.int32, device=device)
    # The kernel writes no entry for a pair of another rank's expert.
    maps = torch.zeros((2, pairs), dtype=torch.int32, device=device)
    with torch.cuda.device_of(ids):
        sgl_kernel.prepare_moe_input(
            *(ids, offsets, sizes[0], sizes[1], maps[0], maps[1], experts, intermediate, hidden)
        )
    return Order(offsets, sizes[0], sizes[1], maps[0], maps[1])


def multiply(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    order: Order,
    sizes: torch.Tensor,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """The arithmetic above.

    Args:
        a: (R, K) e4m3, rows sorted by expert.
        a_scale: (R, K / 128) float32, contiguous.
        weight: (E, N, K) e4m3, contiguous; N and K are multiples of 128.
        weight_scale: (E, N / 128, K / 128) float32, contiguous.
        order: of the rows.
        sizes: `order.sizes_w13` or `order.sizes_w2`, whichever product it is.
        out_dtype: float16 or bfloat16.

    Returns:
        (R, N) of out_dtype; rows behind the last expert's are not written.
    """
    import sgl_kernel

    experts, n, k = weight.shape
    device = a.device
    out = torch.empty((a.shape[0], n), dtype=out_dtype, device=device)
    pointers = torch.empty((5, experts), dtype=torch.int64, device=device).unbind()
    layouts = torch.empty((2, experts, 5), dtype=torch.int32, device=device).unbind()
    strides: list[Any] = [
        torch.full((experts,), size, dtype=torch.int64, device=device) for size in (k, n)
    ]
    workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
    with torch.cuda.device_of(a):
        sgl_kernel.fp8_blockwise_scaled_grouped_mm(
            *(out, *pointers, a, weight.transpose(1, 2), a_scale, weight_scale.transpose(1, 2)),
            *(strides[0], strides[0], strides[1], *layouts, sizes, order.offsets[:-1], workspace),
        )
    return out
