# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""The Triton kernel of MLA's absorbed attention, for extend, decode and draft tokens alike.

A program has a tile of rows and a split of the keys. A row is one query token with one head: all
heads share the latents, so a latent is read once for a whole tile, and serves as key and, without
its rotated part, as value. Softmax is online, in float32, to base 2; its weights are rounded to the
queries' dtype for the product with the latents, as the tensor cores take them.

With several splits each stores its part of the output, in float32, with the logarithm of its
weights' sum; `combine_kernel` puts them together.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile(rows, inside, dims, D: tl.constexpr, MASKED: tl.constexpr):
    """(n, dims) of the latents at `rows`; what lies outside is 0, and is not read."""
    ptrs = rows[:, None] + dims[None, :]
    if dims.shape[0] != D:
        tile = tl.load(ptrs, mask=inside[:, None] & (dims[None, :] < D), other=0.0)
    elif MASKED:
        tile = tl.load(ptrs, mask=inside[:, None], other=0.0)
    else:
        tile = tl.load(ptrs)
    return tile


@triton.jit
def _pages(page_row, keys, page_bits, limit):
    """The numbers of the pages of keys (n,)."""
    return tl.load(page_row + (keys >> page_bits), mask=keys < limit, other=0)


@triton.jit
def _seen(keys, tokens, positions, draft, DRAFT: tl.constexpr):
    """Which of keys (n,) each row sees, by its token or its position: (rows, n)."""
    if DRAFT:
        mask_ptr, prefix, queries = draft
        behind = keys - prefix
        asked = (behind >= 0)[None, :] & (behind < queries)[None, :] & (tokens < queries)[:, None]
        at = tokens[:, None] * queries + behind[None, :]
        seen = (tl.load(mask_ptr + at, mask=asked, other=0) != 0) | (behind < 0)[None, :]
    else:
        seen = keys[None, :] <= positions[:, None]
    return seen


@triton.jit
def _span(
    state,
    q,
    q_rope,
    span,
    tokens,
    positions,
    pages,
    draft,
    scale,
    DRAFT: tl.constexpr,
    MASKED: tl.constexpr,
    RANK: tl.constexpr,
    ROPE: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Goes over the keys of a span; without MASKED every row sees them all."""
    out, peak, total = state
    first, last, limit = span
    pages_ptr, page_row, page_bits, dims, rope_dims = pages
    # The page numbers of a step are loaded a step before: loads that depend on loads of the same
    # step would not be started ahead.
    page = _pages(page_row, first + tl.arange(0, BLOCK_N), page_bits, limit)
    for start in range(first, last, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = keys < limit
        slots = (page.to(tl.int64) << page_bits) + (keys & ((1 << page_bits) - 1))
        page = _pages(page_row, keys + BLOCK_N, page_bits, limit)
        rows = pages_ptr + slots * (RANK + ROPE)
        latent = _tile(rows, inside, dims, RANK, MASKED).to(q.dtype)
        k_rope = _tile(rows + RANK, inside, rope_dims, ROPE, MASKED).to(q.dtype)
        scores = tl.dot(q, tl.trans(latent))
        scores = tl.dot(q_rope, tl.trans(k_rope), scores) * scale
        if MASKED:
            seen = _seen(keys, tokens, positions, draft, DRAFT) & inside[None, :]
            scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, 1))
        # A row that has seen nothing yet would take infinity from infinity.
        level = tl.where(higher == float("-inf"), 0.0, higher) if MASKED else higher
        weights = tl.exp2(scores - level[:, None])
        shrink = tl.exp2(peak - level)
        total = total * shrink + tl.sum(weights, 1)
        out = tl.dot(weights.to(q.dtype), latent, out * shrink[:, None])
        peak = higher
    return out, peak, total


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
    tile, split, request = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first_token = tl.load(indptr_ptr + request)
    queries = tl.load(indptr_ptr + request + 1) - first_token
    within = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    has_row = within < queries * heads
    if tile * BLOCK_M >= queries * heads:
        return
    length = tl.load(lens_ptr + request)
    prefix = length - queries
    tokens = within // heads
    row = first_token.to(tl.int64) * heads + within

    first_seen = prefix + tile * BLOCK_M // heads
    last_token = tl.minimum(tile * BLOCK_M + BLOCK_M - 1, queries * heads - 1) // heads
    limit = length if DRAFT else prefix + last_token + 1
    # Every row sees the keys before `common`.
    common = prefix if DRAFT else first_seen + 1
    each = tl.cdiv(tl.cdiv(limit, splits), BLOCK_N) * BLOCK_N
    start = split * each
    stop = tl.minimum(start + each, limit)
    if start >= stop:
        if SPLIT:
            tl.store(sum_ptr + split * all_rows + row, float("-inf"), mask=has_row)
        return
    middle = tl.maximum(tl.minimum(common, stop) // BLOCK_N * BLOCK_N, start)

    dims, rope_dims = tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_P)
    q_rows = q_ptr + row * (RANK + ROPE)
    q = _tile(q_rows, has_row, dims, RANK, True)
    q_rope = _tile(q_rows + RANK, has_row, rope_dims, ROPE, True)
    state = (
        tl.zeros((BLOCK_M, BLOCK_R), dtype=tl.float32),
        tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32),
        tl.zeros((BLOCK_M,), dtype=tl.float32),
    )
    positions = prefix + tokens
    pages = (pages_ptr, table_ptr + request * table_stride, page_bits, dims, rope_dims)
    draft = (mask_ptr + request * queries * queries, prefix, queries)
    state = _span(
        *(state, q, q_rope, (start, middle, middle), tokens, positions, pages, draft, scale),
        *(DRAFT, False, RANK, ROPE, BLOCK_N),
    )
    out, peak, total = _span(
        *(state, q, q_rope, (middle, stop, stop), tokens, positions, pages, draft, scale),
        *(DRAFT, True, RANK, ROPE, BLOCK_N),
    )
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
    BLOCK_D: tl.constexpr,
):
    """Weighs the parts of each row: grid (rows, cdiv(RANK, BLOCK_D))."""
    row = tl.program_id(0).to(tl.int64)
    dims = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    splits = tl.arange(0, BLOCK_S)
    sums = tl.load(sum_ptr + splits * all_rows + row, mask=splits < count, other=float("-inf"))
    weights = tl.exp2(sums - tl.max(sums, 0))
    # A part that saw nothing was not written, or is 0.
    there = (sums > float("-inf")) | (sums != sums)
    rows = splits.to(tl.int64) * all_rows + row
    ptrs = part_ptr + rows[:, None] * RANK + dims[None, :]
    parts = tl.load(ptrs, mask=there[:, None] & (dims[None, :] < RANK), other=0.0)
    out = tl.sum(parts * weights[:, None], 0) / tl.sum(weights, 0)
    tl.store(out_ptr + row * RANK + dims, out.to(out_ptr.dtype.element_ty), mask=dims < RANK)
