"""NVFP4 as checkpoints name it, by what a backend does with x, and what each pool promises."""

from testing.harness.linear import Method
from testing.oracles.error_model.accumulators import BLACKWELL, HOPPER_BF16
from testing.oracles.linear_formats.nvfp4 import Nvfp4

_CONFIG = {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4", "group_size": 16}
# FlashInfer's kernels, which need sm100, where this test never ran.
_SM100 = ["flashinfer", "flashinfer_cudnn", "flashinfer_cutlass", "flashinfer_trtllm"]
_SUMS = dict.fromkeys(_SM100, BLACKWELL)
W4A4 = Method(Nvfp4(), _CONFIG, _SUMS)
W4A4_EXACT = Method(Nvfp4(exact_scale=True), _CONFIG, _SUMS)
W4A16 = Method(Nvfp4(weight_only=True), _CONFIG, {"triton": HOPPER_BF16})

W4A4_BACKENDS = {"cpu": ["torch"], "gpu": ["torch"], "b200": [*_SM100, "torch"]}
W4A16_BACKENDS: dict[str, list[str]] = {"cpu": [], "gpu": ["triton"]}
