"""Collectives over the tensor parallel group; with one rank they return their input."""

from __future__ import annotations

import torch
import torch.distributed as dist

from layers.distributed.parallel_state import get_tensor_parallel_group


def tensor_parallel_all_reduce(x: torch.Tensor) -> torch.Tensor:
    """The sum of `x` (any shape, the same on every rank) over the group.

    A contiguous `x` is overwritten and returned; another is left as it is.
    """
    group = get_tensor_parallel_group()
    if group.process_group is None or x.numel() == 0:
        return x
    x = x.contiguous()
    dist.all_reduce(x, group=group.process_group)
    return x


def tensor_parallel_all_gather(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Joins the ranks' parts along `dim`, in the order of ranks.

    Args:
        x: the rank's part, any shape, the same on every rank.
        dim: the dimension along which the parts lie; it grows by the group's size.

    Raises:
        IndexError: `x` has no such dimension.
    """
    group = get_tensor_parallel_group()
    if group.process_group is None:
        return x
    if not -x.dim() <= dim < x.dim():
        raise IndexError(f"cannot gather along dimension {dim} of a tensor of {x.dim()} dimensions")
    parts = [x] * group.world_size
    if x.numel():
        x = x.contiguous()
        parts = [torch.empty_like(x) for _ in parts]
        dist.all_gather(parts, x, group=group.process_group)
    return torch.cat(parts, dim=dim)
