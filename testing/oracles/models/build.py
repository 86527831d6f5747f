"""A reference model by the architecture that config.json names."""

import torch

from testing.oracles.models.decoder import ReferenceModel
from testing.oracles.models.deepseek import DeepseekV3
from testing.oracles.models.gpt_oss import GptOss
from testing.oracles.models.llama import Llama
from testing.oracles.models.parts import Config

MODELS: dict[str, type] = {
    "DeepseekV3ForCausalLM": DeepseekV3,
    "GptOssForCausalLM": GptOss,
    "LlamaForCausalLM": Llama,
}


def build(
    config: Config, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> ReferenceModel:
    """The model of `architectures[0]`, its weights not yet set.

    Args:
        config: config.json's keys.
        dtype: of weights and arithmetic; float64 makes it an oracle.
        device: of the weights.
    """
    model = MODELS[config["architectures"][0]](config).to(device, dtype)
    assert isinstance(model, ReferenceModel)
    return model
