# The arguments of a kernel have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton backend of `layers.rotary.rotate`: queries and keys in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# Heads of a token that a program turns.
HEADS = 8


@triton.jit
def _rotate_heads(
    x_ptr,
    out_ptr,
    token,
    block,
    heads,
    token_stride,
    head_stride,
    angles,
    PAIRS: tl.constexpr,
    GPTJ: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    cos, sin, pairs = angles
    head = block * BLOCK_H + tl.arange(0, BLOCK_H)
    inside = (head < heads)[:, None] & (pairs < PAIRS)[None, :]
    first = 2 * pairs if GPTJ else pairs
    second = first + 1 if GPTJ else first + PAIRS
    rows = x_ptr + token * token_stride + head[:, None].to(tl.int64) * head_stride
    a = tl.load(rows + first[None, :], mask=inside).to(tl.float32)
    b = tl.load(rows + second[None, :], mask=inside).to(tl.float32)
    outs = out_ptr + (token * heads + head[:, None]) * (2 * PAIRS)
    kind = out_ptr.dtype.element_ty
    tl.store(outs + first[None, :], (a * cos - b * sin).to(kind), mask=inside)
    tl.store(outs + second[None, :], (b * cos + a * sin).to(kind), mask=inside)


# Compiled once, as numbers that are multiples of 16 would change nothing.
_SIZES = [
    "q_heads",
    "k_heads",
    "q_stride",
    "q_head_stride",
    "k_stride",
    "k_head_stride",
    "q_blocks",
]


@triton.jit(do_not_specialize=_SIZES)
def _rotate(
    q_ptr,
    k_ptr,
    q_out_ptr,
    k_out_ptr,
    positions_ptr,
    cos_ptr,
    sin_ptr,
    q_heads,
    k_heads,
    q_stride,
    q_head_stride,
    k_stride,
    k_head_stride,
    q_blocks,
    PAIRS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    GPTJ: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    """Grid (T, blocks of q's heads, then of k's)."""
    token, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    pairs = tl.arange(0, BLOCK_P)
    row = tl.load(positions_ptr + token).to(tl.int64) * PAIRS
    cos = tl.load(cos_ptr + row + pairs, mask=pairs < PAIRS)[None, :]
    sin = tl.load(sin_ptr + row + pairs, mask=pairs < PAIRS)[None, :]
    angles = (cos, sin, pairs)
    if block < q_blocks:
        _rotate_heads(
            *(q_ptr, q_out_ptr, token, block, q_heads, q_stride, q_head_stride, angles),
            *(PAIRS, GPTJ, BLOCK_H),
        )
    else:
        _rotate_heads(
            *(k_ptr, k_out_ptr, token, block - q_blocks, k_heads, k_stride, k_head_stride, angles),
            *(PAIRS, GPTJ, BLOCK_H),
        )


def rotate_triton(
    tensors: tuple[torch.Tensor, ...],
    positions: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    style: str,
) -> list[torch.Tensor]:
    """As `rotate.rotate_torch`, on a GPU; tensors two by two."""
    outs: list[torch.Tensor] = []
    for i in range(0, len(tensors), 2):
        pair = tensors[i : i + 2]
        made = [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in pair]
        if positions.numel():
            _launch(pair, made, positions, cos, sin, style)
        outs += made
    return outs


def _launch(
    tensors: tuple[torch.Tensor, ...],
    outs: list[torch.Tensor],
    positions: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    style: str,
) -> None:
    q, k = _by_head(tensors[0]), _by_head(tensors[-1])
    k_heads = k.shape[1] if len(tensors) > 1 else 0
    q_blocks = triton.cdiv(q.shape[1], HEADS)
    # Triton launches on the current device, whatever the tensors' is.
    with torch.cuda.device_of(q):
        _rotate[(len(positions), q_blocks + triton.cdiv(k_heads, HEADS))](
            *(q, k, outs[0], outs[-1], positions, cos, sin, q.shape[1], k_heads),
            *(q.stride(0), q.stride(1), k.stride(0), k.stride(1), q_blocks),
            PAIRS=cos.shape[1],
            BLOCK_P=triton.next_power_of_2(cos.shape[1]),
            GPTJ=style == "gptj",
            BLOCK_H=HEADS,
            num_warps=2,
        )


def _by_head(x: torch.Tensor) -> torch.Tensor:
    """x (T, …, D) -> (T, H, D), a view where its strides allow one."""
    by_head = x.unsqueeze(1) if x.dim() == 2 else x if x.dim() == 3 else x.flatten(1, -2)
    return by_head if by_head.stride(2) == 1 else by_head.contiguous()
