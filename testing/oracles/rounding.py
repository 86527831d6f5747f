"""Round float64 exactly to a narrower binary float, half to even, in one step.

`ndarray.astype(bfloat16)` goes through float32 and so rounds twice; the oracles compare outputs
bit for bit and cannot afford that.
"""

from dataclasses import dataclass

import numpy as np

from testing.oracles.arrays import Float64


@dataclass(frozen=True)
class FloatType:
    """A binary floating-point type; `significand_bits` count the hidden one."""

    name: str
    significand_bits: int
    min_exponent: int
    max_value: float

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of one rounding in the normal range."""
        return 2.0**-self.significand_bits


BF16 = FloatType("bfloat16", 8, -126, float(2**127 * (2 - 2**-7)))
FP16 = FloatType("float16", 11, -14, 65504.0)
FP32 = FloatType("float32", 24, -126, float(2**127 * (2 - 2**-23)))


def ulp(x: Float64, kind: FloatType) -> Float64:
    """Spacing of `kind` at |x|; the subnormal spacing at and near zero."""
    _, exponent = np.frexp(np.abs(x))
    exponent = np.where(x == 0, kind.min_exponent, np.maximum(exponent - 1, kind.min_exponent))
    return np.ldexp(1.0, exponent - (kind.significand_bits - 1))


def round_to(x: Float64, kind: FloatType) -> Float64:
    """`x` rounded half to even to `kind`, as float64; beyond the maximum it becomes infinite."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        spacing = ulp(np.where(np.isfinite(x), x, 1.0), kind)
        rounded = np.rint(x / spacing) * spacing
        rounded = np.where(np.isfinite(x), rounded, x)
        return np.where(np.abs(rounded) > kind.max_value, np.copysign(np.inf, rounded), rounded)
