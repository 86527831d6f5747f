# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""The kernel of MLA's absorbed attention for Hopper, in Gluon, Triton's lower language.

It does what `latent_triton` says, on the same grid, with what Triton's own pipeline does not do for
a tile of 64 rows and 512 values, which takes half of the registers:

- Two groups of four warps share a tile. Of the first product each has half of the keys, of the
  second half of the values; Triton would have both make all of the first product.
- There is shared memory for two tiles of keys. The next is asked for as soon as the last is done
  with, while the tensor cores work on this one, and not at the end of a step.

A thread asks for two rows' pieces of each tile, so pages of any size cost the same.

Source of the scheme: FlashAttention-3 (arXiv 2407.08608) and DeepSeek-V2 (arXiv 2405.04434).
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)

from layers.kernels.mla.tiling import HOPPER

ROWS = gl.constexpr(HOPPER.rows)
KEYS = gl.constexpr(HOPPER.keys)
# How copies are spread: a thread takes 16 bytes, eight threads a line of the shared memory.
COPY = gl.constexpr(gl.BlockedLayout([1, 8], [4, 8], [HOPPER.warps, 1], [1, 0]))
SHARED = gl.constexpr(gl.NVMMASharedLayout(128, 16, 2))
# Warps of scores and of outputs: four along the rows, two along keys or values.
SCORES = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 2], [16, HOPPER.keys // 2, 16]))
VALUES = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 2], [16, 256, 16]))


@gluon.jit
def _copy(to, rope_to, rows):
    """Starts to copy what lies at `rows` (n,): the first values and, behind them, the rotated."""
    RANK: gl.constexpr = to.shape[1]
    ROPE: gl.constexpr = rope_to.shape[1]
    dims = gl.arange(0, RANK, gl.SliceLayout(0, COPY))
    rope_dims = gl.arange(0, ROPE, gl.SliceLayout(0, COPY))
    async_copy.async_copy_global_to_shared(to, rows[:, None] + dims[None, :])
    async_copy.async_copy_global_to_shared(rope_to, (rows + RANK)[:, None] + rope_dims[None, :])


@gluon.jit
def _keys(at, stop):
    """The keys of a step; in the place of those past the last, the last."""
    return gl.minimum(at + gl.arange(0, KEYS, gl.SliceLayout(1, COPY)), stop - 1)


@gluon.jit
def _seen(keys, tokens, draft, DRAFT: gl.constexpr):
    """Which of keys (n,) each row sees, by its token: (rows, n)."""
    mask_ptr, prefix, queries = draft
    behind = keys - prefix
    if DRAFT:
        asked = (behind >= 0)[None, :] & (behind < queries)[None, :] & (tokens < queries)[:, None]
        at = tokens[:, None] * queries + behind[None, :]
        seen = (gl.load(mask_ptr + at, mask=asked, other=0) != 0) | (behind < 0)[None, :]
    else:
        seen = behind[None, :] <= tokens[:, None]
    return seen


@gluon.jit
def _rows(pages, page, at, stop, WIDTH: gl.constexpr):
    """Where the latents of a step's keys lie, in the pages with these numbers."""
    pages_ptr, _, page_bits = pages
    offsets = _keys(at, stop) & ((1 << page_bits) - 1)
    return pages_ptr + ((page.to(gl.int64) << page_bits) + offsets) * WIDTH


@gluon.jit
def _numbers(pages, at, stop):
    """The numbers of the pages of a step's keys."""
    _, page_row, page_bits = pages
    return gl.load(page_row + (_keys(at, stop) >> page_bits))


@gluon.jit
def _span(q, latents, pages, page, span, tokens, draft, scale, DRAFT: gl.constexpr):
    """Goes over the keys of a span, of which the first are being copied already.

    Returns the output before its division, the rows' highest score and the sums of their weights.
    """
    q_mem, q_rope_mem = q
    latent_mem, rope_mem = latents
    start, stop, common = span
    RANK: gl.constexpr = latent_mem.shape[2]
    ROPE: gl.constexpr = rope_mem.shape[2]
    none = gl.full([ROWS, KEYS], 0.0, gl.float32, SCORES)
    product = warpgroup_mma_init(gl.full([ROWS, RANK], 0.0, gl.float32, VALUES))
    peak = gl.full([ROWS], float("-inf"), gl.float32, gl.SliceLayout(1, SCORES))
    # A thread sums up what it has, and all threads' at the end.
    total = none
    buffer = 0
    for at in range(start, stop, KEYS):
        # All threads are done with the other buffer, and what they copied into this one is here.
        out = warpgroup_mma_wait(0, (product,))
        async_copy.wait_group(0)
        fence_async_shared()
        latent = latent_mem.index(buffer)
        scores = warpgroup_mma(q_mem, latent.permute((1, 0)), none, use_acc=False, is_async=True)
        rope = rope_mem.index(buffer).permute((1, 0))
        scores = warpgroup_mma(q_rope_mem, rope, scores, is_async=True)
        buffer = 1 - buffer
        after = at + KEYS
        if after < stop:
            rows = _rows(pages, page, after, stop, RANK + ROPE)
            _copy(latent_mem.index(buffer), rope_mem.index(buffer), rows)
            page = _numbers(pages, after + KEYS, stop)
        async_copy.commit_group()
        scores = warpgroup_mma_wait(0, (scores,)) * scale
        if after > common:
            seen = _seen(at + gl.arange(0, KEYS, gl.SliceLayout(0, SCORES)), tokens, draft, DRAFT)
            scores = gl.where(seen, scores, float("-inf"))
        higher = gl.maximum(peak, gl.max(scores, 1))
        # A row that has seen nothing yet would take infinity from infinity.
        level = gl.where(higher == float("-inf"), 0.0, higher)
        weights = gl.exp2(scores - level[:, None])
        shrink = gl.exp2(peak - level)
        total = total * shrink[:, None] + weights
        weights_mem = gl.allocate_shared_memory(
            q_mem.dtype, [ROWS, KEYS], SHARED, weights.to(q_mem.dtype)
        )
        fence_async_shared()
        out = out * gl.convert_layout(shrink, gl.SliceLayout(1, VALUES))[:, None]
        product = warpgroup_mma(weights_mem, latent, out, is_async=True)
        peak = higher
    return warpgroup_mma_wait(0, (product,)), peak, gl.sum(total, 1)


