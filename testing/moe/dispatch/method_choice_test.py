"""Which method a MoE layer gets from a checkpoint's config and from the layer's prefix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

import layers.moe.quantization.compressed_tensors
import layers.moe.quantization.fp8
import layers.moe.quantization.int8
import layers.quantization.mxfp8  # noqa: F401 they register themselves
from layers.moe.layer import FusedMoE
from layers.moe.topk import TopKConfig
from layers.quantization.registry import get_quantization_config

PREFIX = "model.layers.3.mlp.experts"
BLOCKS = {"weight_block_size": [128, 128]}


def compressed(weights: str, activations: str) -> dict[str, Any]:
    scheme = {"num_bits": 8, "type": "float", "symmetric": True}
    group = {
        "targets": ["Linear"],
        "weights": {**scheme, "strategy": weights},
        "input_activations": {
            **scheme,
            "strategy": activations,
            "dynamic": activations == "token",
        },
    }
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}


CONFIGS: list[tuple[Mapping[str, Any], str]] = [
    ({"quant_method": "w8a8_int8"}, "W8A8Int8MoEMethod"),
    ({"quant_method": "blockwise_int8", **BLOCKS}, "BlockwiseInt8MoEMethod"),
    ({"quant_method": "fp8"}, "Fp8TensorMoEMethod"),
    ({"quant_method": "fp8", "activation_scheme": "static"}, "Fp8TensorMoEMethod"),
    ({"quant_method": "fp8", **BLOCKS}, "Fp8BlockMoEMethod"),
    ({"quant_method": "w8a8_fp8"}, "Fp8ChannelMoEMethod"),
    ({"quant_method": "modelopt_fp8", "quant_algo": "FP8"}, "Fp8TensorMoEMethod"),
    (compressed("channel", "token"), "Fp8ChannelMoEMethod"),
    (compressed("tensor", "token"), "Fp8TensorMoEMethod"),
    (compressed("tensor", "tensor"), "Fp8TensorMoEMethod"),
]
EXPERTS = [f"{PREFIX}.{e}.{name}" for e in range(4) for name in ("w1", "w2", "w3")]


def build(config: Mapping[str, Any]) -> FusedMoE:
    quantised = get_quantization_config(config["quant_method"]).from_config(config)
    return FusedMoE(4, 128, 128, topk=TopKConfig(2), quant_config=quantised, prefix=PREFIX)


@pytest.mark.parametrize(("config", "method"), CONFIGS)
def test_a_config_has_its_method(config: Mapping[str, Any], method: str) -> None:
    assert type(build(config).quant_method).__name__ == method


@pytest.mark.parametrize(("config", "scales"), [(CONFIGS[3][0], 2), (CONFIGS[6][0], 2)])
def test_static_activations_have_scales(config: Mapping[str, Any], scales: int) -> None:
    names = [name for name, _ in build(config).named_parameters() if "input_scale" in name]

    assert len(names) == scales


@pytest.mark.parametrize("ignored", [[PREFIX], ["model.layers.3.mlp"], ["re:.*experts"], EXPERTS])
def test_an_ignored_layer_is_unquantised(ignored: list[str]) -> None:
    layer = build({"quant_method": "w8a8_int8", "ignore": ignored})

    assert type(layer.quant_method).__name__ == "UnquantizedMoEMethod"
    assert layer.get_parameter("w13_weight").dtype is torch.bfloat16


@pytest.mark.parametrize("ignored", [["mlp.gate"], ["lm_head"], ["model.layers.2.mlp.experts"]])
def test_another_layer_that_is_ignored_changes_nothing(ignored: list[str]) -> None:
    layer = build({"quant_method": "w8a8_int8", "ignore": ignored})

    assert type(layer.quant_method).__name__ == "W8A8Int8MoEMethod"


def test_ignoring_some_experts_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ignores 1 of the 12 .* '2\.w3' among them, but not '0"):
        build({"quant_method": "w8a8_int8", "ignore": [f"{PREFIX}.2.w3"]})


def test_a_config_without_a_moe_method_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no MoE method is registered for MxFp8Config \(mxfp8\)"):
        build({"quant_method": "mxfp8"})
