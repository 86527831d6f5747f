"""The fp8 methods as checkpoints name them, and the backends that each pool promises."""

from testing.harness.linear import Method
from testing.oracles.error_model.accumulators import (
    BLACKWELL,
    HOPPER_BF16,
    HOPPER_FP8,
    HOPPER_FP8_PROMOTED,
    HOPPER_FP8_SCALES_FIRST,
)
from testing.oracles.linear_formats.fp8 import Fp8Block, Fp8Channel, Fp8Tensor
from testing.oracles.linear_formats.mx import Mxfp8

# Which kernels move their sums out of the tensor core: see layers.kernels.fp8.fp8_scaled_mm.
_SUMS = {
    "flashinfer": HOPPER_FP8,
    "sgl_kernel": HOPPER_FP8,
    "torch_scaled_mm": HOPPER_FP8_PROMOTED,
    "triton": HOPPER_FP8_PROMOTED,
}
_BLOCK_SUMS = dict.fromkeys(_SUMS, HOPPER_FP8_PROMOTED) | {"sgl_kernel": HOPPER_FP8_SCALES_FIRST}
_MX_SUMS = {"triton": HOPPER_BF16, "flashinfer": BLACKWELL}
_STATIC = {"quant_method": "fp8", "activation_scheme": "static"}
STATIC = Method(Fp8Tensor(static=True), _STATIC, _SUMS)
STATIC_EXACT = Method(Fp8Tensor(static=True, exact_scale=True), _STATIC, _SUMS)
DYNAMIC = Method(Fp8Tensor(), {"quant_method": "fp8", "activation_scheme": "dynamic"}, _SUMS)
CHANNEL = Method(Fp8Channel(), {"quant_method": "w8a8_fp8"}, _SUMS)
BLOCK = Method(
    Fp8Block(),
    {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
    _BLOCK_SUMS,
)
MXFP8 = Method(Mxfp8(), {"quant_method": "mxfp8"}, _MX_SUMS)

SCALED_BACKENDS = {
    "cpu": ["torch"],
    "gpu": ["torch_scaled_mm", "triton", "torch"],
    "h100": ["torch_scaled_mm", "triton", "sgl_kernel", "torch"],
}
BLOCK_BACKENDS = {
    "cpu": ["torch"],
    "gpu": ["triton", "torch"],
    "h100": ["torch_scaled_mm", "triton", "torch"],
}
MXFP8_BACKENDS = {
    "cpu": ["torch"],
    "gpu": ["triton", "torch"],
    "b200": ["flashinfer", "triton", "torch"],
}
