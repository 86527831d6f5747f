"""The linear layer whose outputs are the logits of experts."""

from __future__ import annotations

from typing import Any

import torch

from layers.linear.replicated import ReplicatedLinear
from layers.parameter import FLOAT_DTYPES, BiasParameter


class ExpertRouter(ReplicatedLinear):
    """logits = x Wᵀ + b in float32, on every rank alike; never quantised.

    Args:
        hidden_size: of x.
        num_experts: logits a token.
        has_correction_bias: whether the checkpoint holds "e_score_correction_bias" (experts,),
            which a `FusedMoE` adds to the scores in choosing (DeepSeek-V3).
        options: bias, device; see `LinearBase`.

    Attributes:
        e_score_correction_bias: (experts,) float32, or None. A reload fills the same memory, as
            the layer of experts reads it.
    """

    e_score_correction_bias: torch.nn.Parameter | None

    def __init__(
        self,
        hidden_size: int,
        num_experts: int,
        *,
        has_correction_bias: bool = False,
        prefix: str = "",
        **options: Any,
    ) -> None:
        self._has_correction = has_correction_bias
        self._correction: list[BiasParameter] = []
        super().__init__(
            hidden_size, num_experts, params_dtype=torch.float32, prefix=prefix, **options
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (T, hidden) of a float dtype -> logits (T, experts) float32.

        Raises:
            RuntimeError: weights not loaded and processed.
            ValueError: x of another width or device.
        """
        return super().forward(x.float())

    def create_parameters(self) -> None:
        """The weight's, and the correction bias."""
        super().create_parameters()
        name = "e_score_correction_bias"
        if not self._has_correction:
            self.register_parameter(name, None)
            return
        if not self._correction:
            self._correction.append(
                BiasParameter(
                    self.layout,
                    name=name,
                    dtype=torch.float32,
                    device=self.device,
                    accepted_dtypes=FLOAT_DTYPES,
                )
            )
        (parameter,) = self._correction
        parameter.loaded_shards.clear()
        self.register_parameter(name, parameter)
