"""What the roundings of a right implementation in 16 bits do to a reference model's logits.

At each `Stored` an implementation rounds: it adds an error between minus and plus half an ulp,
which depends on all bits of the value. Here it is drawn uniformly from there, independently at
every value, as in the classic model of rounding errors (Higham, Accuracy and Stability of Numerical
Algorithms, section 2.8); the model itself computes in float64. Repeated, this gives the
distribution of an implementation's error, whatever the architecture does with it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from testing.oracles.models.parts import Cached, Linear, Stored

# Bits of the significand, the hidden one among them.
SIGNIFICAND = {torch.bfloat16: 8, torch.float16: 11}
Quantise = Callable[[str, torch.Tensor], torch.Tensor]


@contextmanager
def rounded(
    model: torch.nn.Module,
    dtype: torch.dtype,
    seed: int,
    *,
    in_kernels: bool = False,
    ranks: int = 1,
) -> Iterator[None]:
    """Within it, the model's forward has roundings drawn from that seed.

    Args:
        model: of float64.
        dtype: bfloat16 or float16.
        seed: of the draw.
        in_kernels: also where only a GPU's kernels round.
        ranks: of a tensor parallel group. Each rounds its part of a sum and the sum is rounded: if
            parts are independent, their variances add up to that of one rounding more.
    """
    generator = torch.Generator().manual_seed(seed)

    def disturb(stored: Stored, _inputs: object, x: torch.Tensor) -> torch.Tensor:
        factor = 2.0**0.5 if stored.is_sum and ranks > 1 else 1.0
        drawn = torch.rand(x.shape, generator=generator, dtype=x.dtype) - 0.5
        return x + drawn * factor * ulp(x, dtype)

    places = [m for m in model.modules() if isinstance(m, Stored)]
    hooks = [p.register_forward_hook(disturb) for p in places if in_kernels or not p.in_kernels]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def quantised(model: torch.nn.Module, quantise: Quantise) -> Iterator[None]:
    """Within it, inputs of quantised linear layers pass `quantise`, which gets the layer's name.

    Args:
        model: whose weights are those that the checkpoint's codes stand for.
        quantise: (name, x (…, K) float64) -> what the format leaves of x.
    """
    hooks = []
    for name, module in model.named_modules():
        if isinstance(module, Linear) and module.quantised:

            def replace(
                _module: torch.nn.Module, inputs: tuple[torch.Tensor], name: str = name
            ) -> tuple[torch.Tensor]:
                return (quantise(name, inputs[0]),)

            hooks.append(module.register_forward_pre_hook(replace))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def cached(
    model: torch.nn.Module, encode: Callable[[str, torch.Tensor], torch.Tensor]
) -> Iterator[None]:
    """Within it, keys, values and latents pass `encode` on their way into the cache.

    Args:
        model: whose forward is run.
        encode: (place's name, x float64 of any shape) -> what the cache's format leaves of x.
    """
    places = [
        (name, module) for name, module in model.named_modules() if isinstance(module, Cached)
    ]
    hooks = [
        place.register_forward_hook(lambda _m, _i, x, name=name: encode(name, x))
        for name, place in places
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def ulp(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Spacing of `dtype` at |x|, float64; at and near zero that of the smallest normal number."""
    smallest = torch.finfo(dtype).tiny
    exponent = torch.frexp(x.detach().abs().clamp(min=smallest))[1] - 1
    return torch.ldexp(torch.ones_like(x), exponent - (SIGNIFICAND[dtype] - 1))
