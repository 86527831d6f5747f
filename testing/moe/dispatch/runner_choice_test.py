"""A runner has to be able to do both matmuls of an expert, whose K and N differ."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from layers.kernels.capability import Backend, BackendUnavailable, Needs, Operation
from layers.kernels.moe.grouped_mm import GROUPED_MM
from layers.moe.layer import FusedMoE
from layers.moe.quantization.unquantized import UnquantizedMoEMethod
from layers.moe.topk import TopKConfig
from layers.weights import load_weights, process_weights_after_loading

(TORCH,) = (b for b in GROUPED_MM.backends if b.name == "torch")


def ready(hidden: int, intermediate: int, backend: str | None = None) -> FusedMoE:
    layer = FusedMoE(
        2,
        hidden,
        intermediate,
        topk=TopKConfig(1),
        params_dtype=torch.float32,
        prefix="experts",
        backend=backend,
    )
    tensors: dict[str, Any] = {
        "w13_weight": torch.ones(2, 2 * intermediate, hidden),
        "w2_weight": torch.ones(2, hidden, intermediate),
    }
    load_weights(layer, tensors.items())
    process_weights_after_loading(layer)
    return layer


@pytest.fixture(autouse=True)
def _picky(monkeypatch: pytest.MonkeyPatch) -> None:
    picky = Backend("triton", Needs(k_multiple=64), TORCH.load)
    operation = Operation(GROUPED_MM.name, (picky, TORCH))
    monkeypatch.setattr(UnquantizedMoEMethod, "multiply_operation", operation)


@pytest.mark.parametrize(
    ("hidden", "intermediate", "chosen"),
    [(64, 64, "triton"), (64, 32, "torch"), (32, 64, "torch")],
)
def test_the_first_that_can_do_both(hidden: int, intermediate: int, chosen: str) -> None:
    assert ready(hidden, intermediate).quant_method.backends[GROUPED_MM.name] == chosen


@pytest.mark.parametrize(("hidden", "intermediate"), [(64, 32), (32, 64)])
def test_one_asked_for_that_can_do_one_alone_is_refused(hidden: int, intermediate: int) -> None:
    with pytest.raises(BackendUnavailable, match="'triton' needs K divisible by 64, K is 32"):
        ready(hidden, intermediate, "triton")
