"""Every linear method with the backends that each pool promises, for what all of them must keep."""

import layers.quantization.blockwise_int8
import layers.quantization.fp8
import layers.quantization.modelopt_fp4
import layers.quantization.mxfp4
import layers.quantization.mxfp8
import layers.quantization.w8a8_fp8
import layers.quantization.w8a8_int8  # noqa: F401 all register themselves
from testing.harness.device import promised
from testing.harness.linear import Method
from testing.oracles.unquantised_formats import Unquantised
from testing.quant.fp8 import methods as fp8
from testing.quant.int8 import methods as int8
from testing.quant.mxfp4 import methods as mxfp4
from testing.quant.nvfp4 import methods as nvfp4

UNQUANTISED = Method(Unquantised(), None)
METHODS: list[tuple[Method, dict[str, list[str]]]] = [
    (int8.CHANNEL, int8.CHANNEL_BACKENDS),
    (int8.BLOCK, int8.BLOCK_BACKENDS),
    (fp8.STATIC, fp8.SCALED_BACKENDS),
    (fp8.DYNAMIC, fp8.SCALED_BACKENDS),
    (fp8.CHANNEL, fp8.SCALED_BACKENDS),
    (fp8.BLOCK, fp8.BLOCK_BACKENDS),
    (fp8.MXFP8, fp8.MXFP8_BACKENDS),
    (nvfp4.W4A4, nvfp4.W4A4_BACKENDS),
    (nvfp4.W4A16, nvfp4.W4A16_BACKENDS),
    (mxfp4.W4A16, mxfp4.W4A16_BACKENDS),
    (mxfp4.W4A4, mxfp4.W4A4_BACKENDS),
]


def everything_here() -> list[tuple[Method, str | None]]:
    """(method, backend) for all that this pool promises; the unquantised method has one only."""
    pairs: list[tuple[Method, str | None]] = [(UNQUANTISED, None)]
    return pairs + [(method, backend) for method, table in METHODS for backend in promised(table)]


def names_of(pairs: list[tuple[Method, str | None]]) -> list[str]:
    """`fp8_block-triton`, for pytest."""
    return [f"{method.format.name}-{backend or 'default'}" for method, backend in pairs]
