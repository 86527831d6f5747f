"""A checkpoint that is wrong in many tensors is told of in few words, none of them wrong."""

import re

from layers.models.checkpoint.findings import Finding, plain, sentences
from layers.models.errors import CheckpointError


def expert(layer: int, number: int) -> str:
    return f"model.layers.{layer}.mlp.experts.{number}.up_proj.weight_scale_inv"


def test_deepseek_v3_without_its_experts_scales() -> None:
    found = [plain(expert(i, e), "missing") for i in range(3, 61) for e in range(256)]
    assert sentences(found) == [
        "14848 tensors, 'model.layers.3-60.mlp.experts.0-255.up_proj.weight_scale_inv', are missing"
    ]


def test_ten_are_named_in_full_and_eleven_are_not() -> None:
    ten = [plain(f"model.layers.{i}.norm.weight", "missing") for i in range(10)]
    assert sentences(ten) == [f"'model.layers.{i}.norm.weight' is missing" for i in range(10)]
    (said,) = sentences([*ten, plain("model.layers.12.norm.weight", "missing")])
    assert said == "11 tensors, 'model.layers.0-9,12.norm.weight', are missing"


def test_of_many_gaps_the_first_are_shown() -> None:
    found = [plain(f"model.layers.{2 * i}.norm.weight", "missing") for i in range(30)]
    assert sentences(found) == ["30 tensors, 'model.layers.0,2,4,…,58.norm.weight', are missing"]


def test_what_is_wrong_differently_is_told_apart() -> None:
    names = [expert(3, e) for e in range(11)]
    shapes = [Finding(n, "of another shape", f"'{n}' has shape (1,), wanted (2,)") for n in names]
    said = sentences([*shapes, *(plain(n, "missing") for n in names)])
    pattern = expert(3, 0).replace("experts.0", "experts.0-10")
    assert said == [
        f"11 tensors, '{pattern}', are of another shape: '{names[0]}' has shape (1,), wanted (2,)",
        f"11 tensors, '{pattern}', are missing",
    ]


def test_of_countless_problems_the_message_has_the_first_and_the_error_all() -> None:
    problems = [f"'tensor {'x' * i}' is missing" for i in range(150)]
    error = CheckpointError("folder", problems)
    assert error.problems == problems and "does not fit its config.json, 150 problems" in str(error)
    assert len(re.findall("is missing", str(error))) == 100 and "- and 50 more" in str(error)
