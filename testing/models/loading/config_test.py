"""A config.json that no model here is is refused by key, value and what is wanted."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from layers.models.config.deepseek import DeepseekConfig
from layers.models.config.gpt_oss import GptOssConfig
from layers.models.config.llama import LlamaConfig
from layers.models.config.read import read_config
from layers.models.errors import ModelConfigError
from layers.models.load import check_checkpoint, load_model
from layers.rotary.scaling import YarnScaling
from testing.models.folders import random_tensors, write_folder
from testing.oracles.models.configs import DEEPSEEK, GPT_OSS, LLAMA

CHANNEL = {"quant_method": "w8a8_int8"}
WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (LLAMA, {"architectures": ["BertModel"]}, "architectures is ["),
    (LLAMA, {"architectures": None}, "wanted a list of one of DeepseekV3ForCausalLM, GptOss"),
    (LLAMA, {"hidden_size": "128"}, 'hidden_size is "128", wanted a whole number of 1 or more'),
    (LLAMA, {"vocab_size": 0}, "vocab_size is 0, wanted a whole number of 1 or more"),
    (LLAMA, {"num_hidden_layers": True}, "num_hidden_layers is true, wanted a whole number"),
    (LLAMA, {"rms_norm_eps": -1}, "rms_norm_eps is -1, wanted a number above 0"),
    (LLAMA, {"hidden_act": "gelu"}, 'hidden_act is "gelu", wanted "silu"'),
    (LLAMA, {"attention_bias": True}, "attention_bias is true, wanted false"),
    (LLAMA, {"mlp_bias": True}, "mlp_bias is true, wanted false"),
    (LLAMA, {"rope_scaling": {"type": "linear", "factor": 2}}, "rope_scaling has type 'linear'"),
    (LLAMA, {"rope_scaling": 3}, "rope_scaling is 3, wanted an object or null"),
    (LLAMA, {"rope_scaling": {"attention_factor": 2.0}}, "wanted one without attention_factor"),
    (LLAMA, {"rope_theta": 0.0}, "rope_theta is 0.0, wanted a number above 0"),
    (LLAMA, {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5, wanted 1"),
    (LLAMA, {"eos_token_id": "1"}, 'eos_token_id is "1", wanted a token\'s id, or a list'),
    (LLAMA, {"torch_dtype": 16}, "torch_dtype is 16, wanted a dtype's name"),
    (LLAMA, {"num_attention_heads": 7}, "7 query heads cannot share 2 key-value heads"),
    (LLAMA, {"tie_word_embeddings": 1}, "tie_word_embeddings is 1, wanted true or false"),
    (LLAMA, {"quantization_config": {}}, "quantization_config has no quant_method"),
    (LLAMA, {"quantization_config": {"quant_method": "gptq"}}, "method 'gptq' is not registered"),
    (LLAMA, {"quantization_config": {**CHANNEL, "weight_block_size": [1, 1]}}, "weight_block_size"),
    (DEEPSEEK, {"scoring_func": "softmax"}, 'scoring_func is "softmax", wanted "sigmoid"'),
    (DEEPSEEK, {"topk_method": "greedy"}, 'topk_method is "greedy", wanted "noaux_tc"'),
    (DEEPSEEK, {"num_nextn_predict_layers": 2}, "num_nextn_predict_layers is 2, wanted 0 or 1"),
    (DEEPSEEK, {"moe_layer_freq": 2}, "moe_layer_freq is 2, wanted 1"),
    (DEEPSEEK, {"n_group": 3}, "8 experts do not divide into num_expert_group 3"),
    (DEEPSEEK, {"num_experts_per_tok": 5}, "top_k is 5, but only 4 of 8 experts"),
    (DEEPSEEK, {"rope_interleave": False}, "rope_interleave is false, wanted true"),
    (DEEPSEEK, {"kv_lora_rank": None}, "kv_lora_rank is null, wanted a whole number"),
    (GPT_OSS, {"swiglu_limit": 6.0}, "swiglu_limit is 6.0, wanted 7.0"),
    (GPT_OSS, {"layer_types": ["full_attention"]}, "wanted a list of 2, each of sliding_attention"),
    (GPT_OSS, {"layer_types": ["full_attention", "linear"]}, "wanted a list of 2, each of sliding"),
    (GPT_OSS, {"num_experts_per_tok": 7}, "top_k is 7, but only 6 of 6 experts"),
    (GPT_OSS, {"quantization_config": CHANNEL}, "wanted one of quant_method 'mxfp4', or none"),
]


def folder_of(folder: Path, config: dict[str, Any]) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(("config", "change", "message"), WRONG, ids=lambda v: str(v)[:40])
def test_what_is_not_supported_is_named(
    config: dict[str, Any], change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, {**config, **change})
    with pytest.raises(ModelConfigError) as error:
        check_checkpoint(folder)
    assert message in str(error.value), str(error.value)


@pytest.mark.parametrize("config", [LLAMA, DEEPSEEK, GPT_OSS])
def test_every_key_that_has_no_default_is_missed(config: dict[str, Any], tmp_path: Path) -> None:
    optional = {
        *("tie_word_embeddings", "initializer_range", "eos_token_id", "bos_token_id"),
        *("torch_dtype", "rope_theta", "rope_scaling", "head_dim", "num_key_value_heads"),
        *("q_lora_rank", "n_shared_experts", "n_group", "topk_group", "routed_scaling_factor"),
        *("norm_topk_prob", "scoring_func", "topk_method", "first_k_dense_replace"),
        *("moe_layer_freq", "num_nextn_predict_layers", "layer_types", "attention_bias"),
        "swiglu_limit",
    }
    if config is GPT_OSS:
        optional -= {"head_dim", "num_key_value_heads"}
    for key in set(config) - optional:
        rest = {k: v for k, v in config.items() if k != key}
        with pytest.raises(ModelConfigError, match=f"has no {key}, wanted"):
            read_config(folder_of(tmp_path, rest))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ModelConfigError, match=r"config.json' cannot be read \(No such file"):
        read_config(tmp_path)
    for text, message in (("{", "is no JSON"), ("[1]", r"holds \[1\], wanted an object")):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ModelConfigError, match=message):
            read_config(tmp_path)


def test_keys_reach_their_places(tmp_path: Path) -> None:
    llama = read_config(folder_of(tmp_path, LLAMA))
    assert isinstance(llama, LlamaConfig) and (llama.num_kv_heads, llama.head_dim) == (2, 32)
    assert (llama.eos_token_ids, llama.bos_token_id, llama.max_position) == ((1,), 0, 256)
    deepseek = read_config(folder_of(tmp_path, DEEPSEEK))
    assert isinstance(deepseek, DeepseekConfig) and deepseek.num_draft_layers == 1
    # (0.1·0.7·ln 40 + 1)² / sqrt(32 + 16)
    assert deepseek.softmax_scale == pytest.approx(1.58312 / 48**0.5, rel=1e-5)
    gpt_oss = read_config(folder_of(tmp_path, GPT_OSS))
    assert isinstance(gpt_oss, GptOssConfig) and gpt_oss.windows == (7, None)
    assert isinstance(gpt_oss.rope_scaling, YarnScaling) and not gpt_oss.rope_scaling.truncate


def test_settings_of_generation_come_first(tmp_path: Path) -> None:
    folder_of(tmp_path, LLAMA)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [5, 9]}')
    assert read_config(tmp_path).eos_token_ids == (5, 9)


def test_rotations_in_one_object_are_those_in_two_keys(tmp_path: Path) -> None:
    before = read_config(folder_of(tmp_path, GPT_OSS))
    rest = {k: v for k, v in GPT_OSS.items() if k not in ("rope_theta", "rope_scaling")}
    joined = {"rope_theta": GPT_OSS["rope_theta"], **GPT_OSS["rope_scaling"]}
    assert read_config(folder_of(tmp_path, {**rest, "rope_parameters": joined})) == before


def test_a_model_of_float32_has_to_be_told_its_dtype(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, {**LLAMA, "torch_dtype": "float32"}, random_tensors(LLAMA))
    with pytest.raises(ModelConfigError, match=r"wanted float16 or bfloat16. Pass params_dtype"):
        load_model(folder, device="cpu")
    model = load_model(folder, device="cpu", params_dtype=torch.float16)
    assert model.params_dtype is torch.float16


def test_a_kind_of_layer_that_there_is_not(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, LLAMA, random_tensors(LLAMA))
    with pytest.raises(ModelConfigError, match="backend names the kind of layer 'mlp', wanted"):
        load_model(folder, device="cpu", backend={"mlp": "torch"})
