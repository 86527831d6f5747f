"""Rotary position embedding (Su et al. 2021, arXiv 2104.09864): pairs of values turned by angles.

Pair i of a token at position p is turned by p · f_i; see `layers.rotary.rotate`.

| style | pair i | used by |
| --- | --- | --- |
| neox | (i, i + rotary_dim / 2) | Llama, Qwen and most others in Hugging Face's layout |
| gptj | (2i, 2i + 1) | GPT-J, DeepSeek's MLA |

Angles are computed in float64 and cos and sin kept as float32; a rotation is computed in float32
and rounded once to its input's dtype.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from layers.kernels.capability import Problem, select_backend
from layers.rotary.rotate import ROTATE
from layers.rotary.scaling import RotaryScaling, plain_frequencies

STYLES = ("neox", "gptj")


class RotaryEmbedding(torch.nn.Module):  # type: ignore[misc]
    """A table of cos and sin for every position, and the rotation by it.

    Args:
        rotary_dim: even; values of a head that are turned, its first ones.
        base: of the frequencies, such as 10000.
        max_position: rows of the table; positions are below it.
        style: "neox" or "gptj".
        scaling: None, `YarnScaling` or `Llama3Scaling`.
        device: of the table; None is torch's default device.

    Attributes:
        cos, sin: (max_position, rotary_dim / 2) float32.

    Raises:
        ValueError: an odd dimension, a base or a length not above 0, or another style.
    """

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(
        self,
        rotary_dim: int,
        base: float,
        max_position: int,
        style: str = "neox",
        scaling: RotaryScaling | None = None,
        *,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        _check(rotary_dim, base, max_position, style)
        self.rotary_dim = rotary_dim
        self.base = base
        self.max_position = max_position
        self.style = style
        self.scaling = scaling
        self._rotations: dict[torch.device, Callable[..., list[torch.Tensor]]] = {}
        cos, sin = _table(rotary_dim, base, max_position, scaling)
        device = torch.empty(0, device=device).device
        self.register_buffer("cos", cos.to(device), persistent=False)
        self.register_buffer("sin", sin.to(device), persistent=False)

    def forward(self, positions: torch.Tensor, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Turns tokens by their positions.

        Args:
            positions: (T,) int32 or int64, from 0 to max_position - 1. On a GPU nobody looks, as
                that would wait for it; torch's own assertion stops the process there.
            tensors: each (T, …, D) with D >= rotary_dim, such as queries (T, H, D) and keys (T, D);
                values from rotary_dim on stay as they are.

        Returns:
            As many, of the same shapes and dtypes, in new memory.

        Raises:
            ValueError: other shapes, or (on the CPU) a position outside the table.
        """
        self._check_input(positions, tensors)
        dim = self.rotary_dim
        parts = tuple(x[..., :dim] for x in tensors)
        turned = self._rotation(positions.device)(parts, positions, self.cos, self.sin, self.style)
        return [
            out if x.shape[-1] == dim else torch.cat((out, x[..., dim:]), dim=-1)
            for out, x in zip(turned, tensors, strict=True)
        ]

    def extra_repr(self) -> str:
        """Sizes, style and scaling, for `print(model)`."""
        return f"{self.rotary_dim}, base={self.base}, {self.style}, {self.scaling}"

    def _rotation(self, device: torch.device) -> Callable[..., list[torch.Tensor]]:
        """The backend for a device; which dtypes come makes no difference to it."""
        found = self._rotations.get(device)
        if found is None:
            problem = Problem(torch.float32, k=self.rotary_dim)
            found = self._rotations[device] = select_backend(ROTATE, device, problem).load()
        return found

    def _check_input(self, positions: torch.Tensor, tensors: tuple[torch.Tensor, ...]) -> None:
        if positions.dim() != 1 or positions.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                f"positions are {tuple(positions.shape)} {positions.dtype}, wanted (T,) int64: one "
                f"a token."
            )
        for x in tensors:
            if x.dim() < 2 or x.shape[0] != len(positions) or x.shape[-1] < self.rotary_dim:
                raise ValueError(
                    f"x is {tuple(x.shape)}, wanted ({len(positions)}, ..., {self.rotary_dim} or "
                    f"more): a row for each of the positions."
                )
            if x.device != positions.device or self.cos.device != positions.device:
                raise ValueError(
                    f"x is on {x.device}, positions on {positions.device} and the rotary embedding "
                    f"on {self.cos.device}, wanted one device."
                )
        if positions.device.type == "cpu" and len(positions):
            first, last = int(positions.min()), int(positions.max())
            if first < 0 or last >= self.max_position:
                raise ValueError(
                    f"positions reach from {first} to {last}, wanted 0 to {self.max_position - 1}. "
                    f"Build the rotary embedding with a larger max_position."
                )


def _table(
    rotary_dim: int, base: float, max_position: int, scaling: RotaryScaling | None
) -> tuple[torch.Tensor, torch.Tensor]:
    frequencies = plain_frequencies(rotary_dim, base)
    magnitude = 1.0
    if scaling is not None:
        frequencies = scaling.frequencies(frequencies, base)
        magnitude = scaling.magnitude
    positions = torch.arange(max_position, dtype=torch.float64, device="cpu")
    angles = torch.outer(positions, frequencies)
    return (angles.cos() * magnitude).float(), (angles.sin() * magnitude).float()


def _check(rotary_dim: int, base: float, max_position: int, style: str) -> None:
    if not isinstance(rotary_dim, int) or rotary_dim < 2 or rotary_dim % 2:
        raise ValueError(f"rotary_dim is {rotary_dim!r}, wanted an even number of 2 or more.")
    if not isinstance(max_position, int) or max_position < 1:
        raise ValueError(f"max_position is {max_position!r}, wanted a whole number of 1 or more.")
    if not isinstance(base, int | float) or isinstance(base, bool) or base <= 1:
        raise ValueError(f"base is {base!r}, wanted a number above 1, such as 10000.")
    if style not in STYLES:
        raise ValueError(f"style is {style!r}, wanted 'neox' or 'gptj'.")
