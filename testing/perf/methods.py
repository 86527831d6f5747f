"""The linear methods whose forward is timed, as a checkpoint's config names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import layers.quantization.blockwise_int8
import layers.quantization.fp8
import layers.quantization.modelopt_fp4
import layers.quantization.mxfp4
import layers.quantization.mxfp8
import layers.quantization.w8a8_fp8
import layers.quantization.w8a8_int8  # noqa: F401 they register themselves
from layers.kernels.capability import Operation
from layers.kernels.fp4.mxfp4_mm import MXFP4_MM
from layers.kernels.fp4.w4a16_mm import W4A16_MM
from layers.kernels.fp8.fp8_block_scaled_mm import FP8_BLOCK_SCALED_MM
from layers.kernels.fp8.fp8_scaled_mm import FP8_SCALED_MM
from layers.kernels.fp8.mxfp8_scaled_mm import MXFP8_SCALED_MM
from layers.kernels.int8_block_scaled_mm import INT8_BLOCK_SCALED_MM
from layers.kernels.int8_scaled_mm import INT8_SCALED_MM
from layers.quantization.nvfp4_linear import NVFP4_LINEAR


@dataclass(frozen=True)
class TimedMethod:
    """A method, the operation whose backends it can run on, and how many shards the layer fuses."""

    name: str
    config: Mapping[str, object]
    operation: Operation
    shards: int = 1


BLOCKS = {"weight_block_size": [128, 128]}
STATIC = {"quant_method": "fp8", "activation_scheme": "static"}
DYNAMIC = {"quant_method": "fp8", "activation_scheme": "dynamic"}

METHODS = [
    TimedMethod("int8 channel", {"quant_method": "w8a8_int8"}, INT8_SCALED_MM),
    TimedMethod("int8 block", {"quant_method": "blockwise_int8", **BLOCKS}, INT8_BLOCK_SCALED_MM),
    TimedMethod("fp8 tensor, static", STATIC, FP8_SCALED_MM),
    TimedMethod("fp8 tensor, static, two shards", STATIC, FP8_SCALED_MM, shards=2),
    TimedMethod("fp8 tensor, dynamic", DYNAMIC, FP8_SCALED_MM),
    TimedMethod("fp8 channel", {"quant_method": "w8a8_fp8"}, FP8_SCALED_MM),
    TimedMethod("fp8 block", {**DYNAMIC, **BLOCKS}, FP8_BLOCK_SCALED_MM),
    TimedMethod("mxfp8", {"quant_method": "mxfp8"}, MXFP8_SCALED_MM),
    TimedMethod("nvfp4", {"quant_method": "modelopt_fp4"}, NVFP4_LINEAR),
    TimedMethod("mxfp4, weight only", {"quant_method": "mxfp4"}, W4A16_MM),
    TimedMethod("mxfp4", {"quant_method": "mxfp4", "activation_scheme": "dynamic"}, MXFP4_MM),
]
