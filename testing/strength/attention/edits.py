"""What faulty steps of attention do: each takes the right step and its arguments.

Steps are the functions of layers/kernels/attention/attend_torch.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from testing.harness.attention.case import FP8_SCALES

Step = Callable[..., Any]


def one_key_ahead(visible: Step, positions: torch.Tensor, keys: torch.Tensor, window: Any) -> Any:
    """Position + 1 is seen as well."""
    return visible(positions, keys, window) | (keys[None, :] == positions[:, None] + 1)


def own_key_unseen(visible: Step, positions: torch.Tensor, keys: torch.Tensor, window: Any) -> Any:
    """A query does not see itself."""
    return visible(positions, keys, window) & (keys[None, :] != positions[:, None])


def not_causal(visible: Step, positions: torch.Tensor, keys: torch.Tensor, window: Any) -> Any:
    """Everything that the request has is seen, as far as the window goes back."""
    return visible(positions, keys, window) | (keys[None, :] > positions[:, None])


def window_by(step: int | None) -> Step:
    """The window is larger by `step`; None: there is none."""

    def change(visible: Step, positions: torch.Tensor, keys: torch.Tensor, window: Any) -> Any:
        return visible(positions, keys, None if step is None or window is None else window + step)

    return change


def tree_as(edit: Callable[[torch.Tensor], torch.Tensor]) -> Step:
    """The drafts' mask is edited."""

    def change(seen: Step, positions: torch.Tensor, prefix: int, mask: Any, window: Any) -> Any:
        return seen(positions, prefix, edit(mask), window)

    return change


def prefix_unseen(
    draft_visible: Step, positions: torch.Tensor, prefix: int, mask: Any, window: Any
) -> Any:
    """Drafts see one another only."""
    seen = draft_visible(positions, prefix, mask, window)
    seen[:, :prefix] = False
    return seen


def by_slot(
    draft_visible: Step, positions: torch.Tensor, prefix: int, mask: Any, window: Any
) -> Any:
    """A draft's position is taken for its place in the cache."""
    slots = prefix + torch.arange(len(positions), device=positions.device)
    return draft_visible(slots, prefix, mask, window)


def first_page_again(pages_of: Step, row: torch.Tensor, keys: int, page_size: int) -> Any:
    """A request of more than 48 keys reads its first page in place of the second."""
    pages = pages_of(row, keys, page_size).clone()
    if keys > 48:
        pages[1] = pages[0]
    return pages


def page_of_nobody(pages_of: Step, row: torch.Tensor, keys: int, page_size: int) -> Any:
    """A request of more than 48 keys reads page 0, which nobody owns, in place of its second."""
    pages = pages_of(row, keys, page_size).clone()
    if keys > 48:
        pages[1] = 0
    return pages


def scaling_by(factor: float) -> Step:
    """Logits are scaled by `factor` too much."""

    def change(logits: Step, q: Any, k: Any, scaling: float, cap: float) -> Any:
        return logits(q, k, scaling * factor, cap)

    return change


def scaled_twice(logits: Step, q: Any, k: Any, scaling: float, cap: float) -> Any:
    """By its square."""
    return logits(q, k, scaling**2, cap)


def unscaled(logits: Step, q: Any, k: Any, scaling: float, cap: float) -> Any:
    """Not at all."""
    return logits(q, k, 1.0, cap)


def uncapped(logits: Step, q: Any, k: Any, scaling: float, cap: float) -> Any:
    """No soft cap."""
    return logits(q, k, scaling, 0.0)


def capped_unscaled(logits: Step, q: Any, k: Any, scaling: float, cap: float) -> Any:
    """The cap comes before the scaling."""
    return logits(q, k, 1.0, cap) * scaling


def heads_in_turn(kv_head: Step, heads: int, kv_heads: int, device: Any) -> Any:
    """Head h reads key-value head h mod Hkv."""
    return torch.arange(heads, device=device) % kv_heads


def next_group(kv_head: Step, heads: int, kv_heads: int, device: Any) -> Any:
    """Every head reads the group after its own."""
    return (kv_head(heads, kv_heads, device) + 1) % kv_heads


