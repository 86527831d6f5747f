# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""The Triton kernel of `layers.kernels.attention`, for extend, decode and draft tokens alike.

A program has a tile of rows and a split of the keys. A row is one query token with one of the query
heads that share a key-value head, so that few tokens fill the tensor cores and a key is read once
for the whole group. Softmax is online, in float32, to base 2; its weights are rounded to the dtype
of the queries for the product with the values, as the tensor cores take them.

With several splits each stores its part of the output, in float32, with the logarithm of its
weights' sum; `combine_kernel` puts them together.
"""

from __future__ import annotations

import triton
import triton.language as tl

from layers.kernels.attention.span_triton import LOG2E, attend_span, spans_of

# A kernel for each of their kinds would be compiled, and none would be faster.
NOT_SPECIALISED = ["tokens_in_all", "splits", "num_heads", "group", "page_bits", "window"]
NOT_SPECIALISED += ["table_stride"]


@triton.jit
def _store_part(state, at, inside, part_ptr, log_ptr, v_dims, some, DV: tl.constexpr):
    """A split's part of the output, and the logarithm to base 2 of its weights' sum."""
    out, peak, total = state
    tl.store(log_ptr + at, peak + tl.log2(total), mask=inside)
    out = out / tl.where(total > 0, total, 1.0)[:, None]
    # A split without keys stores nothing.
    within = (inside & some)[:, None] & (v_dims[None, :] < DV)
    tl.store(part_ptr + at[:, None] * DV + v_dims[None, :], out, mask=within)


@triton.jit
def _store_out(
    state,
    at,
    inside,
    out_ptr,
    sinks_ptr,
    heads,
    v_dims,
    v_scale,
    SINKS: tl.constexpr,
    DV: tl.constexpr,
):
    """The output, rounded once; a head's sink takes its share of the sum."""
    out, peak, total = state
    if SINKS:
        sink = tl.load(sinks_ptr + heads, mask=inside, other=0.0) * LOG2E
        higher = tl.maximum(peak, sink)
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.exp2(sink - higher)
        out *= shrink[:, None]
    out = out / total[:, None] * v_scale
    within = inside[:, None] & (v_dims[None, :] < DV)
    ptrs = out_ptr + at[:, None] * DV + v_dims[None, :]
    tl.store(ptrs, out.to(out_ptr.dtype.element_ty), mask=within)


