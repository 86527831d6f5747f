"""The NVFP4 MoE methods as checkpoints name them, and the backends that each pool promises."""

from dataclasses import replace

from testing.harness.moe.layer import MoeMethod
from testing.oracles.error_model.accumulators import BLACKWELL, HOPPER_BF16
from testing.oracles.linear_formats.nvfp4 import Nvfp4
from testing.oracles.moe.propagation import Arithmetic
from testing.oracles.rounding import FloatType

_CONFIG = {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4", "group_size": 16}


def _flashinfer(kind: FloatType) -> Arithmetic:
    # As layers.moe.runners.flashinfer_nvfp4 says of the kernel; it has not been run.
    return Arithmetic(kind, gate_up=kind, rounds_hidden=False, down=kind)


W4A4 = MoeMethod(
    Nvfp4(), _CONFIG, rounds={"flashinfer": _flashinfer}, accumulators={"flashinfer": BLACKWELL}
)
# Input scales that are powers of two: x and h can then lie on ties.
W4A4_EXACT = replace(W4A4, format=Nvfp4(exact_scale=True))
W4A16 = MoeMethod(Nvfp4(weight_only=True), _CONFIG, accumulators={"triton": HOPPER_BF16})
NVFP4_BACKENDS = {
    "cpu": ["torch"],
    "gpu": ["triton", "torch"],
    "b200": ["flashinfer", "triton", "torch"],
}
