"""The NVFP4 MoE methods as checkpoints name them, and the backends that each pool promises."""

from testing.harness.moe.layer import MoeMethod
from testing.oracles.linear_formats.nvfp4 import Nvfp4

_CONFIG = {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4", "group_size": 16}
W4A4 = MoeMethod(Nvfp4(), _CONFIG)
# Input scales that are powers of two: x and h can then lie on ties.
W4A4_EXACT = MoeMethod(Nvfp4(exact_scale=True), _CONFIG)
W4A16 = MoeMethod(Nvfp4(weight_only=True), _CONFIG)
# The Triton backend leaves x and h as they are, and reads the same checkpoint.
W4A4_BACKENDS = {"cpu": ["torch"], "gpu": ["torch"], "b200": ["flashinfer", "torch"]}
W4A16_BACKENDS = {"gpu": ["triton"]}
