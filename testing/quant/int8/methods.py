"""The int8 methods as checkpoints name them, and the backends that each pool promises."""

from testing.harness.linear import Method
from testing.oracles.int8_formats import Int8Block, Int8Channel

CHANNEL = Method(Int8Channel(), {"quant_method": "w8a8_int8"})
BLOCK = Method(Int8Block(), {"quant_method": "blockwise_int8", "weight_block_size": [128, 128]})
CHANNEL_BACKENDS = {
    "cpu": ["torch"],
    "gpu": ["triton", "torch"],
    "h100": ["sgl_kernel", "triton", "torch"],
}
BLOCK_BACKENDS = {"cpu": ["torch"], "gpu": ["triton", "torch"]}
