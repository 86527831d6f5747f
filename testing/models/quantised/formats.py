"""Quantised checkpoints of the reference models: as stored, by their values, and as inputs go."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from testing.harness.device import pool
from testing.oracles import int8
from testing.oracles.arrays import Float64, Tensors
from testing.oracles.codecs import e2m1, e4m3, fp8, mx, nvfp4
from testing.oracles.formats import LinearFormat
from testing.oracles.int8_formats import Int8Block, Int8Channel
from testing.oracles.linear_formats.fp8 import Fp8Block, Fp8Channel, Fp8Tensor
from testing.oracles.linear_formats.mx import Mxfp4
from testing.oracles.linear_formats.nvfp4 import Nvfp4
from testing.oracles.linear_formats.scales import as_e4m3

Encode = Callable[[Float64, float], Tensors]


@dataclass(frozen=True)
class Format:
    """A format of linear layers.

    config: `quantization_config` of config.json.
    linear: what its tensors mean, and what becomes of inputs.
    encode: (weight (N, K), largest |x| that the layer meets) -> tensors by suffix.
    """

    config: dict[str, Any]
    linear: LinearFormat
    encode: Encode


def _int8_channel(weight: Float64, amax: float) -> Tensors:
    codes, scale = int8.encode_channel(weight)
    return {"weight": codes, "weight_scale": scale}


def _int8_block(weight: Float64, amax: float) -> Tensors:
    codes, scale = int8.encode_block(weight)
    return {"weight": codes, "weight_scale_inv": scale}


def _fp8_tensor(weight: Float64, amax: float) -> Tensors:
    codes, scale = fp8.quantise_weight_tensor(weight)
    return {"weight": as_e4m3(codes), "weight_scale": scale}


def _fp8_static(weight: Float64, amax: float) -> Tensors:
    scale = np.asarray(amax / e4m3.MAX).astype(np.float32)
    return {**_fp8_tensor(weight, amax), "input_scale": scale}


def _fp8_channel(weight: Float64, amax: float) -> Tensors:
    codes, scale = fp8.quantise_weight_channel(weight)
    return {"weight": as_e4m3(codes), "weight_scale": scale}


def _fp8_block(weight: Float64, amax: float) -> Tensors:
    codes, scale = fp8.quantise_weight_block(weight)
    return {"weight": as_e4m3(codes), "weight_scale_inv": scale}


def _nvfp4(weight: Float64, amax: float) -> Tensors:
    made = nvfp4.quantise(weight, nvfp4.global_scale_of(weight))
    return {
        "weight": made.packed,
        "weight_scale": as_e4m3(made.block_scale),
        "weight_scale_2": made.global_scale,
        "input_scale": np.asarray(amax / (e4m3.MAX * e2m1.MAX)).astype(np.float32),
    }


def _mxfp4(weight: Float64, amax: float) -> Tensors:
    codes, scales = mx.quantise(weight, "e2m1")
    return {"weight": e2m1.pack(codes), "weight_scale": scales}


_BLOCKS = {"activation_scheme": "dynamic", "weight_block_size": [128, 128]}
FORMATS: dict[str, Format] = {
    "int8_channel": Format({"quant_method": "w8a8_int8"}, Int8Channel(), _int8_channel),
    "int8_block": Format({"quant_method": "blockwise_int8", **_BLOCKS}, Int8Block(), _int8_block),
    "fp8_tensor": Format(
        {"quant_method": "fp8", "activation_scheme": "dynamic"}, Fp8Tensor(), _fp8_tensor
    ),
    "fp8_static": Format(
        {"quant_method": "fp8", "activation_scheme": "static"}, Fp8Tensor(static=True), _fp8_static
    ),
    "fp8_channel": Format({"quant_method": "w8a8_fp8"}, Fp8Channel(), _fp8_channel),
    "fp8_block": Format({"quant_method": "fp8", **_BLOCKS}, Fp8Block(), _fp8_block),
    # What runs on sm90 leaves inputs as they are.
    "nvfp4": Format(
        {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4", "group_size": 16},
        Nvfp4(weight_only=pool() != "cpu"),
        _nvfp4,
    ),
    "mxfp4": Format({"quant_method": "mxfp4"}, Mxfp4(), _mxfp4),
}

_EXPERTS = re.compile(r"(.*\.experts)\.\d+\.(?:gate|up)_proj")
_FUSED = re.compile(r"(.*)\.(?:([qkv])|gate|up)_proj")


def group_of(name: str) -> str:
    """What the layers have in common that quantise an input together; name as "….q_proj"."""
    experts, fused = _EXPERTS.fullmatch(name), _FUSED.fullmatch(name)
    if experts is not None:
        return experts[1]
    return fused[1] if fused is not None else name


def quantiser(
    linear: LinearFormat, stored: Mapping[str, Tensors]
) -> Callable[[str, torch.Tensor], torch.Tensor]:
    """What the format leaves of a layer's input, by the layer's name.

    stored: of each layer the tensors by suffix.
    """
    groups: dict[str, dict[str, Tensors]] = {}
    for name, tensors in stored.items():
        groups.setdefault(group_of(name), {})[name] = tensors
    rules = {group: linear.activations(shards) for group, shards in groups.items()}

    def quantise(name: str, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if not len(rows):
            return x
        values = rules[group_of(name)].encode(rows.numpy()).values
        return torch.from_numpy(np.ascontiguousarray(values)).view_as(x)

    return quantise
