"""The small configurations, in sizes that are whole blocks of 128x128."""

from __future__ import annotations

from testing.oracles.models.configs import DEEPSEEK, LLAMA

BLOCKED_LLAMA = {**LLAMA, "num_key_value_heads": 4, "intermediate_size": 256}
BLOCKED_DEEPSEEK = {
    **DEEPSEEK,
    "q_lora_rank": 128,
    "kv_lora_rank": 128,
    "intermediate_size": 256,
    "moe_intermediate_size": 128,
}
