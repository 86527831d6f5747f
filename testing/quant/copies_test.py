"""A copied layer, or one saved and loaded whole, is the same layer, and no larger."""

import copy
import io

import numpy as np
import pytest
import torch

from testing.harness.device import device
from testing.harness.linear import LinearCase, LoadedLinear, Method, build
from testing.harness.reachable import storages, tensors_within
from testing.harness.tensors import floats_to_torch
from testing.oracles.probes import natural
from testing.quant.every_method import everything_here, names_of

PAIRS = everything_here()
EACH = pytest.mark.parametrize(("method", "backend"), PAIRS, ids=names_of(PAIRS))
K = 512


def saved_and_loaded(layer: torch.nn.Module) -> torch.nn.Module:
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    loaded: torch.nn.Module = torch.load(file, weights_only=False)
    return loaded


def built(method: Method, backend: str | None) -> LoadedLinear:
    case = LinearCase(method, "merged", 4, {"gate": 256, "up": 128}, K, backend=backend)
    return build(case, case.checkpoint(np.random.default_rng(81)), device())


def held(layer: torch.nn.Module) -> int:
    return sum(storages(tensors_within([layer, layer.quant_method])).values())


def require_same(layer: torch.nn.Module, other: torch.nn.Module) -> None:
    x = floats_to_torch(natural(np.random.default_rng(82), 4, K), torch.bfloat16, device())
    assert torch.equal(layer(x), other(x))
    assert held(other) == held(layer)
    # What a forward reads of the copy is the copy's own parameters: without them nothing is left.
    before = layer(x)
    for parameter in other.parameters():
        parameter.data.view(torch.uint8).zero_()
    assert not other(x).isfinite().all() or not other(x).any()
    assert torch.equal(layer(x), before)


@EACH
def test_a_deep_copy_shares_no_memory_and_takes_no_more(
    method: Method, backend: str | None
) -> None:
    layer = built(method, backend).layer
    require_same(layer, copy.deepcopy(layer))


TORCH = [pair for pair in PAIRS if pair[1] in ("torch", None)]


@pytest.mark.parametrize(("method", "backend"), TORCH, ids=names_of(TORCH))
def test_a_ready_layer_can_be_saved_whole(method: Method, backend: str | None) -> None:
    layer = built(method, backend).layer
    require_same(layer, saved_and_loaded(layer))
