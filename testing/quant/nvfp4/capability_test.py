"""Which backend multiplies FP4 on each GPU, by what it needs: devices and packages are made up."""

from dataclasses import replace

import pytest
import torch

from layers.kernels import capability
from layers.kernels.capability import BackendUnavailable, Operation, Problem, select_backend
from layers.kernels.fp4.mxfp4_mm import MXFP4_MM
from layers.kernels.fp4.w4a16_mm import W4A16_MM
from layers.quantization.nvfp4_linear import NVFP4_LINEAR

GPU = torch.device("cuda", 0)
GOOD = Problem(dtype=torch.bfloat16, k=512, n=256)


@pytest.fixture(autouse=True)
def everything_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLUMBLINE_BACKEND", raising=False)
    monkeypatch.setattr(capability, "is_installed", lambda package: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Pretended GPU")


def pretend(monkeypatch: pytest.MonkeyPatch, arch: tuple[int, int]) -> None:
    monkeypatch.setattr(capability, "device_arch", lambda device: arch)


@pytest.mark.parametrize(
    ("arch", "nvfp4", "weight_only", "mxfp4"),
    [
        ((7, 5), "torch", "torch", "torch"),
        ((8, 0), "triton", "triton", "triton"),
        ((9, 0), "triton", "triton", "triton"),
        ((10, 0), "flashinfer", "triton", "flashinfer"),
        ((10, 3), "flashinfer", "triton", "flashinfer"),
    ],
)
def test_choice_by_architecture(
    monkeypatch: pytest.MonkeyPatch,
    arch: tuple[int, int],
    nvfp4: str,
    weight_only: str,
    mxfp4: str,
) -> None:
    pretend(monkeypatch, arch)
    chosen = [select_backend(o, GPU, GOOD).name for o in (NVFP4_LINEAR, W4A16_MM, MXFP4_MM)]
    assert chosen == [nvfp4, weight_only, mxfp4]


@pytest.mark.parametrize("operation", [NVFP4_LINEAR, MXFP4_MM], ids=lambda o: o.name)
def test_what_quantises_x_by_tensor_cores_names_the_device(
    monkeypatch: pytest.MonkeyPatch, operation: Operation
) -> None:
    pretend(monkeypatch, (9, 0))
    with pytest.raises(BackendUnavailable, match=r"needs CUDA sm100 .* is sm90") as seen:
        select_backend(operation, GPU, GOOD, "flashinfer")
    assert "Backends that can run here: triton, torch" in str(seen.value)


@pytest.mark.parametrize(
    ("operation", "k", "block"),
    [(NVFP4_LINEAR, 520, 16), (MXFP4_MM, 528, 32)],
    ids=lambda v: str(v),
)
def test_blocks_that_are_not_whole_suit_no_backend(
    monkeypatch: pytest.MonkeyPatch, operation: Operation, k: int, block: int
) -> None:
    pretend(monkeypatch, (10, 0))
    with pytest.raises(BackendUnavailable, match=f"needs K divisible by {block}, K is {k}"):
        select_backend(operation, GPU, replace(GOOD, k=k))
