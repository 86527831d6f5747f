"""The quantisation method of a layer follows from the config and the layer's name."""

import pytest
import torch

import layers.quantization.blockwise_int8
import layers.quantization.w8a8_int8  # noqa: F401 both register themselves
from layers.linear.column import ColumnParallelLinear
from layers.linear.merged_column import MergedColumnParallelLinear
from layers.quantization.registry import get_quantization_config
from layers.weights import load_weights, process_weights_after_loading
from testing.harness.device import device
from testing.harness.linear import PACKED

BLOCK_SIZE = {"weight_block_size": [128, 128]}


def method_of(prefix: str, name: str = "w8a8_int8", **config: object) -> str:
    options = {"packed_modules_mapping": PACKED, **config}
    quant_config = get_quantization_config(name).from_config(options)
    layer = ColumnParallelLinear(
        128, 128, prefix=prefix, quant_config=quant_config, device=device()
    )
    return type(layer.quant_method).__name__


@pytest.mark.parametrize(
    ("name", "config", "method"),
    [
        ("w8a8_int8", {}, "W8A8Int8LinearMethod"),
        ("blockwise_int8", BLOCK_SIZE, "BlockwiseInt8LinearMethod"),
    ],
)
def test_name_in_the_config_chooses(name: str, config: dict[str, object], method: str) -> None:
    assert method_of("model.layers.0.mlp.up_proj", name, **config) == method


def test_no_config_is_unquantised() -> None:
    layer = ColumnParallelLinear(16, 16, device=device())
    assert type(layer.quant_method).__name__ == "UnquantizedLinearMethod"
    assert layer.get_parameter("weight").dtype == torch.bfloat16


@pytest.mark.parametrize("key", ["ignored_layers", "modules_to_not_convert", "ignore"])
@pytest.mark.parametrize(
    ("entry", "prefix", "ignored"),
    [
        ("lm_head", "lm_head", True),
        ("model.layers.0.mlp.up_proj", "model.layers.0.mlp.up_proj", True),
        ("model.layers.1", "model.layers.1.mlp.up_proj", True),
        ("model.layers.1", "model.layers.11.mlp.up_proj", False),
        ("mlp.gate", "model.layers.0.mlp.gate", True),
        ("mlp.gate", "model.layers.0.mlp.gate_proj", False),
        ("*.down_proj", "model.layers.0.mlp.down_proj", True),
        ("*.down_proj", "model.layers.0.mlp.up_proj", False),
        ("model.layers.*.self_attn", "model.layers.3.self_attn.qkv_proj", True),
        ("model.layers.*.self_attn", "model.layers.3.self_attn2.qkv_proj", False),
        (r"re:model\.layers\.\d\.self_attn.*", "model.layers.3.self_attn.o_proj", True),
        ("re:.*vision_tower", "model.vision_tower.layers.0.q_proj", True),
        ("re:vision_tower", "model.vision_tower.layers.0.q_proj", False),
        (r"re:model\.layers\.\d\.self_attn.*", "model.layers.13.self_attn.o_proj", False),
    ],
)
def test_ignored_layers(key: str, entry: str, prefix: str, ignored: bool) -> None:
    method = method_of(prefix, "w8a8_int8", **{key: [entry]})
    assert method == ("UnquantizedLinearMethod" if ignored else "W8A8Int8LinearMethod")


def test_an_entry_that_is_no_regular_expression_is_named() -> None:
    with pytest.raises(ValueError, match=r"'re:\(mlp' is not a regular expression"):
        method_of("model.layers.0.mlp.up_proj", ignore=["re:(mlp"])


def merged(ignored: list[str]) -> MergedColumnParallelLinear:
    options = {"packed_modules_mapping": PACKED, "ignored_layers": ignored}
    return MergedColumnParallelLinear(
        128,
        [128, 128],
        prefix="model.layers.0.mlp.gate_up_proj",
        quant_config=get_quantization_config("w8a8_int8").from_config(options),
        device=device(),
    )


def test_fused_layer_is_ignored_by_the_names_of_its_shards() -> None:
    names = ["model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj"]
    assert type(merged(names).quant_method).__name__ == "UnquantizedLinearMethod"
    assert type(merged([]).quant_method).__name__ == "W8A8Int8LinearMethod"


def test_partly_ignored_fused_layer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ignores .*gate_proj but not .*up_proj"):
        merged(["model.layers.0.mlp.gate_proj"])


def test_unknown_method_says_what_to_import() -> None:
    with pytest.raises(ValueError, match=r"'fp4_magic' is not registered.*w8a8_int8") as error:
        get_quantization_config("fp4_magic")
    assert "import layers.quantization.fp4_magic" in str(error.value)
    assert "deps" in str(error.value)


@pytest.mark.parametrize("config", [{}, {"weight_block_size": [64, 128]}])
def test_other_block_sizes_are_refused(config: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"weight_block_size.*wanted \[128, 128\]"):
        get_quantization_config("blockwise_int8").from_config(config)


@pytest.mark.parametrize("key", ["ignored_layers", "modules_to_not_convert", "ignore"])
@pytest.mark.parametrize("value", ["lm_head", [None], {"lm_head": True}])
def test_ignored_layers_that_are_no_list_of_names_are_refused(key: str, value: object) -> None:
    # A string taken letter by letter would quantise what it names.
    with pytest.raises(ValueError, match=rf"{key} is .*wanted a list of layer names"):
        get_quantization_config("w8a8_int8").from_config({key: value})


@pytest.mark.parametrize("size", [None, 128, [128], [64, 128]])
def test_another_block_size_is_refused(size: object) -> None:
    with pytest.raises(ValueError, match=r"weight_block_size is .*wanted \[128, 128\]"):
        method_of("model.layers.0.mlp.up_proj", "blockwise_int8", weight_block_size=size)


def test_a_gradient_is_refused_and_no_grad_is_not() -> None:
    config = get_quantization_config("w8a8_int8").from_config({})
    layer = ColumnParallelLinear(16, 8, quant_config=config, device=device())
    weight = ("weight", torch.ones(8, 16, dtype=torch.int8))
    load_weights(layer, [weight, ("weight_scale", torch.ones(8, 1))])
    process_weights_after_loading(layer)
    x = torch.ones(1, 16, dtype=torch.bfloat16, device=device(), requires_grad=True)

    with pytest.raises(ValueError, match="x requires a gradient"):
        layer(x)
    with torch.no_grad():
        assert layer(x).tolist() == [[16.0] * 8]
