"""A linear layer's weight in each quantised format, by the oracles' encoders, as stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from testing.oracles import int8
from testing.oracles.arrays import Float64, Tensors
from testing.oracles.codecs import e2m1, e4m3, fp8, mx, nvfp4
from testing.oracles.linear_formats.scales import as_e4m3


@dataclass(frozen=True)
class Method:
    """How checkpoints of a format look.

    config: `quantization_config` of config.json.
    encode: (weight (N, K), largest |x| that the layer met) → tensors by suffix.
    """

    config: Mapping[str, Any]
    encode: Callable[[Float64, float], Tensors]


def _int8_channel(weight: Float64, amax: float) -> Tensors:
    codes, scale = int8.encode_channel(weight)
    return {"weight": codes, "weight_scale": scale}


def _int8_block(weight: Float64, amax: float) -> Tensors:
    codes, scale = int8.encode_block(weight)
    return {"weight": codes, "weight_scale_inv": scale}


def _fp8_tensor(weight: Float64, amax: float) -> Tensors:
    codes, scale = fp8.quantise_weight_tensor(weight)
    return {
        "weight": as_e4m3(codes),
        "weight_scale": np.asarray(scale, np.float32),
        "input_scale": np.asarray(amax / e4m3.MAX, np.float32),
    }


def _fp8_block(weight: Float64, amax: float) -> Tensors:
    codes, scale = fp8.quantise_weight_block(weight)
    return {"weight": as_e4m3(codes), "weight_scale_inv": scale}


def _nvfp4(weight: Float64, amax: float) -> Tensors:
    made = nvfp4.quantise(weight, nvfp4.global_scale_of(weight))
    return {
        "weight": made.packed,
        "weight_scale": as_e4m3(made.block_scale),
        "weight_scale_2": made.global_scale,
        "input_scale": np.asarray(amax / (e4m3.MAX * e2m1.MAX), np.float32),
    }


def _mxfp4(weight: Float64, amax: float) -> Tensors:
    codes, scales = mx.quantise(weight, "e2m1")
    return {"weight": e2m1.pack(codes), "weight_scale": scales}


_BLOCKS = {"activation_scheme": "dynamic", "weight_block_size": [128, 128]}

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "int8_channel": Method({"quant_method": "w8a8_int8"}, _int8_channel),
        "int8_block": Method({"quant_method": "blockwise_int8"} | _BLOCKS, _int8_block),
        "fp8_tensor": Method({"quant_method": "fp8", "activation_scheme": "static"}, _fp8_tensor),
        "fp8_block": Method({"quant_method": "fp8"} | _BLOCKS, _fp8_block),
        "nvfp4": Method(
            {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4", "group_size": 16}, _nvfp4
        ),
        "mxfp4": Method({"quant_method": "mxfp4"}, _mxfp4),
    }
)
"""{format: what its checkpoints hold}; see docs/methods.md."""


def encode_experts(weight: Float64) -> Tensors:
    """All experts of one matmul as gpt-oss stores them in MXFP4.

    weight: (E, K, N), as its bf16 checkpoints have it.

    Returns:
        "blocks" uint8 (E, N, K / 32, 16), two codes a byte, and "scales" uint8 (E, N, K / 32).
    """
    experts, k, n = weight.shape
    made = [mx.quantise(expert.T, "e2m1") for expert in weight]
    packed = np.stack([e2m1.pack(codes) for codes, _ in made])
    return {
        "blocks": packed.reshape(experts, n, k // mx.BLOCK, mx.BLOCK // 2),
        "scales": np.stack([scales for _, scales in made]),
    }
