"""How a kernel adds up the products of a matmul: what the error model has to know of a backend."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Accumulator:
    """One way to add products up.

    name: as tests and messages call it.
    bits: significand bits to which all that an instruction adds is aligned, the hidden one counted.
    stored: significand bits of the partial sum that it leaves.
    truncates: towards zero, as tensor cores do; else to nearest.
    at_once: products that one instruction adds to the partial sum.
    promotion: products after which the partial sum moves to an fp32 register and starts again;
        None: never.
    scales_first: scales are multiplied with each other before the sum is: a product of them below
        2^-126 may be flushed, and with it what its block adds.
    """

    name: str
    bits: int = 24
    stored: int = 24
    truncates: bool = False
    at_once: int = 1
    promotion: int | None = None
    scales_first: bool = False

    def span(self, k: int) -> int:
        """Products that one partial sum takes in, of k in all."""
        return min(k, self.promotion or k)


FP32 = Accumulator("fp32")
HOPPER_FP8 = Accumulator("hopper_fp8", bits=14, truncates=True, at_once=32)
"""sm90's e4m3 instructions. On an H200, of 1 + 2^-j - 1 the middle survives to j = 13, whatever the
places of the three along K, and 1.75·2^-13 becomes 2^-13: 14 bits, cut off. As DeepSeek-V3 has it
(arXiv:2412.19437, section 3.5.2)."""
HOPPER_FP8_PROMOTED = Accumulator(
    "hopper_fp8_promoted", bits=14, truncates=True, at_once=32, promotion=128
)
"""The same in kernels that add the partial sum to fp32 registers every 128 products. On an H200, by
`torch._scaled_mm` without fast accumulation: of terms 128 apart the middle survives to j = 23."""
HOPPER_FP8_SCALES_FIRST = replace(
    HOPPER_FP8_PROMOTED, name="hopper_fp8_scales_first", scales_first=True
)
"""sgl_kernel 0.4.2's block kernel, which writes 0 for 9e-38 where its scales multiply to 1e-38."""
HOPPER_BF16 = Accumulator("hopper_bf16", bits=26, stored=24, truncates=True, at_once=16)
"""bf16 and fp16 tensor cores. On an H200 the middle survives to j = 25 in one instruction, and to
j = 23 across two (extra bits as on A100: Fasi et al., PeerJ CS 7:e330, 2021)."""
BLACKWELL = Accumulator("blackwell", bits=25, stored=24, truncates=True, at_once=32)
"""sm100's block-scaled FP4 and FP8 instructions, taken to sum as sm90's do for bf16, with a bit to
spare. Never measured: no such GPU has run these tests yet."""
