"""int8 with a scale for each 128x128 block of the weight, and 1x128 groups of activations.

Checkpoint tensors of a linear layer: `weight` int8 (N, K); `weight_scale_inv` float32
(ceil(N / 128), ceil(K / 128)), which, its name notwithstanding, multiplies:
w ≈ weight · weight_scale_inv. The last block of rows and of columns may be ragged, but a block
never spans two shards or two ranks: such a layer is refused when it is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch

from layers.kernels.int8_block_scaled_mm import BLOCK, INT8_BLOCK_SCALED_MM
from layers.kernels.per_token_group_int8_quant import PER_TOKEN_GROUP_INT8_QUANT
from layers.quantization.base import (
    LinearMethodBase,
    QuantizationConfig,
    check_values,
    common_options,
)
from layers.quantization.prefix import is_layer_ignored
from layers.quantization.registry import register
from layers.quantization.w8a8_linear import W8A8LinearMethod
from layers.scale_parameter import BlockScaleParameter
from layers.sharding import LinearLayout


@register("blockwise_int8")
class BlockwiseInt8Config(QuantizationConfig):
    """Picks `BlockwiseInt8LinearMethod` for every linear layer that is not ignored.

    Args:
        weight_block_size: rows and columns of a scale block; only [128, 128] is supported.
        options: see `QuantizationConfig`.

    Raises:
        ValueError: another block size.
    """

    def __init__(
        self, *, weight_block_size: Sequence[int] = (BLOCK, BLOCK), **options: Any
    ) -> None:
        if not isinstance(weight_block_size, Sequence) or [*weight_block_size] != [BLOCK, BLOCK]:
            raise ValueError(
                f"blockwise_int8: weight_block_size is {weight_block_size!r}, wanted "
                f"[{BLOCK}, {BLOCK}]. Quantise the model again with blocks of that size."
            )
        super().__init__(**options)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, backend: str | None = None) -> Self:
        """Requires `weight_block_size`; reads the keys of `common_options`.

        Raises:
            ValueError: no block size, or one other than [128, 128]; static activations.
        """
        check_values("blockwise_int8", config, activation_scheme=("dynamic",))
        if "weight_block_size" not in config:
            raise ValueError(
                f"blockwise_int8: the quantisation config has no weight_block_size, wanted "
                f"[{BLOCK}, {BLOCK}]; it has {', '.join(config) or 'no keys'}."
            )
        block_size = config["weight_block_size"]
        return cls(weight_block_size=block_size, backend=backend, **common_options(config))

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> LinearMethodBase | None:
        """A new method object for the layer; None if the checkpoint leaves it unquantised."""
        if is_layer_ignored(prefix, self.ignored_layers, self.packed_modules_mapping):
            return None
        return BlockwiseInt8LinearMethod(self.backend)


class BlockwiseInt8LinearMethod(W8A8LinearMethod):
    """Parameters: `weight` (N, K) int8, `weight_scale_inv` float32; see the module."""

    weight_dtype = torch.int8
    quantise_operation = PER_TOKEN_GROUP_INT8_QUANT
    multiply_operation = INT8_BLOCK_SCALED_MM
    scale_name = "weight_scale_inv"

    def create_scale(self, layout: LinearLayout, device: torch.device) -> BlockScaleParameter:
        """(ceil(N / 128), ceil(K / 128)) float32.

        Raises:
            ValueError: a shard or rank boundary cuts through a block.
        """
        return BlockScaleParameter(
            layout,
            name=self.scale_name,
            dtype=torch.float32,
            device=device,
            row_unit=BLOCK,
            column_unit=BLOCK,
        )

    def scales_of_values(self, scale: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """(ceil(N / 128), ceil(K / 128)) -> (N, K)."""
        rows = scale.repeat_interleave(BLOCK, dim=0)[: codes.shape[0]]
        return rows.repeat_interleave(BLOCK, dim=1)[:, : codes.shape[1]]
