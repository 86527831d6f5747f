"""The checkpoint tensors of a gated delta layer, and which part of each a rank holds."""

from __future__ import annotations

from typing import Any, Self

import torch

from layers.parameter import FLOAT_DTYPES, ShardedParameter
from layers.sharding import LinearLayout, Shard, Span


class ConvWeightParameter(ShardedParameter):
    """A depthwise convolution's weight (C, 1, W), one row a channel, as torch.nn.Conv1d has it.

    Its memory lies taps first, so that kernels read neighbouring channels together.
    """

    def __new__(cls, layout: LinearLayout, **options: Any) -> Self:
        """(C of this rank, 1, W)."""
        parameter: Self = super().__new__(cls, layout, **options)
        parameter.data = parameter.data.permute(2, 1, 0).contiguous().permute(2, 1, 0)
        return parameter

    @classmethod
    def _own_shape(cls, layout: LinearLayout, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], 1, shape[1])

    def checkpoint_shape(self, shard: Shard) -> tuple[int, ...]:
        """(C of all ranks, 1, W)."""
        return (shard.rows.total, 1, self.linear_layout.inputs.total)

    def _part(self, shard: Shard, loaded: torch.Tensor) -> torch.Tensor:
        return loaded.narrow(0, shard.rows.start, shard.rows.size)


class HeadParameter(ShardedParameter):
    """A float32 value for each value head: (Hv,). Checkpoints of fewer bits widen exactly."""

    must_be_finite = True
    dims = 1


def head_parameter(layer: str, name: str, heads: Span, device: torch.device) -> HeadParameter:
    """The parameter of a value for each of this rank's heads, empty.

    Args:
        layer: its prefix, for messages.
        name: the checkpoint's name within the layer.
        heads: this rank's part of all value heads.
        device: of the parameter.
    """
    layout = LinearLayout.stacked(layer, [(None, heads)], Span.whole(1))
    return HeadParameter(layout, name=name, dtype=torch.float32, device=device)


def conv_layout(name: str, key: Span, value: Span, width: int) -> LinearLayout:
    """Of [q | k | v] rows: each of the three divides over the ranks by itself, by heads.

    Args:
        name: the layer's prefix, for messages.
        key, value: this rank's rows of k (and of q), and of v.
        width: taps of the convolution.
    """
    return LinearLayout.stacked(name, [("q", key), ("k", key), ("v", value)], Span.whole(width))


def conv_weight(
    layout: LinearLayout, dtype: torch.dtype, device: torch.device
) -> ConvWeightParameter:
    """The parameter of `conv1d.weight`, empty."""
    return ConvWeightParameter(
        layout, name="conv1d.weight", dtype=dtype, device=device, accepted_dtypes=FLOAT_DTYPES
    )
