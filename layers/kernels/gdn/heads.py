"""The heads of a gated delta rule, and how they lie in the rows that its convolution gives."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Heads:
    """A rank's heads: Hk for queries and keys, Hv for values, gates, states and outputs.

    Value head h uses query and key head h // (Hv / Hk).
    """

    num_k_heads: int
    num_v_heads: int
    head_k_dim: int
    head_v_dim: int

    @property
    def key_size(self) -> int:
        """Hk · Dk: values of a token's keys, and of its queries."""
        return self.num_k_heads * self.head_k_dim

    @property
    def value_size(self) -> int:
        """Hv · Dv: values of a token's values."""
        return self.num_v_heads * self.head_v_dim

    @property
    def conv_size(self) -> int:
        """Channels of the convolution: [q | k | v]."""
        return 2 * self.key_size + self.value_size

    @property
    def group(self) -> int:
        """Value heads that share a key head."""
        return self.num_v_heads // self.num_k_heads

    @property
    def scale(self) -> float:
        """Dk^-1/2, by which outputs are multiplied."""
        return float(self.head_k_dim**-0.5)

    def split(self, mixed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """mixed (T, conv_size) -> views q and k (T, Hk, Dk), v (T, Hv, Dv)."""
        q, k, v = mixed.split([self.key_size, self.key_size, self.value_size], dim=1)
        return (
            q.unflatten(1, (self.num_k_heads, self.head_k_dim)),
            k.unflatten(1, (self.num_k_heads, self.head_k_dim)),
            v.unflatten(1, (self.num_v_heads, self.head_v_dim)),
        )
