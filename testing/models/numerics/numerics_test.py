"""A model from a folder, against its reference: chunks, pages, steps, each tensor.

PLUMBLINE_MODEL names one of `MODELS`; where it is unset, all are examined.
"""

import os
from functools import cache
from typing import Any

import pytest
import torch

from testing.models.examine import Examination, layer_names
from testing.models.numerics.settings import MODELS

NAMES = [os.environ["PLUMBLINE_MODEL"]] if "PLUMBLINE_MODEL" in os.environ else list(MODELS)
SETTINGS = [(name, *one) for name in NAMES for one in MODELS[name].settings]
ROPE_SCALING = [(name, *one) for name in NAMES for one in MODELS[name].rope_scaling]
each_model = pytest.mark.parametrize("name", NAMES)


@cache
def examined(name: str) -> Examination:
    """Of the weights that most tests look at."""
    return Examination(MODELS[name].config)


@each_model
def test_prompts_in_chunks_and_tokens_one_by_one(name: str) -> None:
    assert examined(name).problems() == []


@each_model
def test_prompts_at_once(name: str) -> None:
    assert examined(name).problems_whole() == []


@pytest.mark.parametrize("seed", [1, 2])
@each_model
def test_other_weights(name: str, seed: int) -> None:
    assert Examination(MODELS[name].config, seed).problems() == []


@each_model
def test_float16(name: str) -> None:
    assert Examination(MODELS[name].config, dtype=torch.float16).problems() == []


@each_model
def test_caches_of_codes(name: str) -> None:
    coded = Examination(MODELS[name].config, has_codes=True)
    assert coded.problems() == []
    # Were keys and values kept as they are, it would show.
    assert examined(name).problems_of_run(coded.seen)


@each_model
def test_every_tensor_is_read_and_lies_where_it_belongs(name: str) -> None:
    # Were its rows, or its columns, one further on, the same answers would be wrong.
    one = examined(name)
    unseen = []
    for tensor_name in layer_names(list(one.tensors), MODELS[name].config):
        tensor = one.tensors[tensor_name]
        for dim in range(tensor.dim()):
            if not one.problems_if({tensor_name: tensor.roll(1, dim)}):
                unseen.append((tensor_name, dim))
    assert unseen == []


@pytest.mark.parametrize(("name", "key", "other"), SETTINGS)
def test_every_setting_has_its_say(name: str, key: str, other: Any) -> None:
    assert MODELS[name].config[key] != other
    assert examined(name).problems_if(config={key: other})


@pytest.mark.parametrize(("name", "key", "other"), ROPE_SCALING)
def test_every_setting_of_the_rotation_has_its_say(name: str, key: str, other: float) -> None:
    scaling = MODELS[name].config["rope_scaling"]
    assert scaling[key] != other
    assert examined(name).problems_if(config={"rope_scaling": {**scaling, key: other}})
