"""Which attention a model takes unasked: none that a compiler has to build first."""

from pathlib import Path
from typing import Any

import pytest
import torch

from layers.kernels.capability import BACKEND_VARIABLE
from layers.models import attention_backend, load
from layers.models.attention_backend import attention_ready_at_once
from layers.models.config.read import read_config
from layers.models.errors import ModelConfigError
from testing.models.folders import write_folder
from testing.oracles.models.configs import DEEPSEEK, LLAMA

GPU = torch.device("cuda", 0)
FLASHINFER = ("flashinfer", "triton")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the packages and the architecture that a GPU's machine has."""
    monkeypatch.delenv(BACKEND_VARIABLE, raising=False)

    def set_up(packages: tuple[str, ...], arch: tuple[int, int] = (9, 0)) -> None:
        monkeypatch.setattr(attention_backend, "is_installed", lambda name: name in packages)
        monkeypatch.setattr(attention_backend, "device_arch", lambda _: arch)

    return set_up


def config_of(folder: Path, **changes: Any) -> Any:
    config = DEEPSEEK if "kv_lora_rank" in changes else LLAMA
    return read_config(write_folder(folder, {**config, **changes}, {}))


def test_kernels_that_nvcc_would_build_first_are_passed_over(tmp_path: Path, machine: Any) -> None:
    machine(FLASHINFER)
    assert attention_ready_at_once(GPU, config_of(tmp_path)) == "triton"


@pytest.mark.parametrize(
    ("packages", "arch"),
    [
        # Built before; not there to be chosen; without Triton; too old for it.
        ((*FLASHINFER, "flashinfer_jit_cache"), (9, 0)),
        (("triton",), (9, 0)),
        (("flashinfer",), (9, 0)),
        (FLASHINFER, (7, 5)),
    ],
)
def test_otherwise_the_layers_choose(
    tmp_path: Path, machine: Any, packages: tuple[str, ...], arch: tuple[int, int]
) -> None:
    machine(packages, arch)
    assert attention_ready_at_once(GPU, config_of(tmp_path)) is None


def test_latents_that_triton_does_not_take_are_left_to_the_layers(
    tmp_path: Path, machine: Any
) -> None:
    machine(FLASHINFER)
    assert attention_ready_at_once(GPU, config_of(tmp_path / "s", kv_lora_rank=512)) == "triton"
    assert attention_ready_at_once(GPU, config_of(tmp_path / "l", kv_lora_rank=1024)) is None


def test_the_environment_and_a_cpu_have_their_own_say(
    tmp_path: Path, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(FLASHINFER)
    config = config_of(tmp_path)
    assert attention_ready_at_once(torch.device("cpu"), config) is None
    monkeypatch.setenv(BACKEND_VARIABLE, "flashinfer")
    assert attention_ready_at_once(GPU, config) is None


@pytest.mark.parametrize(
    ("asked", "attention", "linear"),
    [
        ("auto", "triton", None),
        ("torch", "torch", "torch"),
        ({"attention": "fastest", "linear": "auto"}, None, None),
        ({"attention": "flashinfer", "linear": "sgl_kernel"}, "flashinfer", "sgl_kernel"),
        ({"linear": "torch"}, "triton", "torch"),
    ],
)
def test_what_is_asked_for_is_taken(
    tmp_path: Path, machine: Any, asked: Any, attention: str | None, linear: str | None
) -> None:
    machine(FLASHINFER)
    backends = load.backends_of(asked, GPU, config_of(tmp_path))
    assert (backends.attention, backends.linear) == (attention, linear)


def test_another_kind_of_layer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelConfigError, match="'norm'"):
        load.backends_of({"norm": "torch"}, GPU, config_of(tmp_path))
