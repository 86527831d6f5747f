"""A quantisation config with a slip in it is refused by key, value seen and value wanted."""

from __future__ import annotations

from typing import Any

import pytest

import layers.quantization.blockwise_int8
import layers.quantization.compressed_tensors
import layers.quantization.fp8
import layers.quantization.modelopt_fp4
import layers.quantization.modelopt_fp8
import layers.quantization.mxfp4
import layers.quantization.mxfp8
import layers.quantization.w8a8_fp8
import layers.quantization.w8a8_int8  # noqa: F401 all register themselves
from layers.quantization.base import QuantizationConfig
from layers.quantization.registry import get_quantization_config

NEEDED: dict[str, dict[str, Any]] = {
    "blockwise_int8": {"weight_block_size": [128, 128]},
    "fp8": {},
    "modelopt": {"quant_algo": "NVFP4"},
    "modelopt_fp4": {"quant_algo": "NVFP4"},
    "modelopt_fp8": {"quant_algo": "FP8"},
    "mxfp4": {},
    "mxfp8": {},
    "w8a8_fp8": {},
    "w8a8_int8": {},
}
SCHEME = {"num_bits": 8, "type": "float", "symmetric": True}
WEIGHTS = {**SCHEME, "strategy": "channel", "dynamic": False}
INPUTS = {**SCHEME, "strategy": "token", "dynamic": True}
GROUP = {"targets": ["Linear"], "weights": WEIGHTS, "input_activations": INPUTS}


def read(method: str, backend: Any = None, **keys: Any) -> QuantizationConfig:
    config = {"quant_method": method, **NEEDED.get(method, {}), **keys}
    return get_quantization_config(method).from_config(config, backend=backend)


def compressed(group: Any = GROUP, **keys: Any) -> QuantizationConfig:
    return read("compressed-tensors", config_groups={"group_0": group}, **keys)


@pytest.mark.parametrize("name", [None, 5, ["fp8"]])
def test_a_method_that_is_no_name(name: Any) -> None:
    with pytest.raises(ValueError, match=r"quantisation method is .*, wanted a name such as 'fp8'"):
        get_quantization_config(name)


@pytest.mark.parametrize("method", [*NEEDED, "compressed-tensors"])
@pytest.mark.parametrize("config", [None, [], "fp8", 5])
def test_a_config_that_is_no_object(method: str, config: Any) -> None:
    with pytest.raises(ValueError, match=r"the quantisation config is .*, wanted the object"):
        get_quantization_config(method).from_config(config)


@pytest.mark.parametrize("method", NEEDED)
@pytest.mark.parametrize("backend", ["", 5, ["triton"]])
def test_a_backend_that_is_no_name(method: str, backend: Any) -> None:
    with pytest.raises(ValueError, match=r"backend is .*, wanted a backend's name"):
        read(method, backend)


@pytest.mark.parametrize("method", NEEDED)
@pytest.mark.parametrize("names", ["lm_head", 0, False, "", {"lm_head": 1}, [None], [""], ["re:"]])
def test_a_list_of_layers_that_is_none(method: str, names: Any) -> None:
    with pytest.raises(ValueError, match=r"ignore is .*, wanted a list of layer names"):
        read(method, ignore=names)


@pytest.mark.parametrize(
    "mapping", ["qkv_proj", ["q_proj"], 5, {"qkv_proj": "q_proj"}, {"qkv_proj": [1]}, {"a": None}]
)
def test_a_packed_modules_mapping_that_is_none(mapping: Any) -> None:
    with pytest.raises(ValueError, match=r"packed_modules_mapping.* is .*, wanted"):
        read("fp8", packed_modules_mapping=mapping)


