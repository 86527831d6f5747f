"""Checkpoints with the scales of an FP8 cache, as they are published, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from layers.models.causal_lm import CausalLM
from layers.models.config.read import read_config
from layers.models.errors import CheckpointError, ModelConfigError
from layers.models.load import check_checkpoint, load_model
from testing.models.folders import random_tensors, write_folder
from testing.oracles.models.configs import DEEPSEEK, LLAMA

FP8 = torch.float8_e4m3fn
MODELOPT = {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}
SCHEME = {"num_bits": 8, "type": "float", "dynamic": False}
# Of every linear layer none is quantised, so that plain tensors will do.
NONE = ["*"]
CONFIGS: dict[str, dict[str, Any]] = {
    "ModelOpt": {**MODELOPT, "exclude_modules": NONE},
    "ModelOpt today": {
        **{k: v for k, v in MODELOPT.items() if k != "kv_cache_quant_algo"},
        "kv_cache_scheme": SCHEME,
        "ignore": NONE,
    },
}


def scales(layers: int, style: str = "{kind[0]}_proj.{kind}") -> Any:
    """Another one for each layer and kind."""
    return {
        f"model.layers.{i}.self_attn.{style.format(kind=kind)}": torch.tensor(
            0.25 * (i + 1) * (1 + j)
        )
        for i in range(layers)
        for j, kind in enumerate(("k_scale", "v_scale"))
    }


def written(
    folder: Path, config: dict[str, Any], scheme: dict[str, Any], more: dict[str, torch.Tensor]
) -> Path:
    return write_folder(
        folder, {**config, "quantization_config": scheme}, {**random_tensors(config), **more}
    )


def of_caches(model: CausalLM, dtype: torch.dtype | None) -> list[tuple[float, float]]:
    return [(c.k_scale, c.v_scale) for c in model.make_caches(2, 16, dtype)]  # type: ignore[union-attr]


@pytest.mark.parametrize("scheme", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("style", ["{kind[0]}_proj.{kind}", "{kind}"])
def test_caches_of_codes_have_the_checkpoint_s_scales(
    scheme: dict[str, Any], style: str, tmp_path: Path
) -> None:
    folder = written(tmp_path, LLAMA, scheme, scales(2, style))
    check_checkpoint(folder)
    model = load_model(folder, device="cpu")
    assert of_caches(model, FP8) == [(0.25, 0.5), (0.5, 1.0)]
    # Caches of 16 bits have nothing to scale.
    assert of_caches(model, None) == [(1.0, 1.0)] * 2


def test_latents_have_the_scale_of_keys_and_the_draft_its_own(tmp_path: Path) -> None:
    folder = written(tmp_path, DEEPSEEK, CONFIGS["ModelOpt"], scales(3))
    model = load_model(folder, device="cpu")
    draft = model.draft
    assert draft is not None
    caches: Any = [*model.make_caches(2, 16, FP8), *draft.make_caches(2, 16, FP8)]
    assert [cache.scale for cache in caches] == [0.25, 0.5, 0.75]


def test_a_draft_that_was_not_calibrated_has_none(tmp_path: Path) -> None:
    folder = written(tmp_path, DEEPSEEK, CONFIGS["ModelOpt"], scales(2))
    draft = load_model(folder, device="cpu").draft
    assert draft is not None
    caches: Any = draft.make_caches(2, 16, FP8)
    assert caches[0].scale == 1.0


def test_scales_may_all_be_left_out(tmp_path: Path) -> None:
    model = load_model(written(tmp_path, LLAMA, CONFIGS["ModelOpt"], {}), device="cpu")
    assert of_caches(model, FP8) == [(1.0, 1.0)] * 2


def test_a_scale_that_one_layer_lacks_is_missing(tmp_path: Path) -> None:
    more = scales(2)
    name = "model.layers.1.self_attn.v_proj.v_scale"
    del more[name]
    with pytest.raises(CheckpointError) as error:
        check_checkpoint(written(tmp_path, LLAMA, CONFIGS["ModelOpt"], more))
    assert error.value.problems == [f"'{name}' is missing"]


def test_scales_of_which_the_config_does_not_speak_are_surplus(tmp_path: Path) -> None:
    scheme = {**CONFIGS["ModelOpt"], "kv_cache_quant_algo": None}
    with pytest.raises(CheckpointError, match=r"k_proj.k_scale' is surplus"):
        check_checkpoint(written(tmp_path, LLAMA, scheme, scales(2)))


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        (torch.tensor(0.0), "is 0, wanted a finite scale above 0"),
        (torch.tensor(-0.5), "is -0.5, wanted a finite scale above 0"),
        (torch.tensor(float("nan")), "is nan, wanted a finite scale above 0"),
        (torch.ones(2), r"in 'model.safetensors' has shape \(2,\), wanted \(\) or \(1,\)"),
        (torch.tensor(1), "in 'model.safetensors' has dtype torch.int64, wanted"),
    ],
)
def test_a_scale_that_is_none(scale: torch.Tensor, said: str, tmp_path: Path) -> None:
    name = "model.layers.1.self_attn.k_proj.k_scale"
    folder = written(tmp_path, LLAMA, CONFIGS["ModelOpt"], {**scales(2), name: scale})
    with pytest.raises(CheckpointError, match=f"'{name}' {said}"):
        load_model(folder, device="cpu")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kv_cache_quant_algo": "NVFP4"}, 'kv_cache_quant_algo "NVFP4", wanted "FP8" or null'),
        ({"kv_cache_quant_algo": 8}, "kv_cache_quant_algo 8, wanted"),
        ({"kv_cache_scheme": "static"}, 'kv_cache_scheme "static", wanted null, or {'),
        ({"kv_cache_scheme": {**SCHEME, "dynamic": True}}, '"dynamic": true}, wanted null, or'),
        ({"kv_cache_scheme": {**SCHEME, "type": "int"}}, '"type": "int"'),
        ({"kv_cache_scheme": {**SCHEME, "strategy": "attn_head"}}, '"strategy": "attn_head"'),
    ],
)
def test_another_cache_is_refused_by_key(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    scheme = {**CONFIGS["ModelOpt"], "kv_cache_quant_algo": None, **change}
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "quantization_config": scheme}))
    with pytest.raises(ModelConfigError) as error:
        read_config(tmp_path)
    assert said in str(error.value), str(error.value)
