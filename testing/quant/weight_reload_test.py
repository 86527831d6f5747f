"""A second checkpoint in a live layer leaves what a fresh layer holds and gives, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from layers.weights import begin_weight_reload, load_weights, process_weights_after_loading
from testing.harness.device import device
from testing.harness.linear import (
    PACKED,
    LinearCase,
    LoadedLinear,
    Method,
    build,
    checkpoint_tensors,
    model_of,
)
from testing.harness.memory import poisoned_memory
from testing.oracles.checkpoints import LinearCheckpoint
from testing.oracles.probes import natural
from testing.quant.every_method import everything_here, names_of

PAIRS = everything_here()
EACH = pytest.mark.parametrize(("method", "backend"), PAIRS, ids=names_of(PAIRS))


def case_of(
    method: Method, backend: str | None, kind: str = "qkv", fused: bool = False
) -> LinearCase:
    """Sizes that every backend takes; no bias, since not every one adds it."""
    shards = {"q": 256, "k": 128, "v": 128} if kind == "qkv" else {"": 384}
    return LinearCase(method, kind, 9, shards, 512, fused=fused, backend=backend)


def reload(loaded: LoadedLinear, checkpoint: LinearCheckpoint, fused: bool) -> None:
    case = replace(loaded.case, fused=fused)
    model = model_of(case, loaded.layer)
    with poisoned_memory():
        begin_weight_reload(model)
        load_weights(model, checkpoint_tensors(case, checkpoint), PACKED)
        process_weights_after_loading(model)


def parameters(loaded: LoadedLinear) -> dict[str, torch.Tensor]:
    return {name: p.data for name, p in loaded.layer.named_parameters()}


def require_same(reloaded: LoadedLinear, fresh: LoadedLinear) -> None:
    own, wanted = parameters(reloaded), parameters(fresh)
    assert own.keys() == wanted.keys()
    for name, tensor in wanted.items():
        other = own[name]
        assert (other.dtype, other.shape) == (tensor.dtype, tensor.shape), name
        assert other.stride() == tensor.stride(), name
        assert torch.equal(
            other.contiguous().view(torch.uint8), tensor.contiguous().view(torch.uint8)
        ), name
    rng = np.random.default_rng(71)
    for x in (natural(rng, 9, 512), natural(rng, 1, 512)):
        assert np.array_equal(reloaded(x), fresh(x))


@EACH
@pytest.mark.parametrize("kind", ["qkv", "row"])
def test_the_second_checkpoint_is_all_that_is_left(
    method: Method, backend: str | None, kind: str
) -> None:
    case = case_of(method, backend, kind)
    first, second = (case.checkpoint(np.random.default_rng(seed)) for seed in (34, 35))
    reloaded = build(case, first, device())
    reloaded(natural(np.random.default_rng(70), 9, 512))
    reload(reloaded, second, fused=False)
    require_same(reloaded, build(case, second, device()))


@EACH
def test_back_and_forth_and_from_a_fused_file(method: Method, backend: str | None) -> None:
    case = case_of(method, backend)
    first, second = (case.checkpoint(np.random.default_rng(seed)) for seed in (36, 37))
    layer = build(case, first, device())
    before = layer(natural(np.random.default_rng(72), 9, 512))
    reload(layer, second, fused=True)
    reload(layer, first, fused=True)
    require_same(layer, build(case, first, device()))
    assert np.array_equal(layer(natural(np.random.default_rng(72), 9, 512)), before)
