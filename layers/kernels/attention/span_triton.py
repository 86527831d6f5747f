# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""What a program of `layers.kernels.attention.paged_triton` does with its rows and its keys."""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _slots(page_row, keys, inside, page_bits):
    """Where keys (n,) lie, counted in tokens from the first page of 2 ** page_bits tokens."""
    page = tl.load(page_row + (keys >> page_bits), mask=inside, other=0).to(tl.int64)
    return (page << page_bits) + (keys & ((1 << page_bits) - 1))


@triton.jit
def _tile(head, slots, inside, stride, dims, D: tl.constexpr, ALL: tl.constexpr):
    """(n, dims) of keys or values; what lies outside is 0, and is not read."""
    ptrs = head + slots[:, None] * stride + dims[None, :]
    if ALL and dims.shape[0] == D:
        tile = tl.load(ptrs)
    else:
        tile = tl.load(ptrs, mask=inside[:, None] & (dims[None, :] < D), other=0.0)
    return tile


@triton.jit
def _capped(scores, scale, cap, HAS_CAP: tl.constexpr):
    """Logits to base 2: scaled, then cap · tanh(logit / cap)."""
    if HAS_CAP:
        # tanh(x) = 1 - 2 / (exp(2x) + 1), which saturates as it should where exp overflows.
        doubled = tl.exp2(scores * (2.0 * scale / cap * LOG2E))
        capped = (cap * LOG2E) * (1.0 - 2.0 / (doubled + 1.0))
    else:
        capped = scores * (scale * LOG2E)
    return capped


@triton.jit
def _seen(keys, rows, draft, window, HAS_WINDOW: tl.constexpr, DRAFT: tl.constexpr):
    """Which of keys (n,) each row sees, by its token and its position: (rows, n)."""
    tokens, positions = rows
    mask_ptr, places_ptr, prefix, queries = draft
    places = keys
    if DRAFT:
        behind = keys - prefix
        is_draft = (behind >= 0) & (behind < queries)
        at = tokens[:, None] * queries + behind[None, :]
        shown = is_draft[None, :] & (tokens[:, None] < queries)
        seen = (tl.load(mask_ptr + at, mask=shown, other=0) != 0) | (behind < 0)[None, :]
        if HAS_WINDOW:
            drafted = tl.load(places_ptr + behind, mask=is_draft, other=0).to(tl.int32)
            places = tl.where(is_draft, drafted, keys)
    else:
        seen = keys[None, :] <= positions[:, None]
    if HAS_WINDOW:
        seen &= places[None, :] > positions[:, None] - window
    return seen


@triton.jit
def attend_span(
    state,
    q,
    span,
    rows,
    pages,
    draft,
    numbers,
    HAS_CAP: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    DRAFT: tl.constexpr,
    MASKED: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Goes over the keys of a span; without MASKED every row sees them all."""
    out, peak, total = state
    scale, cap, window = numbers
    first, last, limit = span
    page_row, page_bits, k_head, v_head, k_stride, v_stride, k_dims, v_dims = pages
    for start in range(first, last, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = keys < limit
        slots = _slots(page_row, keys, inside, page_bits)
        k = _tile(k_head, slots, inside, k_stride, k_dims, D, not MASKED).to(q.dtype)
        scores = _capped(tl.dot(q, tl.trans(k)), scale, cap, HAS_CAP)
        if MASKED:
            seen = _seen(keys, rows, draft, window, HAS_WINDOW, DRAFT) & inside[None, :]
            scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, 1))
        # A row that has seen nothing yet would take infinity from infinity.
        level = tl.where(higher == float("-inf"), 0.0, higher) if MASKED else higher
        weights = tl.exp2(scores - level[:, None])
        shrink = tl.exp2(peak - level)
        total = total * shrink + tl.sum(weights, 1)
        v = _tile(v_head, slots, inside, v_stride, v_dims, DV, not MASKED).to(q.dtype)
        out = tl.dot(weights.to(q.dtype), v, out * shrink[:, None])
        peak = higher
    return out, peak, total


@triton.jit
def spans_of(
    prefix,
    queries,
    earliest,
    latest,
    split,
    splits,
    window,
    HAS_WINDOW: tl.constexpr,
    DRAFT: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """A split's keys [first, last), those that all rows see, [low, high), and the last of any row.

    Steps start at the first key of any row, so that all but `last` lie whole steps from it.
    """
    if DRAFT:
        # The depth of a draft token in its tree is not looked at, and is at least 0.
        end, every_end = prefix + queries, prefix
        latest = prefix + queries
        earliest = 0
    else:
        end, every_end = prefix + latest + 1, prefix + earliest + 1
    begin, every_begin = prefix * 0, prefix * 0
    if HAS_WINDOW:
        begin = tl.maximum(prefix + earliest - window + 1, 0)
        every_begin = tl.maximum(prefix + latest - window + 1, 0)
    share = tl.cdiv(tl.cdiv(end - begin, BLOCK_N), splits) * BLOCK_N
    first = tl.minimum(begin + split * share, end)
    last = tl.minimum(first + share, end)
    low = begin + tl.cdiv(every_begin - begin, BLOCK_N) * BLOCK_N
    high = begin + tl.maximum(every_end - begin, 0) // BLOCK_N * BLOCK_N
    low = tl.minimum(tl.maximum(low, first), last)
    high = tl.minimum(tl.maximum(high, low), last)
    return first, low, high, last, end
