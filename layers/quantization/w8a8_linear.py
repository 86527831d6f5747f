"""What the linear methods with 8-bit weights and activations share: a quantiser and a matmul."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from layers.kernels.capability import Backend, Operation, Problem, select_backend, select_companion
from layers.parameter import ModelWeightParameter, ShardedParameter, check_contiguous
from layers.quantization.base import LinearMethodBase
from layers.sharding import LinearLayout


class W8A8LinearMethod(LinearMethodBase):
    """Quantises activations, then multiplies codes and scales; subclasses say how scales lie.

    The kernels read the parameters `weight` (N, K) and the scale as the checkpoint lays them out,
    so post-load copies nothing: it chooses the backends and keeps views. A subclass whose kernels
    want other scales makes them in `prepare`.

    Attributes, set by post-load:
        quantise: x (M, K) -> codes (M, K) of weight_dtype, scales.
        multiply: (codes, weight (K, N), x scales, weight scale, dtype, bias) -> (M, N).
        backends: names of the two backends by operation.
    """

    weight_dtype: torch.dtype
    quantise_operation: Operation
    multiply_operation: Operation
    scale_name: str

    quantise: Callable[..., Any]
    multiply: Callable[..., Any]
    _weight: torch.Tensor
    _scale: torch.Tensor
    _dtype: torch.dtype

    def __init__(self, backend: str | None = None) -> None:
        self.backend = backend
        self.backends: dict[str, str] = {}

    def create_scale(self, layout: LinearLayout, device: torch.device) -> ShardedParameter:
        """The parameter for the weight's scales.

        Raises:
            ValueError: the layout cuts through a block of the format.
        """
        raise NotImplementedError

    def create_weights(
        self,
        layer: torch.nn.Module,
        layout: LinearLayout,
        params_dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Registers `weight` (N, K) and the scale.

        Raises:
            ValueError: the layout cuts through a block of the format.
        """
        scale = self.create_scale(layout, device)
        weight = ModelWeightParameter(layout, name="weight", dtype=self.weight_dtype, device=device)
        layer.register_parameter("weight", weight)
        layer.register_parameter(self.scale_name, scale)
        self._dtype = params_dtype

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Chooses the two backends, and brings scales into their layout.

        Raises:
            BackendUnavailable: the backend asked for cannot run this shape on this device.
            ValueError: a parameter that is not contiguous, which the kernels take for granted.
        """
        check_contiguous(layer)
        weight = layer.get_parameter("weight").data
        problem = self.problem(layer)
        multiply = select_backend(self.multiply_operation, weight.device, problem, self.backend)
        quantiser = self.quantiser()
        quantise = select_companion(quantiser, weight.device, problem, multiply.name)
        self.backends = {
            quantiser.name: quantise.name,
            self.multiply_operation.name: multiply.name,
        }
        self.quantise = quantise.load()
        self.multiply = multiply.load()
        self.prepare(layer, multiply)
        self._weight = weight.t()
        self._scale = layer.get_parameter(self.scale_name).data

    def quantiser(self) -> Operation:
        """Of activations. No attribute: a layer that holds an operation cannot be saved whole."""
        return self.quantise_operation

    def problem(self, layer: torch.nn.Module) -> Problem:
        """What the layer asks of its kernels, once it is loaded."""
        rows, columns = layer.get_parameter("weight").shape
        has_bias = getattr(layer, "bias", None) is not None
        return Problem(dtype=self._dtype, k=columns, n=rows, bias=has_bias)

    def prepare(self, layer: torch.nn.Module, multiply: Backend) -> None:
        """Replaces what the matmul wants in another layout; nothing, unless a subclass says so."""

    def apply(
        self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """x (M, K), bias (N,) -> (M, N), all of params_dtype.

        Raises:
            ValueError: a gradient is asked for; autograd would see no more than each row's scale.
        """
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f"x requires a gradient, which {str(self.weight_dtype)[6:]} codes do not have: "
                f"call the layer under torch.no_grad(), or with x.detach()."
            )
        codes, scales = self.quantise(x)
        out: torch.Tensor = self.multiply(
            codes, self._weight, scales, self._scale, self._dtype, bias
        )
        return out

    def dequantised_weight(self, layer: torch.nn.Module) -> torch.Tensor:
        """Codes times their scales, (N, K) float32."""
        codes = self._weight.t().float()
        return codes.mul_(self.scales_of_values(self._scale, codes))

    def scales_of_values(self, scale: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """The scale as post-load keeps it -> float32 that broadcasts to codes (N, K).

        Here (N, 1) or (1, 1), as it is; a subclass with blocks spreads them.
        """
        return scale
