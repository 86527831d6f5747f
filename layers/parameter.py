"""Parameters that fill themselves from checkpoint tensors, one shard at a time.

A parameter knows how many weight rows and columns one of its elements stands for. From that and
the layer's `LinearLayout` follow its shape, the shape each checkpoint tensor must have, and the
slice that this rank takes. It also remembers which shards it has received.
"""

from __future__ import annotations

from typing import Any, Self

import torch

from layers.checkpoint_tensor import check_cast, check_dense
from layers.copyable import CopyableParameter
from layers.errors import WeightLoadError
from layers.non_finite import has_non_finite
from layers.sharding import LinearLayout, Shard, ShardId, ceil_div

FLOAT_DTYPES = frozenset({torch.float32, torch.float16, torch.bfloat16})


def check_dtype(layer: str, params_dtype: torch.dtype) -> None:
    """Refuses a dtype that no layer computes in.

    Raises:
        ValueError: naming the layer, the value and those that are possible.
    """
    if not isinstance(params_dtype, torch.dtype) or params_dtype not in FLOAT_DTYPES:
        raise ValueError(
            f"layer '{layer}': params_dtype is {params_dtype!r}, wanted torch.float16, "
            f"torch.bfloat16 or torch.float32 (the dtype of inputs and outputs)."
        )


