"""What the MoE methods with 8-bit weights and activations share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from layers.moe.parameter import ExpertParameter
from layers.moe.quantization.staged import StagedMoEMethod
from layers.parameter import ShardedParameter

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE


class W8A8MoEMethod(StagedMoEMethod):
    """Parameters: `w13_weight`, `w2_weight` of `weight_dtype`, and their float32 scales.

    The kernels read them as the checkpoint lays them out: each expert, and gate and up within it,
    keeps its own scales. Post-load copies nothing unless a subclass says so.
    """

    weight_dtype: torch.dtype
    scale_name: str
    scale_kind: type[ShardedParameter]
    # row_unit and column_unit of the scale.
    scale_units: dict[str, int]

    def create_weights(
        self, layer: FusedMoE, params_dtype: torch.dtype, device: torch.device
    ) -> None:
        """Registers the two weights and their scales.

        Raises:
            ValueError: a rank's part of I cuts through a block of the format.
        """
        for matmul in ("w13", "w2"):
            self._add(layer, f"{matmul}_weight", device, dtype=self.weight_dtype)
            self._add(
                layer,
                f"{matmul}_{self.scale_name}",
                device,
                kind=self.scale_kind,
                dtype=torch.float32,
                **self.scale_units,
            )

    def _add(self, layer: FusedMoE, name: str, device: torch.device, **options: Any) -> None:
        parameter = ExpertParameter(layer.experts, name, device=device, **options)
        layer.register_parameter(name, parameter)
