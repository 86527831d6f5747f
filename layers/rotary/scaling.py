"""How a rotary embedding is stretched beyond the positions that a model was trained on.

A scaling turns the plain frequencies f_i = base^(-2i / dim), i < dim / 2, into others, in float64,
and says by what cos and sin are multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch


class RotaryScaling(Protocol):
    """What a scaling does to a table of angles."""

    @property
    def magnitude(self) -> float:
        """The factor of cos and sin."""

    def frequencies(self, plain: torch.Tensor, base: float) -> torch.Tensor:
        """plain (dim / 2,) float64, radians a position -> the same shape and dtype."""


def plain_frequencies(rotary_dim: int, base: float) -> torch.Tensor:
    """base^(-2i / rotary_dim) for i < rotary_dim / 2, float64 (rotary_dim / 2,)."""
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float64, device="cpu") / rotary_dim
    return torch.pow(torch.tensor(base, dtype=torch.float64, device="cpu"), -exponents)


def yarn_mscale(factor: float, mscale: float = 1.0) -> float:
    """0.1 · mscale · ln(factor) + 1 where factor > 1, else 1 (YaRN, equation 22)."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


@dataclass(frozen=True)
class YarnScaling:
    """YaRN (Peng et al. 2023, arXiv 2309.00071): slow dimensions interpolated, fast ones kept.

    A dimension that turns `beta_fast` times or more within the trained length keeps its frequency;
    one that turns `beta_slow` times or less has it divided by `factor`. In between the paper's ramp
    is linear in the number of turns; the authors' code, and with it every checkpoint trained so
    (DeepSeek-V2 and V3, Qwen), has it linear in the dimension's index, its ends rounded outwards to
    whole indices. That is what is done here, but for the rounding where `truncate` is false, as
    gpt-oss was trained.

    Attributes:
        factor: s, by how much the context is longer than the trained one.
        original_max_position: L, positions that the model was trained on.
        beta_fast, beta_slow: turns within L.
        mscale, mscale_all_dim: DeepSeek's: cos and sin are multiplied by
            `yarn_mscale(s, mscale) / yarn_mscale(s, mscale_all_dim)`. Their defaults give the
            paper's factor, `yarn_mscale(s)`.
        truncate: round the ramp's ends to whole indices.
    """

    factor: float
    original_max_position: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float = 1.0
    mscale_all_dim: float = 0.0
    truncate: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.truncate, bool):
            raise ValueError(
                f"yarn: truncate is {self.truncate!r}, wanted true or false. Correct rope_scaling."
            )
        _check_positive(
            "yarn", factor=self.factor, original_max_position=self.original_max_position
        )
        _check_positive("yarn", beta_slow=self.beta_slow, beta_fast=self.beta_fast)
        if self.beta_fast < self.beta_slow:
            raise ValueError(
                f"yarn: beta_fast {self.beta_fast} is below beta_slow {self.beta_slow}, wanted the "
                f"turns of a fast dimension first. Correct rope_scaling."
            )

    @property
    def magnitude(self) -> float:
        """The factor of cos and sin; logits are multiplied by its square."""
        return yarn_mscale(self.factor, self.mscale) / yarn_mscale(self.factor, self.mscale_all_dim)

    @property
    def softmax_factor(self) -> float:
        """What DeepSeek multiplies an MLA layer's softmax scale by: yarn_mscale(all_dim)²."""
        return yarn_mscale(self.factor, self.mscale_all_dim) ** 2

    def frequencies(self, plain: torch.Tensor, base: float) -> torch.Tensor:
        """As the class says; plain (dim / 2,) float64."""
        first = self._index_of(self.beta_fast, plain.numel(), base)
        last = self._index_of(self.beta_slow, plain.numel(), base)
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * plain.numel() - 1)
        index = torch.arange(plain.numel(), dtype=torch.float64, device=plain.device)
        # Where both ends meet the ramp is a step, as in the authors' code.
        ramp = ((index - first) / ((last - first) or 0.001)).clamp(0, 1)
        return plain * (1 - ramp) + plain / self.factor * ramp

    def _index_of(self, turns: float, pairs: int, base: float) -> float:
        """The (fractional) index of the dimension that turns so often within the trained length."""
        length = self.original_max_position / (turns * 2 * math.pi)
        return pairs * math.log(length) / math.log(base)


@dataclass(frozen=True)
class Llama3Scaling:
    """Llama 3.1's scaling: long waves divided by `factor`, short ones kept, a ramp between them.

    With L the trained length and λ a dimension's wavelength: λ < L / high_freq_factor is kept,
    λ > L / low_freq_factor is divided, and in between f becomes (1 - t) f / factor + t f with
    t = (L / λ - low_freq_factor) / (high_freq_factor - low_freq_factor).

    Source: Meta's reference code of Llama 3.1 (`apply_scaling`).
    """

    factor: float
    original_max_position: int
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    def __post_init__(self) -> None:
        _check_positive(
            "llama3",
            factor=self.factor,
            original_max_position=self.original_max_position,
            low_freq_factor=self.low_freq_factor,
        )
        if self.high_freq_factor <= self.low_freq_factor:
            raise ValueError(
                f"llama3: high_freq_factor is {self.high_freq_factor}, wanted more than "
                f"low_freq_factor, {self.low_freq_factor}. Correct rope_scaling."
            )

    @property
    def magnitude(self) -> float:
        """1: cos and sin stay as they are."""
        return 1.0

    def frequencies(self, plain: torch.Tensor, base: float) -> torch.Tensor:
        """As the class says; plain (dim / 2,) float64."""
        turns = self.original_max_position * plain / (2 * math.pi)
        low, high = self.low_freq_factor, self.high_freq_factor
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        return (1 - kept) * plain / self.factor + kept * plain


def scaling_from_config(config: Mapping[str, Any] | None) -> RotaryScaling | None:
    """The scaling of a config.json's `rope_scaling`; None for none, or for type "default".

    Raises:
        ValueError: another type than yarn or llama3, or a key that it needs and lacks.
    """
    if config is None:
        return None
    kind = config.get("rope_type", config.get("type", "default"))
    if kind == "default":
        return None
    keys = {"yarn": _YARN_KEYS, "llama3": _LLAMA3_KEYS}.get(kind)
    if keys is None:
        raise ValueError(
            f"rope_scaling has type {kind!r}, wanted 'default', 'yarn' or 'llama3'. Other scalings "
            f"are not supported."
        )
    for needed in ("factor", "original_max_position_embeddings"):
        if needed not in config:
            raise ValueError(f"rope_scaling of type '{kind}' lacks {needed}. Correct config.json.")
    options = {ours: config[theirs] for theirs, ours in keys.items() if theirs in config}
    return YarnScaling(**options) if kind == "yarn" else Llama3Scaling(**options)


_COMMON_KEYS = {"factor": "factor", "original_max_position_embeddings": "original_max_position"}
_YARN_KEYS = _COMMON_KEYS | {
    k: k for k in ("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate")
}
_LLAMA3_KEYS = _COMMON_KEYS | {k: k for k in ("low_freq_factor", "high_freq_factor")}


def _check_positive(kind: str, **values: float) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ValueError(
                f"{kind}: {name} is {value!r}, wanted a number above 0. Correct rope_scaling."
            )
