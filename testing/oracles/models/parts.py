"""What the reference models are made of: plain torch in one float dtype, nothing fused, no cache.

Modules carry the names that Hugging Face checkpoints use, so that a `state_dict()` is a checkpoint.
Everything is differentiable. Where a 16-bit implementation keeps a value in memory, and so rounds
it, the value passes a `Stored`, which does nothing: a test that wants to know what such roundings
do to the logits hooks it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from testing.oracles.attention.rope.rope import Llama3, Rope, Yarn

Config = Mapping[str, Any]


class Stored(torch.nn.Module):  # type: ignore[misc]
    """The identity, at a place where an implementation in 16 bits rounds.

    Args:
        is_sum: whether ranks of a tensor parallel group add up their parts here.
        in_kernels: a GPU's kernels round here, plain torch in float32 does not.
    """

    def __init__(self, is_sum: bool = False, *, in_kernels: bool = False) -> None:
        super().__init__()
        self.is_sum = is_sum
        self.in_kernels = in_kernels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x."""
        return x


class Cached(torch.nn.Module):  # type: ignore[misc]
    """The identity, where an implementation puts values in a cache, of codes perhaps."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x."""
        return x


class Linear(torch.nn.Linear):  # type: ignore[misc]
    """y = x Wᵀ + b, its output stored; `quantised` says whether a format of the model applies."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        bias: bool = False,
        quantised: bool = True,
        is_sum: bool = False,
    ) -> None:
        super().__init__(inputs, outputs, bias=bias)
        self.quantised = quantised
        self.out = Stored(is_sum)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (…, inputs) -> (…, outputs)."""
        return self.out(super().forward(x))


class RMSNorm(torch.nn.Module):  # type: ignore[misc]
    """x · weight / sqrt(mean(x²) + eps) (Zhang and Sennrich 2019, arXiv 1910.07467)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))
        self.eps = eps
        self.out = Stored()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (…, size) -> the same shape."""
        mean = x.pow(2).mean(dim=-1, keepdim=True)
        return self.out(x * torch.rsqrt(mean + self.eps) * self.weight)


class MLP(torch.nn.Module):  # type: ignore[misc]
    """down(silu(gate(x)) · up(x)) (Shazeer 2020, arXiv 2002.05202).

    Args:
        is_expert: an implementation keeps gate and up in float32, and so are they not stored.
    """

    def __init__(self, hidden: int, intermediate: int, *, is_expert: bool = False) -> None:
        super().__init__()
        self.gate_proj = Linear(hidden, intermediate)
        self.up_proj = Linear(hidden, intermediate)
        self.down_proj = Linear(intermediate, hidden, is_sum=True)
        self.h = Stored()
        if is_expert:
            for linear in (self.gate_proj, self.up_proj, self.down_proj):
                linear.out = torch.nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (…, hidden) -> the same shape."""
        return self.down_proj(self.h(F.silu(self.gate_proj(x)) * self.up_proj(x)))


class Rotary(torch.nn.Module):  # type: ignore[misc]
    """Turns pairs of values by their positions, from 0; see `testing.oracles.attention.rope`."""

    def __init__(self, dim: int, config: Config, style: str) -> None:
        super().__init__()
        self.rope = Rope(dim, _theta(config), style, scaling_of(config))
        self.out = Stored()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (B, T, heads, dim) -> the same shape."""
        steps = torch.arange(x.shape[1], dtype=torch.float64)
        angle = torch.outer(steps, torch.from_numpy(self.rope.frequencies()))
        cos, sin = (
            (f(angle) * self.rope.magnitude()).to(x.device, x.dtype)[:, None]
            for f in (torch.cos, torch.sin)
        )
        if self.rope.style == "neox":
            first, second = x.chunk(2, dim=-1)
        else:
            first, second = x[..., 0::2], x[..., 1::2]
        turned = (first * cos - second * sin, second * cos + first * sin)
        if self.rope.style == "neox":
            return self.out(torch.cat(turned, dim=-1))
        return self.out(torch.stack(turned, dim=-1).flatten(-2))


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scaling: float,
    window: int | None = None,
    sinks: torch.Tensor | None = None,
    store: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> torch.Tensor:
    """Causal attention of whole sequences.

    Args:
        q: (B, T, H, D); k: (B, T, Hkv, D), v: (B, T, Hkv, Dv): query head h reads h // (H / Hkv).
        scaling: of q·k.
        window: keys that a query sees, its own included; None is all before it.
        sinks: (H,), a logit that takes its share of the softmax and has no value.
        store: what the weights (B, H, T, T) pass on their way to the values.

    Returns:
        (B, T, H, Dv).
    """
    shared = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(shared, dim=2).transpose(1, 2) for x in (k, v))
    logits = q.transpose(1, 2) @ k.transpose(-1, -2) * scaling
    place = torch.arange(q.shape[1], device=q.device)
    distance = place[:, None] - place
    hidden = distance < 0
    if window is not None:
        hidden = hidden | (distance >= window)
    logits = logits.masked_fill(hidden, -torch.inf)
    if sinks is not None:
        column = sinks[:, None, None].expand(*logits.shape[:3], 1)
        logits = torch.cat((logits, column), dim=-1)
    weights = logits.softmax(dim=-1)[..., : q.shape[1]]
    if store is not None:
        weights = store(weights)
    return (weights @ v).transpose(1, 2)


def initialise(model: torch.nn.Module, seed: int, deviation: float) -> None:
    """Matrices and embeddings normal with that deviation; norms 1; biases and sinks 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() >= 2 and not name.endswith("_bias"):
                drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(drawn * deviation)
            else:
                parameter.fill_(1.0 if "norm" in name and name.endswith(".weight") else 0.0)


def scaling_of(config: Config) -> Yarn | Llama3 | None:
    """What config.json's `rope_scaling` says."""
    found = config.get("rope_scaling") or {}
    kind = found.get("rope_type", found.get("type", "default"))
    if kind == "default":
        return None
    options = {
        name: found[name]
        for name in ("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate")
        if name in found
    }
    if kind == "yarn":
        return Yarn(found["factor"], found["original_max_position_embeddings"], **options)
    if kind == "llama3":
        return Llama3(
            found["factor"],
            found["original_max_position_embeddings"],
            found["low_freq_factor"],
            found["high_freq_factor"],
        )
    raise ValueError(f"rope_scaling has type {kind!r}, wanted 'default', 'yarn' or 'llama3'")


def _theta(config: Config) -> float:
    return float(config.get("rope_theta", 10000.0))
