"""Each way in which checkpoint and MoE layer can fail to fit is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

import layers.moe.quantization.int8
import layers.moe.quantization.mxfp4
import layers.quantization.blockwise_int8
import layers.quantization.mxfp4
import layers.quantization.w8a8_int8  # noqa: F401 all register themselves
from layers.weights import WeightLoadError
from testing.harness.device import device
from testing.harness.moe.layer import PREFIX, MoeCase, build, new_layer
from testing.harness.moe.names import Named
from testing.moe.fp4.mxfp4_methods import MXFP4
from testing.moe.int8.methods import BLOCK, CHANNEL

Change = Callable[[Iterator[Named]], Iterator[Named]]
SINGLE = MoeCase(CHANNEL, 4, 3, 128, 64, bias=True)
MIXTRAL = replace(SINGLE, naming="mixtral")
BLOCKS = MoeCase(BLOCK, 4, 3, 160, 128)
GPT_OSS = MoeCase(MXFP4, 4, 3, 64, 32, bias=True, activation="swiglu_oai", naming="gpt_oss")
UP = f"{PREFIX}.2.up_proj"


def refused(case: MoeCase, change: Change) -> str:
    checkpoint = case.checkpoint(np.random.default_rng(30))
    with pytest.raises(WeightLoadError) as error:
        build(case, checkpoint, device(), change)
    return str(error.value)


def edited(name: str, edit: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda tensors: ((n, edit(t) if n == name else t) for n, t in tensors)


def without(*names: str) -> Change:
    return lambda tensors: ((n, t) for n, t in tensors if n not in names)


def renamed(name: str, other: str) -> Change:
    return lambda tensors: ((other if n == name else n, t) for n, t in tensors)


def twice(name: str) -> Change:
    def change(tensors: Iterator[Named]) -> Iterator[Named]:
        for other, tensor in tensors:
            yield other, tensor
            if other == name:
                yield other, tensor

    return change


def test_an_expert_that_the_layer_does_not_have() -> None:
    message = refused(SINGLE, renamed(f"{UP}.weight", f"{PREFIX}.3.up_proj.weight"))
    assert f"'{PREFIX}.3.up_proj.weight'" in message
    assert "no expert 3; the layer's experts are 0 to 2" in message


@pytest.mark.parametrize(
    "name",
    [
        *("2.middle_proj.weight", "up_proj", "x.up_proj.weight", "2.w9.weight"),
        *("-1.up_proj.weight", "02.up_proj.weight", "٢.up_proj.weight", "0x2.up_proj.weight"),
    ],
)
def test_a_name_of_no_known_form(name: str) -> None:
    message = refused(SINGLE, renamed(f"{UP}.weight", f"{PREFIX}.{name}"))
    assert f"{PREFIX}.{name}" in message


def test_a_tensor_of_no_parameter() -> None:
    message = refused(SINGLE, renamed(f"{UP}.weight_scale", f"{UP}.input_scale"))
    assert f"'{UP}.input_scale' has no parameter" in message
    assert "w13_weight, w13_weight_scale" in message


def test_a_bias_for_a_layer_without_one() -> None:
    message = refused(replace(SINGLE, bias=False), renamed(f"{UP}.weight", f"{UP}.bias"))
    assert f"'{UP}.bias' has no parameter" in message


@pytest.mark.parametrize(
    ("case", "name", "seen", "wanted"),
    [
        (SINGLE, f"{UP}.weight", "(63, 128)", "(64, 128)"),
        (SINGLE, f"{UP}.weight_scale", "(63, 1)", "(64, 1)"),
        (SINGLE, f"{UP}.bias", "(63,)", "(64,)"),
        (MIXTRAL, f"{PREFIX}.1.w2.weight", "(127, 64)", "(128, 64)"),
        (BLOCKS, f"{UP}.weight_scale_inv", "(0, 2)", "(1, 2)"),
        (BLOCKS, f"{PREFIX}.0.down_proj.weight_scale_inv", "(1, 1)", "(2, 1)"),
        (GPT_OSS, f"{PREFIX}.gate_up_proj_blocks", "(2, 64, 2, 16)", "3 experts in dimension 0"),
        (GPT_OSS, f"{PREFIX}.down_proj_scales", "(2, 64, 1)", "3 experts in dimension 0"),
    ],
)
def test_a_wrong_shape(case: MoeCase, name: str, seen: str, wanted: str) -> None:
    message = refused(case, edited(name, lambda tensor: tensor[:-1]))
    assert name in message
    assert f"shape {seen}, wanted {wanted}" in message


def test_gate_and_up_rows_missing_from_an_interleaved_tensor() -> None:
    name = f"{PREFIX}.gate_up_proj_scales"
    message = refused(GPT_OSS, edited(name, lambda tensor: tensor[:, :-1]))
    assert name in message
    assert "wanted (3, 64, 2): gate and up rows in turn" in message


def test_a_transposed_weight() -> None:
    message = refused(SINGLE, edited(f"{UP}.weight", lambda tensor: tensor.t()))
    assert "shape (128, 64), wanted (64, 128)" in message


def test_a_wrong_dtype() -> None:
    message = refused(SINGLE, edited(f"{UP}.weight", lambda tensor: tensor.float()))
    assert f"{UP}.weight" in message
    assert "has dtype torch.float32, wanted torch.int8" in message


@pytest.mark.parametrize(
    ("case", "name"),
    [
        (SINGLE, f"{UP}.weight"),
        (MIXTRAL, f"{PREFIX}.1.w2.weight_scale"),
        (GPT_OSS, f"{PREFIX}.gate_up_proj_blocks"),
    ],
)
def test_a_tensor_that_comes_twice(case: MoeCase, name: str) -> None:
    message = refused(case, twice(name))
    assert name in message
    assert "loaded twice" in message


def test_the_same_expert_under_both_namings() -> None:
    message = refused(SINGLE, renamed(f"{UP}.weight", f"{PREFIX}.2.w1.weight"))
    assert "loaded twice" in message
    assert "'w1'" in message


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_scale_that_is_not_finite(value: float) -> None:
    def spoil(tensor: torch.Tensor) -> torch.Tensor:
        tensor[5] = value
        return tensor

    message = refused(SINGLE, edited(f"{UP}.weight_scale", spoil))
    assert f"{UP}.weight_scale" in message
    assert "NaN or Inf" in message


def test_missing_tensors_are_listed_with_expert_and_shard() -> None:
    message = refused(SINGLE, without(f"{UP}.weight", f"{PREFIX}.0.down_proj.bias"))
    assert "2 tensors were never loaded" in message
    assert "w13_weight" in message and "expert 2" in message and "'w3'" in message
    assert "w2_bias" in message and "expert 0" in message


def test_a_tensor_of_all_experts_that_is_missing_stays_a_short_message() -> None:
    message = refused(GPT_OSS, without(f"{PREFIX}.down_proj_blocks"))
    assert "w2_weight" in message
    assert len(message) < 600


@pytest.mark.parametrize(
    ("shard", "expert", "wanted"),
    [("w9", 0, "no shard 'w9'"), ("w1", 7, "no expert 7"), ("w1", -1, "no expert -1")],
)
def test_the_loader_by_hand(shard: str, expert: int, wanted: str) -> None:
    layer = new_layer(SINGLE, device())
    tensor = torch.zeros(64, 128, dtype=torch.int8)
    with pytest.raises(WeightLoadError, match=wanted):
        layer.weight_loader(layer.get_parameter("w13_weight"), tensor, "a.tensor", shard, expert)


def test_a_shard_of_the_other_product() -> None:
    layer = new_layer(SINGLE, device())
    tensor = torch.zeros(128, 64, dtype=torch.int8)
    with pytest.raises(WeightLoadError, match="no shard 'w2'; it has 'w1', 'w3'"):
        layer.weight_loader(layer.get_parameter("w13_weight"), tensor, "a.tensor", "w2", 0)


def test_a_ready_layer_takes_no_more() -> None:
    loaded = build(SINGLE, SINGLE.checkpoint(np.random.default_rng(1)), device())
    layer = loaded.layer
    tensor = torch.zeros(64, 128, dtype=torch.int8)
    with pytest.raises(WeightLoadError, match="ready for forward and takes no more weights"):
        layer.weight_loader(layer.get_parameter("w13_weight"), tensor, "a.tensor", "w1", 0)


def test_a_forward_before_the_weights() -> None:
    layer = new_layer(SINGLE, device())
    x = torch.zeros(1, 128, dtype=torch.bfloat16, device=layer.device)
    with pytest.raises(RuntimeError, match=r"model\.layers\.0\.mlp\.experts"):
        layer(x, torch.zeros(1, 3, device=layer.device))


def test_blocks_that_ranks_or_shards_would_cut() -> None:
    with pytest.raises(ValueError, match=r"mlp\.experts.*128"):
        new_layer(replace(BLOCKS, intermediate=96), device())
