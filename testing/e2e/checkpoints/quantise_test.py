"""Each variant of a small checkpoint decodes to what was encoded, within the format's own step."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from testing.e2e.checkpoints.encode import METHODS
from testing.e2e.checkpoints.quantise import FILES, UNCHANGED, quantise
from testing.e2e.checkpoints.reference import load_reference, read_tensors
from testing.oracles.models.build import build

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 32,
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "rms_norm_eps": 1e-6,
    "initializer_range": 0.1,
}
GPT_OSS = LLAMA | {
    "architectures": ["GptOssForCausalLM"],
    "layer_types": ["sliding_attention"],
    "num_experts_per_tok": 1,
    "num_local_experts": 2,
    "sliding_window": 4,
}
# Largest step over largest value of a block: half of it is lost at most, and rounding of scales.
STEPS = {"int8": 1 / 127, "fp8": 1 / 14, "nvfp4": 1 / 2.8, "mxfp4": 1 / 2}


def _write(config: dict[str, object], folder: Path) -> torch.nn.Module:
    folder.mkdir()
    model = build(config)
    model.initialise(1)
    (folder / "config.json").write_text(json.dumps(config))
    for name in UNCHANGED:
        (folder / name).write_text("{}")
    layers = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)]
    (folder / "calibration.json").write_text(json.dumps(dict.fromkeys(layers, 4.0)))
    tensors = {name: tensor.bfloat16() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors")
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return model


@pytest.mark.parametrize("method", METHODS)
def test_a_dense_variant_is_the_model_within_a_step(method: str, tmp_path: Path) -> None:
    model = _write(LLAMA, tmp_path / "base")
    quantise(tmp_path / "base", method, tmp_path / method)
    assert {path.name for path in (tmp_path / method).iterdir()} == set(FILES)
    read = load_reference(tmp_path / method).state_dict()
    step = STEPS[method.partition("_")[0]]
    for name, weight in model.state_dict().items():
        if "_proj" not in name:
            assert torch.equal(read[name], weight)
            continue
        assert not torch.equal(read[name], weight)
        assert (read[name] - weight).abs().max() <= 0.51 * step * weight.abs().max()


def test_experts_in_mxfp4_are_transposed_and_packed(tmp_path: Path) -> None:
    model = _write(GPT_OSS, tmp_path / "base")
    quantise(tmp_path / "base", "mxfp4", tmp_path / "mxfp4")
    stored = read_tensors(tmp_path / "mxfp4")
    prefix = "model.layers.0.mlp.experts."
    assert stored[f"{prefix}gate_up_proj_blocks"].shape == (2, 256, 4, 16)
    assert stored[f"{prefix}down_proj_scales"].shape == (2, 128, 4)
    read, weights = load_reference(tmp_path / "mxfp4").state_dict(), model.state_dict()
    for name in ("gate_up_proj", "down_proj"):
        weight = weights[prefix + name]
        assert (read[prefix + name] - weight).abs().max() <= weight.abs().max() / 4
        # What the format holds is stored without loss.
        tensors = {n: t.bfloat16() for n, t in read.items()}
    save_file(tensors, tmp_path / "base" / "model.safetensors")
    quantise(tmp_path / "base", "mxfp4", tmp_path / "again")
    again = load_reference(tmp_path / "again").state_dict()
    assert torch.equal(again[f"{prefix}down_proj"], read[f"{prefix}down_proj"])


def test_shards_and_index_agree(tmp_path: Path) -> None:
    _write(LLAMA, tmp_path / "base")
    quantise(tmp_path / "base", "fp8_block", tmp_path / "made")
    index = json.loads((tmp_path / "made" / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"]) == set(read_tensors(tmp_path / "made"))
    assert len(set(index["weight_map"].values())) == 2


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    _write(GPT_OSS, tmp_path / "base")
    with pytest.raises(ValueError, match="published in mxfp4, not fp8_block"):
        quantise(tmp_path / "base", "fp8_block", tmp_path / "made")
    with pytest.raises(ValueError, match="method 'int4' is unknown; wanted one of int8_channel"):
        quantise(tmp_path / "base", "int4", tmp_path / "made")
    assert not (tmp_path / "made").exists()
