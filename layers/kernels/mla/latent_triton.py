# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""The Triton kernel of MLA's absorbed attention, for extend, decode and draft tokens alike.

A program has a tile of rows and a split of the keys. A row is one query token with one head: all
heads share the latents, so a latent is read once for a whole tile, and serves as key and, without
its rotated part, as value. Softmax is online, in float32, to base 2; its weights are rounded to the
queries' dtype for the product with the latents, as the tensor cores take them.

With several splits each stores its part of the output, in float32, with the logarithm of its
weights' sum; `combine_kernel` puts them together.

Loads have no masks: in the place of a key or a row past the last one, the last is read again, and
hidden or not stored.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile(rows, dims, D: tl.constexpr):
    """(n, dims) of the values at `rows`; past D they are 0, and are not read."""
    if dims.shape[0] == D:
        tile = tl.load(rows[:, None] + dims[None, :])
    else:
        tile = tl.load(rows[:, None] + dims[None, :], mask=dims[None, :] < D, other=0.0)
    return tile


@triton.jit
def _seen(keys, tokens, draft, DRAFT: tl.constexpr):
    """Which of keys (n,) each row sees, by its token: (rows, n)."""
    mask_ptr, prefix, queries = draft
    behind = keys - prefix
    if DRAFT:
        asked = (behind >= 0)[None, :] & (behind < queries)[None, :] & (tokens < queries)[:, None]
        at = tokens[:, None] * queries + behind[None, :]
        seen = (tl.load(mask_ptr + at, mask=asked, other=0) != 0) | (behind < 0)[None, :]
    else:
        seen = behind[None, :] <= tokens[:, None]
    return seen


@triton.jit(do_not_specialize=["table_stride", "all_rows", "splits", "page_bits", "heads"])
def attend_kernel(
    q_ptr,
    pages_ptr,
    table_ptr,
    indptr_ptr,
    lens_ptr,
    mask_ptr,
    out_ptr,
    part_ptr,
    sum_ptr,
    scale,
    out_scale,
    table_stride,
    all_rows,
    splits,
    page_bits,
    heads,
    RANK: tl.constexpr,
    ROPE: tl.constexpr,
    DRAFT: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Grid (tiles of the longest request's rows, splits, requests); see `absorbed_triton`."""
    # The last tiles of a prompt have the most keys: they start first.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    split, request = tl.program_id(1), tl.program_id(2)
    first_token = tl.load(indptr_ptr + request)
    queries = tl.load(indptr_ptr + request + 1) - first_token
    within = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    last_row = queries * heads - 1
    if tile * BLOCK_M > last_row:
        return
    length = tl.load(lens_ptr + request)
    prefix = length - queries
    first_row = first_token.to(tl.int64) * heads
    row = first_row + within
    has_row = within <= last_row

    last_token = tl.minimum(tile * BLOCK_M + BLOCK_M - 1, last_row) // heads
    limit = length if DRAFT else prefix + last_token + 1
    each = tl.cdiv(tl.cdiv(limit, splits), BLOCK_N) * BLOCK_N
    start = split * each
    stop = tl.minimum(start + each, limit)
    if start >= stop:
        if SPLIT:
            tl.store(sum_ptr + split * all_rows + row, float("-inf"), mask=has_row)
        return

    dims, rope_dims = tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_P)
    q_rows = q_ptr + (first_row + tl.minimum(within, last_row)) * (RANK + ROPE)
    q, q_rope = _tile(q_rows, dims, RANK), _tile(q_rows + RANK, rope_dims, ROPE)
    out = tl.zeros((BLOCK_M, BLOCK_R), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    tokens = within // heads
    draft = (mask_ptr + request * queries * queries, prefix, queries)
    page_row = table_ptr + request.to(tl.int64) * table_stride
    # The page numbers of a step are loaded a step before: loads that depend on loads of the same
    # step would not be started ahead.
    page = tl.load(page_row + (tl.minimum(start + tl.arange(0, BLOCK_N), stop - 1) >> page_bits))
    for at in range(start, stop, BLOCK_N):
        keys = at + tl.arange(0, BLOCK_N)
        offsets = tl.minimum(keys, stop - 1) & ((1 << page_bits) - 1)
        rows = pages_ptr + ((page.to(tl.int64) << page_bits) + offsets) * (RANK + ROPE)
        page = tl.load(page_row + (tl.minimum(keys + BLOCK_N, stop - 1) >> page_bits))
        latent = _tile(rows, dims, RANK).to(q.dtype)
        k_rope = _tile(rows + RANK, rope_dims, ROPE).to(q.dtype)
        scores = tl.dot(q, tl.trans(latent))
        scores = tl.dot(q_rope, tl.trans(k_rope), scores) * scale
        scores = tl.where(_seen(keys, tokens, draft, DRAFT), scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, 1))
        # A row that has seen nothing yet would take infinity from infinity.
        level = tl.where(higher == float("-inf"), 0.0, higher)
        weights = tl.exp2(scores - level[:, None])
        shrink = tl.exp2(peak - level)
        total = total * shrink + tl.sum(weights, 1)
        out = tl.dot(weights.to(q.dtype), latent, out * shrink[:, None])
        peak = higher
    out = tl.where(total[:, None] == 0.0, 0.0, out / total[:, None]) * out_scale
    inside = has_row[:, None] & (dims[None, :] < RANK)
    if not SPLIT:
        ptrs = out_ptr + row[:, None] * RANK + dims[None, :]
        tl.store(ptrs, out.to(out_ptr.dtype.element_ty), mask=inside)
    else:
        part_row = split.to(tl.int64) * all_rows + row
        tl.store(part_ptr + part_row[:, None] * RANK + dims[None, :], out, mask=inside)
        tl.store(sum_ptr + part_row, peak + tl.log2(total), mask=has_row)


@triton.jit(do_not_specialize=["all_rows", "count"])
def combine_kernel(
    part_ptr,
    sum_ptr,
    out_ptr,
    all_rows,
    count,
    RANK: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Weighs the parts of each row: grid (cdiv(all_rows, BLOCK_M), cdiv(RANK, BLOCK_D))."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    splits = tl.arange(0, BLOCK_S).to(tl.int64)
    part_rows = splits[:, None] * all_rows + rows[None, :]
    asked = (splits < count)[:, None] & (rows < all_rows)[None, :]
    sums = tl.load(sum_ptr + part_rows, mask=asked, other=float("-inf"))
    weights = tl.exp2(sums - tl.max(sums, 0)[None, :])
    # A part that saw nothing was not written, or is 0.
    there = asked & ((sums > float("-inf")) | (sums != sums))
    ptrs = part_ptr + part_rows[:, :, None] * RANK + dims[None, None, :]
    parts = tl.load(ptrs, mask=there[:, :, None] & (dims < RANK)[None, None, :], other=0.0)
    out = tl.sum(parts * weights[:, :, None], 0) / tl.sum(weights, 0)[:, None]
    inside = (rows < all_rows)[:, None] & (dims < RANK)[None, :]
    ptrs = out_ptr + rows[:, None] * RANK + dims[None, :]
    tl.store(ptrs, out.to(out_ptr.dtype.element_ty), mask=inside)
