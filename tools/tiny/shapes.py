"""The three tiny models, as config.json describes them.

Sizes are what quantised blocks and kernels take: 128 for block scales, heads of 64 for FlashInfer,
latents of 512 + 64 for FlashMLA.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from tools.tiny.tokenizer import VOCAB_SIZE

_SHARED = {
    "bos_token_id": 0,
    "eos_token_id": 1,
    "hidden_act": "silu",
    "hidden_size": 128,
    "initializer_range": 0.06,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": VOCAB_SIZE,
}

_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "head_dim": 64,
    "intermediate_size": 512,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
}

_DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "attention_bias": False,
    "first_k_dense_replace": 1,
    "intermediate_size": 256,
    "kv_lora_rank": 512,
    "model_type": "deepseek_v3",
    "moe_intermediate_size": 128,
    "moe_layer_freq": 1,
    "n_group": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 4,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 4,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 128,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 64,
    "routed_scaling_factor": 1.0,
    "scoring_func": "sigmoid",
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "v_head_dim": 32,
}

_GPT_OSS = {
    "architectures": ["GptOssForCausalLM"],
    "attention_bias": True,
    "experts_per_token": 2,
    "head_dim": 64,
    "intermediate_size": 128,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    "model_type": "gpt_oss",
    "num_attention_heads": 4,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "sliding_window": 16,
    "swiglu_limit": 7.0,
}

SHAPES: MappingProxyType[str, dict[str, Any]] = MappingProxyType(
    {
        "dense": _SHARED | _LLAMA,
        "mla_moe_mtp": _SHARED | _DEEPSEEK,
        "gpt_oss": _SHARED | _GPT_OSS,
    }
)
"""{name of the checkpoint: its config.json}."""
