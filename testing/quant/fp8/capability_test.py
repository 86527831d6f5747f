"""Which backend multiplies fp8 on each GPU, by what it needs: devices and packages are made up."""

from dataclasses import replace

import pytest
import torch

from layers.kernels import capability
from layers.kernels.capability import BackendUnavailable, Problem, select_backend, select_companion
from layers.kernels.fp8.fp8_block_scaled_mm import FP8_BLOCK_SCALED_MM
from layers.kernels.fp8.fp8_scaled_mm import FP8_SCALED_MM
from layers.kernels.fp8.mxfp8_quant import MXFP8_QUANT
from layers.kernels.fp8.mxfp8_scaled_mm import MXFP8_SCALED_MM

GPU = torch.device("cuda", 0)
GOOD = Problem(dtype=torch.bfloat16, k=512, n=256)
SINGLE = replace(GOOD, scalar_scales=True)


@pytest.fixture(autouse=True)
def everything_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLUMBLINE_BACKEND", raising=False)
    monkeypatch.setattr(capability, "is_installed", lambda package: True)
    monkeypatch.setattr(capability, "installed_version", lambda package: (0, 4, 2))
    monkeypatch.setattr(capability, "cuda_version", lambda: (13, 0))
    pretend(monkeypatch, (9, 0))


def pretend(monkeypatch: pytest.MonkeyPatch, arch: tuple[int, int]) -> None:
    monkeypatch.setattr(capability, "device_arch", lambda device: arch)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Pretended GPU")


@pytest.mark.parametrize(
    ("arch", "tensor", "block", "mx"),
    [
        ((8, 0), "torch", "torch", "torch"),
        ((8, 9), "torch_scaled_mm", "triton", "triton"),
        ((9, 0), "torch_scaled_mm", "torch_scaled_mm", "triton"),
        ((10, 0), "torch_scaled_mm", "triton", "flashinfer"),
        ((12, 0), "torch_scaled_mm", "triton", "flashinfer"),
    ],
)
def test_choice_by_architecture(
    monkeypatch: pytest.MonkeyPatch, arch: tuple[int, int], tensor: str, block: str, mx: str
) -> None:
    pretend(monkeypatch, arch)
    assert select_backend(FP8_SCALED_MM, GPU, GOOD).name == tensor
    assert select_backend(FP8_BLOCK_SCALED_MM, GPU, GOOD).name == block
    matmul = select_backend(MXFP8_SCALED_MM, GPU, GOOD).name
    assert matmul == mx
    # The two have to agree on how scales lie.
    assert select_companion(MXFP8_QUANT, GPU, GOOD, matmul).name == mx


@pytest.mark.parametrize(
    ("operation", "backend", "problem", "reason"),
    [
        (FP8_SCALED_MM, "flashinfer", GOOD, "needs one scale for x and one for the weight"),
        (FP8_SCALED_MM, "flashinfer", replace(SINGLE, bias=True), "needs a layer without bias"),
        (FP8_BLOCK_SCALED_MM, "sgl_kernel", replace(GOOD, bias=True), "a layer without bias"),
        (FP8_BLOCK_SCALED_MM, "torch_scaled_mm", replace(GOOD, k=384), "needs K divisible by 512"),
        (MXFP8_SCALED_MM, "flashinfer", GOOD, "needs CUDA sm100 or newer, 'cuda:0' is sm90"),
    ],
)
def test_what_rules_a_backend_out(
    operation: capability.Operation, backend: str, problem: Problem, reason: str
) -> None:
    with pytest.raises(BackendUnavailable, match=f"backend '{backend}' .*{reason}"):
        select_backend(operation, GPU, problem, backend)


def test_single_scales_suit_every_backend() -> None:
    available = FP8_SCALED_MM.availability(GPU, SINGLE)
    assert set(available.values()) == {None}


def test_a_newer_package_has_lost_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capability, "installed_version", lambda package: (0, 4, 8))
    with pytest.raises(BackendUnavailable, match=r"'sgl_kernel' 0\.4\.2 or older, .* 0\.4\.8"):
        select_backend(FP8_BLOCK_SCALED_MM, GPU, GOOD, "sgl_kernel")


def test_an_older_cuda_has_no_kernel_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capability, "cuda_version", lambda: (12, 8))
    reason = FP8_BLOCK_SCALED_MM.availability(GPU, GOOD)["torch_scaled_mm"]
    assert reason == "needs a torch built with CUDA 12.9 or newer, this one is with 12.8"


def test_versions_are_those_of_the_installed_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    seen = tuple(int(part) for part in torch.__version__.partition("+")[0].split("."))
    assert capability.installed_version("torch") == seen
    assert capability.installed_version("no_such_package_of_kernels") is None
    assert capability.cuda_version() >= (0, 0)
