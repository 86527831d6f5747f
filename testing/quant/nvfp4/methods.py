"""NVFP4 as checkpoints name it, by what a backend does with x, and what each pool promises."""

from testing.harness.linear import Method
from testing.oracles.error_model.accumulators import HOPPER_BF16
from testing.oracles.linear_formats.nvfp4 import Nvfp4

_CONFIG = {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4", "group_size": 16}
W4A4 = Method(Nvfp4(), _CONFIG)
W4A4_EXACT = Method(Nvfp4(exact_scale=True), _CONFIG)
W4A16 = Method(Nvfp4(weight_only=True), _CONFIG, {"triton": HOPPER_BF16})

# The W4A4 kernel needs sm100, where this test never ran.
W4A4_BACKENDS = {"cpu": ["torch"], "gpu": ["torch"], "b200": ["flashinfer", "torch"]}
W4A16_BACKENDS: dict[str, list[str]] = {"cpu": [], "gpu": ["triton"]}
