"""conv1d.weight, A_log and dt_bias reach their heads through the loader; others replace them."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from layers.attention.gdn.layer import GatedDeltaNet
from layers.weights import (
    WeightLoadError,
    begin_weight_reload,
    load_weights,
    process_weights_after_loading,
)
from testing.attention.gdn.layer import (
    PREFIX,
    SMALL,
    GdnCase,
    Named,
    build,
    checkpoint_tensors,
    inputs_of,
    model_of,
    new_layer,
)
from testing.harness.tensors import DTYPES, floats_to_torch, to_numpy
from testing.oracles.arrays import Float64
from testing.oracles.attention.gdn.gdn import GdnCall
from testing.oracles.rounding import round_to

CASE = GdnCase("extend", (3, 66))
DTYPE = DTYPES[CASE.dtype]


def call_of(seed: int) -> GdnCall:
    return CASE.call(np.random.default_rng(seed))


def held(layer: GatedDeltaNet) -> tuple[Float64, Float64, Float64]:
    conv = to_numpy(layer.conv1d_weight)
    assert conv.shape[1] == 1
    return conv[:, 0], to_numpy(layer.A_log), to_numpy(layer.dt_bias)


def test_every_cell_reaches_its_place() -> None:
    call = call_of(1)
    conv, a_log, dt_bias = held(build(CASE, call, "cpu"))
    np.testing.assert_array_equal(conv, round_to(call.conv, CASE.kind))
    np.testing.assert_array_equal(a_log, call.a_log.astype(np.float32))
    np.testing.assert_array_equal(dt_bias, call.dt_bias.astype(np.float32))


@pytest.mark.parametrize("rank", range(2))
def test_a_rank_holds_its_heads_of_q_of_k_and_of_v(rank: int) -> None:
    call, shape = call_of(2), SMALL
    layer = build(CASE, call, "cpu", tp_rank=rank, tp_size=2)
    keys, values = shape.k_heads * shape.k_dim, shape.v_heads * shape.v_dim
    rows = np.arange(2 * keys + values)
    parts = np.split(rows, [keys, 2 * keys])
    mine = np.concatenate([np.split(part, 2)[rank] for part in parts])
    heads = np.split(np.arange(shape.v_heads), 2)[rank]
    conv, a_log, dt_bias = held(layer)
    np.testing.assert_array_equal(conv, round_to(call.conv, CASE.kind)[mine])
    np.testing.assert_array_equal(a_log, call.a_log.astype(np.float32)[heads])
    np.testing.assert_array_equal(dt_bias, call.dt_bias.astype(np.float32)[heads])


def test_q_k_and_v_may_come_one_by_one() -> None:
    call = call_of(3)
    layer = new_layer(CASE, "cpu")
    keys = SMALL.k_heads * SMALL.k_dim
    whole = floats_to_torch(call.conv, DTYPE)[:, None]
    parts = dict(zip("qkv", whole.tensor_split([keys, 2 * keys]), strict=True))
    for shard in "kvq":
        assert f"'{PREFIX}.conv1d.weight' shard '{shard}'" in layer.missing_weights()
        layer.weight_loader_v2(layer.conv1d_weight, parts[shard], shard)
    assert torch.equal(layer.conv1d_weight, whole)


def test_fewer_bits_of_gates_widen_exactly() -> None:
    call = call_of(4)
    short = torch.from_numpy(call.dt_bias).bfloat16()

    def change(tensors: Iterator[Named]) -> Iterator[Named]:
        for name, tensor in tensors:
            yield name, short if name.endswith("dt_bias") else tensor

    layer = build(CASE, call, "cpu", change)
    assert layer.dt_bias.dtype is torch.float32
    assert torch.equal(layer.dt_bias, short.float())


def outputs(layer: GatedDeltaNet, call: GdnCall) -> list[Float64]:
    step = replace(CASE, mode="decode", lengths=(1, 1))
    single = step.call(np.random.default_rng(9))
    return [
        inputs_of(layer, CASE, call).forward(layer),
        inputs_of(layer, step, single).forward(layer),
    ]


def reload(layer: GatedDeltaNet, call: GdnCall) -> None:
    model = model_of(layer)
    begin_weight_reload(model)
    assert not layer.is_ready
    load_weights(model, checkpoint_tensors(call, DTYPE))
    process_weights_after_loading(model)


def test_a_reloaded_layer_is_a_fresh_one_and_the_first_weights_come_back() -> None:
    first, second = call_of(5), call_of(6)
    layer, fresh = build(CASE, first, "cpu"), build(CASE, second, "cpu")
    before = outputs(layer, first)

    reload(layer, second)

    for got, want, old in zip(outputs(layer, first), outputs(fresh, first), before, strict=True):
        np.testing.assert_array_equal(got, want)
        assert not np.array_equal(got, old)
    reload(layer, first)
    for got, want in zip(outputs(layer, first), before, strict=True):
        np.testing.assert_array_equal(got, want)


def without(name: str) -> Callable[[Iterator[Named]], Iterator[Named]]:
    return lambda tensors: (pair for pair in tensors if not pair[0].endswith(name))


def with_nan(tensors: Iterator[Named]) -> Iterator[Named]:
    for name, tensor in tensors:
        if name.endswith("A_log"):
            tensor = tensor.clone()
            tensor[1] = torch.nan
        yield name, tensor


def renamed(tensors: Iterator[Named]) -> Iterator[Named]:
    for name, tensor in tensors:
        yield name.replace("conv1d.weight", "conv1d.bias"), tensor


def flat(tensors: Iterator[Named]) -> Iterator[Named]:
    for name, tensor in tensors:
        yield name, tensor.squeeze()


def twice(tensors: Iterator[Named]) -> Iterator[Named]:
    for pair in tensors:
        yield from (pair, pair)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("conv1d.weight"), rf"{PREFIX}\.conv1d\.weight' shard 'q'"),
        (without("A_log"), rf"{PREFIX}\.A_log"),
        (without("dt_bias"), rf"{PREFIX}\.dt_bias"),
        (with_nan, r"A_log' holds NaN"),
        (renamed, r"conv1d\.bias"),
        (flat, r"conv1d\.weight' has shape \(\d+, 4\), wanted \(\d+, 1, 4\)"),
        (twice, r"conv1d\.weight' shard 'q' was loaded twice"),
    ],
    ids=["no conv", "no A_log", "no dt_bias", "NaN", "another name", "flat", "twice"],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    change: Callable[[Iterator[Named]], Iterator[Named]], message: str
) -> None:
    with pytest.raises(WeightLoadError, match=message):
        build(CASE, call_of(7), "cpu", change)


def test_a_ready_layer_takes_no_more() -> None:
    layer = build(CASE, call_of(8), "cpu")
    with pytest.raises(WeightLoadError, match="begin_weight_reload"):
        load_weights(layer, {"A_log": torch.zeros(SMALL.v_heads)})
