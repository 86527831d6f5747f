"""The models, and for each setting of theirs another value that has to show."""

from dataclasses import dataclass
from typing import Any

from testing.oracles.models.configs import DEEPSEEK, GPT_OSS, LLAMA


@dataclass(frozen=True)
class Model:
    """A config.json, and values that its settings, and those of rope_scaling, do not have."""

    config: dict[str, Any]
    settings: list[tuple[str, Any]]
    rope_scaling: list[tuple[str, float]]


MODELS = {
    "deepseek": Model(
        DEEPSEEK,
        [
            ("rms_norm_eps", 4e-3),
            ("rope_theta", 120.0),
            ("routed_scaling_factor", 1.0),
            ("norm_topk_prob", False),
            ("n_group", 2),
            ("topk_group", 3),
        ],
        [
            ("factor", 50),
            ("original_max_position_embeddings", 640),
            ("mscale", 1.1),
            ("mscale_all_dim", 0.9),
        ],
    ),
    "gpt_oss": Model(
        GPT_OSS,
        [
            ("rms_norm_eps", 4e-3),
            ("rope_theta", 120.0),
            ("sliding_window", 8),
            ("swiglu_limit", 6.5),
            ("layer_types", ["full_attention", "sliding_attention"]),
        ],
        [
            ("factor", 40.0),
            ("original_max_position_embeddings", 640),
            ("beta_fast", 40.0),
            ("beta_slow", 1.25),
        ],
    ),
    "llama": Model(
        LLAMA,
        [
            ("rms_norm_eps", 4e-3),
            ("rope_theta", 120.0),
        ],
        [
            ("factor", 10.0),
            ("original_max_position_embeddings", 40),
            ("low_freq_factor", 1.25),
            ("high_freq_factor", 5.0),
        ],
    ),
}
