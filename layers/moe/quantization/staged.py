"""MoE methods that work in stages, each a seam that can be watched: quantise, multiply, activate.

With T tokens, K choices a token, H hidden and I intermediate values; rows between the matmuls are
pairs of token and choice (`layers.kernels.moe.routing`):

    x (T, H) -> quantise_input -> multiply_w13 -> (T·K, 2I) float32 -> activate -> h (T·K, I)
      -> quantise_hidden -> multiply_w2 -> (T·K, H) float32 -> combine -> (T, H)

h is rounded to params_dtype once; the second matmul's result stays in float32 until the choices
are weighted and summed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from layers.kernels.capability import Operation, Problem, select_backend, select_companion
from layers.kernels.moe.activation import ACTIVATIONS
from layers.kernels.moe.combine import MOE_COMBINE
from layers.kernels.moe.grouped import GroupedMultiply
from layers.kernels.moe.routing import Routing
from layers.moe.quantization.base import MoEMethodBase, optional
from layers.moe.topk import TopKOutput

if TYPE_CHECKING:
    from layers.moe.layer import FusedMoE

Quantise = Callable[..., tuple[torch.Tensor, torch.Tensor]]


class StagedMoEMethod(MoEMethodBase):
    """Subclasses name their operations and parameters; everything else is here.

    Attributes, set by post-load:
        quantise_input: x (T, H) -> codes (T, H), scales; None where x stays as it is.
        multiply_w13, multiply_w2: `layers.kernels.moe.grouped.GroupedMultiply`.
        activate: gate_up (T·K, 2I) float32 -> h (T·K, I) of params_dtype.
        quantise_hidden: h (T·K, I) -> codes, scales; None where h stays as it is.
        combine: (y (T·K, H) float32, weights (T, K) float32) -> (T, H) of params_dtype.
    """

    quantise_operation: Operation | None = None
    multiply_operation: Operation
    # The suffix of the weights' scale that the kernels read; None without one.
    scale_name: str | None = None

    quantise_input: Quantise | None = None
    multiply_w13: GroupedMultiply
    activate: Callable[[torch.Tensor], torch.Tensor]
    quantise_hidden: Quantise | None = None
    multiply_w2: GroupedMultiply
    combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

    def process_weights_after_loading(self, layer: FusedMoE) -> None:
        """Chooses a backend for each stage: the matmul's, and for the others the same if it can.

        Raises:
            BackendUnavailable: the backend asked for cannot run this shape on this device.
        """
        experts, dtype = layer.experts, layer.params_dtype
        device = layer.get_parameter("w13_weight").device
        problem = Problem(dtype=dtype, k=experts.hidden_size, n=2 * experts.intermediate_size)
        chosen = select_backend(self.multiply_operation, device, problem, self.backend)
        self.multiply_w13 = self.multiply_w2 = chosen.load()
        self.backends = {self.multiply_operation.name: chosen.name}

        def companion(operation: Operation) -> Callable[..., Any]:
            backend = select_companion(operation, device, problem, chosen.name)
            self.backends[operation.name] = backend.name
            return backend.load()

        self.activate = partial(companion(ACTIVATIONS[layer.activation]), dtype=dtype)
        self.combine = partial(companion(MOE_COMBINE), dtype=dtype)
        if self.quantise_operation is not None:
            self.quantise_input = self.quantise_hidden = companion(self.quantise_operation)

    def apply(self, layer: FusedMoE, x: torch.Tensor, topk: TopKOutput) -> torch.Tensor:
        """x (T, H) of params_dtype, T > 0 -> this rank's part of the output, (T, H)."""
        if self.run is not None:
            return self.run(layer, x, topk)
        routing = Routing.of(topk.ids, layer.experts.experts)
        codes, scales = self.quantise_input(x) if self.quantise_input else (x, None)
        gate_up = self.multiply_w13(codes, scales, *self._tensors(layer, "w13"), routing)
        h = self.activate(gate_up)
        codes, scales = self._quantise_hidden(h, routing)
        y = self.multiply_w2(codes, scales, *self._tensors(layer, "w2"), routing)
        return self.combine(y, topk.weights)

    def _quantise_hidden(
        self, h: torch.Tensor, routing: Routing
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        return self.quantise_hidden(h) if self.quantise_hidden else (h, None)

    def _tensors(
        self, layer: FusedMoE, matmul: str
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Weight, scale and bias. Read at each forward, so that a changed parameter is seen."""
        scale = optional(layer, f"{matmul}_{self.scale_name}") if self.scale_name else None
        # Ranks that split an expert add up: its bias enters once, in the first one's part.
        is_first = matmul == "w13" or layer.experts.parallel.tp_rank == 0
        bias = optional(layer, f"{matmul}_bias") if is_first else None
        return layer._parameters[f"{matmul}_weight"], scale, bias
