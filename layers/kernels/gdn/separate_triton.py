# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Queries and keys of unit length, for prefill kernels that take them so; by Triton."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.kernels.gdn.heads import Heads

_ROWS = 16


@triton.jit(do_not_specialize=["tokens"])
def _normalise_kernel(
    mixed, out, tokens, row_stride,
    K_HEADS: tl.constexpr, K_DIM: tl.constexpr, KEYS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    # A row is one head of one token; q's heads come before k's, in mixed as in out.
    token = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    head = tl.program_id(1)
    key = tl.arange(0, KEYS)
    mask = (token < tokens)[:, None] & (key < K_DIM)[None, :]
    place = token[:, None] * row_stride + head * K_DIM + key[None, :]
    x = tl.load(mixed + place, mask=mask, other=0.0).to(tl.float32)
    x *= tl.rsqrt(tl.sum(x * x, axis=1) + 1e-6)[:, None]
    half = head // K_HEADS
    at = ((half * tokens + token) * K_HEADS + head % K_HEADS)[:, None] * K_DIM + key[None, :]
    tl.store(out + at, x.to(out.dtype.element_ty), mask=mask)


def normalise_queries_and_keys(mixed: torch.Tensor, heads: Heads) -> torch.Tensor:
    """x · rsqrt(Σx² + 1e-6) for each head, in float32, rounded to mixed's dtype.

    Args:
        mixed: (T, C) as the convolution gives it, rows contiguous.
        heads: sizes of this rank.

    Returns:
        (2, T, Hk, Dk) contiguous: q and k.
    """
    tokens = mixed.shape[0]
    out = mixed.new_empty(2, tokens, heads.num_k_heads, heads.head_k_dim)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(mixed):
        _normalise_kernel[triton.cdiv(tokens, _ROWS), 2 * heads.num_k_heads](
            *(mixed, out, tokens, mixed.stride(0)),
            K_HEADS=heads.num_k_heads,
            K_DIM=heads.head_k_dim,
            KEYS=triton.next_power_of_2(heads.head_k_dim),
            ROWS=_ROWS,
        )
    return out
