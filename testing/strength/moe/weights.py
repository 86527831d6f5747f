"""Faults of what a loaded MoE layer holds, and of tensors on their way into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from testing.harness.moe.names import Named

Stream = Iterator[Named]


def _data(layer: Any, name: str) -> torch.Tensor:
    data: torch.Tensor = layer.get_parameter(name).data
    return data.view(torch.uint8) if data.element_size() == 1 else data


def scale_names(layer: Any, matmul: str) -> list[str]:
    """Of one matmul's weight: block scales, then scales of matrices."""
    names = [name for name, _ in layer.named_parameters(recurse=False)]
    return [name for name in names if name.startswith(f"{matmul}_weight_scale")]


def held_by(layer: Any, matmul: str) -> list[torch.Tensor]:
    """Codes and scales, an expert in each row."""
    return [_data(layer, name) for name in (f"{matmul}_weight", *scale_names(layer, matmul))]


def experts_swapped(matmul: str) -> Callable[[Any], None]:
    """Experts 1 and 2, codes and scales."""

    def edit(layer: Any) -> None:
        for tensor in held_by(layer, matmul):
            tensor[[1, 2]] = tensor[[2, 1]].clone()

    return edit


def scales_of_next(matmul: str) -> Callable[[Any], None]:
    """Codes stay."""

    def edit(layer: Any) -> None:
        for name in scale_names(layer, matmul):
            scale = _data(layer, name)
            scale.copy_(scale.roll(1, 0))

    return edit


def codes_of_next(matmul: str) -> Callable[[Any], None]:
    """Scales stay."""

    def edit(layer: Any) -> None:
        codes = _data(layer, f"{matmul}_weight")
        codes.copy_(codes.roll(1, 0))

    return edit


def swapped(layer: Any) -> None:
    """[up; gate], codes only."""
    codes = _data(layer, "w13_weight")
    codes.copy_(codes.roll(codes.shape[1] // 2, 1))


def up_is_gate(layer: Any) -> None:
    """One copied over the other."""
    codes = _data(layer, "w13_weight")
    half = codes.shape[1] // 2
    codes[:, half:] = codes[:, :half]


def rows_in_turn(layer: Any) -> None:
    """Gate and up rows in turn, where all gate rows should come first."""
    codes = _data(layer, "w13_weight")
    half = codes.shape[1] // 2
    turned = torch.stack([codes[:, :half], codes[:, half:]], dim=2).flatten(1, 2)
    codes.copy_(turned.view(codes.shape))


def scales_of_gate(layer: Any) -> None:
    """Of gate for up as well, in the finest of the scales."""
    scale = _data(layer, scale_names(layer, "w13")[0])
    half = scale.shape[1] // 2
    scale[:, half:] = scale[:, :half]


def one_row_stale(matmul: str) -> Callable[[Any], None]:
    """Row 9 of expert 2 was never written."""

    def edit(layer: Any) -> None:
        _data(layer, f"{matmul}_weight")[2, 9] = 0

    return edit


def one_code(matmul: str) -> Callable[[Any], None]:
    """The second-lowest bit of one byte of expert 3, row 17."""

    def edit(layer: Any) -> None:
        codes = _data(layer, f"{matmul}_weight")
        if codes.dtype != torch.uint8:
            codes[3, 17, 5] *= 1.01
        else:
            codes[3, 17, 5] ^= 2

    return edit


def one_expert_scale(matmul: str) -> Callable[[Any], None]:
    """Expert 1 by 1% too large, where scales are floats."""

    def edit(layer: Any) -> None:
        _data(layer, scale_names(layer, matmul)[-1])[1] *= 1.01

    return edit


def experts_shifted(tensors: Stream) -> Stream:
    """Expert e's tensors are called those of expert e + 1."""
    kept = list(tensors)
    ids = [_expert(name) for name, _ in kept]
    count = 1 + max(ids)
    for (name, tensor), e in zip(kept, ids, strict=True):
        yield name.replace(f".experts.{e}.", f".experts.{(e + 1) % count}."), tensor


def gate_and_up_renamed(tensors: Stream) -> Stream:
    """w1 for w3, and the other way round."""
    for name, tensor in tensors:
        name = name.replace("gate_proj", "?").replace("up_proj", "gate_proj")
        yield name.replace("?", "up_proj"), tensor


def _expert(name: str) -> int:
    return int(name.split(".experts.")[1].split(".")[0])
