# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""The causal convolution before the gated delta rule, by Triton; see `layers.kernels.gdn.conv`.

A request's first W - 1 outputs, which its old state has a part in, come from a second kernel, the
one that replaces the state: so the first, which does nearly all of the work, is bound by memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from layers.attention.gdn.metadata import GDNMetadata

_TOKENS, _CHANNELS = 16, 256
_EDGE_CHANNELS = 128


@triton.jit
def _silu(x):
    return x / (1.0 + tl.exp(-x))


@triton.jit(do_not_specialize=["tokens"])
def _extend_kernel(
    x, weight, out, starts, requests, tokens, channels, channel_stride, tap_stride,
    WIDTH: tl.constexpr, TOKENS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * TOKENS
    row = tl.arange(0, TOKENS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    request = tl.load(requests + first + row, mask=first + row < tokens, other=0)
    since = first + row - tl.load(starts + request)
    inner = (first + row < tokens) & (since >= WIDTH - 1)
    mask = inner[:, None] & (channel < channels)[None, :]
    # Places within a tile fit 32 bits, whose arithmetic would else be most of the work.
    place = row[:, None] * channels + channel[None, :]
    x += first.to(tl.int64) * channels
    out += first.to(tl.int64) * channels
    total = tl.zeros((TOKENS, CHANNELS), tl.float32)
    for w in tl.static_range(WIDTH):
        value = tl.load(x + (place - (WIDTH - 1 - w) * channels), mask=mask, other=0.0)
        tap = tl.load(
            weight + channel * channel_stride + w * tap_stride, mask=channel < channels, other=0.0
        )
        total += value.to(tl.float32) * tap.to(tl.float32)[None, :]
    tl.store(out + place, _silu(total).to(out.dtype.element_ty), mask=mask)


@triton.jit
def _input(x, kept, since, length, channels, mask, old, WIDTH: tl.constexpr):
    # Of a request's token `since`; before the first one, what its state kept.
    has_token = (since >= 0) & (since < length)
    value = tl.load(x + since * channels, mask=mask & has_token, other=0.0)
    before = mask & old & (since < 0)
    past = tl.load(kept + (since + WIDTH - 1), mask=before, other=0.0)
    return tl.where(since >= 0, value, past)


@triton.jit
def _edge_kernel(
    x, weight, state, out, starts, slots, has_initial, channels, channel_stride, tap_stride,
    WIDTH: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    mask = channel < channels
    start = tl.load(starts + request).to(tl.int64)
    length = tl.load(starts + request + 1) - start
    old = tl.load(has_initial + request) != 0
    kept = state + (tl.load(slots + request).to(tl.int64) * channels + channel) * (WIDTH - 1)
    x += start * channels + channel
    out += start * channels + channel
    for t in tl.static_range(WIDTH - 1):
        total = tl.zeros((CHANNELS,), tl.float32)
        for w in tl.static_range(WIDTH):
            since = t - (WIDTH - 1) + w
            value = _input(x, kept, since, length, channels, mask, old, WIDTH)
            tap = tl.load(weight + channel * channel_stride + w * tap_stride, mask=mask, other=0.0)
            total += value.to(tl.float32) * tap.to(tl.float32)
        rounded = _silu(total).to(out.dtype.element_ty)
        tl.store(out + t * channels, rounded, mask=mask & (t < length))
    # Upwards: place w is written when the places up to w + length were read.
    for w in tl.static_range(WIDTH - 1):
        since = length - (WIDTH - 1) + w
        value = _input(x, kept, since, length, channels, mask, old, WIDTH)
        tl.store(kept + w, value, mask=mask)


@triton.jit
def _decode_kernel(
    x, weight, state, out, slots, channels, channel_stride, tap_stride,
    WIDTH: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
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
        tap = tl.load(weight + channel * channel_stride + w * tap_stride, mask=mask, other=0.0)
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
    _decode_kernel[tokens, triton.cdiv(channels, _EDGE_CHANNELS)](
        *(x, weight, state, out, metadata.state_indices, channels),
        *weight.stride(),
        WIDTH=weight.shape[1],
        CHANNELS=_EDGE_CHANNELS,
    )


def _extend(
    x: torch.Tensor,
    weight: torch.Tensor,
    state: torch.Tensor,
    out: torch.Tensor,
    metadata: GDNMetadata,
) -> None:
    tokens, channels = x.shape
    width, starts = weight.shape[1], metadata.cu_seqlens
    _extend_kernel[triton.cdiv(tokens, _TOKENS), triton.cdiv(channels, _CHANNELS)](
        *(x, weight, out, starts, metadata.request_of_token, tokens, channels),
        *weight.stride(),
        WIDTH=width,
        TOKENS=_TOKENS,
        CHANNELS=_CHANNELS,
    )
    _edge_kernel[metadata.num_requests, triton.cdiv(channels, _EDGE_CHANNELS)](
        *(x, weight, state, out, starts, metadata.state_indices, metadata.has_initial_state),
        *(channels, *weight.stride()),
        WIDTH=width,
        CHANNELS=_EDGE_CHANNELS,
    )
