"""Training under MXFP4: experts multiply by what the format leaves of their weights.

As gpt-oss was trained: its experts' weights lie on the format's grid, and lose nothing when they
are stored in it. Gradients pass the rounding unchanged (Bengio et al. 2013, arXiv 1308.3432).
"""

from __future__ import annotations

import torch
from torch.nn.utils import parametrize

_BLOCK = 32
_LARGEST_EXPONENT = 2
_LARGEST = 6.0


def rounded_to_mxfp4(weight: torch.Tensor) -> torch.Tensor:
    """(E, K, N) -> the same shape: e2m1 codes, a power of two for 32 values along K.

    Rule: OCP Microscaling Formats 1.0, section 6.3: scale 2^(floor(log2 amax) - 2), half to even,
    saturating.
    """
    experts, k, n = weight.shape
    blocks = weight.detach().view(experts, k // _BLOCK, _BLOCK, n)
    amax = blocks.abs().amax(2, keepdim=True)
    # frexp gives 0.5 ≤ fraction < 1: the exponent is one above floor(log2).
    exponent = torch.frexp(amax)[1] - 1 - _LARGEST_EXPONENT
    scaled = torch.ldexp(blocks, -exponent)
    # Codes lie 2^(e - 1) apart where 2^e is the power of two below the value, at least 0.5.
    spacing = torch.ldexp(torch.ones_like(scaled), (torch.frexp(scaled)[1] - 1).clamp(min=0) - 1)
    codes = (torch.round(scaled / spacing) * spacing).clamp(-_LARGEST, _LARGEST)
    return torch.ldexp(codes, exponent).view_as(weight)


class Mxfp4Weight(torch.nn.Module):  # type: ignore[misc]
    """A parametrisation that is the identity till `enabled`."""

    def __init__(self) -> None:
        super().__init__()
        self.enabled = False

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """(E, K, N) -> the same shape."""
        if not self.enabled:
            return weight
        return weight + (rounded_to_mxfp4(weight) - weight).detach()


def add_rounding(model: torch.nn.Module) -> list[Mxfp4Weight]:
    """Puts a rounding, not enabled yet, before each expert tensor of a gpt-oss-like model."""
    added = []
    for module in list(model.modules()):
        for name in ("gate_up_proj", "down_proj"):
            if isinstance(getattr(module, name, None), torch.nn.Parameter):
                added.append(Mxfp4Weight())
                parametrize.register_parametrization(module, name, added[-1])
    return added


def keep_rounded(model: torch.nn.Module) -> None:
    """Makes the rounded weights the model's own."""
    for module in list(model.modules()):
        if parametrize.is_parametrized(module):
            for name in list(module.parametrizations):
                parametrize.remove_parametrizations(module, name)
