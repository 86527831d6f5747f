"""Prints the tables of docs/methods.md, from the layers: `tools/bazel run //docs:methods`.

`methods_test` holds that the page has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

import layers.moe.quantization.compressed_tensors
import layers.moe.quantization.fp8
import layers.moe.quantization.int8
import layers.moe.quantization.mxfp4
import layers.moe.quantization.nvfp4
import layers.quantization.mxfp8  # noqa: F401 all of them register themselves
from layers.kernels.capability import Backend, Operation, arch_name
from layers.kernels.fp4.mxfp4_mm import MXFP4_MM
from layers.kernels.fp4.w4a16_mm import W4A16_MM
from layers.kernels.fp8.fp8_block_scaled_mm import FP8_BLOCK_SCALED_MM
from layers.kernels.fp8.fp8_scaled_mm import FP8_SCALED_MM
from layers.kernels.fp8.mxfp8_scaled_mm import MXFP8_SCALED_MM
from layers.kernels.int8_block_scaled_mm import INT8_BLOCK_SCALED_MM
from layers.kernels.int8_scaled_mm import INT8_SCALED_MM
from layers.linear.replicated import ReplicatedLinear
from layers.moe.quantization.registry import get_moe_method
from layers.quantization.base import QuantizationConfig
from layers.quantization.nvfp4_linear import NVFP4_LINEAR
from layers.quantization.registry import get_quantization_config, names_of

# Sizes that tell N, K and their parts apart.
_N, _K = 768, 1280
_SIZES = {
    **{_N: "N", _K: "K", _K // 2: "K/2", _K // 16: "K/16", _K // 32: "K/32"},
    **{_N // 128: "⌈N/128⌉", _K // 128: "⌈K/128⌉", 1: "1"},
}
_DTYPES = {torch.float8_e4m3fn: "e4m3", torch.float32: "fp32"}
_FLOAT8 = {"num_bits": 8, "type": "float", "symmetric": True}


def _compressed(weights: str, activations: str) -> dict[str, Any]:
    group = {
        "targets": ["Linear"],
        "weights": _FLOAT8 | {"strategy": weights, "dynamic": False},
        "input_activations": _FLOAT8 | {"strategy": activations, "dynamic": activations == "token"},
    }
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {"group_0": group},
    }


@dataclass(frozen=True)
class Format:
    """One format, and the configs that mean it.

    configs: by the words that the page has for them.
    operation: what multiplies in a linear layer.
    moe: whether there are MoE layers of it.
    single_scales: a layer may have one scale for x and one for the weight, as some kernels want.
    """

    name: str
    configs: Mapping[str, Mapping[str, Any]]
    operation: Operation
    moe: bool = True
    single_scales: bool = False

    @property
    def linear_backends(self) -> list[Backend]:
        """What can multiply in a linear layer, best first."""
        found = self.operation.backends
        return [b for b in found if self.single_scales or not b.needs.scalar_scales]


_BLOCKS = {"weight_block_size": [128, 128]}
_FP8_BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", **_BLOCKS}
FORMATS = [
    Format("int8, a scale a row", {"`w8a8_int8`": {"quant_method": "w8a8_int8"}}, INT8_SCALED_MM),
    Format(
        "int8, 128x128 blocks",
        {"`blockwise_int8`, `weight_block_size`": {"quant_method": "blockwise_int8", **_BLOCKS}},
        INT8_BLOCK_SCALED_MM,
    ),
    Format(
        "fp8 a tensor, static x",
        {
            '`fp8`, `activation_scheme` "static"': {
                "quant_method": "fp8",
                "activation_scheme": "static",
            },
            "`modelopt_fp8`": {"quant_method": "modelopt_fp8", "quant_algo": "FP8"},
            "`compressed-tensors`, tensor, static": _compressed("tensor", "tensor"),
        },
        FP8_SCALED_MM,
        single_scales=True,
    ),
    Format(
        "fp8 a tensor, dynamic x",
        {
            '`fp8`, "dynamic"': {"quant_method": "fp8", "activation_scheme": "dynamic"},
            "`compressed-tensors`, tensor, token": _compressed("tensor", "token"),
        },
        FP8_SCALED_MM,
    ),
    Format(
        "fp8, a scale a row",
        {
            "`w8a8_fp8`": {"quant_method": "w8a8_fp8"},
            "`compressed-tensors`, channel, token": _compressed("channel", "token"),
        },
        FP8_SCALED_MM,
    ),
    Format("fp8, 128x128 blocks", {"`fp8`, `weight_block_size`": _FP8_BLOCKS}, FP8_BLOCK_SCALED_MM),
    Format("MXFP8", {"`mxfp8`": {"quant_method": "mxfp8"}}, MXFP8_SCALED_MM, moe=False),
    Format(
        "NVFP4",
        {
            "`modelopt_fp4`": {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4"},
            '`modelopt`, `quant_algo` "NVFP4"': {
                "quant_method": "modelopt",
                "quant_algo": "NVFP4",
            },
        },
        NVFP4_LINEAR,
    ),
    Format("MXFP4, weight-only", {"`mxfp4`": {"quant_method": "mxfp4"}}, W4A16_MM),
    Format(
        "MXFP4, W4A4",
        {
            '`mxfp4`, `activation_scheme` "dynamic"': {
                "quant_method": "mxfp4",
                "activation_scheme": "dynamic",
            }
        },
        MXFP4_MM,
        moe=False,
    ),
]


def read(config: Mapping[str, Any]) -> QuantizationConfig:
    """The config as a model reads it."""
    return get_quantization_config(str(config["quant_method"])).from_config(config)


def registered() -> set[str]:
    """Every `quant_method` under which a config of `FORMATS` is known."""
    configs = [config for form in FORMATS for config in form.configs.values()]
    return {name for config in configs for name in names_of(type(read(config)))}


def linear_layer(config: QuantizationConfig) -> ReplicatedLinear:
    """A layer that waits for its checkpoint, on the CPU."""
    return ReplicatedLinear(_K, _N, quant_config=config, prefix="proj", device="cpu")


def tensors(layer: torch.nn.Module) -> str:
    """Each checkpoint tensor of a linear layer, with dtype and shape."""
    return ", ".join(
        f"`{name}` {_dtype(parameter)} {_shape(parameter)}"
        for name, parameter in layer.named_parameters()
    )


def _shape(parameter: torch.Tensor) -> str:
    if parameter.shape == (1,):
        return "() or (1)"
    return f"({', '.join(_SIZES[size] for size in parameter.shape)})"


def _dtype(parameter: torch.Tensor) -> str:
    return _DTYPES.get(parameter.dtype, str(parameter.dtype).removeprefix("torch."))


def moe_backends(config: QuantizationConfig) -> tuple[Backend, ...]:
    """The runners of a MoE layer, best first."""
    method: Any = get_moe_method(config, "experts", [["0.gate_proj", "0.up_proj"]], None)
    staged, external = method.multiply_operation.backends, method.external_backends
    return (*external, *staged) if method.prefers_external else (*staged, *external)


def _names(backends: Iterable[Backend]) -> str:
    return ", ".join(f"{b.name}{_device(b)}" for b in backends)


def _device(backend: Backend) -> str:
    needs = backend.needs
    if needs.min_arch is None:
        return ""
    if needs.min_arch == needs.max_arch:
        return f" ({arch_name(needs.min_arch)})"
    return f" ({needs.describe_device().removeprefix('CUDA ').replace(' or newer', '+')})"


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def configs_table() -> str:
    """Which config means which format, and what its checkpoint holds of a linear layer."""
    rows = []
    for form in FORMATS:
        held = {tensors(linear_layer(read(config))) for config in form.configs.values()}
        if len(held) != 1:
            raise ValueError(f"{form.name}: its configs want different tensors: {sorted(held)}")
        rows.append([form.name, "; ".join(form.configs), *held])
    return _table(["format", "`quant_method`, and what decides", "tensors of a linear layer"], rows)


def backends_table() -> str:
    """What can multiply, best first."""
    rows = []
    for form in FORMATS:
        moe = {_names(moe_backends(read(c))) for c in form.configs.values()} if form.moe else {""}
        if len(moe) != 1:
            raise ValueError(f"{form.name}: its configs have different MoE methods")
        rows.append([form.name, _names(form.linear_backends), *moe])
    return _table(["format", "linear", "MoE"], rows)


if __name__ == "__main__":
    print(configs_table() + "\n\n" + backends_table())