def head_of_the_next_group(kv_head: Step, heads: int, kv_heads: int, device: Any) -> Any:
    """The last head of the first group reads the second."""
    mapped = kv_head(heads, kv_heads, device).clone()
    mapped[heads // kv_heads - 1] = 1
    return mapped


def values_of_next_head(weigh: Step, weights: Any, v: torch.Tensor) -> Any:
    """v (keys, Hq, Dv) is that of the other of two key-value heads."""
    return weigh(weights, v.roll(-(v.shape[1] // 2), dims=1))


def no_sinks(softmax: Step, scores: Any, sinks: Any) -> Any:
    """Sinks are passed over."""
    return softmax(scores, None)


def sinks_twice(softmax: Step, scores: Any, sinks: torch.Tensor) -> Any:
    """Two columns of the same logit: what a sink of log(2) more does."""
    return softmax(scores, sinks + torch.log(torch.tensor(2.0)))


def sinks_scaled(softmax: Step, scores: Any, sinks: torch.Tensor) -> Any:
    """By the scaling of heads of 64."""
    return softmax(scores, sinks / 8)


def sinks_of_other_heads(softmax: Step, scores: Any, sinks: torch.Tensor) -> Any:
    """Moved on by one head."""
    return softmax(scores, sinks.roll(1))


def halves_unweighted(softmax: Step, scores: torch.Tensor, sinks: Any) -> Any:
    """Both halves of the keys are normalised by themselves, then averaged: no weights by sums."""
    half = scores.shape[2] // 2
    parts = [torch.softmax(part, dim=2) for part in (scores[..., :half], scores[..., half:])]
    return torch.nan_to_num(torch.cat(parts, dim=2)) / 2


def weights_in_bf16(softmax: Step, scores: Any, sinks: Any) -> Any:
    """Probabilities are rounded, which this backend does not declare."""
    return softmax(scores, sinks).bfloat16().float()


def rounded_twice(weigh: Step, weights: Any, v: Any) -> Any:
    """The output is rounded to bf16 on its way to fp16."""
    return weigh(weights, v).bfloat16().float()


def gain_of_head(weigh: Step, weights: Any, v: Any) -> Any:
    """Head 5 is 1 % too large."""
    out = weigh(weights, v)
    out[:, 5] *= 1.01
    return out


def gain_of_all(weigh: Step, weights: Any, v: Any) -> Any:
    """Everything is 0.1 % too large."""
    return weigh(weights, v) * 1.001


def scales_as(choose: Callable[[float, float, float], float]) -> Step:
    """gather with choose(scale, k_scale, v_scale) for a scale; those of the fp8 bench."""

    def change(gather: Step, pages: Any, places: Any, keys: int, scale: float) -> Any:
        return gather(pages, places, keys, choose(scale, *FP8_SCALES))

    return change


def past_the_end(gather: Step, pages: torch.Tensor, places: Any, keys: int, scale: float) -> Any:
    """Unseen slots of the last page are multiplied by a weight of 0, and so by what they hold."""
    rows = gather(pages, places, keys, scale)
    whole = pages[places].flatten(0, 1).float()
    return rows + 0 * whole[keys:].sum() if len(whole) > keys else rows


def last_key_unseen(seen_keys: Step, metadata: Any, request: int, *rest: Any) -> Any:
    """Request 1 is taken for one key shorter."""
    seen = seen_keys(metadata, request, *rest)
    if request == 1:
        seen[:, -1] = False
    return seen


def slots_off_by_one(write: Step, cache: Any, slots: torch.Tensor, k: Any, v: Any) -> None:
    """Tokens go to the slot after their own."""
    write(cache, slots + 1, k, v)


def keys_and_values_swapped(write: Step, cache: Any, slots: Any, k: Any, v: Any) -> None:
    """k is stored as v."""
    write(cache, slots, v, k)


def slot_before_too(write: Step, cache: Any, slots: torch.Tensor, k: Any, v: Any) -> None:
    """The slot before the call's first is written again, by a zero."""
    write(cache, slots, k, v)
    write(cache, slots[:1] - 1, torch.zeros_like(k[:1]), torch.zeros_like(v[:1]))


def nothing_written(write: Step, cache: Any, slots: Any, k: Any, v: Any) -> None:
    """The cache stays as it is."""


def queries_overwritten(attend: Step, q: torch.Tensor, *rest: Any) -> Any:
    """q is scaled in place, and scaled back wrongly."""
    out = attend(q, *rest)
    q.mul_(0.125)
    return out


def requests_swapped(attend: Step, q: Any, cache: Any, metadata: Any, sinks: Any) -> Any:
    """The outputs of the first two of a batch's decode requests change places."""
    out = attend(q, cache, metadata, sinks)
    out[[0, 1]] = out[[1, 0]]
    return out


def scale_doubled(write: Step, cache: Any, slots: Any, k: torch.Tensor, v: Any) -> None:
    """Keys are encoded under twice their scale."""
    write(cache, slots, (k / 2).to(k.dtype), v)
