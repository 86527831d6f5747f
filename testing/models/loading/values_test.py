"""Tensors that have the right names and cannot be used are refused as a wrong checkpoint."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from layers.kernels.capability import BackendUnavailable
from layers.models.checkpoint.files import CheckpointFiles
from layers.models.errors import CheckpointError
from layers.models.load import check_checkpoint, load_model
from testing.models.folders import random_tensors, write_folder
from testing.models.quantised.configs import BLOCKED_LLAMA
from testing.models.quantised.examine import Quantised
from testing.oracles.models.configs import DEEPSEEK, LLAMA

EMBEDDING = "model.embed_tokens.weight"
TIED = {**LLAMA, "tie_word_embeddings": True}


@contextmanager
def refused(folder: Path, match: str) -> Iterator[None]:
    """As a `CheckpointError` that names the folder."""
    with pytest.raises(CheckpointError, match=match) as error:
        yield
    assert str(folder) in str(error.value)


def with_scale(name: str, suffix: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A quantised Llama's config and tensors, the first such scale changed."""
    quantised = Quantised(BLOCKED_LLAMA, name)
    tensors = quantised.checkpoint
    scale = next(n for n in tensors if n.endswith(f".{suffix}"))
    return quantised.whole_config, {**tensors, scale: change(tensors[scale])}, scale


@pytest.mark.parametrize("value", [0.0, -1.0])
@pytest.mark.parametrize("name", ["fp8_static", "nvfp4"])
def test_an_input_scale_that_scales_nothing(name: str, value: float, tmp_path: Path) -> None:
    # Weight-only kernels never read NVFP4's.
    config, tensors, scale = with_scale(name, "input_scale", lambda t: torch.full_like(t, value))
    write_folder(tmp_path, config, tensors)
    # The layer fuses three, of which the largest counts: all of them have to go.
    layer = scale.rpartition(".")[0].rpartition(".")[0]
    same = {n: torch.full_like(t, value) for n, t in tensors.items() if is_input(n, layer)}
    write_folder(tmp_path, config, {**tensors, **same})
    with refused(tmp_path, "input_scale"):
        load_model(tmp_path, device="cpu", backend={"linear": "torch"})


def is_input(name: str, layer: str) -> bool:
    return name.startswith(f"{layer}.") and name.endswith(".input_scale")


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("int8_channel", "weight_scale"),
        ("int8_block", "weight_scale_inv"),
        ("fp8_tensor", "weight_scale"),
        ("fp8_channel", "weight_scale"),
        ("fp8_block", "weight_scale_inv"),
        ("nvfp4", "weight_scale"),
        ("nvfp4", "weight_scale_2"),
    ],
)
def test_a_weight_scale_below_0(name: str, suffix: str, tmp_path: Path) -> None:
    def negative(scale: torch.Tensor) -> torch.Tensor:
        return (-scale.float()).to(scale.dtype)

    config, tensors, scale = with_scale(name, suffix, negative)
    write_folder(tmp_path, config, tensors)
    with refused(tmp_path, rf"'{scale}'.* holds -.*, wanted scales of at least 0"):
        load_model(tmp_path, device="cpu")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.to(torch.float8_e4m3fn), "has dtype torch.float8_e4m3fn, wanted"),
        (lambda t: t[:-1], r"has shape \(191, 128\), wanted \(192, 128\)"),
    ],
)
def test_a_copy_is_compared_before_it_is_read(
    change: Callable[[torch.Tensor], torch.Tensor], said: str, tmp_path: Path
) -> None:
    tensors = random_tensors(LLAMA)
    tensors["lm_head.weight"] = change(tensors[EMBEDDING])
    write_folder(tmp_path, TIED, tensors)
    for read in (check_checkpoint, load_model):
        with refused(tmp_path, f"'lm_head.weight' in 'model.safetensors' {said}"):
            read(tmp_path)


def test_a_copy_of_another_float_dtype_is_one_if_its_values_are(tmp_path: Path) -> None:
    tensors = random_tensors(LLAMA)
    tensors["lm_head.weight"] = tensors[EMBEDDING].float()
    load_model(write_folder(tmp_path / "same", TIED, tensors), device="cpu")
    tensors["lm_head.weight"] = tensors["lm_head.weight"] * (1 + 2**-12)
    with pytest.raises(CheckpointError, match=f"'lm_head.weight' differs from '{EMBEDDING}'"):
        load_model(write_folder(tmp_path / "other", TIED, tensors), device="cpu")


def test_a_draft_that_nobody_asks_for_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = random_tensors(DEEPSEEK)
    tensors["model.layers.2.embed_tokens.weight"] = tensors[EMBEDDING]
    folder = write_folder(tmp_path, DEEPSEEK, tensors)
    read, load = [], CheckpointFiles.load

    def noted(files: CheckpointFiles, names: Any) -> Any:
        names = list(names)
        read.extend(names)
        return load(files, names)

    monkeypatch.setattr(CheckpointFiles, "load", noted)
    load_model(folder, device="cpu", with_draft=False)
    assert read and not [name for name in read if name.startswith("model.layers.2.")]


def test_a_backend_that_cannot_run_is_no_fault_of_the_checkpoint(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, LLAMA, random_tensors(LLAMA))
    with pytest.raises(BackendUnavailable):
        load_model(folder, device="cpu", backend={"attention": "flashinfer"})
