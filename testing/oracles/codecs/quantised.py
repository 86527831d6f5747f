"""What a quantiser leaves of its input, and where a right kernel may leave something else."""

from dataclasses import dataclass

from testing.oracles.arrays import Float64, Mask
from testing.oracles.codecs.grid import Grid

WINDOW = 5 * 2.0**-23
"""Relative width of a near tie: how far a kernel's quotient may lie from the definition's.

The definition forms quotients exactly; a kernel does so in float32. An operation that rounds
correctly is off by 2^-24, `rcp.approx.ftz.f32` by one ulp, at most 2^-23, and `div.approx.f32` by
two, at most 2^-22 (PTX ISA, floating point instructions). The longest chains seen, in units of
2^-23:

- fp8, s = amax·fp32(1/448) and x·(1/s): constant ½, product ½, reciprocal 1, product ½, and the
  definition's own s is rounded, ½: 3. With both divisions approximate: 2 + 2 + ½ = 4½.
- NVFP4 block scale, gs·(amax·rcp(6)): reciprocal 1, two products 1, and gs = rcp(input_scale),
  which the definition divides by, 1: 3.
- NVFP4 element, x·rcp(sf·rcp(gs)): two reciprocals 2, two products 1, gs 1: 4.
- MXFP8 block scale, amax·rcp(448): reciprocal 1, product ½: 1½.

A unit more than the longest covers terms of second order.
"""


@dataclass(frozen=True)
class Quantised:
    """Dequantised values by the definition, and what else is right.

    values: (M, K) float64.
    step: (M, K) float64, the distance between the two codes around the element; 0 where its scale
        is 0. In a block of `scale_near_tie` it is the largest distance that any right value may
        have from `values`.
    near_tie: (M, K) bool, where another value is right too: the element lies between two codes
        within the window, or the whole block has two right scales.
    scale_near_tie: (M, K) bool, the blocks with two right scales, spread to their elements. There
        either all elements are those of `values` or all are those of `other`.
    other: the same under the other right scale of the blocks of `scale_near_tie`, where it is
        exact in the same sense (its own steps and near ties); None if no block has two.
    """

    values: Float64
    step: Float64
    near_tie: Mask
    scale_near_tie: Mask
    other: "Quantised | None" = None


def element_near_ties(grid: Grid, quotient: Float64) -> Mask:
    """Where float32 arithmetic may send a quotient to either of two codes."""
    return grid.near_tie(quotient, WINDOW)


def with_other_scale(one: Quantised, other: Quantised, scale_near_tie: Mask) -> Quantised:
    """`one`, with `other` as what blocks of `scale_near_tie` (M, K) may be instead.

    Both values lie within one spacing of x, so they differ by no more than the sum of the steps.
    """
    if not scale_near_tie.any():
        return one
    step = one.step.copy()
    step[scale_near_tie] = (one.step + other.step)[scale_near_tie]
    return Quantised(one.values, step, one.near_tie | scale_near_tie, scale_near_tie, other)
