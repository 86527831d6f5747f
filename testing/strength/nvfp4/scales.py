"""Faults of NVFP4's scales: how shards' global scales are folded, and how block scales are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from testing.harness.linear import LoadedLinear


def alpha_of(loaded: LoadedLinear) -> torch.Tensor:
    """(N,) the factor of each column, which the kernel reads: input scale times weight scale."""
    return loaded.layer.get_parameter("weight_scale_2").data


def input_scale_of(loaded: LoadedLinear) -> torch.Tensor:
    """(1,) with which x is quantised."""
    return loaded.layer.get_parameter("input_scale").data


def one_percent(loaded: LoadedLinear) -> None:
    """All columns 1% too large."""
    alpha_of(loaded).mul_(1.01)


def one_percent_shard(loaded: LoadedLinear) -> None:
    """The second shard 1% too small."""
    alpha = alpha_of(loaded)
    alpha[len(alpha) // 2 :].mul_(0.99)


def largest_for_all(loaded: LoadedLinear) -> None:
    """max() over the shards, and block scales as they were."""
    alpha = alpha_of(loaded)
    alpha.fill_(alpha.max())


def of_first_shard(loaded: LoadedLinear) -> None:
    """The first shard's for all."""
    alpha = alpha_of(loaded)
    alpha.fill_(alpha[0])


def swapped(loaded: LoadedLinear) -> None:
    """Each shard's for the other."""
    alpha = alpha_of(loaded)
    alpha.copy_(alpha.roll(len(alpha) // 2))


def boundary_off_by_one(loaded: LoadedLinear) -> None:
    """The last row of the first shard has the second's."""
    alpha = alpha_of(loaded)
    alpha[len(alpha) // 2 - 1] = alpha[len(alpha) // 2]


def alpha_missing(loaded: LoadedLinear) -> None:
    """Block scales alone."""
    alpha_of(loaded).fill_(1.0)


def input_scale_missing(loaded: LoadedLinear) -> None:
    """The weight's scale alone."""
    alpha_of(loaded).div_(input_scale_of(loaded))


def input_scale_twice(loaded: LoadedLinear) -> None:
    """Applied once too often."""
    alpha_of(loaded).mul_(input_scale_of(loaded))


def inverted(loaded: LoadedLinear) -> None:
    """gs, 448·6/amax, for its reciprocal."""
    alpha_of(loaded).reciprocal_()


def alpha_in_bf16(loaded: LoadedLinear) -> None:
    """Rounded to eight bits."""
    alpha = alpha_of(loaded)
    alpha.copy_(alpha.bfloat16())


def block_byte(row: int, column: int, change: int) -> Callable[[LoadedLinear], None]:
    """One byte of the swizzled scales off by one step; found by its formula."""

    def edit(loaded: LoadedLinear) -> None:
        scales = loaded.layer.get_parameter("weight_scale").data
        tiles = scales.shape[1] // 4
        offset = ((row // 128) * tiles + column // 4) * 512
        offset += (row % 32) * 16 + (row % 128) // 32 * 4 + column % 4
        scales.view(-1)[offset] += change

    return edit


def folded_by(choose: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    """`check_input_scale` whose shards all have another's input scale, for x and alpha alike."""

    def wrap(original: Any) -> Any:
        def check(layer: torch.nn.Module) -> torch.Tensor:
            scales: torch.Tensor = original(layer)
            return torch.full_like(scales, float(choose(scales)))

        return check

    return wrap


def own_input_scale(loaded: LoadedLinear) -> None:
    """alpha by each shard's own input scale, while x is quantised by the largest: gate's, here."""
    alpha = alpha_of(loaded)
    alpha[: len(alpha) // 2] *= 0.4


def quantised_by(factor: float) -> Callable[[LoadedLinear], None]:
    """x is quantised by a scale that alpha knows nothing of."""

    def edit(loaded: LoadedLinear) -> None:
        method: Any = loaded.layer.quant_method
        original, other = method.quantise, input_scale_of(loaded) * factor
        method.quantise = lambda x: original.func(x, input_scale=other)

    return edit
