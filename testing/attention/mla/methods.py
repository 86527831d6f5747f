"""How checkpoints quantise kv_b_proj, in the methods whose weight by its values MLA can take."""

from testing.attention.mla.layer import UNQUANTISED, UNQUANTISED_FP16
from testing.harness.linear import Method
from testing.quant.fp8 import methods as fp8
from testing.quant.int8 import methods as int8

__all__ = ["QUANTISED", "UNQUANTISED", "UNQUANTISED_FP16"]

QUANTISED: tuple[Method, ...] = (int8.CHANNEL, fp8.BLOCK, fp8.CHANNEL, fp8.DYNAMIC)
