"""A folder's configuration, by the architecture that its config.json names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from layers.models.config.base import ModelConfig
from layers.models.config.deepseek import DeepseekConfig
from layers.models.config.gpt_oss import GptOssConfig
from layers.models.config.keys import Keys
from layers.models.config.llama import LlamaConfig

READERS: dict[str, Callable[[Keys], ModelConfig]] = {
    "DeepseekV3ForCausalLM": DeepseekConfig.read,
    "GptOssForCausalLM": GptOssConfig.read,
    "LlamaForCausalLM": LlamaConfig.read,
}


def read_config(folder: Path) -> ModelConfig:
    """What config.json, generation_config.json and hf_quant_config.json say; reads no weight.

    Args:
        folder: of a Hugging Face checkpoint.

    Raises:
        ModelConfigError: a file that cannot be read, another architecture, or a key that is
            missing or not supported.
    """
    keys = Keys.read(Path(folder) / "config.json")
    names = keys.values.get("architectures")
    if not isinstance(names, list) or len(names) != 1 or names[0] not in list(READERS):
        raise keys.wrong("architectures", f"a list of one of {', '.join(sorted(READERS))}")
    return READERS[names[0]](keys)
