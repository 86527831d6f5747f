"""Which backends each GPU could run, by what a backend needs: devices and packages are made up."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from layers.kernels import capability
from layers.kernels.capability import (
    Backend,
    BackendUnavailable,
    Needs,
    Operation,
    Problem,
    select_backend,
    select_companion,
)
from layers.kernels.int8_block_scaled_mm import INT8_BLOCK_SCALED_MM
from layers.kernels.int8_scaled_mm import INT8_SCALED_MM
from layers.kernels.per_token_int8_quant import PER_TOKEN_INT8_QUANT

GPU = torch.device("cuda", 0)
GOOD = Problem(dtype=torch.bfloat16, k=256, n=128)


@pytest.fixture(autouse=True)
def everything_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLUMBLINE_BACKEND", raising=False)
    monkeypatch.setattr(capability, "is_installed", lambda package: True)
    pretend(monkeypatch, (9, 0))


def pretend(monkeypatch: pytest.MonkeyPatch, arch: tuple[int, int]) -> None:
    monkeypatch.setattr(capability, "device_arch", lambda device: arch)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Pretended GPU")


@pytest.mark.parametrize(
    ("arch", "channel", "block"),
    [
        ((7, 5), "torch", "torch"),
        ((8, 0), "sgl_kernel", "triton"),
        ((8, 9), "sgl_kernel", "triton"),
        ((9, 0), "sgl_kernel", "triton"),
        ((10, 0), "triton", "triton"),
        ((12, 0), "triton", "triton"),
    ],
)
def test_choice_by_architecture(
    monkeypatch: pytest.MonkeyPatch, arch: tuple[int, int], channel: str, block: str
) -> None:
    pretend(monkeypatch, arch)
    assert select_backend(INT8_SCALED_MM, GPU, GOOD).name == channel
    assert select_backend(INT8_BLOCK_SCALED_MM, GPU, GOOD).name == block


@pytest.mark.parametrize(
    ("arch", "backend", "wanted"),
    [
        ((7, 5), "sgl_kernel", "needs CUDA sm80 to sm90, 'cuda:0' is sm75 (Pretended GPU)"),
        ((10, 0), "sgl_kernel", "needs CUDA sm80 to sm90, 'cuda:0' is sm100 (Pretended GPU)"),
        ((7, 5), "triton", "needs CUDA sm80 or newer, 'cuda:0' is sm75 (Pretended GPU)"),
    ],
)
def test_another_architecture(
    monkeypatch: pytest.MonkeyPatch, arch: tuple[int, int], backend: str, wanted: str
) -> None:
    pretend(monkeypatch, arch)
    with pytest.raises(BackendUnavailable) as error:
        select_backend(INT8_SCALED_MM, GPU, GOOD, backend)
    assert f"int8_scaled_mm: backend '{backend}' {wanted}. Backends that can" in str(error.value)


@pytest.mark.parametrize(
    ("problem", "backend", "wanted"),
    [
        (
            replace(GOOD, dtype=torch.float32),
            "sgl_kernel",
            "needs inputs and outputs of torch.float16 or torch.bfloat16, they are torch.float32",
        ),
        (replace(GOOD, k=264), "sgl_kernel", "needs K divisible by 16, K is 264"),
        (replace(GOOD, n=132), "sgl_kernel", "needs N divisible by 8, N is 132"),
        (replace(GOOD, k=131088), "sgl_kernel", "needs K of at most 131072, K is 131088"),
        (replace(GOOD, k=131088), "triton", "needs K of at most 131072, K is 131088"),
    ],
)
def test_another_problem(problem: Problem, backend: str, wanted: str) -> None:
    with pytest.raises(BackendUnavailable) as error:
        select_backend(INT8_SCALED_MM, GPU, problem, backend)
    assert f"backend '{backend}' {wanted}. Backends that can run here: " in str(error.value)


@pytest.mark.parametrize(
    "problem",
    [replace(GOOD, k=272, n=136), replace(GOOD, k=131072), replace(GOOD, dtype=torch.float16)],
    ids=str,
)
def test_problems_at_the_limits(problem: Problem) -> None:
    assert select_backend(INT8_SCALED_MM, GPU, problem).name == "sgl_kernel"


def test_codes_of_either_sign_fit_an_int32_up_to_the_largest_k() -> None:
    limits = [b.needs.k_max for b in INT8_SCALED_MM.backends if b.name != "torch"]
    for limit in limits:
        # -128 · -127 is the largest product: activations have no -128.
        assert limit is not None
        assert limit * 128 * 127 < 2**31


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capability, "is_installed", lambda package: package != "sgl_kernel")
    assert select_backend(INT8_SCALED_MM, GPU, GOOD).name == "triton"
    with pytest.raises(BackendUnavailable, match="'sgl_kernel', which is not installed"):
        select_backend(INT8_SCALED_MM, GPU, GOOD, "sgl_kernel")


def test_packages_are_looked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert capability.is_installed("torch")
    assert not capability.is_installed("no_such_package_of_kernels")


@pytest.mark.parametrize(("preferred", "chosen"), [("torch", "torch"), ("triton", "triton")])
def test_the_quantiser_follows_the_matmul(preferred: str, chosen: str) -> None:
    assert select_companion(PER_TOKEN_INT8_QUANT, GPU, GOOD, preferred).name == chosen


def test_the_quantiser_is_chosen_by_capability_where_it_cannot_follow() -> None:
    assert select_companion(PER_TOKEN_INT8_QUANT, GPU, GOOD, "sgl_kernel").name == "triton"
    assert select_companion(PER_TOKEN_INT8_QUANT, "cpu", GOOD, "triton").name == "torch"


def test_no_backend_at_all_names_every_reason() -> None:
    needs = Needs(package="triton", min_arch=(8, 0))
    operation = Operation("fold", (Backend("triton", needs, lambda: lambda: None),))
    with pytest.raises(BackendUnavailable, match=r"fold: no backend can run here: 'triton' needs"):
        select_backend(operation, "cpu", GOOD)


def test_a_package_built_without_a_module_that_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, files in (("halfbuilt", ["ops_of_another.so"]), ("wholebuilt", ["ops.abi3.so"])):
        (tmp_path / name).mkdir()
        for file in ("__init__.py", *files):
            (tmp_path / name / file).touch()
    monkeypatch.syspath_prepend(tmp_path)
    wanted = "needs 'halfbuilt' with its module 'ops', which the one installed lacks"
    assert Needs(package="halfbuilt", extension="ops").unmet(GPU, GOOD) == wanted
    assert Needs(package="wholebuilt", extension="ops").unmet(GPU, GOOD) is None
