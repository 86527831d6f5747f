"""A whole model's checkpoint: parameters outside of linear layers, packed modules, the registry."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from layers.errors import WeightLoadError
from layers.linear.column import ColumnParallelLinear
from layers.linear.merged_column import MergedColumnParallelLinear
from layers.quantization.registry import get_quantization_config, register
from layers.quantization.w8a8_int8 import W8A8Int8Config
from layers.weights import begin_weight_reload, load_weights, process_weights_after_loading

PACKED = {"gate_up_proj": ["gate_proj", "up_proj"]}


class Norm(torch.nn.Module):  # type: ignore[misc]
    """A layer that no quantisation method knows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4))


class Model(torch.nn.Module):  # type: ignore[misc]
    """A norm and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = Norm()
        self.gate_up_proj = MergedColumnParallelLinear(
            4, [2, 2], prefix="gate_up_proj", params_dtype=torch.float32
        )


def tensors(value: float) -> dict[str, torch.Tensor]:
    return {
        "norm.weight": torch.full((4,), value),
        "gate_proj.weight": torch.full((2, 4), value),
        "up_proj.weight": torch.full((2, 4), -value),
    }


def test_every_parameter_is_loaded_and_may_be_loaded_again_after_a_reload() -> None:
    model = Model()
    for value in (1.0, 2.0):
        load_weights(model, tensors(value).items(), PACKED)
        process_weights_after_loading(model)
        assert model.norm.weight.tolist() == [value] * 4
        assert model.gate_up_proj(torch.ones(1, 4)).tolist() == [[4 * value] * 2 + [-4 * value] * 2]
        begin_weight_reload(model)
    with pytest.raises(WeightLoadError, match=r"3 tensors were never loaded: .*'norm\.weight'"):
        process_weights_after_loading(model)


def test_a_missing_parameter_of_a_plain_module_is_listed() -> None:
    model = Model()
    load_weights(model, [item for item in tensors(1.0).items() if "norm" not in item[0]], PACKED)
    with pytest.raises(WeightLoadError, match=r"1 tensors were never loaded: 'norm\.weight'"):
        process_weights_after_loading(model)


def test_a_missing_parameter_of_the_model_itself() -> None:
    model = Norm()
    with pytest.raises(WeightLoadError, match=r"1 tensors were never loaded: 'weight'"):
        process_weights_after_loading(model)


def test_a_parameter_of_a_plain_module_loaded_twice() -> None:
    model = Model()
    load_weights(model, [("norm.weight", torch.ones(4))])
    with pytest.raises(WeightLoadError, match=r"'norm\.weight': it was loaded twice"):
        load_weights(model, [("norm.weight", torch.ones(4))])


@pytest.mark.parametrize(
    ("tensor", "seen"),
    [
        (torch.ones(5), r"\(5,\) torch\.float32"),
        (torch.ones(4, 1), r"\(4, 1\) torch\.float32"),
        (torch.ones(4).half(), r"\(4,\) torch\.float16"),
    ],
)
def test_a_plain_parameter_of_another_shape_or_dtype(tensor: torch.Tensor, seen: str) -> None:
    model = Model()
    with pytest.raises(
        WeightLoadError, match=rf"'norm\.weight': it is {seen}, wanted \(4,\) torch\.float32"
    ):
        load_weights(model, [("norm.weight", tensor)])
    assert model.norm.weight.tolist() == [0] * 4


@pytest.mark.parametrize("parts", [["gate_proj"], ["gate_proj", "up_proj", "down_proj"]])
def test_a_packed_list_of_another_length_than_the_layer(parts: list[str]) -> None:
    with pytest.raises(
        WeightLoadError, match=r"packed_modules_mapping fuses .* but that layer has 2 shards"
    ):
        load_weights(Model(), [("gate_proj.weight", torch.ones(2, 4))], {"gate_up_proj": parts})


def test_a_packed_list_for_a_layer_that_fuses_nothing() -> None:
    model = torch.nn.Module()
    model.add_module("gate_up_proj", ColumnParallelLinear(4, 4))
    with pytest.raises(WeightLoadError, match="but that layer has 1 shards"):
        load_weights(model, [("gate_proj.weight", torch.ones(2, 4))], PACKED)


def test_two_methods_of_one_name_are_refused() -> None:
    class Other(W8A8Int8Config):
        """Another."""

    with pytest.raises(ValueError, match=r"'w8a8_int8' is registered as .*W8A8Int8Config already"):
        register("w8a8_int8")(Other)
    assert get_quantization_config("w8a8_int8") is W8A8Int8Config
    assert register("w8a8_int8")(W8A8Int8Config) is W8A8Int8Config


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (None, "tensors is None, wanted pairs of name and tensor"),
        ([torch.ones(8)], r"tensors holds \(Tensor\), wanted pairs"),
        ([(5, torch.ones(8))], r"tensors holds \(int, Tensor\), wanted pairs"),
        ([("weight", torch.ones(8), 0)], r"tensors holds \(tuple\), wanted pairs"),
    ],
)
def test_tensors_that_are_no_pairs(tensors: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_weights(torch.nn.LayerNorm(8, bias=False), tensors)


def test_a_dict_of_tensors() -> None:
    norm = torch.nn.LayerNorm(8, bias=False)
    load_weights(norm, {"weight": torch.full((8,), 3.0)})
    process_weights_after_loading(norm)
    assert norm.weight.eq(3).all()


@pytest.mark.parametrize("packed", ["qkv", ["q_proj"], {"qkv_proj": "q_proj"}, {5: ["q_proj"]}])
def test_a_mapping_of_packed_modules_that_is_none(packed: Any) -> None:
    with pytest.raises(ValueError, match=r"packed_modules_mapping .*, wanted a"):
        load_weights(torch.nn.LayerNorm(8), [], packed)


@pytest.mark.parametrize("call", [begin_weight_reload, process_weights_after_loading])
def test_a_model_that_is_none(call: Callable[[Any], None]) -> None:
    with pytest.raises(ValueError, match=r"module is a NoneType, wanted a torch\.nn\.Module"):
        call(None)


@pytest.mark.parametrize("edit", [lambda t: t.to("meta"), lambda t: t.to_sparse()])
def test_a_tensor_of_a_plain_module_without_values(
    edit: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    with pytest.raises(WeightLoadError, match=r"checkpoint tensor 'weight': tensor for a plain"):
        load_weights(torch.nn.LayerNorm(8), [("weight", edit(torch.ones(8)))])
