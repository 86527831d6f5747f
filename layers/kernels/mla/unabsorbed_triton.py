# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.kernels.mla.unabsorbed`: causal attention of whole prompts.

Softmax is online, in float32, to base 2; its weights are rounded to the queries' dtype for the
product with the values, as the tensor cores take them. It ran on an H200 (sm90) alone, untimed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from layers.kernels.mla.problem import UnabsorbedBackend

if TYPE_CHECKING:
    from layers.attention.metadata import AttentionMetadata

BLOCK_M = 128
BLOCK_N = 64


@triton.jit
def _tile(rows, inside, dims, D: tl.constexpr):
    """(n, dims) at `rows`; what lies outside is 0, and is not read."""
    mask = inside[:, None] if dims.shape[0] == D else inside[:, None] & (dims[None, :] < D)
    return tl.load(rows[:, None] + dims[None, :], mask=mask, other=0.0)


@triton.jit
def _span(
    state,
    q,
    q_rope,
    span,
    tokens,
    heads,
    scale,
    MASKED: tl.constexpr,
    NOPE: tl.constexpr,
    ROPE: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Goes over the keys of a span; without MASKED every row sees them all."""
    out, peak, total = state
    first, last, limit = span
    k_head, v_head, k_stride, v_stride, nope_dims, rope_dims, v_dims = heads
    for start in range(first, last, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = keys < limit
        k_rows = k_head + keys.to(tl.int64) * k_stride
        k = _tile(k_rows, inside, nope_dims, NOPE)
        k_rope = _tile(k_rows + NOPE, inside, rope_dims, ROPE)
        scores = tl.dot(q, tl.trans(k))
        scores = tl.dot(q_rope, tl.trans(k_rope), scores) * scale
        if MASKED:
            seen = (keys[None, :] <= tokens[:, None]) & inside[None, :]
            scores = tl.where(seen, scores, float("-inf"))
        # Its first tile of keys shows every row something: no row is without a peak.
        higher = tl.maximum(peak, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(weights, 1)
        v = _tile(v_head + keys.to(tl.int64) * v_stride, inside, v_dims, DV)
        out = tl.dot(weights.to(q.dtype), v, out * shrink[:, None])
        peak = higher
    return out, peak, total


@triton.jit(do_not_specialize=["num_heads"])
def _attend(
    q_ptr,
    k_ptr,
    v_ptr,
    indptr_ptr,
    out_ptr,
    scale,
    v_stride,
    v_head_stride,
    num_heads,
    NOPE: tl.constexpr,
    ROPE: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_NOPE: tl.constexpr,
    BLOCK_ROPE: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    # The last tiles of a prompt have the most keys: they start first.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    head, request = tl.program_id(1), tl.program_id(2)
    first_token = tl.load(indptr_ptr + request).to(tl.int64)
    queries = (tl.load(indptr_ptr + request + 1) - first_token).to(tl.int32)
    if tile * BLOCK_M >= queries:
        return
    tokens = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    has_row = tokens < queries
    nope_dims, rope_dims = tl.arange(0, BLOCK_NOPE), tl.arange(0, BLOCK_ROPE)
    v_dims = tl.arange(0, BLOCK_DV)
    D: tl.constexpr = NOPE + ROPE
    stride = num_heads * D
    q_rows = q_ptr + (first_token + tokens) * stride + head * D
    q = _tile(q_rows, has_row, nope_dims, NOPE)
    q_rope = _tile(q_rows + NOPE, has_row, rope_dims, ROPE)
    k_head = k_ptr + first_token * stride + head * D
    v_head = v_ptr + first_token * v_stride + head * v_head_stride
    heads = (k_head, v_head, stride, v_stride, nope_dims, rope_dims, v_dims)
    state = (
        tl.zeros((BLOCK_M, BLOCK_DV), dtype=tl.float32),
        tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32),
        tl.zeros((BLOCK_M,), dtype=tl.float32),
    )
    middle = tile * BLOCK_M // BLOCK_N * BLOCK_N
    stop = tl.minimum(tile * BLOCK_M + BLOCK_M, queries)
    state = _span(
        *(state, q, q_rope, (0, middle, queries), tokens, heads, scale),
        *(False, NOPE, ROPE, DV, BLOCK_N),
    )
    out, _, total = _span(
        *(state, q, q_rope, (middle, stop, stop), tokens, heads, scale),
        *(True, NOPE, ROPE, DV, BLOCK_N),
    )
    out_rows = out_ptr + ((first_token + tokens) * num_heads + head) * DV
    inside = has_row[:, None] & (v_dims[None, :] < DV)
    out = (out / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_rows[:, None] + v_dims[None, :], out, mask=inside)


class TritonUnabsorbed(UnabsorbedBackend):
    """Heads of at most 256 values."""

    tiles: tuple[int, int, int, int] = (BLOCK_M, BLOCK_N, 8, 2)

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """As `UnabsorbedBackend.__call__`."""
        spec = self.spec
        rows, keys, warps, stages = self.tiles
        out = torch.empty(
            (q.shape[0], spec.num_heads, spec.v_head_dim), dtype=q.dtype, device=q.device
        )
        grid = (triton.cdiv(metadata.max_query_len, rows), spec.num_heads, metadata.num_requests)
        # Triton launches on the current device, whatever the tensors' is.
        with torch.cuda.device_of(q):
            _attend[grid](
                *(q, k, v, metadata.qo_indptr, out),
                *(spec.scaling * math.log2(math.e), v.stride(0), v.stride(1), spec.num_heads),
                NOPE=spec.qk_nope_head_dim,
                ROPE=spec.qk_rope_head_dim,
                DV=spec.v_head_dim,
                BLOCK_NOPE=max(16, triton.next_power_of_2(spec.qk_nope_head_dim)),
                BLOCK_ROPE=max(16, triton.next_power_of_2(spec.qk_rope_head_dim)),
                BLOCK_DV=max(16, triton.next_power_of_2(spec.v_head_dim)),
                BLOCK_M=rows,
                BLOCK_N=keys,
                num_warps=warps,
                num_stages=stages,
            )
        return out
