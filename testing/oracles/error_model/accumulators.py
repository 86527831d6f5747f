"""How a kernel adds up the products of a matmul: what the error model has to know of a backend."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Accumulator:
    """One way to add products up.

    name: as tests and messages call it.
    bits: significand bits that a partial sum keeps, the hidden one counted.
    truncates: towards zero, as tensor cores do; else to nearest.
    at_once: products that one instruction adds to the partial sum.
    promotion: products after which the partial sum moves to an fp32 register and starts again;
        None: never.
    """

    name: str
    bits: int = 24
    truncates: bool = False
    at_once: int = 1
    promotion: int | None = None

    def span(self, k: int) -> int:
        """Products that one partial sum takes in, of k in all."""
        return min(k, self.promotion or k)


FP32 = Accumulator("fp32")
HOPPER_FP8 = Accumulator("hopper_fp8", bits=14, truncates=True, at_once=32)
"""sm90's e4m3 instructions (DeepSeek-V3, arXiv:2412.19437, section 3.5.2: around 14 bits)."""
HOPPER_FP8_PROMOTED = Accumulator(
    "hopper_fp8_promoted", bits=14, truncates=True, at_once=32, promotion=128
)
"""The same in kernels that add the partial sum to fp32 registers every 128 products."""
HOPPER_BF16 = Accumulator("hopper_bf16", bits=24, truncates=True, at_once=16)
"""bf16 and fp16 tensor cores: fp32 sums, truncated (Fasi et al., PeerJ CS 7:e330, 2021)."""
