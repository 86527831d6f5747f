"""Rotary position embedding (Su et al. 2021, arXiv 2104.09864): pairs of values turned by angles.

Pair i of a token at position p is turned by p · f_i:

    x'_a = x_a · cos - x_b · sin
    x'_b = x_b · cos + x_a · sin

| style | pair i | used by |
| --- | --- | --- |
| neox | (i, i + rotary_dim / 2) | Llama, Qwen and most others in Hugging Face's layout |
| gptj | (2i, 2i + 1) | GPT-J, DeepSeek's MLA |

Angles are computed in float64 and cos and sin kept as float32; a rotation is computed in float32
and rounded once to its input's dtype.
"""

from __future__ import annotations

import torch

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
        index = positions.long()
        cos, sin = self.cos[index], self.sin[index]
        return [rotate(x, cos, sin, self.style) for x in tensors]

    def extra_repr(self) -> str:
        """Sizes, style and scaling, for `print(model)`."""
        return f"{self.rotary_dim}, base={self.base}, {self.style}, {self.scaling}"

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
        if positions.device.type == "cpu" and len(positions):
            first, last = int(positions.min()), int(positions.max())
            if first < 0 or last >= self.max_position:
                raise ValueError(
                    f"positions reach from {first} to {last}, wanted 0 to {self.max_position - 1}. "
                    f"Build the rotary embedding with a larger max_position."
                )


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, style: str) -> torch.Tensor:
    """Turns x (T, …, D) by cos and sin (T, rotary_dim / 2) float32, rounded once to x's dtype."""
    pairs = cos.shape[-1]
    shape = (cos.shape[0], *(1,) * (x.dim() - 2), pairs)
    cos, sin = cos.view(shape), sin.view(shape)
    turned = x[..., : 2 * pairs].float()
    first, second = split_pairs(turned, style)
    parts = (first * cos - second * sin, second * cos + first * sin)
    out = join_pairs(*parts, style).to(x.dtype)
    return out if x.shape[-1] == 2 * pairs else torch.cat((out, x[..., 2 * pairs :]), dim=-1)


def split_pairs(x: torch.Tensor, style: str) -> tuple[torch.Tensor, torch.Tensor]:
    """x (…, D) -> the first and the second values of its pairs, (…, D / 2) each."""
    if style == "gptj":
        return x[..., 0::2], x[..., 1::2]
    first, second = x.chunk(2, dim=-1)
    return first, second


def join_pairs(first: torch.Tensor, second: torch.Tensor, style: str) -> torch.Tensor:
    """The inverse of `split_pairs`."""
    if style == "gptj":
        return torch.stack((first, second), dim=-1).flatten(-2)
    return torch.cat((first, second), dim=-1)


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
