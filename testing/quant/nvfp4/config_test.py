"""Which NVFP4 and MXFP4 method each spelling of a checkpoint's config means; what is refused."""

from typing import Any

import pytest

import layers.quantization.modelopt_fp4
import layers.quantization.mxfp4  # noqa: F401 both register themselves
from layers.linear.replicated import ReplicatedLinear
from layers.quantization import registry
from layers.quantization.registry import get_quantization_config

NVFP4 = {"weight": (96, 64), "weight_scale": (96, 8), "weight_scale_2": (1,), "input_scale": (1,)}
MXFP4 = {"weight": (96, 64), "weight_scale": (96, 4)}
GROUPS = {
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 4, "type": "float", "group_size": 16},
            "input_activations": {"num_bits": 4, "type": "float", "group_size": 16},
        }
    }
}


def layer(name: str, config: dict[str, Any], k: int = 128) -> ReplicatedLinear:
    config = {"quant_method": name, **config}
    quantisation = get_quantization_config(name).from_config(config)
    return ReplicatedLinear(k, 96, quant_config=quantisation, prefix="model.layers.0.mlp.up_proj")


@pytest.mark.parametrize(
    ("name", "config", "parameters"),
    [
        ("modelopt_fp4", {}, NVFP4),
        ("modelopt_fp4", {"quant_algo": "NVFP4", "group_size": 16}, NVFP4),
        ("modelopt", {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, NVFP4),
        ("modelopt", {"quantization": {"quant_algo": "NVFP4", "group_size": 16}}, NVFP4),
        ("modelopt", {"quant_algo": "NVFP4", **GROUPS}, NVFP4),
        ("mxfp4", {}, MXFP4),
        ("mxfp4", {"activation_scheme": "none"}, MXFP4),
        ("mxfp4", {"activation_scheme": "dynamic"}, MXFP4),
    ],
)
def test_a_config_means_the_tensors_of_its_checkpoint(
    name: str, config: dict[str, Any], parameters: dict[str, tuple[int, ...]]
) -> None:
    found = {n: tuple(p.shape) for n, p in layer(name, config).named_parameters()}
    assert found == parameters


@pytest.mark.parametrize("key", ["ignore", "exclude_modules", "modules_to_not_convert"])
@pytest.mark.parametrize("entry", ["model.layers.0", "*.up_proj", "model.layers.0.mlp*"])
def test_layers_left_unquantised(key: str, entry: str) -> None:
    for name, config in (("modelopt_fp4", {"quant_algo": "NVFP4"}), ("mxfp4", {})):
        method = layer(name, {**config, key: [entry]}).quant_method
        assert type(method).__name__ == "UnquantizedLinearMethod", name
        other = layer(name, {**config, key: ["model.layers.1*"]}).quant_method
        assert type(other).__name__ != "UnquantizedLinearMethod", name


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("modelopt", {}, "quant_algo is None, wanted 'NVFP4'"),
        ("modelopt", {"quant_algo": "W4A8_AWQ"}, "quant_algo is 'W4A8_AWQ', wanted 'NVFP4'"),
        ("modelopt", {"quant_algo": "FP8"}, "pass quant_method 'modelopt_fp8'"),
        ("modelopt_fp4", {"group_size": 32}, "group_size is 32, wanted 16"),
        ("modelopt", {"quantization": "NVFP4"}, "quantization is 'NVFP4', wanted the object"),
        ("mxfp4", {"activation_scheme": "static"}, "is 'static', wanted 'none' .* or 'dynamic'"),
    ],
)
def test_what_is_not_supported_is_named(name: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get_quantization_config(name).from_config({"quant_method": name, **config})


@pytest.mark.parametrize(("name", "block"), [("modelopt_fp4", 16), ("mxfp4", 32)])
def test_blocks_are_whole(name: str, block: int) -> None:
    with pytest.raises(ValueError, match=rf"up_proj': K is 56, wanted a multiple of {block}"):
        layer(name, {}, k=56)


def test_what_was_not_imported_is_named_by_the_module_that_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_configs", {})
    with pytest.raises(ValueError, match=r"import layers\.quantization\.modelopt_fp4 and add"):
        get_quantization_config("modelopt")
