"""Each way in which checkpoint and layer can fail to fit is refused by name before a forward."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

import layers.quantization.blockwise_int8
import layers.quantization.w8a8_int8  # noqa: F401 both register themselves
from layers.linear.row import RowParallelLinear
from layers.quantization.registry import get_quantization_config
from layers.weights import (
    WeightLoadError,
    begin_weight_reload,
    load_weights,
    process_weights_after_loading,
)
from testing.harness.device import device
from testing.harness.linear import (
    PACKED,
    LinearCase,
    Method,
    Named,
    build,
    checkpoint_tensors,
    model_of,
    new_layer,
)
from testing.oracles.unquantised_formats import Unquantised
from testing.quant.int8.methods import BLOCK, CHANNEL

Change = Callable[[Iterator[Named]], Iterator[Named]]
MERGED = LinearCase(CHANNEL, "merged", 4, {"gate": 128, "up": 256}, 256, bias=True)
MERGED_BLOCK = LinearCase(BLOCK, "merged", 4, {"gate": 128, "up": 256}, 256)
QKV = LinearCase(CHANNEL, "qkv", 4, {"q": 256, "k": 128, "v": 128}, 256)
PLAIN = LinearCase(Method(Unquantised(), None), "column", 4, {"": 128}, 256)
GATE, UP = "model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj"


def refused(case: LinearCase, change: Change) -> str:
    checkpoint = case.checkpoint(np.random.default_rng(30))
    with pytest.raises(WeightLoadError) as error:
        build(case, checkpoint, device(), change)
    return str(error.value)


def edited(name: str, edit: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    def change(tensors: Iterator[Named]) -> Iterator[Named]:
        for other, tensor in tensors:
            yield other, edit(tensor) if other == name else tensor

    return change


def without(*names: str) -> Change:
    return lambda tensors: ((n, t) for n, t in tensors if n not in names)


def with_extra(name: str) -> Change:
    def change(tensors: Iterator[Named]) -> Iterator[Named]:
        yield from tensors
        yield name, torch.zeros(1)

    return change


def twice(name: str) -> Change:
    def change(tensors: Iterator[Named]) -> Iterator[Named]:
        for other, tensor in tensors:
            yield other, tensor
            if other == name:
                yield other, tensor

    return change


def test_tensor_of_no_layer() -> None:
    message = refused(MERGED, with_extra("model.layers.1.mlp.gate_proj.weight"))
    assert "'model.layers.1.mlp.gate_proj.weight' belongs to no layer" in message


def test_tensor_of_no_parameter() -> None:
    message = refused(MERGED, with_extra(f"{UP}.input_scale"))
    assert f"'{UP}.input_scale' has no parameter" in message
    assert "weight, weight_scale, bias" in message


def test_bias_for_a_layer_without_one() -> None:
    message = refused(replace(MERGED, bias=False), with_extra(f"{UP}.bias"))
    assert f"'{UP}.bias' has no parameter" in message


@pytest.mark.parametrize(
    ("case", "name", "seen", "wanted"),
    [
        (MERGED, f"{UP}.weight", "(255, 256)", "(256, 256)"),
        (MERGED, f"{UP}.weight_scale", "(255, 1)", "(256, 1)"),
        (MERGED, f"{GATE}.bias", "(127,)", "(128,)"),
        (MERGED_BLOCK, f"{UP}.weight_scale_inv", "(1, 2)", "(2, 2)"),
    ],
)
def test_wrong_shape(case: LinearCase, name: str, seen: str, wanted: str) -> None:
    message = refused(case, edited(name, lambda tensor: tensor[:-1]))
    assert name in message
    assert f"shape {seen}, wanted {wanted}" in message


def test_scale_without_its_second_dimension() -> None:
    message = refused(MERGED, edited(f"{UP}.weight_scale", lambda tensor: tensor[:, 0]))
    assert "shape (256,), wanted (256, 1)" in message


def test_a_transposed_weight() -> None:
    message = refused(MERGED, edited(f"{GATE}.weight", lambda tensor: tensor.t()))
    assert "shape (256, 128), wanted (128, 256)" in message


@pytest.mark.parametrize(
    ("case", "name", "dtype", "wanted"),
    [
        (MERGED, f"{UP}.weight", torch.uint8, "torch.int8"),
        (MERGED, f"{UP}.weight", torch.bfloat16, "torch.int8"),
        (MERGED, f"{UP}.weight_scale", torch.float64, "torch.float32"),
        (MERGED, f"{UP}.weight_scale", torch.float8_e4m3fn, "torch.float32"),
        (MERGED_BLOCK, f"{UP}.weight_scale_inv", torch.int8, "torch.float32"),
        (PLAIN, f"{UP}.weight", torch.int8, "torch.bfloat16"),
    ],
)
def test_wrong_dtype(case: LinearCase, name: str, dtype: torch.dtype, wanted: str) -> None:
    message = refused(case, edited(name, lambda tensor: tensor.to(dtype)))
    assert name in message
    assert f"has dtype {dtype}" in message
    assert wanted in message


@pytest.mark.parametrize("case", [MERGED, MERGED_BLOCK], ids=lambda c: c.method.format.name)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrower_scales_are_widened_exactly(case: LinearCase, dtype: torch.dtype) -> None:
    def rounded(tensors: Iterator[Named]) -> Iterator[Named]:
        return ((n, t.to(dtype) if "scale" in n else t) for n, t in tensors)

    def rounded_and_widened(tensors: Iterator[Named]) -> Iterator[Named]:
        return ((n, t.to(dtype).float() if "scale" in n else t) for n, t in tensors)

    checkpoint = case.checkpoint(np.random.default_rng(37))
    x = case.method.format.activations({}).lossless(np.random.default_rng(38), 4, 256)
    got, want = (
        build(case, checkpoint, device(), change)(x) for change in (rounded, rounded_and_widened)
    )
    assert np.array_equal(got, want)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scale_that_is_not_finite(value: float) -> None:
    def edit(scale: torch.Tensor) -> torch.Tensor:
        scale = scale.clone()
        scale[3] = value
        return scale

    message = refused(MERGED, edited(f"{UP}.weight_scale", edit))
    assert f"'{UP}.weight_scale'" in message
    assert "NaN or Inf" in message


def test_shard_loaded_twice() -> None:
    message = refused(MERGED, twice(f"{UP}.weight"))
    assert f"'{UP}.weight'" in message
    assert "shard 1 was loaded twice" in message


def test_fused_tensor_after_a_shard() -> None:
    checkpoint = MERGED.checkpoint(np.random.default_rng(31))
    fused = list(checkpoint_tensors(replace(MERGED, fused=True), checkpoint))

    def change(tensors: Iterator[Named]) -> Iterator[Named]:
        yield from tensors
        yield fused[0]

    assert "gate_up_proj.weight' shard 0 was loaded twice" in refused(MERGED, change)


def test_every_missing_shard_is_listed() -> None:
    message = refused(QKV, lambda tensors: (t for t in tensors if ".q_proj" in t[0]))
    assert message.startswith("4 tensors were never loaded")
    for parameter in ("weight", "weight_scale"):
        for shard in ("'k'", "'v'"):
            assert f"qkv_proj.{parameter}' shard {shard}" in message


def test_missing_bias() -> None:
    message = refused(MERGED, without(f"{GATE}.bias"))
    assert "1 tensors were never loaded: 'model.layers.0.mlp.gate_up_proj.bias' shard 0" in message


def test_fused_tensor_of_a_wrong_size() -> None:
    case = replace(MERGED, fused=True, bias=False)
    name = "model.layers.0.mlp.gate_up_proj.weight"
    message = refused(case, edited(name, lambda tensor: tensor[:-8]))
    assert "shape (376, 256), wanted (384, 256): shards [0, 1] of [128, 256] rows" in message


def test_forward_before_loading_is_over() -> None:
    layer = new_layer(MERGED, device())
    x = torch.zeros(1, 256, dtype=torch.bfloat16, device=device())
    with pytest.raises(RuntimeError, match=r"gate_up_proj.*process_weights_after_loading"):
        layer(x)


@pytest.mark.parametrize("case", [MERGED, MERGED_BLOCK, PLAIN], ids=lambda c: c.method.format.name)
def test_wrong_input(case: LinearCase) -> None:
    loaded = build(case, case.checkpoint(np.random.default_rng(32)), device())
    place = device()
    for x in (
        torch.zeros(2, 255, dtype=torch.bfloat16, device=place),
        torch.zeros(2, 256, dtype=torch.float16, device=place),
        torch.zeros((), dtype=torch.bfloat16, device=place),
    ):
        with pytest.raises(ValueError, match=re.escape(f"x is {tuple(x.shape)} {x.dtype}")):
            loaded.layer(x)


def test_a_ready_layer_takes_no_more_weights() -> None:
    checkpoint = MERGED.checkpoint(np.random.default_rng(33))
    loaded = build(MERGED, checkpoint, device())
    with pytest.raises(WeightLoadError, match="is ready for forward and takes no more weights"):
        load_weights(model_of(MERGED, loaded.layer), checkpoint_tensors(MERGED, checkpoint), PACKED)


@pytest.mark.parametrize("case", [MERGED, MERGED_BLOCK, PLAIN], ids=lambda c: c.method.format.name)
def test_a_second_checkpoint_gives_what_a_fresh_layer_gives(case: LinearCase) -> None:
    first, second = (case.checkpoint(np.random.default_rng(seed)) for seed in (34, 35))
    reloaded = build(case, first, device())
    model = model_of(case, reloaded.layer)
    begin_weight_reload(model)
    load_weights(model, checkpoint_tensors(case, second), PACKED)
    process_weights_after_loading(model)
    x = case.method.format.activations({}).lossless(np.random.default_rng(36), 4, 256)
    assert np.array_equal(reloaded(x), build(case, second, device())(x))


def test_a_rank_boundary_inside_a_block() -> None:
    config = get_quantization_config("blockwise_int8").from_config(dict(BLOCK.config or {}))
    with pytest.raises(ValueError, match=r"mlp\.down_proj.*448 of 896 input columns.*128 columns"):
        RowParallelLinear(
            896,
            256,
            tp_rank=0,
            tp_size=2,
            reduce_results=False,
            quant_config=config,
            prefix="mlp.down_proj",
        )
