"""DeepSeek-V3 from a folder, against its reference: chunks, pages, steps, each tensor."""

from typing import Any

import pytest
import torch

from testing.models.examine import Examination, layer_names
from testing.oracles.models.configs import DEEPSEEK

EXAMINED = Examination(DEEPSEEK)
KEYS: list[tuple[str, Any]] = [
    ("rms_norm_eps", 4e-3),
    ("rope_theta", 120.0),
    ("routed_scaling_factor", 1.0),
    ("norm_topk_prob", False),
    ("n_group", 2),
    ("topk_group", 3),
]
ROPE_KEYS = [
    ("factor", 50),
    ("original_max_position_embeddings", 640),
    ("mscale", 1.1),
    ("mscale_all_dim", 0.9),
]


def test_prompts_in_chunks_and_tokens_one_by_one() -> None:
    assert EXAMINED.problems() == []


def test_prompts_at_once() -> None:
    assert EXAMINED.problems_whole() == []


@pytest.mark.parametrize("seed", [1, 2])
def test_other_weights(seed: int) -> None:
    assert Examination(DEEPSEEK, seed).problems() == []


def test_float16() -> None:
    assert Examination(DEEPSEEK, dtype=torch.float16).problems() == []


def test_caches_of_codes() -> None:
    examined = Examination(DEEPSEEK, has_codes=True)
    assert examined.problems() == []
    # Were keys and values kept as they are, it would show.
    assert EXAMINED.problems_of_run(examined.seen)


def test_every_tensor_is_read_and_lies_where_it_belongs() -> None:
    # Were its rows, or its columns, one further on, the same answers would be wrong.
    unseen = []
    for name in layer_names(list(EXAMINED.tensors), DEEPSEEK):
        tensor = EXAMINED.tensors[name]
        for dim in range(tensor.dim()):
            if not EXAMINED.problems_if({name: tensor.roll(1, dim)}):
                unseen.append((name, dim))
    assert unseen == []


@pytest.mark.parametrize(("key", "other"), KEYS)
def test_every_setting_has_its_say(key: str, other: Any) -> None:
    assert DEEPSEEK[key] != other
    assert EXAMINED.problems_if(config={key: other})


@pytest.mark.parametrize(("key", "other"), ROPE_KEYS)
def test_every_setting_of_the_rotation_has_its_say(key: str, other: float) -> None:
    scaling = DEEPSEEK["rope_scaling"]
    assert scaling[key] != other
    assert EXAMINED.problems_if(config={"rope_scaling": {**scaling, key: other}})
