"""Whatever is wrong with a folder's tensors is named, all at once, before a weight is read."""

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch

from layers.models.errors import CheckpointError
from layers.models.load import check_checkpoint, load_model
from testing.models.folders import INDEX, random_tensors, write_folder
from testing.oracles.models.configs import ALL, DEEPSEEK, GPT_OSS, LLAMA

Tensors: TypeAlias = dict[str, torch.Tensor]
WHOLE = {c["architectures"][0]: random_tensors(c) for c in ALL}
ENDINGS = tuple({name.rpartition(".")[2] for tensors in WHOLE.values() for name in tensors})
FIRST = "model-00001-of-00002.safetensors"


def tensors_of(config: dict[str, Any]) -> Tensors:
    return dict(WHOLE[config["architectures"][0]])


def problems_of(folder: Path) -> list[str]:
    """As both say them."""
    with pytest.raises(CheckpointError) as checked:
        check_checkpoint(folder)
    with pytest.raises(CheckpointError) as loaded:
        load_model(folder, device="cpu")
    assert checked.value.problems == loaded.value.problems
    assert all(problem in str(checked.value) for problem in checked.value.problems)
    return checked.value.problems


def names_in(problem: str) -> list[str]:
    """The tensors that a sentence speaks of; "1-3" in its first name stands for three."""
    name = next(n for n in re.findall(r"'([^']*)'", problem) if n.endswith(ENDINGS))
    numbers = [
        [str(n) for part in found.split(",") for n in range(*bounds(part))]
        for found in re.findall(r"(?<=\.)[\d,-]+(?=\.)", name)
    ]
    template = re.sub(r"(?<=\.)[\d,-]+(?=\.)", "{}", name)
    return [template.format(*chosen) for chosen in itertools.product(*numbers)]


def bounds(part: str) -> tuple[int, int]:
    first, _, last = part.partition("-")
    return int(first), int(last or first) + 1


@pytest.mark.parametrize("config", ALL, ids=lambda c: c["architectures"][0])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_whole_checkpoint_has_no_problem(
    config: dict[str, Any], shards: int, tmp_path: Path
) -> None:
    check_checkpoint(write_folder(tmp_path, config, tensors_of(config), shards))


@pytest.mark.parametrize("config", ALL, ids=lambda c: c["architectures"][0])
def test_every_tensor_is_missed(config: dict[str, Any], tmp_path: Path) -> None:
    tensors = tensors_of(config)
    write_folder(tmp_path, config, {"model.norm.weight": tensors.pop("model.norm.weight")})
    names = [name for problem in problems_of(tmp_path) for name in names_in(problem)]
    assert sorted(names) == sorted(tensors)


@pytest.mark.parametrize("config", ALL, ids=lambda c: c["architectures"][0])
def test_every_shape_is_compared(config: dict[str, Any], tmp_path: Path) -> None:
    tensors = tensors_of(config)
    wider = {name: torch.cat((t, t[..., -1:]), dim=-1) for name, t in tensors.items()}
    problems = problems_of(write_folder(tmp_path, config, wider))
    wanted = {
        name: f"'{name}' in 'model.safetensors' has shape {tuple(wider[name].shape)}, wanted "
        f"{tuple(tensor.shape)}"
        for name, tensor in tensors.items()
    }
    named = [names_in(problem) for problem in problems]
    assert sorted(name for names in named for name in names) == sorted(tensors)
    # Of many alike the first one is shown.
    for names, problem in zip(named, problems, strict=True):
        assert wanted[names[0]] in problem
        assert len(names) == 1 or f"{len(names)} tensors, " in problem


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    tensors = tensors_of(LLAMA)
    del tensors["model.layers.1.self_attn.k_proj.weight"]
    tensors["model.layers.1.self_attn.k_norm.weight"] = torch.ones(32)
    tensors["lm_head.weight"] = tensors["lm_head.weight"][:-1]
    tensors["model.norm.weight"] = tensors["model.norm.weight"].to(torch.float8_e4m3fn)
    assert sorted(problems_of(write_folder(tmp_path, LLAMA, tensors, shards=2))) == [
        "'lm_head.weight' in 'model-00002-of-00002.safetensors' has shape (191, 128), wanted "
        "(192, 128)",
        "'model.layers.1.self_attn.k_norm.weight' is surplus, which the model has no place for",
        "'model.layers.1.self_attn.k_proj.weight' is missing",
        "'model.norm.weight' in 'model-00001-of-00002.safetensors' has dtype torch.float8_e4m3fn, "
        "wanted torch.bfloat16 or torch.float16 or torch.float32",
    ]


def test_few_tensors_alike_are_named_in_full(tmp_path: Path) -> None:
    tensors = tensors_of(DEEPSEEK)
    names = [f"model.layers.1.mlp.experts.{e}.up_proj.weight" for e in (2, 5)]
    for name in names:
        del tensors[name]
    assert problems_of(write_folder(tmp_path, DEEPSEEK, tensors)) == [
        f"'{name}' is missing" for name in names
    ]


def test_an_index_that_fits_no_file_is_said_in_few_words(tmp_path: Path) -> None:
    write_folder(tmp_path, DEEPSEEK, tensors_of(DEEPSEEK), shards=2)
    index = json.loads((tmp_path / INDEX).read_text())["weight_map"]
    files = sorted(set(index.values()))
    swapped = {name: files[1 - files.index(file)] for name, file in index.items()}
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": swapped}))
    problems = problems_of(tmp_path)
    named = sorted(name for problem in problems for name in names_in(problem))
    assert named == sorted(index) and len(problems) < len(index) - 40


