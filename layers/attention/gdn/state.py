"""What a gated delta layer keeps of each request between calls."""

from __future__ import annotations

import torch

from layers.kernels.gdn.heads import Heads
from layers.sharding import check_integers


class GDNState:
    """Slots of convolution inputs and recurrent states, of one layer on one rank.

    Memory of `ssm` lies values first, (slots, Hv, Dv, Dk), as kernels read it; the attribute is a
    view of it in the order of the definition.

    Args:
        num_slots: requests whose state can be held at once.
        num_k_heads, num_v_heads, head_k_dim, head_v_dim: of this rank.
        conv_width: taps of the convolution, W.
        dtype: of the convolution's inputs: the layer's params_dtype.
        device: of the tensors; None is torch's default device.

    Attributes:
        conv: (slots, 2·Hk·Dk + Hv·Dv, W - 1) of dtype: the last inputs, oldest first.
        ssm: (slots, Hv, Dk, Dv) float32.

    Raises:
        ValueError: a size below 1, or no integer.
    """

    def __init__(
        self,
        num_slots: int,
        num_k_heads: int,
        num_v_heads: int,
        head_k_dim: int,
        head_v_dim: int,
        conv_width: int = 4,
        *,
        dtype: torch.dtype = torch.bfloat16,
        device: torch.device | str | None = None,
    ) -> None:
        sizes = {
            "num_slots": num_slots,
            "num_k_heads": num_k_heads,
            "num_v_heads": num_v_heads,
            "head_k_dim": head_k_dim,
            "head_v_dim": head_v_dim,
            "conv_width": conv_width,
        }
        check_integers("GDNState", **sizes)
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"GDNState: {name} is {size}, wanted at least 1.")
        heads = Heads(num_k_heads, num_v_heads, head_k_dim, head_v_dim)
        self.conv = torch.zeros(
            (num_slots, heads.conv_size, conv_width - 1), dtype=dtype, device=device
        )
        memory = (num_slots, num_v_heads, head_v_dim, head_k_dim)
        self.ssm = torch.zeros(memory, dtype=torch.float32, device=device).mT

    @property
    def num_slots(self) -> int:
        """How many requests it holds."""
        return int(self.ssm.shape[0])
