"""Faults of a layer's product, for methods whose `multiply` is given the output's dtype.

Each takes the original and its arguments: the activations' codes first, the dtype among the rest.
"""

from __future__ import annotations

from typing import Any

import torch

from testing.harness.linear import LoadedLinear


def split_dtype(args: tuple[Any, ...], dtype: torch.dtype) -> tuple[tuple[Any, ...], torch.dtype]:
    """The arguments with another output dtype, and the one that they asked for.

    Raises:
        ValueError: no argument is a dtype.
    """
    asked = [a for a in args if isinstance(a, torch.dtype)]
    if len(asked) != 1:
        raise ValueError(f"multiply was given the dtypes {asked}, wanted one for the output")
    return tuple(dtype if isinstance(a, torch.dtype) else a for a in args), asked[0]


def only_k(codes: torch.Tensor, k: int, first: int, last: int) -> torch.Tensor:
    """The codes (M, K), packed or not, with zeros outside [first, last) of the k's."""
    width = codes.shape[1]
    start, stop = first * width // k, last * width // k
    kept = torch.zeros_like(codes.view(torch.uint8) if codes.element_size() == 1 else codes)
    kept[:, start:stop] = codes.view(kept.dtype)[:, start:stop]
    return kept.view(codes.dtype)


def drop_last_k_block(multiply: Any, codes: torch.Tensor, *rest: Any) -> Any:
    """K 384..511 of 512."""
    return multiply(only_k(codes, 512, 0, 384), *rest)


def last_columns_unwritten(multiply: Any, *args: Any) -> Any:
    """A tail of N."""
    out = multiply(*args)
    poisoned = torch.empty_like(out)
    written = (out.shape[1] - 1) // 128 * 128
    poisoned[:, :written] = out[:, :written]
    return poisoned


def output_shared(loaded: LoadedLinear) -> None:
    """One buffer for each shape."""
    method: Any = loaded.layer.quant_method
    original = method.multiply
    buffers: dict[torch.Size, torch.Tensor] = {}

    def multiply(*args: Any) -> torch.Tensor:
        out: torch.Tensor = original(*args)
        return buffers.setdefault(out.shape, out).copy_(out)

    method.multiply = multiply


def one_column(multiply: Any, *args: Any) -> Any:
    """Column 44 of the second shard, before rounding."""
    wide, dtype = split_dtype(args, torch.float32)
    out = multiply(*wide)
    out[:, 300] *= 1.01
    return out.to(dtype)


def round_twice(multiply: Any, *args: Any) -> Any:
    """Through another 16-bit type."""
    narrow, dtype = split_dtype(args, torch.float16)
    if dtype == torch.float16:
        narrow, dtype = split_dtype(args, torch.bfloat16)
    return multiply(*narrow).to(dtype)


def sums_in_bf16(multiply: Any, codes: torch.Tensor, *rest: Any) -> Any:
    """Two halves of K, 512 wide."""
    first = multiply(only_k(codes, 512, 0, 256), *rest)
    return first + multiply(only_k(codes, 512, 256, 512), *rest)
