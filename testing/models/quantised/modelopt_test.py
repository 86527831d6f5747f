"""Llama as NVIDIA ModelOpt publishes it: NVFP4, with the scales of an FP8 cache beside it."""

import json
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import pytest
import torch

from testing.models.batch import Seen, run, steps
from testing.models.folders import write_folder
from testing.models.judge import problems_of
from testing.models.quantised.configs import BLOCKED_LLAMA
from testing.models.quantised.examine import Quantised
from testing.models.truth import Arithmetic, values_of
from testing.oracles.codecs import e4m3

# Of each layer those of keys and values: so small that each clips another share of what is cached,
# as roundings of e4m3 alone would drown in those of NVFP4.
SCALES = {
    0: (0.40 / e4m3.MAX, 0.25 / e4m3.MAX),
    1: (0.15 / e4m3.MAX, 0.80 / e4m3.MAX),
}
HF_QUANT_CONFIG = {
    "producer": {"name": "modelopt", "version": "0.23.0"},
    "quantization": {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "group_size": 16,
        "exclude_modules": ["lm_head"],
    },
}


class Published(Quantised):
    """config.json says nothing of the quantisation: hf_quant_config.json does."""

    def write(self, folder: Path) -> Path:
        """The checkpoint as a folder, which it returns."""
        tensors = self.checkpoint
        for layer, (key, value) in SCALES.items():
            at = f"model.layers.{layer}.self_attn"
            tensors[f"{at}.k_proj.k_scale"] = torch.tensor(key)
            tensors[f"{at}.v_proj.v_scale"] = torch.tensor(value)
        write_folder(folder, self.config, tensors, shards=2)
        (folder / "hf_quant_config.json").write_text(json.dumps(HF_QUANT_CONFIG))
        return folder

    @cached_property
    def seen(self) -> Seen:
        """The batch in chunks and steps, from caches of codes."""
        return run(self.model, self.floats.ids, steps(), torch.float8_e4m3fn)

    @property
    def arithmetic(self) -> Arithmetic:
        """Of codes by the scales."""
        return with_scales(super().arithmetic, SCALES)


def with_scales(arithmetic: Arithmetic, scales: dict[int, tuple[float, float]]) -> Arithmetic:
    places = {
        f"model.layers.{layer}.self_attn.{place}": scale
        for layer, both in scales.items()
        for place, scale in zip(("keys", "values"), both, strict=True)
    }
    return replace(arithmetic, has_codes=True, cache_scales=places)


EXAMINED = Published(BLOCKED_LLAMA, "nvfp4")


def test_logits_are_those_of_the_codes_of_weights_and_caches() -> None:
    assert EXAMINED.problems() == []


@pytest.mark.parametrize(
    "other",
    [
        {layer: (1.0, value) for layer, (_, value) in SCALES.items()},
        {layer: (key, 1.0) for layer, (key, _) in SCALES.items()},
        {0: SCALES[0][::-1], 1: SCALES[1][::-1]},
        {0: SCALES[1], 1: SCALES[0]},
    ],
    ids=["keys without", "values without", "keys for values", "another layer's"],
)
def test_other_scales_would_show(other: dict[int, tuple[float, float]]) -> None:
    reference = EXAMINED.reference
    arithmetic = with_scales(EXAMINED.arithmetic, other)
    values = values_of(reference, EXAMINED.floats.ids, EXAMINED.seen.experts, arithmetic)
    assert problems_of(EXAMINED.seen, EXAMINED.truth.of(values), reference)