class ShardedParameter(CopyableParameter):
    """A rank's part of one checkpoint tensor, or of the several that one layer fuses.

    Dimension 0 follows the layer's rows (N), dimension 1 its columns (K).

    Args:
        layout: the layer's shards and the rank's part of each.
        name: the checkpoint's name for the tensor within the layer, such as "weight_scale".
        dtype, device: of the parameter.
        row_unit: rows of the weight that one element stands for.
        column_unit: columns of the weight that one element stands for; 0 for a dimension of
            length 1 that does not depend on K.
        accepted_dtypes: dtypes of checkpoint tensors that may be cast to `dtype`; by default
            only `dtype` itself, and for a float32 scale those that widen to it exactly.

    Raises:
        ValueError: a shard or rank boundary cuts through an element.
    """

    # Scales set this: one NaN or Inf would spread to a whole row, block or layer of outputs.
    must_be_finite = False
    # 1 leaves dimension 1 out.
    dims = 2

    def __new__(
        cls,
        layout: LinearLayout,
        *,
        dtype: torch.dtype,
        device: torch.device | str | None = None,
        row_unit: int = 1,
        column_unit: int = 1,
        **_: Any,
    ) -> Self:
        """Allocates the rank's tensor; `__init__` describes it."""
        shape = (ceil_div(layout.rows, row_unit), _columns(layout.inputs.size, column_unit))
        data = torch.empty(cls._own_shape(layout, shape[: cls.dims]), dtype=dtype, device=device)
        parameter: Self = super().__new__(cls, data, requires_grad=False)
        return parameter

    def __init__(
        self,
        layout: LinearLayout,
        *,
        name: str,
        dtype: torch.dtype,
        device: torch.device | str | None = None,
        row_unit: int = 1,
        column_unit: int = 1,
        accepted_dtypes: frozenset[torch.dtype] | None = None,
    ) -> None:
        layout.check_blocks(name, row_unit, column_unit or 1)
        widens = self.must_be_finite and dtype is torch.float32
        self.full_name = f"{layout.name}.{name}" if layout.name else name
        self.linear_layout = layout
        self.row_unit = row_unit
        self.column_unit = column_unit
        self.declared_dtype = dtype
        self.accepted_dtypes = accepted_dtypes or (FLOAT_DTYPES if widens else frozenset({dtype}))
        self.loaded_shards: set[ShardId] = set()

    @property
    def missing_shards(self) -> tuple[ShardId, ...]:
        """Ids of the shards that no checkpoint tensor has filled yet, in the layer's order."""
        return tuple(i for i in self.linear_layout.shard_ids if i not in self.loaded_shards)

    def load(self, loaded: torch.Tensor, shard_id: ShardId = None) -> None:
        """Copies this rank's slice of a full checkpoint tensor; on an error, nothing of it.

        Args:
            loaded: the tensor as the checkpoint holds it, unsliced, on any device.
            shard_id: the shard it is; None for the only shard, or for a tensor that holds all
                shards, one after the other along dimension 0.

        Raises:
            WeightLoadError: unknown shard, loaded before, wrong dtype or shape, NaN in a scale, no
                dense tensor with values, or values that the dtype does not hold; or the parameter
                itself was converted, or has no memory.
        """
        self.fill(self.prepare(loaded, shard_id))

    def prepare(
        self, loaded: torch.Tensor, shard_id: ShardId = None
    ) -> list[tuple[Shard, torch.Tensor]]:
        """The shards of a checkpoint tensor for `fill`, once nothing can go wrong any more.

        Raises:
            WeightLoadError: as `load`.
        """
        self.check_own()
        pieces = self.check(loaded, shard_id)
        for shard, piece in pieces:
            check_cast(self.label(shard.id), self._part(shard, piece), self.dtype)
        return pieces

    def fill(self, pieces: list[tuple[Shard, torch.Tensor]]) -> None:
        """Copies this rank's part of each shard, as `prepare` returned them."""
        for shard, piece in pieces:
            self._copy(shard, piece)
            self.loaded_shards.add(shard.id)

    def check(
        self, loaded: torch.Tensor, shard_id: ShardId = None
    ) -> list[tuple[Shard, torch.Tensor]]:
        """The shards of a checkpoint tensor, once all are found right; copies nothing.

        Raises:
            WeightLoadError: as `load`, but for the parameter itself.
        """
        check_dense(self.label(shard_id), loaded)
        if shard_id is None and len(self.linear_layout.shards) > 1:
            pieces = self._split_fused(loaded)
        else:
            pieces = [(self._shard(shard_id), loaded)]
        for shard, piece in pieces:
            self._check(shard, piece)
        return pieces

    def weight_loader(
        self, param: ShardedParameter, loaded_weight: torch.Tensor, shard_id: ShardId = None
    ) -> None:
        """`load`, as the field's model files call it: param.weight_loader(param, tensor, shard)."""
        param.load(loaded_weight, shard_id)

    def check_own(self) -> None:
        """Refuses a parameter that no longer is as it was declared.

        Raises:
            WeightLoadError: another dtype, or on the meta device.
        """
        if self.is_meta:
            raise WeightLoadError(
                f"parameter '{self.full_name}' is on the meta device, which holds no values. Build "
                f"the layer with device= of the device that it is to run on."
            )
        if self.dtype is not self.declared_dtype:
            raise WeightLoadError(
                f"parameter '{self.full_name}' has dtype {self.dtype}, wanted "
                f"{self.declared_dtype}: its layer was converted. Leave out .half(), .bfloat16() "
                f"or .to(dtype), build the layer with params_dtype=, and load it again."
            )

    def checkpoint_shape(self, shard: Shard) -> tuple[int, ...]:
        """Shape of the full checkpoint tensor of `shard`, before any slicing."""
        rows = ceil_div(shard.rows.total, self.row_unit)
        return (rows, _columns(self.linear_layout.inputs.total, self.column_unit))[: self.dim()]

    def label(self, shard_id: ShardId) -> str:
        """The parameter's name for messages, with the shard where there are several."""
        return f"'{self.full_name}'" + (f" shard {shard_id!r}" if shard_id is not None else "")

    @classmethod
    def _own_shape(cls, layout: LinearLayout, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    def _shard(self, shard_id: ShardId) -> Shard:
        for shard in self.linear_layout.shards:
            if shard.id == shard_id and type(shard.id) is type(shard_id):
                return shard
        known = ", ".join(repr(i) for i in self.linear_layout.shard_ids)
        raise WeightLoadError(
            f"parameter '{self.full_name}' has no shard {shard_id!r}; it has {known}. Correct the "
            f"shard id, or the packed_modules_mapping that it comes from."
        )

    def _split_fused(self, loaded: torch.Tensor) -> list[tuple[Shard, torch.Tensor]]:
        shapes = [self.checkpoint_shape(shard) for shard in self.linear_layout.shards]
        sizes = [shape[0] for shape in shapes]
        wanted = (sum(sizes), *shapes[0][1:])
        if tuple(loaded.shape) != wanted:
            raise WeightLoadError(
                f"fused tensor for '{self.full_name}' has shape {tuple(loaded.shape)}, "
                f"wanted {wanted}: shards {list(self.linear_layout.shard_ids)} of {sizes} rows. "
                f"Load single shards with their shard id, or check the model's configuration."
            )
        return list(zip(self.linear_layout.shards, loaded.split(sizes), strict=True))

    def _check(self, shard: Shard, loaded: torch.Tensor) -> None:
        label = self.label(shard.id)
        if shard.id in self.loaded_shards:
            raise WeightLoadError(
                f"parameter {label} was loaded twice. Remove the second checkpoint tensor, or call "
                f"layers.weights.begin_weight_reload() before loading other weights."
            )
        if loaded.dtype not in self.accepted_dtypes:
            wanted = " or ".join(sorted(str(d) for d in self.accepted_dtypes))
            raise WeightLoadError(
                f"tensor for {label} has dtype {loaded.dtype}, wanted {wanted}. Check "
                f"that the quantisation config fits the checkpoint."
            )
        self._check_shape(shard, loaded)
        if self.must_be_finite and has_non_finite(loaded):
            raise WeightLoadError(
                f"tensor for {label} holds NaN or Inf, wanted finite scales. "
                f"Quantise the model again."
            )

    def _check_shape(self, shard: Shard, loaded: torch.Tensor) -> None:
        wanted = self.checkpoint_shape(shard)
        if tuple(loaded.shape) != wanted:
            raise WeightLoadError(
                f"tensor for {self.label(shard.id)} has shape {tuple(loaded.shape)}, "
                f"wanted {wanted} (the full tensor: the loader takes the rank's part itself). "
                f"Check the model's configuration."
            )

    def _part(self, shard: Shard, loaded: torch.Tensor) -> torch.Tensor:
        """The slice of a shard's full tensor that this rank holds."""
        rows = shard.rows.grouped(self.row_unit)
        part = loaded.narrow(0, rows.start, rows.size)
        if self.dim() > 1 and self.column_unit:
            columns = self.linear_layout.inputs.grouped(self.column_unit)
            part = part.narrow(1, columns.start, columns.size)
        return part

    def _copy(self, shard: Shard, loaded: torch.Tensor) -> None:
        part = self._part(shard, loaded)
        # Without detach a tensor that requires a gradient would keep the checkpoint's memory.
        self.data.narrow(0, shard.offset // self.row_unit, part.shape[0]).copy_(part.detach())


def check_contiguous(layer: torch.nn.Module) -> None:
    """Refuses parameters with gaps or of another order, which the kernels would misread.

    Raises:
        ValueError: naming the parameter.
    """
    for name, parameter in layer.named_parameters(recurse=False):
        if not parameter.is_contiguous():
            raise ValueError(
                f"parameter '{getattr(parameter, 'full_name', name)}' has shape "
                f"{tuple(parameter.shape)} and strides {parameter.stride()}, wanted contiguous "
                f"memory. Leave the parameter's memory as the layer made it, and load it again."
            )


def _columns(inputs: int, column_unit: int) -> int:
    return ceil_div(inputs, column_unit) if column_unit else 1


class ModelWeightParameter(ShardedParameter):
    """A weight (N, K); with `column_unit=2` two values to a byte: (N, K / 2)."""


class BiasParameter(ShardedParameter):
    """A bias (N,)."""

    dims = 1
