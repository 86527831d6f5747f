"""A config.json's rope_scaling becomes the scaling that it names, or is refused by name."""

from typing import Any

import pytest
import torch

from layers.rotary.scaling import Llama3Scaling, YarnScaling, scaling_from_config

LENGTH = {"original_max_position_embeddings": 4096}
DEEPSEEK = {
    **LENGTH,
    "type": "yarn",
    "factor": 40,
    "beta_fast": 16,
    "beta_slow": 2,
    "mscale": 0.707,
    "mscale_all_dim": 0.5,
}
LLAMA = {
    **LENGTH,
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 2.0,
    "high_freq_factor": 5.0,
}


def test_every_key_reaches_its_place() -> None:
    assert scaling_from_config(DEEPSEEK) == YarnScaling(40, 4096, 16, 2, 0.707, 0.5)
    assert scaling_from_config(LLAMA) == Llama3Scaling(8.0, 4096, 2.0, 5.0)
    untruncated = scaling_from_config({**DEEPSEEK, "truncate": False})
    assert untruncated == YarnScaling(40, 4096, 16, 2, 0.707, 0.5, truncate=False)


def test_what_is_left_out_is_as_its_authors_have_it() -> None:
    yarn = scaling_from_config({**LENGTH, "rope_type": "yarn", "factor": 4.0})
    assert yarn == YarnScaling(4.0, 4096, 32.0, 1.0, 1.0, 0.0)
    llama = scaling_from_config({**LENGTH, "rope_type": "llama3", "factor": 8.0})
    assert llama == Llama3Scaling(8.0, 4096, 1.0, 4.0)


@pytest.mark.parametrize("config", [None, {}, {"type": "default"}, {"rope_type": "default"}])
def test_no_scaling(config: dict[str, Any] | None) -> None:
    assert scaling_from_config(config) is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"type": "linear", "factor": 2.0}, "type 'linear', wanted 'default', 'yarn' or 'llama3'"),
        ({**LENGTH, "type": "yarn"}, "of type 'yarn' lacks factor"),
        ({"rope_type": "llama3", "factor": 8.0}, "lacks original_max_position_embeddings"),
        ({**DEEPSEEK, "factor": 0}, "yarn: factor is 0, wanted a number above 0"),
        ({**DEEPSEEK, "beta_fast": 1}, "yarn: beta_fast 1 is below beta_slow 2"),
        ({**DEEPSEEK, "truncate": "no"}, "yarn: truncate is 'no', wanted true or false"),
        ({**LLAMA, "high_freq_factor": 2.0}, "llama3: high_freq_factor is 2.0, wanted more than"),
        ({**LLAMA, "low_freq_factor": True}, "llama3: low_freq_factor is True, wanted a number"),
    ],
)
def test_what_makes_no_sense_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scaling_from_config(config)


def test_the_ramp_is_a_step_where_its_ends_meet() -> None:
    # 8 pairs of base 10000 and 4096 positions: 8·ln(4096 / 2πβ) / ln 10000 is 2.62 for β = 32.
    yarn = YarnScaling(4.0, 4096, 32.0, 32.0, truncate=False)
    plain = torch.ones(8, dtype=torch.float64)

    assert yarn.frequencies(plain, 10000.0).tolist() == [1.0] * 3 + [0.25] * 5