@triton.jit(do_not_specialize=NOT_SPECIALISED)
def attend_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    part_ptr,
    log_ptr,
    sinks_ptr,
    indptr_ptr,
    lens_ptr,
    table_ptr,
    mask_ptr,
    places_ptr,
    tokens_in_all,
    splits,
    num_heads,
    group,
    page_bits,
    window,
    table_stride,
    q_stride,
    q_head_stride,
    k_stride,
    k_head_stride,
    v_stride,
    v_head_stride,
    scale,
    v_scale,
    cap,
    HAS_CAP: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    DRAFT: tl.constexpr,
    SINKS: tl.constexpr,
    SPLIT: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_DV: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Grid: (tiles of rows times splits, key-value heads, requests)."""
    kv_head, request = tl.program_id(1), tl.program_id(2)
    split = tl.program_id(0) % splits
    # The last rows see the most keys, so they start first.
    row = (tl.num_programs(0) // splits - 1 - tl.program_id(0) // splits) * BLOCK_M
    begin = tl.load(indptr_ptr + request)
    queries = tl.load(indptr_ptr + request + 1) - begin
    if row >= queries * group:
        return
    prefix = tl.load(lens_ptr + request) - queries
    row_of_tile = row + tl.arange(0, BLOCK_M)
    tokens = row_of_tile // group
    heads = kv_head * group + row_of_tile % group
    inside = tokens < queries
    places_ptr += begin
    positions = prefix + tokens
    if DRAFT:
        positions = tl.load(places_ptr + tokens, mask=inside, other=0).to(tl.int32)
    latest = tl.minimum((row + BLOCK_M - 1) // group, queries - 1)
    first, low, high, last, end = spans_of(
        prefix, queries, row // group, latest, split, splits, window, HAS_WINDOW, DRAFT, BLOCK_N
    )

    k_dims, v_dims = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_DV)
    q_ptrs = q_ptr + (begin + tokens).to(tl.int64)[:, None] * q_stride
    q_ptrs += heads[:, None] * q_head_stride + k_dims[None, :]
    q = tl.load(q_ptrs, mask=inside[:, None] & (k_dims[None, :] < D), other=0.0)
    rows = (tokens, positions)
    page_row = table_ptr + request.to(tl.int64) * table_stride
    k_head, v_head = k_ptr + kv_head * k_head_stride, v_ptr + kv_head * v_head_stride
    pages = (page_row, page_bits, k_head, v_head, k_stride, v_stride, k_dims, v_dims)
    draft = (mask_ptr + request.to(tl.int64) * queries * queries, places_ptr, prefix, queries)
    numbers = (scale, cap, window)
    out = tl.zeros((BLOCK_M, BLOCK_DV), tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    state = (out, peak, tl.zeros((BLOCK_M,), tl.float32))
    if HAS_WINDOW:
        state = attend_span(
            state,
            q,
            (first, low, end),
            rows,
            pages,
            draft,
            numbers,
            HAS_CAP,
            HAS_WINDOW,
            DRAFT,
            True,
            D,
            DV,
            BLOCK_N,
        )
    state = attend_span(
        state,
        q,
        (low, high, end),
        rows,
        pages,
        draft,
        numbers,
        HAS_CAP,
        HAS_WINDOW,
        DRAFT,
        False,
        D,
        DV,
        BLOCK_N,
    )
    state = attend_span(
        state,
        q,
        (high, last, end),
        rows,
        pages,
        draft,
        numbers,
        HAS_CAP,
        HAS_WINDOW,
        DRAFT,
        True,
        D,
        DV,
        BLOCK_N,
    )

    at = (begin + tokens).to(tl.int64) * num_heads + heads
    if SPLIT:
        at += split * tokens_in_all.to(tl.int64) * num_heads
        _store_part(state, at, inside, part_ptr, log_ptr, v_dims, first < last, DV)
    else:
        _store_out(state, at, inside, out_ptr, sinks_ptr, heads, v_dims, v_scale, SINKS, DV)


@triton.jit(do_not_specialize=["tokens_in_all", "splits", "num_heads"])
def combine_kernel(
    part_ptr,
    log_ptr,
    sinks_ptr,
    out_ptr,
    tokens_in_all,
    splits,
    num_heads,
    v_scale,
    SINKS: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):
    """Grid: (tokens · query heads,). Weighs the splits' parts by their sums."""
    at = tl.program_id(0).to(tl.int64)
    parts, dims = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_DV)
    ats = parts * tokens_in_all.to(tl.int64) * num_heads + at
    logs = tl.load(log_ptr + ats, mask=parts < splits, other=float("-inf"))
    peak = tl.max(logs, 0)
    if SINKS:
        sink = tl.load(sinks_ptr + at % num_heads) * LOG2E
        peak = tl.maximum(peak, sink)
    weights = tl.exp2(logs - peak)
    total = tl.sum(weights, 0)
    if SINKS:
        total += tl.exp2(sink - peak)
    # A split without keys has stored nothing.
    some = (logs > float("-inf"))[:, None] & (dims[None, :] < DV)
    stored = tl.load(part_ptr + ats[:, None] * DV + dims[None, :], mask=some, other=0.0)
    out = tl.sum(stored * weights[:, None], 0) / total * v_scale
    tl.store(out_ptr + at * DV + dims, out.to(out_ptr.dtype.element_ty), mask=dims < DV)
