"""How a kernel adds up the products of a matmul: what the error model has to know of a backend."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Accumulator:
    """One way to add products up.

    name: as tests and messages call it.
    bits: significand bits that a partial sum keeps, the hidden one counted.
    truncates: towards zero; else to nearest.
    at_once: products that go in between two roundings of the partial sum.
    promotion: products after which the partial sum moves to an fp32 register; None: never.
    """

    name: str
    bits: int = 24
    truncates: bool = False
    at_once: int = 1
    promotion: int | None = None


FP32 = Accumulator("fp32")
HOPPER_FP8 = Accumulator("hopper_fp8", bits=14, truncates=True, at_once=32)
HOPPER_FP8_PROMOTED = Accumulator(
    "hopper_fp8_promoted", bits=14, truncates=True, at_once=32, promotion=128
)
HOPPER_BF16 = Accumulator("hopper_bf16", bits=24, truncates=True, at_once=16)
