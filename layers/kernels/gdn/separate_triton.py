# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Queries, keys and values as prefill kernels take them, each in memory of its own; by Triton."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.gdn.heads import Heads

_ROWS = 16


# One kernel for all numbers of heads: a model of another size compiles nothing anew.
@triton.jit(do_not_specialize=["tokens", "k_heads", "v_heads"])
def _separate_kernel(
    mixed, qk, v, tokens, row_stride, k_heads, v_heads, K_DIM: tl.constexpr, V_DIM: tl.constexpr,
    KEYS: tl.constexpr, VALUES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    # A row is one head of one token; heads of q come first, then those of k, then those of v.
    token = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    head = tl.program_id(1)
    mixed += token[:, None] * row_stride
    here = (token < tokens)[:, None]
    if head < 2 * k_heads:
        key = tl.arange(0, KEYS)[None, :]
        has_key = here & (key < K_DIM)
        x = tl.load(mixed + head * K_DIM + key, mask=has_key, other=0.0).to(tl.float32)
        x *= tl.rsqrt(tl.sum(x * x, axis=1) + 1e-6)[:, None]
        row = ((head // k_heads) * tokens + token) * k_heads + head % k_heads
        tl.store(qk + row[:, None] * K_DIM + key, x.to(qk.dtype.element_ty), mask=has_key)
    else:
        v_head = head - 2 * k_heads
        value = tl.arange(0, VALUES)[None, :]
        has_value = here & (value < V_DIM)
        copied = tl.load(mixed + 2 * k_heads * K_DIM + v_head * V_DIM + value, mask=has_value)
        place = (token * v_heads + v_head)[:, None] * V_DIM + value
        tl.store(v + place, copied, mask=has_value)


def separate(mixed: torch.Tensor, heads: Heads) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries and keys x · rsqrt(Σx² + 1e-6), in float32, rounded to mixed's dtype; values.

    Args:
        mixed: (T, C) as the convolution gives it, rows contiguous.
        heads: sizes of this rank.

    Returns:
        q, k (T, Hk, Dk) and v (T, Hv, Dv), contiguous.
    """
    tokens = mixed.shape[0]
    qk = mixed.new_empty(2, tokens, heads.num_k_heads, heads.head_k_dim)
    v = mixed.new_empty(tokens, heads.num_v_heads, heads.head_v_dim)
    programs = triton.cdiv(tokens, _ROWS), 2 * heads.num_k_heads + heads.num_v_heads
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(mixed):
        _separate_kernel[programs](
            *(mixed, qk, v, tokens, mixed.stride(0), heads.num_k_heads, heads.num_v_heads),
            K_DIM=heads.head_k_dim,
            V_DIM=heads.head_v_dim,
            KEYS=triton.next_power_of_2(heads.head_k_dim),
            VALUES=triton.next_power_of_2(heads.head_v_dim),
            ROWS=_ROWS,
        )
    return qk[0], qk[1], v
