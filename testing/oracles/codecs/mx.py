"""MX: e4m3 or e2m1 codes under a power of two (E8M0) a block of 32 along K, x̂ = code · 2^(b - 127).

Rule: OCP Microscaling Formats 1.0, section 6.3. The block's scale comes from its amax by the rule
that the caller names (`codecs.e8m0`: floor, ceil, even); an element is x/scale, exact because the
scale is a power of two, rounded to nearest even, saturating at the element's maximum.
A block of zeros has the scale byte 0 and codes 0. A NaN or an infinity makes the scale byte 255,
and so the whole block NaN (codes 0), for either element.

Near ties: elements have none, since their quotients are exact in float32 too (below its normal
range a kernel may flush; nothing is said about that). Floor and even look at amax's own bits. Only
ceil divides: where amax lies within the window of maximum·2^e, a kernel that multiplies by a
reciprocal may take the neighbouring power of two for the whole block.
"""

from typing import Literal, TypeAlias

import numpy as np

from testing.oracles.arrays import Float64, Mask
from testing.oracles.codecs import e2m1, e4m3, e8m0
from testing.oracles.codecs.grid import Codes
from testing.oracles.codecs.quantised import WINDOW, Quantised, with_other_scale

Element: TypeAlias = Literal["e4m3", "e2m1"]
Rule: TypeAlias = Literal["floor", "ceil", "even"]
BLOCK = 32
_MODULES = {"e4m3": e4m3, "e2m1": e2m1}
_EMAX = {"e4m3": 8, "e2m1": 2}
_MANTISSA_BITS = {"e4m3": 3, "e2m1": 1}


def quantise(
    x: Float64, element: Element = "e4m3", block: int = BLOCK, rule: Rule = "floor"
) -> tuple[Codes, Codes]:
    """x (M, K) → codes (M, K), one a byte (e2m1 not packed), and E8M0 scales (M, K/block).

    Raises ValueError if K % block, or at an unknown element or rule.
    """
    amax = _amax(x, element, block)
    scales = _scales(amax, element, rule)
    return _codes(x, scales, element, block), scales


def dequantise(
    codes: Codes, scales: Codes, element: Element = "e4m3", block: int = BLOCK
) -> Float64:
    """codes (M, K), one a byte, scales (M, K/block) → (M, K) float64, exact.

    Raises ValueError if scales and codes do not belong together.
    """
    wanted = (codes.shape[0], codes.shape[1] // block)
    if scales.shape != wanted or codes.shape[1] % block:
        raise ValueError(f"scales {scales.shape}, wanted {wanted} for codes {codes.shape}")
    return _MODULES[element].decode(codes) * _spread(e8m0.decode(scales), block)


def quantise_detail(
    x: Float64, element: Element = "e4m3", block: int = BLOCK, rule: Rule = "floor"
) -> Quantised:
    """What `quantise` leaves of x (M, K), with steps and the near ties of block scales."""
    amax = _amax(x, element, block)
    scales = _scales(amax, element, rule)
    one = _under(x, scales, element, block)
    tied, other = _other_scales(amax, scales, element, rule)
    if not tied.any():
        return one
    spread = _spread(tied.astype(np.float64), block) > 0
    return with_other_scale(one, _under(x, other, element, block), spread)


def other_scales(
    x: Float64, element: Element = "e4m3", block: int = BLOCK, rule: Rule = "ceil"
) -> tuple[Mask, Codes]:
    """(M, K/block) where two scales are right, and the other one (elsewhere that of `quantise`)."""
    amax = _amax(x, element, block)
    return _other_scales(amax, _scales(amax, element, rule), element, rule)


def quantise_under(
    x: Float64, scales: Codes, element: Element = "e4m3", block: int = BLOCK
) -> Codes:
    """Codes (M, K), one a byte, of x under given E8M0 scales (M, K/block)."""
    return _codes(x, scales, element, block)


def _amax(x: Float64, element: str, block: int) -> Float64:
    if element not in _MODULES:
        raise ValueError(f"element {element!r}, wanted one of {', '.join(map(repr, _MODULES))}")
    if x.shape[-1] % block:
        raise ValueError(f"K = {x.shape[-1]}, wanted a multiple of {block}: pad with zeros")
    blocks = np.abs(np.asarray(x, np.float64)).reshape(x.shape[0], -1, block)
    return np.asarray(blocks.max(axis=2), np.float64)


def _scales(amax: Float64, element: str, rule: str) -> Codes:
    if rule == "floor":
        return e8m0.floor_scale(amax, _EMAX[element])
    if rule == "ceil":
        return e8m0.ceil_scale(amax, _MODULES[element].MAX)
    if rule == "even":
        return e8m0.even_scale(amax, _EMAX[element], _MANTISSA_BITS[element])
    raise ValueError(f"scale rule {rule!r}, wanted 'floor', 'ceil' or 'even'")


def _other_scales(amax: Float64, scales: Codes, element: str, rule: str) -> tuple[Mask, Codes]:
    if rule != "ceil":
        return np.zeros(amax.shape, np.bool_), scales
    limit = _MODULES[element].MAX
    known = np.isfinite(amax) & (amax > 0)
    full = np.where(known, amax, 1.0) / (limit * e8m0.decode(np.where(known, scales, 127)))
    # full is in (1/2, 1]: near 1 the scale may double, just above 1/2 it may halve.
    double = known & (full >= 1 - WINDOW) & (scales < e8m0.NAN - 1)
    halve = known & (full <= (1 + WINDOW) / 2) & (scales > 0)
    other = np.where(double, scales + 1, np.where(halve, scales - 1, scales))
    return double | halve, other.astype(np.uint8)


def _spread(block_values: Float64, block: int) -> Float64:
    return np.repeat(block_values, block, axis=1)


def _codes(x: Float64, scales: Codes, element: str, block: int) -> Codes:
    scale = _spread(e8m0.decode(scales), block)
    known = np.isfinite(scale)
    quotient = np.where(known, x, 0.0) / np.where(known, scale, 1.0)
    return _MODULES[element].encode(quotient)


def _under(x: Float64, scales: Codes, element: str, block: int) -> Quantised:
    module = _MODULES[element]
    scale = _spread(e8m0.decode(scales), block)
    known = np.isfinite(scale)
    quotient = np.where(known, x, 0.0) / np.where(known, scale, 1.0)
    values = module.decode(module.encode(quotient)) * scale
    step = np.where(known, module.spacing(quotient) * scale, 0.0)
    nothing = np.zeros(x.shape, np.bool_)
    return Quantised(values, step, nothing, nothing)
