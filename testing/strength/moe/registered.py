"""Registers every quantisation method that MoE layers have."""

import layers.moe.quantization.fp8
import layers.moe.quantization.int8
import layers.moe.quantization.mxfp4
import layers.moe.quantization.nvfp4
import layers.quantization.blockwise_int8
import layers.quantization.fp8
import layers.quantization.modelopt_fp4
import layers.quantization.mxfp4
import layers.quantization.w8a8_fp8
import layers.quantization.w8a8_int8  # noqa: F401 all register themselves
