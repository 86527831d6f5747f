"""What a faulty gated delta layer does in a step: `change(original, *arguments)` of that step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

Original: TypeAlias = Callable[..., Any]
Tensor: TypeAlias = torch.Tensor


def decay_times(factor: float) -> Callable[..., Any]:
    """Gates with g times a factor."""

    def change(original: Original, *arguments: Tensor) -> Any:
        g, beta = original(*arguments)
        return factor * g, beta

    return change


def all_written(original: Original, *arguments: Tensor) -> Any:
    """β is 1."""
    g, beta = original(*arguments)
    return g, torch.ones_like(beta)


def sigmoid_twice(original: Original, *arguments: Tensor) -> Any:
    """β is sigmoid(sigmoid(b))."""
    g, beta = original(*arguments)
    return g, beta.sigmoid()


def rate_inverted(original: Original, a: Tensor, b: Tensor, a_log: Tensor, bias: Tensor) -> Any:
    """A_log with the other sign."""
    return original(a, b, -a_log, bias)


def no_bias(original: Original, a: Tensor, b: Tensor, a_log: Tensor, bias: Tensor) -> Any:
    """dt_bias left out."""
    return original(a, b, a_log, torch.zeros_like(bias))


def taps_reversed(original: Original, inputs: Tensor, weight: Tensor) -> Tensor:
    """The newest input has the oldest's tap."""
    convolved: Tensor = original(inputs, weight.flip(1))
    return convolved


def one_token_late(original: Original, inputs: Tensor, weight: Tensor) -> Tensor:
    """Each tap meets the input after its own."""
    late = torch.cat([weight[:, 1:], torch.zeros_like(weight[:, :1])], 1)
    convolved: Tensor = original(inputs, late)
    return convolved


def past_forgotten(original: Original, slot: Tensor, has_initial: bool) -> Tensor:
    """Zeros, whoever the request is."""
    return torch.zeros_like(slot)


def past_kept(original: Original, slot: Tensor, has_initial: bool) -> Tensor:
    """What the slot holds, whoever had it before."""
    return slot.clone()


def last_of_previous(kept: list[Tensor]) -> Callable[..., Tensor]:
    """A request without a state starts where the request before it in the batch ended."""

    def change(original: Original, slot: Tensor, has_initial: bool) -> Tensor:
        start: Tensor = original(slot, has_initial)
        started = kept[0].clone() if kept and not has_initial else start
        kept[:] = [slot]
        return started

    return change


def no_silu(original: Original, x: Tensor, dtype: torch.dtype) -> Tensor:
    """The convolution as it is."""
    return x.to(dtype)


def rounded_before(original: Original, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Rounded before SiLU and after it."""
    activated: Tensor = original(x.to(dtype).float(), dtype)
    return activated


def state_unkept(original: Original, x: Tensor, weight: Tensor, state: Tensor, *rest: Any) -> Any:
    """The convolution leaves its state as it was."""
    return original(x, weight, state.clone(), *rest)


def ssm_unkept(original: Original, mixed: Tensor, gates: Any, ssm: Tensor, *rest: Any) -> Any:
    """The recurrence leaves its state as it was."""
    return original(mixed, gates, ssm.clone(), *rest)


def slot_beside(original: Original, mixed: Tensor, gates: Any, ssm: Tensor, *rest: Any) -> Any:
    """A slot that no request has is written as well."""
    output = original(mixed, gates, ssm, *rest)
    slots = set(rest[0].state_indices.tolist())
    other = next(slot for slot in range(len(ssm)) if slot not in slots)
    ssm[other] = 0
    return output


def only_queries(original: Original, mixed: Tensor, heads: Any) -> Any:
    """Keys as long as they come."""
    q, _, v = original(mixed, heads)
    k = heads.split(mixed)[1].float().repeat_interleave(heads.group, 1)
    return q, k, v


def only_keys(original: Original, mixed: Tensor, heads: Any) -> Any:
    """Queries as long as they come."""
    _, k, v = original(mixed, heads)
    q = heads.split(mixed)[0].float().repeat_interleave(heads.group, 1)
    return q, k, v


def head_modulo(original: Original, x: Tensor, heads: Any) -> Tensor:
    """Key head h mod Hk."""
    return x.repeat(1, heads.group, 1)


def scale_by(factor: float) -> Callable[..., Any]:
    """Queries times a factor."""

    def change(original: Original, mixed: Tensor, heads: Any) -> Any:
        q, k, v = original(mixed, heads)
        return q * factor, k, v

    return change


def state_transposed(original: Original, slot: Tensor, has_initial: bool) -> Tensor:
    """Read values first."""
    start: Tensor = original(slot, has_initial)
    return start.mT.clone()


def no_recall_in_chunk(original: Original, coupling: Tensor, right: Tensor) -> Tensor:
    """Tokens of a chunk do not see each other's updates."""
    return right


def no_recall_step(
    original: Original, state: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor
) -> Any:
    """u is β v."""
    state = g.exp()[..., None, None] * state
    state = state + torch.einsum("bhk,bhv->bhkv", k, beta[..., None] * v)
    return torch.einsum("bhkv,bhk->bhv", state, q), state


def decayed_after(
    original: Original, state: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor
) -> Any:
    """The state decays after the update."""
    _, state = original(state, q, k, v, torch.zeros_like(g), beta)
    state = g.exp()[..., None, None] * state
    return torch.einsum("bhkv,bhk->bhv", state, q), state


def read_before(
    original: Original, state: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor
) -> Any:
    """The output is read before the update."""
    old = g.exp()[..., None, None] * state
    return torch.einsum("bhkv,bhk->bhv", old, q), original(state, q, k, v, g, beta)[1]


def own_update_unseen(original: Original, g: Tensor) -> Tensor:
    """Within a chunk a token does not read its own update."""
    between: Tensor = original(g)
    return between * (1 - torch.eye(between.shape[-1], device=between.device))


def chunk_forgets(original: Original, state: Tensor, *tokens: Tensor) -> Any:
    """A chunk of one token starts from nothing."""
    return original(state if tokens[0].shape[1] > 1 else torch.zeros_like(state), *tokens)


def undecayed_chunk(original: Original, state: Tensor, *tokens: Tensor) -> Any:
    """What came before a chunk does not decay in it."""
    output, after = original(state, *tokens)
    whole = tokens[3].cumsum(1)[:, -1:].exp()[..., None]
    return output, after + (1 - whole) * state


def mixed_overwritten(original: Original, mixed: Tensor, *rest: Any) -> Tensor:
    """The inputs are scaled in place."""
    output: Tensor = original(mixed, *rest)
    mixed.mul_(0.5)
    return output


def heads_exchanged(layer: Any) -> None:
    """A_log of heads 0 and 1 exchanged."""
    layer.A_log.data[:2] = layer.A_log.data[:2].flip(0)


def one_channel(layer: Any) -> None:
    """The taps of a channel of head 2's values are its neighbour's."""
    heads = layer.heads
    channel = 2 * heads.key_size + 2 * heads.head_v_dim
    layer.conv1d_weight.data[channel] = layer.conv1d_weight.data[channel + 1]
