"""The fp8 MoE methods as checkpoints name them, and the backends that each pool promises."""

from dataclasses import replace

from testing.harness.moe.layer import MoeMethod
from testing.oracles.error_model.accumulators import HOPPER_FP8_PROMOTED, HOPPER_FP8_SCALES_FIRST
from testing.oracles.linear_formats.fp8 import Fp8Block, Fp8Channel, Fp8Tensor
from testing.oracles.moe.propagation import Arithmetic
from testing.oracles.rounding import FloatType


def _rounded_products(kind: FloatType) -> Arithmetic:
    # layers.kernels.moe.grouped_fp8_block_sgl_kernel: both products come back in the layer's dtype.
    return Arithmetic(kind, gate_up=kind, down=kind)


# Which kernels move their sums out of the tensor core every 128 products: all of them.
_SUMS = {"triton": HOPPER_FP8_PROMOTED, "sgl_kernel": HOPPER_FP8_SCALES_FIRST}
STATIC = MoeMethod(
    Fp8Tensor(static=True),
    {"quant_method": "fp8", "activation_scheme": "static"},
    accumulators=_SUMS,
)
# Input scales that are powers of two: x and h can then lie on ties.
STATIC_EXACT = replace(STATIC, format=Fp8Tensor(static=True, exact_scale=True))
DYNAMIC = MoeMethod(
    Fp8Tensor(), {"quant_method": "fp8", "activation_scheme": "dynamic"}, accumulators=_SUMS
)
CHANNEL = MoeMethod(Fp8Channel(), {"quant_method": "w8a8_fp8"}, accumulators=_SUMS)
BLOCK = MoeMethod(
    Fp8Block(),
    {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
    rounds={"sgl_kernel": _rounded_products},
    accumulators=_SUMS,
)
FP8_BACKENDS = {"cpu": ["torch"], "gpu": ["triton", "torch"]}
FP8_BLOCK_BACKENDS = FP8_BACKENDS | {"h100": ["sgl_kernel", "triton", "torch"]}
