"""Other weights in a live MoE layer give what a fresh layer gives, and no weight stays twice."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest
import torch

import layers.moe.quantization.fp8
import layers.moe.quantization.int8
import layers.moe.quantization.mxfp4
import layers.moe.quantization.nvfp4
import layers.quantization.blockwise_int8
import layers.quantization.fp8
import layers.quantization.modelopt_fp4
import layers.quantization.mxfp4
import layers.quantization.w8a8_fp8
import layers.quantization.w8a8_int8  # noqa: F401 all register themselves
from layers.weights import begin_weight_reload, load_weights, process_weights_after_loading
from testing.harness.device import device
from testing.harness.moe.layer import (
    LoadedMoe,
    MoeCase,
    MoeMethod,
    build,
    checkpoint_tensors,
    model_of,
)
from testing.moe.fp4.mxfp4_methods import MXFP4
from testing.moe.fp4.nvfp4_methods import W4A4
from testing.moe.fp8 import methods as fp8
from testing.moe.int8 import methods as int8
from testing.oracles.moe.checkpoints import MoeCheckpoint
from testing.oracles.moe.probes import router_logits
from testing.oracles.probes import natural
from testing.oracles.unquantised_formats import Unquantised

METHODS = {
    "unquantised": MoeMethod(Unquantised(), None),
    "int8_channel": int8.CHANNEL,
    "int8_block": int8.BLOCK,
    "fp8_static": fp8.STATIC,
    "fp8_dynamic": fp8.DYNAMIC,
    "fp8_channel": fp8.CHANNEL,
    "fp8_block": fp8.BLOCK,
    "nvfp4": W4A4,
    "mxfp4": MXFP4,
}
every_method = pytest.mark.parametrize("name", METHODS)


def case_of(name: str) -> MoeCase:
    case = MoeCase(METHODS[name], 16, 4, 256, 256, bias=True)
    return replace(case, naming="gpt_oss", activation="swiglu_oai") if name == "mxfp4" else case


def outputs(loaded: LoadedMoe) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    rng = np.random.default_rng(5)
    case = loaded.case
    return [
        loaded(natural(rng, tokens, case.hidden), router_logits(rng, tokens, case.experts))
        for tokens in (16, 1)
    ]


def reload(loaded: LoadedMoe, checkpoint: MoeCheckpoint) -> None:
    model = model_of(loaded.layer)
    begin_weight_reload(model)
    load_weights(model, checkpoint_tensors(loaded.case, checkpoint))
    process_weights_after_loading(model)


@every_method
def test_a_reloaded_layer_is_a_fresh_one(name: str) -> None:
    case, rng = case_of(name), np.random.default_rng(6)
    first, second = case.checkpoint(rng), case.checkpoint(rng)
    loaded, fresh = build(case, first, device()), build(case, second, device())
    before = outputs(loaded)

    reload(loaded, second)

    want, got = outputs(fresh), outputs(loaded)
    assert all(np.array_equal(a, b) for a, b in zip(want, got, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(before, got, strict=True))
    for (a, kept), (b, other) in zip(
        fresh.layer.named_parameters(), loaded.layer.named_parameters(), strict=True
    ):
        assert (a, kept.shape, kept.dtype) == (b, other.shape, other.dtype)
        assert torch.equal(kept.data.view(torch.uint8), other.data.view(torch.uint8)), a


@every_method
def test_the_first_weights_come_back(name: str) -> None:
    case, rng = case_of(name), np.random.default_rng(7)
    first, second = case.checkpoint(rng), case.checkpoint(rng)
    loaded = build(case, first, device())
    before = outputs(loaded)
    reload(loaded, second)
    reload(loaded, first)
    assert all(np.array_equal(a, b) for a, b in zip(before, outputs(loaded), strict=True))


def held_bytes() -> int:
    """Memory of every tensor that is alive, each storage counted once."""
    gc.collect()
    tensors = [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor) and not o.is_meta]
    storages = [t.untyped_storage() for t in tensors]
    return sum({s.data_ptr(): s.nbytes() for s in storages}.values())


@every_method
def test_no_second_copy_of_a_weight_stays(name: str) -> None:
    # Half a copy is the limit: one kept beside, let alone one dequantised, is a whole one at least,
    # and what post-load may add, such as a scale for each row, is a few in a hundred.
    case, rng = case_of(name), np.random.default_rng(8)
    checkpoint = case.checkpoint(rng)
    stored = sum(t.nbytes for _, t in checkpoint_tensors(case, checkpoint))
    before = held_bytes()

    loaded = build(case, checkpoint, device())

    after = held_bytes() - before
    assert stored * 0.99 <= after < 1.5 * stored
    outputs(loaded)
    assert held_bytes() - before < 1.5 * stored, "a forward left memory behind"
    reload(loaded, checkpoint)
    assert held_bytes() - before < 1.5 * stored, "a reload left memory behind"
