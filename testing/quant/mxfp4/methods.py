"""MXFP4 linear layers as checkpoints name them, and the backends that each pool promises."""

from testing.harness.linear import Method
from testing.oracles.error_model.accumulators import BLACKWELL, HOPPER_BF16
from testing.oracles.linear_formats.mx import Mxfp4

W4A16 = Method(Mxfp4(), {"quant_method": "mxfp4"}, {"triton": HOPPER_BF16})
_DYNAMIC = {"quant_method": "mxfp4", "activation_scheme": "dynamic"}
_SUMS = {"triton": HOPPER_BF16, "flashinfer": BLACKWELL}
W4A4 = Method(Mxfp4(dynamic=True), _DYNAMIC, _SUMS)

W4A16_BACKENDS = {"cpu": ["torch"], "gpu": ["triton", "torch"]}
# The W4A4 kernel of FlashInfer needs sm100, where this test never ran; Triton multiplies in bf16.
W4A4_BACKENDS = {
    "cpu": ["torch"],
    "gpu": ["triton", "torch"],
    "b200": ["flashinfer", "triton", "torch"],
}
