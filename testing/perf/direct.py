"""The kernels of a layer, called without it: packages' functions as they document them.

Scales and weights are brought into the form that the function takes beforehand. Where the kernel is
ours (Triton, torch), the function that launches it is the direct call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from layers.kernels.fp8.group_scales import with_whole_rows
from layers.linear.base import LinearBase
from testing.perf.random_layer import DTYPE

Matmul = Callable[..., Any]


def quantiser(layer: LinearBase) -> Callable[[torch.Tensor], tuple[Any, ...]]:
    """x (M, K) -> what the matmul multiplies; x itself where the layer does not quantise it."""
    method: Any = layer.quant_method
    return method.quantise if method.quantise is not None else lambda x: (x,)


def matmul(layer: LinearBase) -> Matmul:
    """What `quantiser` returns, as arguments -> (M, N)."""
    method: Any = layer.quant_method
    name, backend = list(method.backends.items())[-1]
    make = _PACKAGES.get((name, backend))
    if make is not None:
        return make(layer)
    if hasattr(method, "_scale"):
        weight, scale, multiply = method._weight, method._scale, method.multiply
        return lambda codes, x_scale: multiply(codes, weight, x_scale, scale, DTYPE, None)
    if hasattr(method, "_alpha"):
        tensors = (method._weight, method._weight_scale, method._alpha)
    else:
        tensors = (method._weight, method._weight_scale, None)
    multiply = method.multiply
    return lambda *operands: multiply(*operands, *tensors, DTYPE, None)


def _tensors(layer: LinearBase) -> tuple[torch.Tensor, torch.Tensor]:
    method: Any = layer.quant_method
    return method._weight, method._scale


def _scaled_mm_by_blocks(layer: LinearBase) -> Matmul:
    weight, scale = _tensors(layer)
    by_column, kernel = scale.t(), torch._scaled_mm

    def multiply(codes: torch.Tensor, x_scale: torch.Tensor) -> torch.Tensor:
        # It takes rows by fours only.
        codes, x_scale = with_whole_rows(codes, x_scale)
        return kernel(codes, weight, x_scale, by_column, out_dtype=DTYPE, use_fast_accum=False)

    return multiply


def _scaled_mm(layer: LinearBase) -> Matmul:
    weight, scale = _tensors(layer)
    by_column, kernel = scale.t(), torch._scaled_mm
    return lambda codes, x_scale: kernel(
        codes, weight, x_scale, by_column, out_dtype=DTYPE, use_fast_accum=False
    )


def _sgl_rows(function: str, layer: LinearBase) -> Matmul:
    import sgl_kernel

    weight, scale = _tensors(layer)
    kernel = getattr(sgl_kernel, function)
    return lambda codes, x_scale: kernel(codes, weight, x_scale, scale, DTYPE)


def _sgl_blocks(layer: LinearBase) -> Matmul:
    import sgl_kernel

    weight, scale = _tensors(layer)
    by_column, kernel = scale.t(), sgl_kernel.fp8_blockwise_scaled_mm
    return lambda codes, x_scale: kernel(codes, weight, x_scale, by_column, DTYPE)


def _flashinfer_tensor(layer: LinearBase) -> Matmul:
    from flashinfer import bmm_fp8

    weight, scale = _tensors(layer)
    batch = weight[None]
    return lambda codes, x_scale: bmm_fp8(codes[None], batch, x_scale, scale, DTYPE)


_PACKAGES: dict[tuple[str, str], Callable[[LinearBase], Matmul]] = {
    ("fp8_scaled_mm", "torch_scaled_mm"): _scaled_mm,
    ("fp8_block_scaled_mm", "torch_scaled_mm"): _scaled_mm_by_blocks,
    ("int8_scaled_mm", "sgl_kernel"): partial(_sgl_rows, "int8_scaled_mm"),
    ("fp8_scaled_mm", "sgl_kernel"): partial(_sgl_rows, "fp8_scaled_mm"),
    ("fp8_block_scaled_mm", "sgl_kernel"): _sgl_blocks,
    ("fp8_scaled_mm", "flashinfer"): _flashinfer_tensor,
}