def absent_shard(folder: Path) -> None:
    (folder / FIRST).unlink()


def truncated_shard(folder: Path) -> None:
    path = folder / FIRST
    path.write_bytes(path.read_bytes()[:-10])


def header_cut_off(folder: Path) -> None:
    path = folder / FIRST
    path.write_bytes(path.read_bytes()[:20])


def empty_shard(folder: Path) -> None:
    (folder / FIRST).write_bytes(b"")


def changed_index(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        index = json.loads((folder / INDEX).read_text())
        (folder / INDEX).write_text(json.dumps(change(index)))

    return damage


NAME = "model.norm.weight"
HEAD = "model.embed_tokens.weight"
DAMAGES = {
    "a shard is absent": (absent_shard, f"'{FIRST}' is missing, though {INDEX} names it"),
    "a shard is cut short": (truncated_shard, f"'{FIRST}' cannot be read, "),
    "a header is cut short": (header_cut_off, f"'{FIRST}' cannot be read, 20 bytes long: "),
    "a shard is empty": (empty_shard, f"'{FIRST}' cannot be read, 0 bytes long: "),
    "a tensor is in another file": (
        changed_index(lambda i: {"weight_map": {**i["weight_map"], HEAD: other_of(i, HEAD)}}),
        f"'{HEAD}' in ",
    ),
    "a tensor is not in the index": (
        changed_index(
            lambda i: {"weight_map": {k: v for k, v in i["weight_map"].items() if k != NAME}}
        ),
        f"holds '{NAME}', which {INDEX} lacks",
    ),
    "the index has a tensor that no file has": (
        changed_index(lambda i: {"weight_map": {**i["weight_map"], "lm_head.bias": FIRST}}),
        f"{INDEX} has 'lm_head.bias' in '{FIRST}', which lacks it",
    ),
    "the index leaves the folder": (
        changed_index(lambda i: {"weight_map": {**i["weight_map"], NAME: "../a.safetensors"}}),
        f"{INDEX} names '../a.safetensors', wanted a file of its own folder",
    ),
    "the index has no map": (changed_index(lambda i: {"metadata": {}}), "has no weight_map"),
    "the index is a list": (changed_index(lambda i: []), "holds [], wanted an object"),
}


def other_of(index: dict[str, Any], name: str) -> str:
    files: dict[str, str] = index["weight_map"]
    return next(file for file in files.values() if file != files[name])


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_folder_is_said_to_be_so(
    damage: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    write_folder(tmp_path, LLAMA, tensors_of(LLAMA), shards=2)
    damage(tmp_path)
    problems = problems_of(tmp_path)
    assert any(said in problem for problem in problems), problems
    # A file that cannot be read hides its tensors: they are not called missing.
    assert not any("is missing" in p and "safetensors" not in p for p in problems)


def test_a_folder_without_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (problem,) = problems_of(tmp_path)
    assert problem == f"'{tmp_path}' has neither model.safetensors nor {INDEX}, wanted one of them"


def test_a_tied_head_may_be_left_out_or_be_the_embedding(tmp_path: Path) -> None:
    config = {**LLAMA, "tie_word_embeddings": True}
    tensors = tensors_of(LLAMA)
    head = tensors.pop("lm_head.weight")
    model = load_model(write_folder(tmp_path / "without", config, tensors), device="cpu")
    hidden = torch.ones(1, 128, dtype=torch.bfloat16)
    want = tensors[HEAD].double().sum(dim=1)
    torch.testing.assert_close(model.logits(hidden)[0].double(), want, rtol=1e-5, atol=1e-5)
    tensors["lm_head.weight"] = tensors[HEAD]
    load_model(write_folder(tmp_path / "same", config, tensors), device="cpu")
    tensors["lm_head.weight"] = head
    with pytest.raises(CheckpointError, match=f"'lm_head.weight' differs from '{HEAD}'"):
        load_model(write_folder(tmp_path / "other", config, tensors), device="cpu")


def test_the_draft_may_have_copies_of_embedding_and_head_and_no_others(tmp_path: Path) -> None:
    tensors = tensors_of(DEEPSEEK)
    tensors["model.layers.2.embed_tokens.weight"] = tensors[HEAD]
    tensors["model.layers.2.shared_head.head.weight"] = tensors["lm_head.weight"]
    load_model(write_folder(tmp_path / "same", DEEPSEEK, tensors), device="cpu")
    tensors["model.layers.2.shared_head.head.weight"] = tensors[HEAD]
    with pytest.raises(CheckpointError, match=r"shared_head.head.weight' differs from 'lm_head"):
        load_model(write_folder(tmp_path / "other", DEEPSEEK, tensors), device="cpu")


def test_a_draft_is_left_out_where_nobody_asks_for_it(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, DEEPSEEK, tensors_of(DEEPSEEK))
    with_draft, without = (
        load_model(folder, device="cpu", with_draft=asked) for asked in (True, False)
    )
    assert with_draft.draft is not None and without.draft is None
    assert len(without.model.layers) == 2


def test_values_that_the_dtype_does_not_hold_are_named(tmp_path: Path) -> None:
    tensors = tensors_of(GPT_OSS)
    name = "model.layers.1.mlp.experts.down_proj"
    tensors[name] = tensors[name] * 1e6
    folder = write_folder(tmp_path, GPT_OSS, tensors)
    with pytest.raises(CheckpointError, match=rf"'{name}'.*beyond float16's 65504"):
        load_model(folder, device="cpu", params_dtype=torch.float16)
