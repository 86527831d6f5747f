"""The dense feed-forward part of a decoder layer: two matmuls with a gated activation between."""

from __future__ import annotations

from collections.abc import Callable

import torch

from layers.kernels.capability import Problem, select_backend
from layers.kernels.moe.activation import SILU_AND_MUL
from layers.linear.merged_column import MergedColumnParallelLinear
from layers.linear.row import RowParallelLinear
from layers.quantization.base import QuantizationConfig


class GatedMLP(torch.nn.Module):  # type: ignore[misc]
    """down(silu(gate(x)) · up(x)) (Shazeer 2020, arXiv 2002.05202); h is rounded once.

    Ranks divide the intermediate values; their parts are summed.

    Args:
        hidden_size, intermediate_size: of the whole layer.
        quant_config: chooses the methods by name; None is unquantised.
        params_dtype: of x and the output.
        prefix: the layer's name in the model, such as "model.layers.0.mlp".
        reduce_results: sum over the ranks. Without it each returns its part.
        device: of the parameters; None is torch's default device.

    Raises:
        ValueError: sizes that do not divide over the ranks or the format.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        *,
        quant_config: QuantizationConfig | None = None,
        params_dtype: torch.dtype = torch.bfloat16,
        prefix: str = "",
        reduce_results: bool = True,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        dot = "." if prefix else ""
        self.gate_up_proj = MergedColumnParallelLinear(
            hidden_size,
            [intermediate_size, intermediate_size],
            params_dtype=params_dtype,
            quant_config=quant_config,
            prefix=f"{prefix}{dot}gate_up_proj",
            device=device,
        )
        self.down_proj = RowParallelLinear(
            intermediate_size,
            hidden_size,
            reduce_results=reduce_results,
            params_dtype=params_dtype,
            quant_config=quant_config,
            prefix=f"{prefix}{dot}down_proj",
            device=device,
        )
        self.params_dtype = params_dtype
        self._chosen: dict[torch.device, Callable[..., torch.Tensor]] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (T, hidden) of params_dtype -> (T, hidden).

        Raises:
            RuntimeError: weights not loaded and processed.
            ValueError: x of another width, dtype or device.
        """
        return self.down_proj(self.activate(self.gate_up_proj(x)))

    def activate(self, gate_up: torch.Tensor) -> torch.Tensor:
        """gate_up (T, 2 I of this rank), [gate | up] -> h (T, I of this rank), of params_dtype."""
        found = self._chosen.get(gate_up.device)
        if found is None:
            problem = Problem(torch.float32, k=gate_up.shape[1])
            found = select_backend(SILU_AND_MUL, gate_up.device, problem).load()
            self._chosen[gate_up.device] = found
        return found(gate_up, self.params_dtype)
