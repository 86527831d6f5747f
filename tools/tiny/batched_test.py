"""All experts at once give the reference's outputs and gradients."""

from typing import Any

import pytest
import torch

from testing.oracles.models.build import build
from tools.tiny.batched import batch_experts, restore_experts
from tools.tiny.shapes import SHAPES


def _run(name: str, batched: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model: Any = build(SHAPES[name], torch.float64)
    model.initialise(1)
    if batched:
        batch_experts(model)
    ids = torch.randint(512, (2, 12), generator=torch.Generator().manual_seed(2))
    run = model.forward_with_draft if name == "mla_moe_mtp" else lambda ids: (model(ids),)
    logits = torch.cat([part.flatten() for part in run(ids)])
    logits.sin().sum().backward()
    return logits, {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", ["mla_moe_mtp", "gpt_oss"])
def test_batched_experts_are_the_references(name: str) -> None:
    (logits, gradients), (wanted, wanted_gradients) = (_run(name, b) for b in (True, False))
    torch.testing.assert_close(logits, wanted, rtol=1e-9, atol=1e-9)  # float64, other order of sums
    for parameter, gradient in wanted_gradients.items():
        torch.testing.assert_close(gradients[parameter], gradient, rtol=1e-8, atol=1e-9)


def test_the_references_forward_comes_back() -> None:
    model: Any = build(SHAPES["gpt_oss"])
    batch_experts(model)
    assert "forward" in vars(model.model.layers[0].mlp)
    restore_experts(model)
    assert "forward" not in vars(model.model.layers[0].mlp)
