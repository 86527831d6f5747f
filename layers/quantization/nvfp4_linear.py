"""NVFP4 linear layers: E2M1 codes, an E4M3 scale a block of 16, a float32 scale a shard.

Checkpoint tensors of each shard:

- `weight` uint8 (N, K / 2), two codes a byte, the even column in the low nibble;
- `weight_scale` float8_e4m3fn (N, K / 16), row-major;
- `weight_scale_2` float32 0-dim, with w ≈ code · weight_scale · weight_scale_2;
- `input_scale` float32 0-dim, the activations' global scale: their calibrated amax / (448 · 6).

**Shards whose scales differ.** ModelOpt gives the shards of a fused layer (q, k, v; gate, up) equal
`weight_scale_2` only where it was told that they are fused; peers that fold unequal ones with max()
are then wrong by their ratio. Here every shard keeps its own: alpha = weight_scale_2[shard] ·
input_scale, so the weights lose nothing. Kernels of ours take an alpha for each column.
FlashInfer's take one for the whole matmul: post-load gives each run of neighbouring shards with
equal alphas buffers of its own, and forward launches one matmul a run and a concatenation. A layer
whose shards agree is one run.

`input_scale` is the largest of the shards', as x is quantised once for all of them. For a shard
whose own was r times smaller, block scales come out r times smaller than it was calibrated for.
That costs no bit while they are normal in E4M3 (2^-6 to 448), which is down to blocks of
r · 2^-14.8 of the shard's own calibrated amax; below, they lose up to log2(r) of their four
significant bits. What would have saturated no longer does.

**Backends.** `flashinfer` (sm100 and newer; `flashinfer_cudnn`, `flashinfer_cutlass` and
`flashinfer_trtllm` name one of its kernels) and `torch` quantise x: W4A4. `triton`, the default on
sm80 to sm90, does not: x stays as it is, `input_scale` is not used, and outputs are nearer to the
unquantised layer's than W4A4's. FlashInfer's take no bias: such a layer is multiplied by the next
backend. No backend keeps a dequantised weight: `torch` dequantises at most 16 MiB at a time.
FlashInfer's backends have never run: they need a GPU that was not at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from layers.copyable import replace_parameter
from layers.kernels.capability import Operation, select_backend, select_companion
from layers.kernels.fp4.alpha_runs import arrange_runs
from layers.kernels.fp4.dequantise import dequantise_swizzled
from layers.kernels.fp4.nvfp4_mm import (
    NVFP4_MM,
    RUN_COLUMN_MULTIPLE,
    RUN_ROW_MULTIPLE,
    load_shuffle,
)
from layers.kernels.fp4.nvfp4_quant import NVFP4_QUANT
from layers.kernels.fp4.scales import NVFP4
from layers.kernels.fp4.swizzle import swizzle
from layers.kernels.fp4.w4a16_mm import W4A16_MM
from layers.parameter import ModelWeightParameter, check_contiguous
from layers.quantization.base import LinearMethodBase
from layers.quantization.fp4_layer import (
    alpha_of,
    check_input_scale,
    check_no_gradient,
    check_whole_blocks,
    problem_of,
)
from layers.scale_parameter import BlockScaleParameter, PerTensorScaleParameter
from layers.sharding import LinearLayout

GROUP = NVFP4.group


_MATMULS = {backend.name: backend for backend in NVFP4_MM.backends}
_WEIGHT_ONLY = {b.name: b for b in W4A16_MM.backends if b.name not in _MATMULS}

# What a layer can be multiplied by, best first; its choice says which operations it is made of.
NVFP4_LINEAR = Operation(
    "nvfp4_linear",
    (
        *(b for name, b in _MATMULS.items() if name != "torch"),
        *_WEIGHT_ONLY.values(),
        _MATMULS["torch"],
    ),
)


class Nvfp4LinearMethod(LinearMethodBase):
    """Parameters as in the module's docstring; after post-load, in the kernels' layout:

    - `weight` (N, K / 2) uint8, unchanged;
    - `weight_scale` swizzled (N128, C4) uint8, see `layers.kernels.fp4.swizzle`;
    - `weight_scale_2` (N,) float32, the factor of each output column: alpha where x is quantised,
      the shard's weight_scale_2 where it is not;
    - `input_scale` (1,) float32, the largest of the shards'; untouched where x is not quantised.

    For FlashInfer, `weight`, `weight_scale` and `weight_scale_2` (runs,) are arranged by runs; see
    `layers.kernels.fp4.alpha_runs`.

    Attributes, set by post-load:
        quantise: x (M, K) -> packed codes (M, K / 2) uint8, swizzled scales uint8; None if x is not
            quantised.
        multiply: (codes, scales, or x alone; weight, weight_scale, weight_scale_2, dtype, bias)
            -> (M, N).
        backends: names of the backends by operation.
    """

    quantise: Callable[..., Any] | None
    multiply: Callable[..., Any]
    _weight: torch.Tensor
    _weight_scale: torch.Tensor
    _alpha: torch.Tensor
    _global_scale: torch.Tensor | None
    _layout: LinearLayout
    _dtype: torch.dtype

    def __init__(self, backend: str | None = None) -> None:
        self.backend = backend
        self.backends: dict[str, str] = {}

    def create_weights(
        self,
        layer: torch.nn.Module,
        layout: LinearLayout,
        params_dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Registers the four tensors of the checkpoint.

        Raises:
            ValueError: K, or a rank's part of it, is no multiple of 16.
        """
        check_whole_blocks(layout, NVFP4)
        shared: dict[str, Any] = {"device": device}
        layer.weight = ModelWeightParameter(
            layout, name="weight", dtype=torch.uint8, column_unit=2, **shared
        )
        layer.weight_scale = BlockScaleParameter(
            layout,
            name="weight_scale",
            dtype=torch.float8_e4m3fn,
            column_unit=GROUP,
            **shared,
        )
        for name in ("weight_scale_2", "input_scale"):
            scale = PerTensorScaleParameter(layout, name=name, dtype=torch.float32, **shared)
            layer.register_parameter(name, scale)
        self._layout = layout
        self._dtype = params_dtype

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Chooses the backends and replaces the scales as the class says.

        Raises:
            BackendUnavailable: the backend asked for cannot run this shape on this device.
            ValueError: a parameter that is not contiguous, which the kernels take for granted; an
                input_scale that is not positive, or a product of scales out of float32's range.
        """
        check_contiguous(layer)
        weight = layer.get_parameter("weight").data
        problem = problem_of(layer, self._dtype)
        chosen = select_backend(NVFP4_LINEAR, weight.device, problem, self.backend)
        factors = shard_scales = layer.get_parameter("weight_scale_2").data
        if chosen.name in _WEIGHT_ONLY:
            self.backends = {W4A16_MM.name: chosen.name}
            self.quantise = None
            self.multiply = partial(chosen.load(), block=NVFP4)
        else:
            # Other quantisers than Triton's lose a NaN, or are slower.
            preferred = chosen.name if chosen.name == "torch" else "triton"
            quantise = select_companion(NVFP4_QUANT, weight.device, problem, preferred)
            self.backends = {NVFP4_QUANT.name: quantise.name, NVFP4_MM.name: chosen.name}
            input_scale = check_input_scale(layer).max().reshape(1)
            name = getattr(layer.get_parameter("weight_scale_2"), "full_name", "weight_scale_2")
            factors = alpha_of(name, factors, input_scale)
            input_scale = replace_parameter(layer, "input_scale", input_scale)
            self.quantise = partial(quantise.load(), input_scale=input_scale)
            self.multiply = chosen.load()
        self._arrange(layer, factors, chosen.name)
        # Alphas hold the input's scale too, and dividing by it again would round.
        arranged = chosen.name in RUN_ROW_MULTIPLE
        self._global_scale = None if arranged else shard_scales

    def _by_row(self, by_shard: torch.Tensor) -> torch.Tensor:
        rows = torch.tensor([s.rows.size for s in self._layout.shards], device=by_shard.device)
        return by_shard.repeat_interleave(rows)

    def _arrange(self, layer: torch.nn.Module, factors: torch.Tensor, backend: str) -> None:
        """Replaces weight and scales by those in the order of the backend's kernel."""
        weight = layer.get_parameter("weight").data
        scales = layer.get_parameter("weight_scale").data.view(torch.uint8)
        alpha = self._by_row(factors)
        if backend in RUN_ROW_MULTIPLE:
            arranged = arrange_runs(
                *(weight, scales, alpha),
                row_multiple=RUN_ROW_MULTIPLE[backend],
                column_multiple=RUN_COLUMN_MULTIPLE,
                shuffle=load_shuffle(backend),
            )
            self.multiply = partial(self.multiply, runs=arranged.runs)
            weight = replace_parameter(layer, "weight", arranged.weight)
            scales, alpha = arranged.scale, arranged.alpha
        else:
            scales = swizzle(scales)
        self._weight = weight
        self._weight_scale = replace_parameter(layer, "weight_scale", scales)
        self._alpha = replace_parameter(layer, "weight_scale_2", alpha)

    def apply(
        self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """x (M, K), bias (N,) -> (M, N), all of params_dtype.

        Raises:
            ValueError: a gradient is asked for; autograd would not see through the codes.
        """
        check_no_gradient(x)
        operands = (x,) if self.quantise is None else self.quantise(x)
        out: torch.Tensor = self.multiply(
            *operands, self._weight, self._weight_scale, self._alpha, self._dtype, bias
        )
        return out

    def dequantised_weight(self, layer: torch.nn.Module) -> torch.Tensor:
        """Codes times both scales, (N, K) float32; none where FlashInfer's kernel arranged them.

        Raises:
            ValueError: it did.
        """
        if self._global_scale is None:
            return super().dequantised_weight(layer)
        values = dequantise_swizzled(self._weight, self._weight_scale, NVFP4)
        return values.mul_(self._by_row(self._global_scale).view(-1, 1))
