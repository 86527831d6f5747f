"""Noise that depends on a seed, a place in the text and a token, and on nothing else.

A counter through a mixing function instead of a generator's state: a token's noise is the same
whoever shares the batch, in whatever order places are asked for, and for a draft model as for the
model that judges it. The mixer is the finaliser of SplitMix64 (Steele, Lea, Flood 2014, "Fast
splittable pseudorandom number generators").
"""

from __future__ import annotations

import torch

_GOLDEN = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed number of 64 bits
_FIRST = -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
_SECOND = -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB


def gumbel(seeds: torch.Tensor, places: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """Independent standard Gumbel numbers, -log(-log(u)).

    Args:
        seeds: (n,) int64.
        places: (n,) int64, the index in its text of the token to be chosen.

    Returns:
        (n, vocab_size) float64, on the device of `seeds`.
    """
    tokens = torch.arange(vocab_size, dtype=torch.int64, device=seeds.device)
    rows = _mix(_mix(seeds + _GOLDEN) ^ (places * _GOLDEN))
    bits = _mix(rows[:, None] + tokens[None, :] * _GOLDEN)
    # 52 bits and a half, so that neither logarithm meets 0.
    uniform = (_shift(bits, 12).to(torch.float64) + 0.5) * 2.0**-52
    return -torch.log(-torch.log(uniform))


def _mix(x: torch.Tensor) -> torch.Tensor:
    x = (x ^ _shift(x, 30)) * _FIRST
    x = (x ^ _shift(x, 27)) * _SECOND
    return x ^ _shift(x, 31)


def _shift(x: torch.Tensor, bits: int) -> torch.Tensor:
    """A logical shift to the right: torch's own keeps the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