@gluon.jit(do_not_specialize=["table_stride", "all_rows", "splits", "page_bits", "heads"])
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
    table_stride,
    all_rows,
    splits,
    page_bits,
    heads,
    RANK: gl.constexpr,
    ROPE: gl.constexpr,
    DRAFT: gl.constexpr,
    SPLIT: gl.constexpr,
):
    """Grid (tiles of the longest request's rows, splits, requests); see `absorbed_triton`."""
    # The last tiles of a prompt have the most keys: they start first.
    first_row = (gl.num_programs(0) - 1 - gl.program_id(0)) * ROWS
    split, request = gl.program_id(1), gl.program_id(2)
    first_token = gl.load(indptr_ptr + request)
    queries = gl.load(indptr_ptr + request + 1) - first_token
    last_row = queries * heads - 1
    if first_row > last_row:
        return
    length = gl.load(lens_ptr + request)
    prefix = length - queries
    request_row = first_token.to(gl.int64) * heads
    within = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, SCORES))
    sums = sum_ptr + split.to(gl.int64) * all_rows + request_row + within

    last_token = gl.minimum(first_row + ROWS - 1, last_row) // heads
    limit = length if DRAFT else prefix + last_token + 1
    # Every row sees the keys before `common`.
    common = prefix if DRAFT else prefix + first_row // heads + 1
    each = gl.cdiv(gl.cdiv(limit, splits), KEYS) * KEYS
    start = split * each
    stop = gl.minimum(start + each, limit)
    if start >= stop:
        if SPLIT:
            gl.store(sums, float("-inf"), mask=within <= last_row)
        return

    DTYPE: gl.constexpr = q_ptr.dtype.element_ty
    q_mem = gl.allocate_shared_memory(DTYPE, [ROWS, RANK], SHARED)
    q_rope_mem = gl.allocate_shared_memory(DTYPE, [ROWS, ROPE], SHARED)
    latent_mem = gl.allocate_shared_memory(DTYPE, [2, KEYS, RANK], SHARED)
    rope_mem = gl.allocate_shared_memory(DTYPE, [2, KEYS, ROPE], SHARED)
    pages = (pages_ptr, table_ptr + request.to(gl.int64) * table_stride, page_bits)
    page = _numbers(pages, start, stop)
    rows = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, COPY))
    q_rows = q_ptr + (request_row + gl.minimum(rows, last_row)) * (RANK + ROPE)
    _copy(q_mem, q_rope_mem, q_rows)
    _copy(latent_mem.index(0), rope_mem.index(0), _rows(pages, page, start, stop, RANK + ROPE))
    async_copy.commit_group()
    page = _numbers(pages, start + KEYS, stop)
    out, peak, total = _span(
        *((q_mem, q_rope_mem), (latent_mem, rope_mem), pages, page, (start, stop, common)),
        *(within // heads, (mask_ptr + request * queries * queries, prefix, queries), scale, DRAFT),
    )
    whole = gl.convert_layout(total, gl.SliceLayout(1, VALUES))[:, None]
    out = gl.where(whole == 0.0, 0.0, out / whole)
    if SPLIT:
        rows = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, VALUES))
        dims = gl.arange(0, RANK, gl.SliceLayout(0, VALUES))
        parts = part_ptr + (split.to(gl.int64) * all_rows + request_row + rows)[:, None] * RANK
        gl.store(parts + dims[None, :], out, mask=(rows <= last_row)[:, None])
        gl.store(sums, peak + gl.log2(total), mask=within <= last_row)
    else:
        # By way of the queries' memory, so that a row's values are written together.
        q_mem.store(out.to(DTYPE))
        dims = gl.arange(0, RANK, gl.SliceLayout(0, COPY))
        ptrs = out_ptr + (request_row + rows)[:, None] * RANK + dims[None, :]
        gl.store(ptrs, q_mem.load(COPY), mask=(rows <= last_row)[:, None])
