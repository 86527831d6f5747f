"""sgl_kernel's (CUTLASS) backend of the grouped fp8 block matmul: one launch for all experts.

Groups of 128 along K are multiplied on fp8 tensor cores, scaled and summed in float32. The kernel
then rounds to bfloat16, where the other backends give float32: a layer on this backend rounds gate,
up and each expert's output once more. That is why it is not the first choice, and on an H200 Triton
was faster too: 49 µs against 269 for 64 pairs, 8 experts, N 2048 and K 1024; 1.0 ms against 1.3 for
32,768 pairs, 64 experts, N 4096 and K 2048.

Sources: sgl-kernel/csrc/moe/fp8_blockwise_moe_kernel.cu, cutlass_moe_helper.cu and
prepare_moe_input.cu of sglang; python signatures of sgl_kernel 0.4.2 and 0.4.8, which agree.

Other kernels of sgl_kernel for MoE layers are no backends, as their arithmetic is another:
`silu_and_mul` takes gate and up in 16 bits, and the layers' are float32; `moe_sum` and
`moe_sum_reduce` sum products that were weighted and rounded to 16 bits; `apply_shuffle_mul_sum`
rounds the weights, and the sum after each of its terms, to 16 bits. `moe_align_block_size` does
what `layers.kernels.moe.sort_pairs` does, which has a Triton backend.
"""

from __future__ import annotations

from dataclasses import dataclass

import sgl_kernel
import torch

from layers.kernels.moe.routing import Routing

# For the TMA descriptors that every multiprocessor writes; sglang gives it 90 kB.
WORKSPACE_BYTES = 1 << 20


@dataclass(frozen=True)
class _Order:
    """Pairs sorted by expert.

    offsets: (E + 1,) int32, the first row of each expert, and behind the last one.
    sizes: (E, 3) int32, (M, N, K) of each expert's product.
    pairs: (T · K,) int32, the pair of each row; 0 behind the last expert's rows.
    rows: (T · K,) int32, the row of each pair; 0 where another rank holds the expert.
    """

    offsets: torch.Tensor
    sizes: torch.Tensor
    pairs: torch.Tensor
    rows: torch.Tensor


def _sort(routing: Routing, n: int, k: int) -> _Order:
    """Sorts the pairs on the GPU, without waiting for it.

    An expert's rows come in any order, as the kernel counts with atomics: no result depends on it,
    since each row is a product of its own.
    """
    device = routing.ids.device
    offsets = torch.empty(routing.experts + 1, dtype=torch.int32, device=device)
    sizes = torch.empty((2, routing.experts, 3), dtype=torch.int32, device=device)
    # No entry is written for a pair of another rank's expert.
    maps = torch.zeros((2, routing.pairs), dtype=torch.int32, device=device)
    # One choice a token: rows are pairs then. N is given by halves, as of a gate.
    ids = routing.ids.view(-1, 1)
    sgl_kernel.prepare_moe_input(
        *(ids, offsets, sizes[0], sizes[1], maps[0], maps[1], routing.experts, n // 2, k)
    )
    return _Order(offsets, sizes[0], maps[0], maps[1])


def _multiply_sorted(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    order: _Order,
) -> torch.Tensor:
    """Rows sorted by expert -> (rows, N) bfloat16; those behind the last expert's mean nothing."""
    experts, n, k = weight.shape
    device = a.device
    out = torch.empty((a.shape[0], n), dtype=torch.bfloat16, device=device)
    pointers = torch.empty((5, experts), dtype=torch.int64, device=device).unbind()
    layouts = torch.empty((2, experts, 5), dtype=torch.int32, device=device).unbind()
    k_stride, n_stride = (
        torch.full((experts,), size, dtype=torch.int64, device=device) for size in (k, n)
    )
    workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
    sgl_kernel.fp8_blockwise_scaled_grouped_mm(
        *(out, *pointers, a, weight.transpose(1, 2), a_scale, weight_scale.transpose(1, 2)),
        *(k_stride, k_stride, n_stride, *layouts, order.sizes, order.offsets[:-1], workspace),
    )
    return out


def multiply_sgl_kernel(
    a: torch.Tensor,
    a_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    bias: torch.Tensor | None,
    routing: Routing,
) -> torch.Tensor:
    """A `layers.kernels.moe.grouped.GroupedMultiply` on a GPU; N and K are multiples of 128.

    weight and weight_scale contiguous; the result's values are bfloat16's, before the bias.
    """
    # The kernels launch on the current device, whatever the tensors' is.
    with torch.cuda.device_of(a):
        order = _sort(routing, *weight.shape[1:])
        source = order.pairs // routing.pairs_per_row(a)
        rows = a.view(torch.uint8)[source].view(a.dtype)
        sums = _multiply_sorted(rows, a_scale[source], weight, weight_scale, order)
        out = sums[order.rows].float()
        ids = routing.ids.flatten()
        if bias is not None:
            out += bias[ids.clamp(min=0)]
        return out if routing.is_complete else out.masked_fill_((ids < 0).unsqueeze(1), 0.0)
