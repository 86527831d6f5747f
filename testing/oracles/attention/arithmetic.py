"""What a backend of attention rounds: what the error model has to know of it.

Every backend multiplies 16-bit q and k with sums in float32, takes the softmax in float32 and
rounds the output once. fp8 tensor cores are not used: the codes of an fp8 cache are widened before
either product, exactly, and their scales are applied in float32.
"""

from dataclasses import dataclass

from testing.oracles.error_model.accumulators import FP32, HOPPER_BF16, Accumulator
from testing.oracles.rounding import FloatType

EXACT_TANH = 2.0**-21
"""tanh of a library in float32: 2 ulps (CUDA C++ Programming Guide, mathematical functions), 2^-22
relative to 1; as much again where it is formed as 1 - 2/(exp(2x) + 1): half of exp's 2^-22, the
quotient's and two roundings."""
APPROXIMATE_TANH = 2.0**-11
"""`tanh.approx.f32` (PTX ISA, floating point instructions), which FlashInfer's soft cap calls."""


@dataclass(frozen=True)
class Arithmetic:
    """One way to attend.

    rounds_probabilities: exp(logit - largest) is rounded to the query's type before the product
        with v, as tensor cores ask; the sum of them is formed before or after that.
    accumulator: of both products.
    tanh: what the soft cap's tanh may be off by, relative to 1.
    output_roundings: 2 where the output is rounded, scaled by an fp8 cache's v_scale and rounded
        again.
    """

    name: str = "float32"
    rounds_probabilities: bool = False
    accumulator: Accumulator = FP32
    tanh: float = EXACT_TANH
    output_roundings: int = 1

    def probabilities(self, kind: FloatType) -> FloatType | None:
        """The type that probabilities are rounded to; None: they stay float32."""
        return kind if self.rounds_probabilities else None


FLOAT32 = Arithmetic()
"""Everything in float32, the output rounded once."""
TENSOR_CORES = Arithmetic("tensor cores", True, HOPPER_BF16)
"""Both products on tensor cores for bf16 and fp16."""
