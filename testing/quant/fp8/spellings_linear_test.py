"""The same fp8 tensors under the configs of other quantisers: ModelOpt and compressed-tensors."""

from dataclasses import replace
from typing import Any

import pytest

import layers.quantization.compressed_tensors
import layers.quantization.modelopt_fp8  # noqa: F401 both register themselves
from layers.kernels.fp8.fp8_scaled_mm import FP8_SCALED_MM
from testing.harness.backends import list_backends, require_right_or_refused
from testing.harness.device import promised
from testing.harness.linear import LinearCase, Method
from testing.quant.fp8.methods import CHANNEL, DYNAMIC, SCALED_BACKENDS, STATIC
from testing.quant.linear_cases import seed_of

list_backends(FP8_SCALED_MM)
_FLOAT8 = {"num_bits": 8, "type": "float", "symmetric": True}


def compressed(weights: str, activations: str, dynamic: bool) -> dict[str, Any]:
    group = {
        "targets": ["Linear"],
        "weights": _FLOAT8 | {"strategy": weights, "dynamic": False},
        "input_activations": _FLOAT8 | {"strategy": activations, "dynamic": dynamic},
    }
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {"group_0": group},
    }


METHODS = {
    "modelopt": replace(STATIC, config={"quant_method": "modelopt_fp8", "quant_algo": "FP8"}),
    "compressed tensor static": replace(STATIC, config=compressed("tensor", "tensor", False)),
    "compressed tensor dynamic": replace(DYNAMIC, config=compressed("tensor", "token", True)),
    "compressed channel": replace(CHANNEL, config=compressed("channel", "token", True)),
}


@pytest.mark.parametrize("backend", promised(SCALED_BACKENDS)[:1])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
@pytest.mark.parametrize("fused", [False, True])
def test_layer_is_the_checkpoint(method: Method, fused: bool, backend: str) -> None:
    case = LinearCase(method, "qkv", 9, {"q": 256, "k": 128, "v": 128}, 512, fused=fused)
    assert require_right_or_refused(replace(case, backend=backend), seed_of(case))
