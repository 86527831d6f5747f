"""When an fp8 layer's scales are single ones, which some kernels need and others run faster on."""

import pytest
import torch

import layers.quantization.fp8  # noqa: F401 registers itself
from layers.linear.merged_column import MergedColumnParallelLinear
from layers.quantization.fp8_linear import Fp8TensorLinearMethod
from layers.quantization.registry import get_quantization_config


@pytest.mark.parametrize(
    ("scheme", "scales", "single"),
    [
        ("static", [0.5, 0.5], True),
        ("static", [0.5, 0.25], False),
        # Each token has a scale of its own.
        ("dynamic", [0.5, 0.5], False),
        ("dynamic", [0.5, 0.25], False),
    ],
)
def test_static_activations_and_equal_weight_scales(
    scheme: str, scales: list[float], single: bool
) -> None:
    config = get_quantization_config("fp8").from_config({"activation_scheme": scheme})
    layer = MergedColumnParallelLinear(32, [16, 16], quant_config=config)
    layer.get_parameter("weight_scale").data.copy_(torch.tensor(scales))
    method = layer.quant_method
    assert isinstance(method, Fp8TensorLinearMethod)
    assert method.problem(layer).scalar_scales is single
