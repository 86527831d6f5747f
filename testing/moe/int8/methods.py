"""The int8 MoE methods as checkpoints name them, and the backends that each pool promises."""

from testing.harness.moe.layer import MoeMethod
from testing.oracles.int8_formats import Int8Block, Int8Channel

CHANNEL = MoeMethod(Int8Channel(), {"quant_method": "w8a8_int8"})
BLOCK = MoeMethod(Int8Block(), {"quant_method": "blockwise_int8", "weight_block_size": [128, 128]})
INT8_BACKENDS = {"cpu": ["torch"], "gpu": ["triton", "torch"]}
