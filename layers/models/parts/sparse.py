"""The feed-forward part of a layer with experts: a router, experts, and shared experts."""

from __future__ import annotations

import torch

from layers.distributed.communication import tensor_parallel_all_reduce
from layers.mlp.gated import GatedMLP
from layers.models.build import Build
from layers.models.config.deepseek import DeepseekConfig
from layers.moe.layer import FusedMoE
from layers.moe.router import ExpertRouter


class SharedExpertsMLP(torch.nn.Module):  # type: ignore[misc]
    """Routed experts by their weights, and shared ones with weight 1; the ranks sum once.

    Args:
        build: what all layers are built with.
        config: of the model.
        prefix: the name in the model, such as "model.layers.3.mlp".
    """

    def __init__(self, build: Build, config: DeepseekConfig, prefix: str) -> None:
        super().__init__()
        hidden, size = config.hidden_size, config.moe_intermediate_size
        self.gate = ExpertRouter(
            *(hidden, config.n_routed_experts),
            has_correction_bias=True,
            prefix=f"{prefix}.gate",
            device=build.device,
        )
        self.experts = FusedMoE(
            *(config.n_routed_experts, hidden, size),
            topk=config.topk,
            prefix=f"{prefix}.experts",
            correction_bias=self.gate.e_score_correction_bias,
            reduce_results=False,
            backend=build.backends.moe,
            **build.options,
        )
        self.shared_experts: GatedMLP | None = None
        if config.n_shared_experts:
            self.shared_experts = GatedMLP(
                *(hidden, size * config.n_shared_experts),
                prefix=f"{prefix}.shared_experts",
                reduce_results=False,
                **build.options,
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (T, hidden) -> (T, hidden), summed over the ranks."""
        out: torch.Tensor = self.experts(x, self.gate(x))
        if self.shared_experts is not None:
            out = out.add_(self.shared_experts(x))
        return tensor_parallel_all_reduce(out)
