# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""The causal convolution before the gated delta rule, by Triton; see `layers.kernels.gdn.conv`.

Bound by memory: x is read once from DRAM and W times from the caches, and written once. A state is
replaced by a second kernel, after every token that needs its old value was convolved.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.attention.gdn.metadata import GDNMetadata

_TOKENS, _CHANNELS = 16, 256
_DECODE_CHANNELS = 128


@triton.jit
def _past_kernel(slot, channel, at, state, mask, channels, WIDTH: tl.constexpr):
    # Input `at` - (WIDTH - 1) of a slot's request: 0 is the oldest.
    place = slot * channels * (WIDTH - 1) + channel * (WIDTH - 1) + at
    return tl.load(state + place, mask=mask, other=0.0)


@triton.jit
def _silu(x):
    return x / (1.0 + tl.exp(-x))


@triton.jit(do_not_specialize=["tokens"])
def _extend_kernel(
    x, weight, state, out, starts, requests, slots, has_initial, tokens, channels,
    WIDTH: tl.constexpr, TOKENS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * TOKENS
    row = tl.arange(0, TOKENS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    here = first + row < tokens
    request = tl.load(requests + first + row, mask=here, other=0)
    since = tl.where(here, first + row - tl.load(starts + request), WIDTH)
    has_past = tl.min(since) < WIDTH - 1
    slot = tl.load(slots + request).to(tl.int64)
    old = tl.load(has_initial + request) != 0
    mask = here[:, None] & (channel < channels)[None, :]
    # Places within a tile fit 32 bits, whose arithmetic would else be most of the work.
    place = row[:, None] * channels + channel[None, :]
    x += first.to(tl.int64) * channels
    total = tl.zeros((TOKENS, CHANNELS), tl.float32)
    for w in tl.static_range(WIDTH):
        back = WIDTH - 1 - w
        inside = mask & (since >= back)[:, None]
        value = tl.load(x + (place - back * channels), mask=inside, other=0.0)
        if has_past:
            before = mask & (old & (since < back))[:, None]
            at = (since + w)[:, None]
            past = _past_kernel(slot[:, None], channel[None, :], at, state, before, channels, WIDTH)
            value = tl.where((since >= back)[:, None], value, past)
        tap = tl.load(weight + channel * WIDTH + w, mask=channel < channels, other=0.0)
        total += value.to(tl.float32) * tap.to(tl.float32)[None, :]
    out += first.to(tl.int64) * channels
    tl.store(out + place, _silu(total).to(out.dtype.element_ty), mask=mask)


@triton.jit
def _keep_kernel(
    x, state, starts, slots, has_initial, channels,
    WIDTH: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    mask = channel < channels
    start = tl.load(starts + request).to(tl.int64)
    length = tl.load(starts + request + 1) - start
    slot = tl.load(slots + request).to(tl.int64)
    old = tl.load(has_initial + request) != 0
    # Upwards: place w is written when the places up to w + length were read.
    for w in tl.static_range(WIDTH - 1):
        since = length - (WIDTH - 1) + w
        value = tl.load(
            x + (start + since) * channels + channel, mask=mask & (since >= 0), other=0.0
        )
        before = mask & old & (since < 0)
        past = _past_kernel(slot, channel, w + length, state, before, channels, WIDTH)
        value = tl.where(since >= 0, value, past)
        tl.store(state + (slot * channels + channel) * (WIDTH - 1) + w, value, mask=mask)


@triton.jit
def _decode_kernel(
    x, weight, state, out, slots, channels, WIDTH: tl.constexpr, CHANNELS: tl.constexpr
):
    request = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    mask = channel < channels
    slot = tl.load(slots + request).to(tl.int64)
    kept = state + (slot * channels + channel) * (WIDTH - 1)
    total = tl.zeros((CHANNELS,), tl.float32)
    for w in tl.static_range(WIDTH):
        if w < WIDTH - 1:
            value = tl.load(kept + w, mask=mask, other=0.0)
        else:
            value = tl.load(x + request * channels + channel, mask=mask, other=0.0)
        if w > 0:
            tl.store(kept + w - 1, value, mask=mask)
        tap = tl.load(weight + channel * WIDTH + w, mask=mask, other=0.0)
        total += value.to(tl.float32) * tap.to(tl.float32)
    place = request * channels + channel
    tl.store(out + place, _silu(total).to(out.dtype.element_ty), mask=mask)


def convolve(
    x: torch.Tensor, weight: torch.Tensor, state: torch.Tensor, metadata: GDNMetadata
) -> torch.Tensor:
    """As `layers.kernels.gdn.conv.convolve`: x (T, C) -> (T, C), and the state is brought up."""
    x = x.contiguous()
    out = torch.empty_like(x)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(x):
        run = _decode if metadata.mode == "decode" else _extend
        run(x, weight, state, out, metadata)
    return out


def _decode(
    x: torch.Tensor,
    weight: torch.Tensor,
    state: torch.Tensor,
    out: torch.Tensor,
    metadata: GDNMetadata,
) -> None:
    tokens, channels = x.shape
    _decode_kernel[tokens, triton.cdiv(channels, _DECODE_CHANNELS)](
        *(x, weight, state, out, metadata.state_indices, channels),
        WIDTH=weight.shape[1],
        CHANNELS=_DECODE_CHANNELS,
    )


def _extend(
    x: torch.Tensor,
    weight: torch.Tensor,
    state: torch.Tensor,
    out: torch.Tensor,
    metadata: GDNMetadata,
) -> None:
    tokens, channels = x.shape
    width, blocks = weight.shape[1], triton.cdiv(channels, _CHANNELS)
    starts, slots, old = metadata.cu_seqlens, metadata.state_indices, metadata.has_initial_state
    _extend_kernel[triton.cdiv(tokens, _TOKENS), blocks](
        *(x, weight, state, out, starts, metadata.request_of_token, slots, old, tokens, channels),
        WIDTH=width,
        TOKENS=_TOKENS,
        CHANNELS=_CHANNELS,
    )
    _keep_kernel[metadata.num_requests, blocks](
        x, state, starts, slots, old, channels, WIDTH=width, CHANNELS=_CHANNELS
    )