@pytest.mark.parametrize(
    ("method", "key", "value", "wanted"),
    [
        ("fp8", "activation_scheme", "Static", "'dynamic' or 'static'"),
        ("fp8", "activation_scheme", None, "'dynamic' or 'static'"),
        ("fp8", "weight_block_size", "128x128", r"\[128, 128\] or none"),
        ("fp8", "weight_block_size", [128, 128, 128], r"\[128, 128\] or none"),
        ("fp8", "is_checkpoint_fp8_serialized", "false", "a checkpoint whose weights are fp8"),
        ("fp8", "quant_algo", "NVFP4", "'FP8' or none"),
        ("blockwise_int8", "activation_scheme", "static", "'dynamic' or none"),
        ("w8a8_int8", "activation_scheme", "static", "'dynamic' or none"),
        ("w8a8_int8", "weight_block_size", [128, 128], "none"),
        ("w8a8_fp8", "activation_scheme", "dynamik", "'dynamic' or none"),
        ("w8a8_fp8", "weight_block_size", [128, 128], "none"),
        ("mxfp8", "activation_scheme", "static", "'dynamic' or none"),
        ("mxfp8", "weight_block_size", [128, 128], r"\[1, 32\] or none"),
        ("mxfp4", "activation_scheme", None, "'none'"),
        ("mxfp4", "group_size", 16, "32 or none"),
        ("modelopt", "quantization", "NVFP4", "the object that hf_quant_config.json"),
        ("modelopt", "quant_algo", "MIXED_PRECISION", "'NVFP4'"),
        ("modelopt_fp4", "group_size", 32, "16"),
        ("modelopt_fp4", "group_size", 16.0, "16"),
        ("modelopt_fp4", "group_size", "16", "16"),
        ("modelopt_fp4", "config_groups", [], "an object of objects"),
        ("modelopt_fp8", "quantization", ["FP8"], "the object that hf_quant_config.json"),
        ("modelopt_fp8", "activation_scheme", "dynamic", "'static' or none"),
    ],
)
def test_a_value_of_another_method(method: str, key: str, value: Any, wanted: str) -> None:
    with pytest.raises(ValueError, match=rf"{key} is .*, wanted {wanted}"):
        read(method, **{key: value})


@pytest.mark.parametrize("method", ["modelopt", "modelopt_fp8"])
def test_a_key_that_is_there_twice(method: str) -> None:
    with pytest.raises(ValueError, match=r"quant_algo is .*, and 'W4A8' under 'quantization'"):
        read(method, quantization={"quant_algo": "W4A8"})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (5, r"weights of config_groups is 5, wanted an object"),
        ({"num_bits": 8, "type": "float"}, "num_bits is 8, wanted 4"),
        ({"num_bits": 4, "type": "int"}, "type is 'int', wanted 'float'"),
        ({"group_size": 32}, "group_size is 32, wanted 16"),
    ],
)
def test_groups_of_another_format(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read("modelopt_fp4", config_groups={"group_0": {"weights": weights}})


@pytest.mark.parametrize(
    ("group", "keys", "named"),
    [
        ("Linear", {}, "config_groups is"),
        ({**GROUP, "targets": "Linear"}, {}, "targets is 'Linear'"),
        ({**GROUP, "targets": 5}, {}, "targets is 5"),
        ({**GROUP, "weights": None}, {}, "weights is None"),
        ({**GROUP, "input_activations": None}, {}, "input_activations is None"),
        ({**GROUP, "output_activations": INPUTS}, {}, "output_activations is"),
        ({**GROUP, "format": "pack-quantized"}, {}, "format is 'pack-quantized'"),
        ({**GROUP, "weights": {**WEIGHTS, "num_bits": 4, "type": "int"}}, {}, "weights is"),
        ({**GROUP, "weights": {**WEIGHTS, "symmetric": False}}, {}, "weights is"),
        ({**GROUP, "weights": {**WEIGHTS, "symmetric": "false"}}, {}, "weights is"),
        ({**GROUP, "weights": {**WEIGHTS, "actorder": "group"}}, {}, "weights is"),
        ({**GROUP, "weights": {**WEIGHTS, "group_size": 32}}, {}, "weights is"),
        ({**GROUP, "weights": {**WEIGHTS, "dynamic": True}}, {}, "weights is"),
        ({**GROUP, "input_activations": {**INPUTS, "dynamic": "local"}}, {}, "config_groups is"),
        (GROUP, {"transform_config": {"config_groups": {"R1": {}}}}, "transform_config is"),
        (GROUP, {"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparsity_config is"),
        (GROUP, {"quantization_status": "frozen"}, "quantization_status is 'frozen'"),
    ],
)
def test_what_compressed_tensors_say_besides(group: Any, keys: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"compressed-tensors: {named}.*, wanted one group"):
        compressed(group, **keys)


def test_what_files_say_without_meaning_anything_is_taken() -> None:
    nothing = {"sparsity_config": {"format": "dense"}, "quantization_status": "compressed"}
    assert compressed(**nothing, transform_config={}, kv_cache_scheme=None)
    assert read("mxfp8", weight_block_size=[1, 32], activation_scheme="dynamic")
    assert read("modelopt", quantization={"quant_algo": "NVFP4", "group_size": 16})
    assert read("fp8", is_checkpoint_fp8_serialized=True, quant_algo=None, ignore=None)
