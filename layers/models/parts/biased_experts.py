"""gpt-oss's feed-forward part: a router and experts, all with biases, and a clamped activation."""

from __future__ import annotations

import torch

from layers.models.build import Build
from layers.models.config.gpt_oss import GptOssConfig
from layers.moe.layer import FusedMoE
from layers.moe.router import ExpertRouter


class BiasedExpertsMLP(torch.nn.Module):  # type: ignore[misc]
    """The chosen experts by their weights, summed over the ranks.

    Args:
        build: what all layers are built with.
        config: of the model.
        prefix: the name in the model, such as "model.layers.0.mlp".
    """

    def __init__(self, build: Build, config: GptOssConfig, prefix: str) -> None:
        super().__init__()
        hidden, experts = config.hidden_size, config.num_experts
        self.router = ExpertRouter(
            hidden, experts, bias=True, prefix=f"{prefix}.router", device=build.device
        )
        self.experts = FusedMoE(
            *(experts, hidden, config.intermediate_size),
            topk=config.topk,
            activation="swiglu_oai",
            has_bias=True,
            prefix=f"{prefix}.experts",
            backend=build.backends.moe,
            **build.options,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (T, hidden) -> (T, hidden), summed over the ranks."""
        out: torch.Tensor = self.experts(x, self.router(x))
        return out
