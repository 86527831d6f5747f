"""What attention to a paged cache refuses before any kernel runs, whatever the cache holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from layers.attention.metadata import AttentionMetadata


class Pages(Protocol):
    """A paged cache."""

    page_size: int

    @property
    def device(self) -> torch.device:
        """Where the pages are."""


def check_tensors(
    layer: str,
    device: torch.device,
    dtype: torch.dtype,
    tensors: Sequence[tuple[str, torch.Tensor, tuple[int, ...]]],
) -> None:
    """Refuses inputs that do not fit. Reads no values, so nothing waits.

    Args:
        layer: its name.
        device, dtype: of all of them.
        tensors: (name, tensor, the shape wanted) of each.

    Raises:
        ValueError: a tensor of another shape, dtype or device, or one that requires a gradient.
    """
    for name, tensor, shape in tensors:
        seen: Any = tuple(tensor.shape)
        if seen != shape or tensor.dtype != dtype or tensor.device != device:
            raise ValueError(
                f"layer '{layer}': {name} is {seen} {tensor.dtype} on {tensor.device}, wanted "
                f"{shape} {dtype} on {device} (tokens of the batch, heads of this rank, sizes of "
                f"the layer)."
            )
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f"layer '{layer}': {name} requires a gradient, which attention to a cache does not "
                f"have: call the layer under torch.no_grad(), or with {name}.detach()."
            )


def check_kind(layer: str, cache: object, kind: type) -> None:
    """Raises ValueError unless the cache is one of that kind."""
    if not isinstance(cache, kind):
        raise ValueError(
            f"layer '{layer}': the cache is a {type(cache).__name__}, wanted the kind "
            f"{kind.__name__}."
        )


def check_pages(
    layer: str, device: torch.device, cache: Pages, metadata: AttentionMetadata
) -> None:
    """Refuses a cache and a batch that are not of each other.

    Raises:
        ValueError: one on another device, or pages of other sizes.
    """
    if cache.device != device:
        raise ValueError(f"layer '{layer}': the cache is on {cache.device}, wanted {device}.")
    if metadata.page_size != cache.page_size:
        raise ValueError(
            f"layer '{layer}': the metadata has pages of {metadata.page_size} tokens, the cache of "
            f"{cache.page_size}. Make the metadata with the cache's page_size."
        )
    if metadata.page_table.device != device:
        raise ValueError(
            f"layer '{layer}': the metadata is on {metadata.page_table.device}, wanted {device}. "
            f"Make it with a page table there."
        )
