"""kv_b_proj reaches W_UK and W_UV of every head through the loader; other weights replace it."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

import layers.quantization.fp8
import layers.quantization.w8a8_fp8
import layers.quantization.w8a8_int8  # noqa: F401 all register themselves
from layers.weights import (
    WeightLoadError,
    begin_weight_reload,
    load_weights,
    process_weights_after_loading,
)
from testing.attention.mla import cases
from testing.attention.mla.call import random_call
from testing.attention.mla.layer import (
    PREFIX,
    LoadedMla,
    MlaCase,
    Named,
    build,
    checkpoint_tensors,
    heads_of,
    model_of,
    new_layer,
)
from testing.attention.mla.methods import QUANTISED, UNQUANTISED, UNQUANTISED_FP16
from testing.harness.linear import Method
from testing.harness.tensors import to_numpy
from testing.oracles.arrays import Float64
from testing.oracles.checkpoints import LinearCheckpoint
from testing.oracles.rounding import round_to

METHODS = [UNQUANTISED, UNQUANTISED_FP16, *QUANTISED]
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda m: m.format.name)


def case_of(method: Method) -> MlaCase:
    dtype = "float16" if method is UNQUANTISED_FP16 else "bfloat16"
    return replace(cases.PROMPTS, method=method, dtype=dtype)


@every_method
def test_every_cell_reaches_its_head(method: Method) -> None:
    case = case_of(method)
    checkpoint = case.checkpoint(np.random.default_rng(1))
    layer = build(case, checkpoint, "cpu").layer
    shape = case.shape
    heads = round_to(checkpoint.weight, case.kind).reshape(shape.heads, -1, shape.rank)
    np.testing.assert_array_equal(to_numpy(layer.w_kc), heads[:, : shape.nope])
    np.testing.assert_array_equal(to_numpy(layer.w_vc), heads[:, shape.nope :].transpose(0, 2, 1))


def outputs(loaded: LoadedMla, checkpoint: LinearCheckpoint) -> list[Float64]:
    found = []
    for like in (cases.PROMPTS, cases.MIXED, cases.DECODE):
        case = replace(like, method=loaded.case.method, dtype=loaded.case.dtype)
        call = random_call(case, checkpoint, np.random.default_rng(2))
        found.append(heads_of(call.inputs("cpu").forward(loaded.layer), case))
    return found


def reload(loaded: LoadedMla, checkpoint: LinearCheckpoint) -> None:
    model = model_of(loaded.layer)
    begin_weight_reload(model)
    load_weights(model, checkpoint_tensors(checkpoint))
    process_weights_after_loading(model)


@every_method
def test_a_reloaded_layer_is_a_fresh_one_and_the_first_weights_come_back(method: Method) -> None:
    case, rng = case_of(method), np.random.default_rng(3)
    first, second = case.checkpoint(rng), case.checkpoint(rng)
    loaded, fresh = build(case, first, "cpu"), build(case, second, "cpu")
    before = outputs(loaded, first)

    reload(loaded, second)

    for got, want, old in zip(outputs(loaded, first), outputs(fresh, first), before, strict=True):
        np.testing.assert_array_equal(got, want)
        assert not np.array_equal(got, old)
    reload(loaded, first)
    for got, want in zip(outputs(loaded, first), before, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_reload_drops_what_was_made_of_the_weight() -> None:
    case = case_of(UNQUANTISED)
    loaded = build(case, case.checkpoint(np.random.default_rng(4)), "cpu")
    assert loaded.layer.w_kc is not None

    begin_weight_reload(model_of(loaded.layer))

    # Twice the memory would be taken while the next weight comes.
    assert loaded.layer.w_kc is None
    assert loaded.layer.w_vc is None
    assert loaded.layer.backends == {}


def test_reloading_kv_b_proj_alone_leaves_the_layer_unready() -> None:
    case = case_of(UNQUANTISED)
    checkpoint = case.checkpoint(np.random.default_rng(4))
    loaded = build(case, checkpoint, "cpu")
    projection = loaded.layer.kv_b_proj
    begin_weight_reload(projection)
    load_weights(projection, {"weight": torch.zeros_like(projection.weight)})
    process_weights_after_loading(projection)
    assert not loaded.layer.is_ready
    with pytest.raises(RuntimeError, match="process_weights_after_loading"):
        outputs(loaded, checkpoint)


def test_a_missing_weight_is_named() -> None:
    case = case_of(UNQUANTISED)
    checkpoint = case.checkpoint(np.random.default_rng(5))
    with pytest.raises(WeightLoadError, match=rf"{PREFIX}\.kv_b_proj\.weight"):
        build(case, checkpoint, "cpu", lambda tensors: iter(()))


def renamed(tensors: Iterator[Named]) -> Iterator[Named]:
    for name, tensor in tensors:
        yield name.replace("kv_b_proj", "kv_a_proj"), tensor


def cut(tensors: Iterator[Named]) -> Iterator[Named]:
    for name, tensor in tensors:
        yield name, tensor[:-1]


@pytest.mark.parametrize(("change", "message"), [(renamed, "kv_a_proj"), (cut, "kv_b_proj")])
def test_a_tensor_of_another_name_or_shape_is_refused(change: object, message: str) -> None:
    case = case_of(UNQUANTISED)
    checkpoint = case.checkpoint(np.random.default_rng(6))
    with pytest.raises(WeightLoadError, match=message):
        build(case, checkpoint, "cpu", change)  # type: ignore[arg-type]


def test_the_layer_takes_no_tensor_of_its_own() -> None:
    layer = new_layer(case_of(UNQUANTISED), "cpu")
    with pytest.raises(WeightLoadError, match=r"no parameter of its own.*kv_b_proj\.weight"):
        layer.weight_loader_v2(layer.kv_b_proj.weight, torch.zeros(1))


@pytest.mark.parametrize("rank", range(2))
def test_a_rank_holds_its_heads(rank: int) -> None:
    case = case_of(QUANTISED[0])
    checkpoint = case.checkpoint(np.random.default_rng(7))
    layer = build(case, checkpoint, "cpu", tp_rank=rank, tp_size=2).layer
    shape = case.shape
    mine = slice(rank * shape.heads // 2, (rank + 1) * shape.heads // 2)
    heads = round_to(checkpoint.weight, case.kind).reshape(shape.heads, -1, shape.rank)[mine]
    np.testing.assert_array_equal(to_numpy(layer.w_kc), heads[:, : shape.nope])
    np.testing.assert_array_equal(to_numpy(layer.w_vc), heads[:, shape.nope :].transpose(0, 2, 1))
