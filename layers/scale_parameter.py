"""Parameters that hold a weight's scales: one a row, a block, or a shard."""

from __future__ import annotations

from typing import Any, Self

import torch

from layers.checkpoint_tensor import has_negative
from layers.errors import WeightLoadError
from layers.parameter import ShardedParameter
from layers.sharding import LinearLayout, Shard


class ScaleParameter(ShardedParameter):
    """Scales are finite and have no sign.

    Of E4M3 scales (NVFP4) kernels differ in whether they read that bit; another format's would turn
    its weights round. A scale of 0 is that of a block of zeros.
    """

    must_be_finite = True

    def _check(self, shard: Shard, loaded: torch.Tensor) -> None:
        super()._check(shard, loaded)
        if has_negative(loaded):
            raise WeightLoadError(
                f"tensor for {self.label(shard.id)} holds {float(loaded.float().min()):g}, wanted "
                f"scales of at least 0. Quantise the model again."
            )


class ChannelScaleParameter(ScaleParameter):
    """A scale for each row of the weight: (N, 1). Shards keep their own scales in their rows."""

    def __new__(cls, layout: LinearLayout, **options: Any) -> Self:
        """(N, 1)."""
        return super().__new__(cls, layout, column_unit=0, **options)

    def __init__(self, layout: LinearLayout, **options: Any) -> None:
        super().__init__(layout, column_unit=0, **options)


class BlockScaleParameter(ScaleParameter):
    """A scale for each block of the weight: (ceil(N / row_unit), ceil(K / column_unit))."""


class PerTensorScaleParameter(ScaleParameter):
    """A slot for each shard's 0-dim scale: (shards,). Post-load folds the slots as its kernel asks.

    Checkpoints hold () or (1,) a shard; a fused tensor is one scale for all shards, or (shards,).
    """

    dims = 1

    @classmethod
    def _own_shape(cls, layout: LinearLayout, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (len(layout.shards),)

    def checkpoint_shape(self, shard: Shard) -> tuple[int, ...]:
        """Of one shard: a scalar."""
        return ()

    def _split_fused(self, loaded: torch.Tensor) -> list[tuple[Shard, torch.Tensor]]:
        shards = self.linear_layout.shards
        if loaded.numel() == 1:
            return [(shard, loaded) for shard in shards]
        if tuple(loaded.shape) == (len(shards),):
            return list(zip(shards, loaded.unbind(), strict=True))
        raise WeightLoadError(
            f"fused tensor for '{self.full_name}' has shape {tuple(loaded.shape)}, wanted "
            f"one scale or ({len(shards)},), one a shard. Load single shards with their shard id."
        )

    def _check_shape(self, shard: Shard, loaded: torch.Tensor) -> None:
        if tuple(loaded.shape) not in {(), (1,)}:
            super()._check_shape(shard, loaded)

    def _part(self, shard: Shard, loaded: torch.Tensor) -> torch.Tensor:
        return loaded.reshape(())

    def _copy(self, shard: Shard, loaded: torch.Tensor) -> None:
        self.data[self.linear_layout.shards.index(shard)] = self._part(shard, loaded).detach()
