"""What all layers of a model are built with."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import torch

from layers.models.config.base import ModelConfig
from layers.models.errors import ModelConfigError
from layers.norm.rms_norm import RMSNorm
from layers.quantization.base import QuantizationConfig
from layers.rotary.embedding import RotaryEmbedding


@dataclass(frozen=True)
class Backends:
    """Names of backends; None chooses by capability.

    Attributes:
        attention: of attention layers.
        linear: of quantised linear layers.
        moe: of the runner of experts.
    """

    attention: str | None = None
    linear: str | None = None
    moe: str | None = None


@dataclass(frozen=True)
class Build:
    """Device, dtype, quantisation and backends of a model's layers.

    Attributes:
        device: of all parameters.
        params_dtype: of activations and unquantised weights: float16 or bfloat16.
        quant_config: chooses methods by layers' names; None is unquantised.
        backends: by kind of layer.
    """

    device: torch.device
    params_dtype: torch.dtype
    quant_config: QuantizationConfig | None = None
    backends: Backends = field(default_factory=Backends)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of a linear layer whose weight may be quantised."""
        return {**self.unquantised, "quant_config": self.quant_config}

    @property
    def unquantised(self) -> dict[str, Any]:
        """Arguments of a linear layer that no published checkpoint quantises."""
        return {"params_dtype": self.params_dtype, "device": self.device}

    def norm(self, config: ModelConfig, prefix: str, size: int | None = None) -> RMSNorm:
        """A norm of hidden states, or of `size` values."""
        return RMSNorm(
            config.hidden_size if size is None else size,
            config.rms_norm_eps,
            params_dtype=self.params_dtype,
            prefix=prefix,
            device=self.device,
        )

    def rotary(self, config: ModelConfig, rotary_dim: int, style: str) -> RotaryEmbedding:
        """The table that all layers share; on the meta device of one row, as nothing reads it.

        Raises:
            ModelConfigError: the table does not fit into the machine's memory.
        """
        rows = 1 if self.device.type == "meta" else config.max_position
        # Of the angles in float64, cos and sin of them, and both in float32.
        needed = rows * rotary_dim // 2 * 32
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > memory:
            raise ModelConfigError(
                f"max_position_embeddings is {config.max_position}, whose table of rotations takes "
                f"{needed:,} bytes to make, and this machine has {memory:,} in all: wanted "
                f"{memory // (rotary_dim // 2 * 32)} at most. Lower it in config.json."
            )
        return RotaryEmbedding(
            rotary_dim,
            config.rope_theta,
            rows,
            style,
            config.rope_scaling,
            device=self.device,
        )
