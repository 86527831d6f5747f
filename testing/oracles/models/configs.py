"""Small configurations with every part of each architecture, by the keys of config.json.

Sizes divide over two ranks, in whole blocks of every format but those of 128x128; an odd number of
experts chosen keeps one axis from being taken for another. Settings lie where they show: a norm's
epsilon near the squares that it is added to, rotations that turn far within thirty positions, and
ramps that lie between the first pair and the last.
"""

from typing import Any

_COMMON: dict[str, Any] = {
    "vocab_size": 192,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "rms_norm_eps": 2e-3,
    "rope_theta": 100.0,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
    "initializer_range": 0.1,
    "eos_token_id": 1,
    "bos_token_id": 0,
    "torch_dtype": "bfloat16",
}

LLAMA: dict[str, Any] = {
    **_COMMON,
    "architectures": ["LlamaForCausalLM"],
    "intermediate_size": 192,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "original_max_position_embeddings": 32,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}

DEEPSEEK: dict[str, Any] = {
    **_COMMON,
    "architectures": ["DeepseekV3ForCausalLM"],
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 64,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "moe_intermediate_size": 64,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 3,
    "n_group": 4,
    "topk_group": 2,
    "routed_scaling_factor": 2.5,
    "norm_topk_prob": True,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "num_nextn_predict_layers": 1,
    "rope_scaling": {
        "type": "yarn",
        "factor": 40,
        "original_max_position_embeddings": 512,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 0.9,
        "mscale_all_dim": 0.7,
    },
}

GPT_OSS: dict[str, Any] = {
    **_COMMON,
    "architectures": ["GptOssForCausalLM"],
    "intermediate_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_local_experts": 6,
    "num_experts_per_tok": 3,
    "sliding_window": 7,
    "layer_types": ["sliding_attention", "full_attention"],
    "attention_bias": True,
    "swiglu_limit": 7.0,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 32.0,
        "original_max_position_embeddings": 512,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
    },
}

ALL = (LLAMA, DEEPSEEK, GPT_OSS)
