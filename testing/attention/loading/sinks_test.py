"""Sinks enter through the loader only, whole, once, and each rank takes those of its heads."""

import re

import numpy as np
import pytest
import torch

from layers.attention.layer import Attention
from layers.errors import WeightLoadError
from layers.weights import begin_weight_reload, load_weights, process_weights_after_loading
from testing.harness.attention.case import AttentionCase, Call, prefixes
from testing.harness.attention.examine import examine
from testing.harness.attention.layer import (
    PREFIX,
    LoadedAttention,
    build,
    model_of,
    new_layer,
)
from testing.harness.tensors import floats_to_torch

NAME = f"{PREFIX}.sinks"
CALLS = [Call("extend", ((3, 5), (17, 2))), Call("decode", prefixes([0, 15, 40]))]
DENSE = AttentionCase(8, 2, 64, sinks=True)
SWA = AttentionCase(8, 2, 64, sinks=True, window=7)


def fresh(case: AttentionCase = DENSE) -> tuple[Attention, torch.nn.Module]:
    layer = new_layer(case, "cpu")
    return layer, model_of(layer)


@pytest.mark.parametrize("case", [DENSE, SWA], ids=["dense", "swa"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_sinks_of_either_type_reach_their_heads(case: AttentionCase, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(1)
    sinks = case.random_sinks(rng)
    assert sinks is not None
    layer, model = fresh(case)
    load_weights(model, {NAME: floats_to_torch(sinks, dtype)})
    process_weights_after_loading(model)
    examine(LoadedAttention(case, layer, sinks), CALLS, rng, recorded=False).require()


@pytest.mark.parametrize("case", [DENSE, SWA], ids=["dense", "swa"])
def test_other_sinks_after_a_reload(case: AttentionCase) -> None:
    rng = np.random.default_rng(2)
    loaded = build(case, rng, "cpu")
    other = case.random_sinks(rng)
    assert other is not None
    begin_weight_reload(loaded.layer)
    load_weights(loaded.layer, {"sinks": floats_to_torch(other, torch.bfloat16)})
    process_weights_after_loading(loaded.layer)
    examine(LoadedAttention(case, loaded.layer, other), CALLS, rng, recorded=False).require()


@pytest.mark.parametrize("size", [2, 4, 8])
def test_each_rank_takes_the_sinks_of_its_heads(size: int) -> None:
    taken = []
    for rank in range(size):
        layer = Attention(8, 2, 64, has_sinks=True, prefix="attn", tp_rank=rank, tp_size=size)
        layer.weight_loader_v2(layer.get_parameter("sinks"), torch.arange(8.0))
        taken += layer.get_parameter("sinks").tolist()
        assert (layer.num_heads, layer.num_kv_heads) == (8 // size, max(1, 2 // size))
    assert taken == list(range(8))


REFUSED = {
    "missing": ({}, f"'{NAME}'"),
    "too few": ({NAME: torch.zeros(4)}, "has shape (4,), wanted (8,)"),
    "two dimensions": ({NAME: torch.zeros(8, 1)}, "has shape (8, 1), wanted (8,)"),
    "integers": ({NAME: torch.zeros(8, dtype=torch.int32)}, "has dtype torch.int32, wanted"),
    "another name": ({f"{PREFIX}.sink": torch.zeros(8)}, f"checkpoint tensor '{PREFIX}.sink'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_tensor_of_sinks_is_refused_by_name(name: str) -> None:
    tensors, message = REFUSED[name]
    _, model = fresh()
    with pytest.raises(WeightLoadError, match=re.escape(message)):
        load_weights(model, tensors)
        process_weights_after_loading(model)


def test_sinks_are_loaded_once() -> None:
    layer, model = fresh()
    load_weights(model, {NAME: torch.ones(8)})
    with pytest.raises(WeightLoadError, match="was loaded twice"):
        load_weights(model, {NAME: torch.zeros(8)})
    assert layer.get_parameter("sinks").tolist() == [1.0] * 8


def test_a_layer_without_sinks_takes_none() -> None:
    _, model = fresh(AttentionCase(8, 2, 64))
    with pytest.raises(WeightLoadError, match=re.escape(NAME)):
        load_weights(model, {NAME: torch.ones(8)})


def test_a_layer_that_is_not_loaded_gives_no_output() -> None:
    layer, _ = fresh()
    rng = np.random.default_rng(3)
    with pytest.raises(RuntimeError, match="is not ready for forward: load its weights"):
        examine(LoadedAttention(DENSE, layer, np.zeros(8)), CALLS, rng, recorded=False)
