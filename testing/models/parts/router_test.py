"""Routers: logits of float32, and a correction bias that experts read after a reload too."""

import torch

from layers.moe.layer import FusedMoE
from layers.moe.router import ExpertRouter
from layers.moe.topk import TopKConfig
from layers.weights import begin_weight_reload, load_weights, process_weights_after_loading
from testing.harness.device import device

EXPERTS, HIDDEN = 4, 32


class Block(torch.nn.Module):  # type: ignore[misc]
    """A router and its experts, as a model has them."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = ExpertRouter(
            HIDDEN, EXPERTS, has_correction_bias=True, prefix="gate", device=device()
        )
        self.experts = FusedMoE(
            *(EXPERTS, HIDDEN, 32),
            topk=TopKConfig(top_k=1, scoring_func="sigmoid"),
            correction_bias=self.gate.e_score_correction_bias,
            prefix="experts",
            device=device(),
        )

    def load(self, favourite: int) -> None:
        """Weights of experts are their numbers; the bias decides who is chosen."""
        bias = torch.zeros(EXPERTS)
        bias[favourite] = 10.0
        tensors = {
            "gate.weight": torch.zeros(EXPERTS, HIDDEN),
            "gate.e_score_correction_bias": bias,
        }
        for expert in range(EXPERTS):
            for name in ("gate_proj", "up_proj", "down_proj"):
                tensors[f"experts.{expert}.{name}.weight"] = torch.full((32, 32), expert + 1.0)
        load_weights(self, tensors)
        process_weights_after_loading(self)

    def chosen(self) -> list[int]:
        """The expert of one token."""
        x = torch.ones((1, HIDDEN), dtype=torch.bfloat16, device=device())
        ids: list[int] = (
            self.experts.select_experts(
                self.gate(x), self.experts.topk, self.experts._correction_bias[0]
            )
            .ids[0]
            .tolist()
        )
        self.experts(x, self.gate(x))
        return ids


def test_the_correction_bias_is_read_also_after_a_reload() -> None:
    block = Block()
    block.load(favourite=2)
    assert block.chosen() == [2]
    begin_weight_reload(block)
    block.load(favourite=1)
    assert block.chosen() == [1]


def test_logits_are_not_rounded() -> None:
    router = ExpertRouter(HIDDEN, EXPERTS, bias=True, prefix="router", device=device())
    weight = torch.full((EXPERTS, HIDDEN), 1.0)
    bias = torch.tensor([0.0, 2**-12, 1.0, -1.0])
    load_weights(router, {"weight": weight, "bias": bias})
    process_weights_after_loading(router)
    logits = router(torch.ones((1, HIDDEN), dtype=torch.bfloat16, device=device()))
    assert logits.dtype is torch.float32
    assert logits[0].tolist() == [32.0, 32.0 + 2**-12, 33.0, 31.0]
