"""Which fp8 method each spelling of a checkpoint's config means, and what is refused."""

from typing import Any

import pytest
import torch

import layers.quantization.compressed_tensors
import layers.quantization.fp8
import layers.quantization.modelopt_fp8
import layers.quantization.mxfp8
import layers.quantization.w8a8_fp8  # noqa: F401 they register themselves
from layers.linear.replicated import ReplicatedLinear
from layers.quantization.registry import get_quantization_config

FLOAT8 = {"num_bits": 8, "type": "float", "symmetric": True}
BLOCKS = {"weight_block_size": [128, 128]}


def compressed(weights: str, activations: str, dynamic: bool, **others: Any) -> dict[str, Any]:
    group = {
        "targets": ["Linear"],
        "weights": FLOAT8 | {"strategy": weights, "dynamic": False},
        "input_activations": FLOAT8 | {"strategy": activations, "dynamic": dynamic},
    }
    return {"format": "float-quantized", "config_groups": {"group_0": group}, **others}


def layer(name: str, config: dict[str, Any], k: int = 128) -> ReplicatedLinear:
    quantisation = get_quantization_config(name).from_config(config)
    return ReplicatedLinear(k, 128, quant_config=quantisation, prefix="mlp.up_proj")


@pytest.mark.parametrize(
    ("name", "config", "parameters"),
    [
        ("fp8", {}, {"weight": (128, 128), "weight_scale": (1,)}),
        ("fp8", {"activation_scheme": "dynamic"}, {"weight": (128, 128), "weight_scale": (1,)}),
        (
            "fp8",
            {"activation_scheme": "static", "is_checkpoint_fp8_serialized": True},
            {"weight": (128, 128), "weight_scale": (1,), "input_scale": (1,)},
        ),
        (
            "fp8",
            {"activation_scheme": "dynamic", "fmt": "e4m3", "scale_fmt": "ue8m0", **BLOCKS},
            {"weight": (128, 128), "weight_scale_inv": (1, 1)},
        ),
        ("w8a8_fp8", {}, {"weight": (128, 128), "weight_scale": (128, 1)}),
        ("mxfp8", {}, {"weight": (128, 128), "weight_scale_inv": (128, 4)}),
        (
            "modelopt_fp8",
            {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
            {"weight": (128, 128), "weight_scale": (1,), "input_scale": (1,)},
        ),
        (
            "compressed-tensors",
            compressed("channel", "token", True),
            {"weight": (128, 128), "weight_scale": (128, 1)},
        ),
        (
            "compressed-tensors",
            compressed("tensor", "tensor", False),
            {"weight": (128, 128), "weight_scale": (1,), "input_scale": (1,)},
        ),
    ],
)
def test_a_config_means_the_tensors_of_its_checkpoint(
    name: str, config: dict[str, Any], parameters: dict[str, tuple[int, ...]]
) -> None:
    found = {n: tuple(p.shape) for n, p in layer(name, config).named_parameters()}
    assert found == parameters


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("fp8", {"ignored_layers": ["up_proj"]}),
        ("fp8", {"modules_to_not_convert": ["mlp"], **BLOCKS}),
        ("w8a8_fp8", {"ignore": ["up_proj"]}),
        ("mxfp8", {"ignored_layers": ["re:.*up_proj"]}),
        ("modelopt_fp8", {"quantization": {"quant_algo": "FP8", "exclude_modules": ["mlp*"]}}),
        ("compressed-tensors", compressed("channel", "token", True, ignore=["mlp.up_proj"])),
    ],
)
def test_layers_left_unquantised(name: str, config: dict[str, Any]) -> None:
    assert type(layer(name, config).quant_method).__name__ == "UnquantizedLinearMethod"


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("fp8", {"activation_scheme": "none"}, "activation_scheme is 'none', wanted 'dynamic' or"),
        ("fp8", {"weight_block_size": [64, 128]}, r"is \[64, 128\], wanted \[128, 128\] or none"),
        ("fp8", {"activation_scheme": "static", **BLOCKS}, "wanted 'dynamic': a group of"),
        ("fp8", {"is_checkpoint_fp8_serialized": False}, "wanted a checkpoint whose weights are"),
        ("fp8", {"fmt": "e5m2"}, "fmt is 'e5m2', wanted 'e4m3'"),
        ("modelopt_fp8", {"quant_algo": "NVFP4"}, "is 'NVFP4', wanted 'FP8'.*'modelopt_fp4'"),
        ("compressed-tensors", {}, "config_groups is {}, wanted one group"),
        ("compressed-tensors", compressed("block", "group", True), "config_groups is .*'block'"),
        (
            "compressed-tensors",
            compressed("channel", "token", True, format="pack-quantized"),
            "format is 'pack-quantized', wanted",
        ),
    ],
)
def test_what_is_not_supported_is_named(name: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get_quantization_config(name).from_config(config)


def test_blocks_of_mxfp8_are_whole() -> None:
    with pytest.raises(ValueError, match=r"'mlp.up_proj': K is 48, wanted a multiple of 32"):
        layer("mxfp8", {}, k=48)


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_an_input_scale_is_above_zero(scale: float) -> None:
    built = layer("fp8", {"activation_scheme": "static"})
    values = {
        "weight": torch.zeros(128, 128).to(torch.float8_e4m3fn),
        "weight_scale": torch.tensor(1.0),
        "input_scale": torch.tensor(scale),
    }
    # No scale has a sign, which loading sees; that it is not 0 either, only what divides by it.
    wanted = (
        r"'mlp.up_proj.input_scale' (is .*, wanted above 0|holds -1, wanted scales of at least)"
    )
    with pytest.raises(ValueError, match=wanted):
        for name, value in values.items():
            built.weight_loader_v2(built.get_parameter(name), value)
        built.process_weights_after_loading()
