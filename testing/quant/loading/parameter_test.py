"""What each kind of parameter takes from a checkpoint: slots, ids, ranges, all shards or none."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from layers.errors import WeightLoadError
from layers.linear.column import ColumnParallelLinear
from layers.linear.merged_column import MergedColumnParallelLinear
from layers.non_finite import has_non_finite
from layers.parameter import ModelWeightParameter
from layers.scale_parameter import BlockScaleParameter, PerTensorScaleParameter
from layers.sharding import LinearLayout, ShardId, Span

MERGED: Sequence[ShardId] = (0, 1, 2)
QKV: Sequence[ShardId] = ("q", "k", "v")


def layout(ids: Sequence[ShardId], rank: int = 0, ranks: int = 1) -> LinearLayout:
    rows = [(shard, Span.part(128 * (i + 1), rank, ranks)) for i, shard in enumerate(ids)]
    return LinearLayout.stacked("mlp.fused", rows, Span.whole(256))


def slots(ids: Sequence[ShardId], **options: Any) -> PerTensorScaleParameter:
    where = layout(ids, **options)
    return PerTensorScaleParameter(where, name="input_scale", dtype=torch.float32)


def scale(value: float, shape: tuple[int, ...] = ()) -> torch.Tensor:
    return torch.full(shape, value)


@pytest.mark.parametrize("ids", [MERGED, QKV], ids=["merged", "qkv"])
@pytest.mark.parametrize("shape", [(), (1,)], ids=["0-dim", "1-dim"])
@pytest.mark.parametrize("rank", [0, 1])
def test_each_shard_has_its_slot_on_every_rank(
    ids: Sequence[ShardId], shape: tuple[int, ...], rank: int
) -> None:
    parameter = slots(ids, rank=rank, ranks=2)
    for i in (2, 0, 1):
        assert ids[i] in parameter.missing_shards
        parameter.load(scale(10.0 + i, shape), ids[i])
    assert parameter.tolist() == [10, 11, 12]
    assert parameter.missing_shards == ()


def test_a_single_shard_has_one_slot() -> None:
    parameter = slots([None])
    parameter.load(scale(3.0))
    assert parameter.tolist() == [3]


@pytest.mark.parametrize(
    ("fused", "wanted"),
    [
        (scale(5.0), [5, 5, 5]),
        (scale(5.0, (1,)), [5, 5, 5]),
        (torch.tensor([1.0, 2, 3]), [1, 2, 3]),
    ],
    ids=["one for all", "one of a dimension", "one a shard"],
)
def test_scales_fused_on_disk(fused: torch.Tensor, wanted: list[float]) -> None:
    parameter = slots(MERGED)
    parameter.load(fused)
    assert parameter.tolist() == wanted
    assert parameter.missing_shards == ()


@pytest.mark.parametrize(
    ("tensor", "shard", "message"),
    [
        (scale(1.0, (2,)), None, r"fused tensor .* shape \(2,\), wanted one scale or \(3,\)"),
        (scale(1.0, (3, 1)), None, r"fused tensor .* shape \(3, 1\)"),
        (scale(1.0, (3,)), 1, r"shard 1 has shape \(3,\), wanted \(\)"),
        (scale(float("nan")), 1, "shard 1 holds NaN or Inf"),
        (torch.tensor([1.0, 2.0, float("inf")]), None, "shard 2 holds NaN or Inf"),
        (scale(1.0).double(), 1, "has dtype torch.float64"),
        (scale(1.0), 3, "has no shard 3; it has 0, 1, 2"),
        (scale(1.0), "1", "has no shard '1'; it has 0, 1, 2"),
        (scale(1.0), True, "has no shard True; it has 0, 1, 2"),
    ],
)
def test_scales_that_fit_no_slot(tensor: torch.Tensor, shard: ShardId, message: str) -> None:
    parameter = slots(MERGED)
    with pytest.raises(WeightLoadError, match=message):
        parameter.load(tensor, shard)
    assert parameter.missing_shards == MERGED


def test_a_slot_is_filled_once() -> None:
    parameter = slots(MERGED)
    parameter.load(scale(1.0), 1)
    for tensor, shard in ((scale(2.0), 1), (scale(2.0), None)):
        with pytest.raises(WeightLoadError, match=r"'mlp\.fused\.input_scale' shard 1 was loaded"):
            parameter.load(tensor, shard)
    assert parameter.missing_shards == (0, 2)


def test_a_fused_tensor_is_taken_whole_or_not_at_all() -> None:
    parameter = ModelWeightParameter(layout(MERGED), name="weight", dtype=torch.int8)
    parameter.data.zero_()
    parameter.load(torch.ones(256, 256, dtype=torch.int8), 1)
    with pytest.raises(WeightLoadError, match="shard 1 was loaded twice"):
        parameter.load(torch.full((768, 256), 2, dtype=torch.int8))
    assert parameter.missing_shards == (0, 2)
    assert parameter.data[:128].eq(0).all()
    assert parameter.data[128:384].eq(1).all()
    assert parameter.data[384:].eq(0).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_block_scale_that_is_not_finite(value: float) -> None:
    parameter = BlockScaleParameter(
        layout(MERGED),
        name="weight_scale_inv",
        dtype=torch.float32,
        row_unit=128,
        column_unit=128,
    )
    fused = torch.ones(6, 2)
    fused[5, 1] = value
    with pytest.raises(WeightLoadError, match=r"fused\.weight_scale_inv' shard 2 holds NaN"):
        parameter.load(fused)
    assert parameter.missing_shards == MERGED


@pytest.mark.parametrize(
    ("dtype", "bits", "bad"),
    [
        (torch.float8_e4m3fn, 0x7E, False),  # 448, the largest
        (torch.float8_e4m3fn, 0x7F, True),
        (torch.float8_e4m3fn, 0xFF, True),
        (torch.float8_e5m2, 0x7B, False),  # 57344, the largest
        (torch.float8_e5m2, 0xFC, True),  # -Inf
        (torch.float8_e5m2, 0x7D, True),
        (torch.float8_e8m0fnu, 0xFE, False),  # 2^127
        (torch.float8_e8m0fnu, 0xFF, True),
        (torch.uint8, 0xFE, False),
        (torch.uint8, 0xFF, True),
    ],
)
def test_codes_of_narrow_scales_that_are_not_finite(
    dtype: torch.dtype, bits: int, bad: bool
) -> None:
    scales = torch.full((2, 3), 0x38, dtype=torch.uint8)
    scales[1, 1] = bits
    assert has_non_finite(scales.view(dtype)) is bad


@pytest.mark.parametrize(
    ("own", "value", "limit"),
    [
        (torch.float16, 7e4, r"float16's 65504"),
        (torch.bfloat16, 3.4e38, r"bfloat16's 3\.38953e\+38"),
    ],
)
@pytest.mark.parametrize("beside", [1.0, float("inf")])
def test_an_infinity_that_the_cast_makes_is_seen_beside_one_that_was_there(
    own: torch.dtype, value: float, limit: str, beside: float
) -> None:
    layer = ColumnParallelLinear(16, 16, params_dtype=own, prefix="mlp.up_proj")
    weight = torch.ones(16, 16)
    weight[3, 5], weight[4, 6] = value, beside
    with pytest.raises(WeightLoadError, match=f"beyond {limit}"):
        layer.weight_loader_v2(layer.get_parameter("weight"), weight)


@pytest.mark.parametrize("value", [70000.0, -70000.0])
def test_values_beyond_float16(value: float) -> None:
    layer = ColumnParallelLinear(16, 16, params_dtype=torch.float16, prefix="mlp.up_proj")
    weight = torch.ones(16, 16, dtype=torch.bfloat16)
    layer.weight_loader_v2(layer.get_parameter("weight"), weight * 65024)
    layer = ColumnParallelLinear(16, 16, params_dtype=torch.float16, prefix="mlp.up_proj")
    weight[3, 5] = value
    with pytest.raises(WeightLoadError, match=r"values up to 70144, beyond float16's 65504"):
        layer.weight_loader_v2(layer.get_parameter("weight"), weight)
    assert layer.missing_weights() == ["'mlp.up_proj.weight'"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("own", [torch.float16, torch.bfloat16, torch.float32])
def test_float_weights_are_cast(dtype: torch.dtype, own: torch.dtype) -> None:
    layer = ColumnParallelLinear(16, 16, params_dtype=own, bias=True)
    layer.weight_loader_v2(layer.get_parameter("weight"), torch.full((16, 16), 1.5, dtype=dtype))
    layer.weight_loader_v2(layer.get_parameter("bias"), torch.full((16,), -0.5, dtype=dtype))
    for name, value in (("weight", 1.5), ("bias", -0.5)):
        assert layer.get_parameter(name).dtype == own
        assert layer.get_parameter(name).eq(value).all()


@pytest.mark.parametrize("foreign", ["other layer's", "plain"])
def test_a_parameter_of_another_layer(foreign: str) -> None:
    layer, other = (MergedColumnParallelLinear(16, [16, 16], prefix=p) for p in ("a", "b"))
    weight = other.get_parameter("weight")
    if foreign == "plain":
        weight = torch.nn.Parameter(torch.zeros(32, 16, dtype=torch.bfloat16))
    with pytest.raises(WeightLoadError, match=r"layer 'a': the parameter given is n"):
        layer.weight_loader_v2(weight, torch.zeros(16, 16, dtype=torch.bfloat16), 0)
    assert len(other.missing_weights()) == 2


def loaded_column() -> ColumnParallelLinear:
    layer = ColumnParallelLinear(16, 16, prefix="mlp.up_proj")
    weight = torch.ones(16, 16, dtype=torch.bfloat16)
    layer.weight_loader_v2(layer.get_parameter("weight"), weight)
    return layer


def test_a_copy_of_a_layer_is_as_loaded_as_the_layer() -> None:
    layer = copy.deepcopy(loaded_column())
    layer.process_weights_after_loading()
    assert layer(torch.ones(1, 16, dtype=torch.bfloat16)).eq(16).all()
    assert copy.deepcopy(ColumnParallelLinear(16, 16)).missing_weights() == ["'weight'"]


def test_a_converted_layer_is_refused() -> None:
    layer = loaded_column().half()
    with pytest.raises(WeightLoadError, match=r"'mlp\.up_proj\.weight' has dtype torch\.float16"):
        layer.process_weights_after_loading()


def test_a_parameter_that_was_replaced_counts_as_missing() -> None:
    layer = loaded_column()
    layer.weight = torch.nn.Parameter(torch.ones(16, 16, dtype=torch.bfloat16))
    with pytest.raises(WeightLoadError, match=r"'mlp\.up_proj\.weight' \(lost: if it was replaced"):
        layer.process_weights_after_loading()


def test_a_parameter_without_memory_takes_no_tensor() -> None:
    layer = ColumnParallelLinear(16, 16, prefix="mlp.up_proj", device="meta")
    with pytest.raises(WeightLoadError, match="is on the meta device"):
        layer.weight_loader_v2(layer.get_parameter("weight"), torch.ones(16, 16).bfloat16())
