"""The kernels of a layer are chosen by what the device can run, and refused by name."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import layers.quantization.blockwise_int8
import layers.quantization.w8a8_int8  # noqa: F401 both register themselves
from layers.kernels.capability import BackendUnavailable, Problem, select_backend
from layers.kernels.int8_block_scaled_mm import INT8_BLOCK_SCALED_MM
from layers.kernels.int8_scaled_mm import INT8_SCALED_MM
from testing.harness.device import device, promised
from testing.harness.linear import LinearCase, LoadedLinear, build
from testing.quant.int8.methods import BLOCK, BLOCK_BACKENDS, CHANNEL, CHANNEL_BACKENDS

CASE = LinearCase(CHANNEL, "column", 4, {"": 128}, 128)
BLOCK_CASE = replace(CASE, method=BLOCK)


def built(case: LinearCase) -> LoadedLinear:
    return build(case, case.checkpoint(np.random.default_rng(40)), device())


@pytest.fixture(autouse=True)
def no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLUMBLINE_BACKEND", raising=False)


def test_the_best_backend_of_the_pool_is_the_default() -> None:
    assert built(CASE).backends["int8_scaled_mm"] == promised(CHANNEL_BACKENDS)[0]
    assert built(BLOCK_CASE).backends["int8_block_scaled_mm"] == promised(BLOCK_BACKENDS)[0]


@pytest.mark.parametrize("backend", promised(CHANNEL_BACKENDS))
def test_every_promised_backend_can_be_asked_for(backend: str) -> None:
    assert built(replace(CASE, backend=backend)).backends["int8_scaled_mm"] == backend


def test_environment_asks_for_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_BACKEND", "torch")
    assert built(CASE).backends["int8_scaled_mm"] == "torch"
    monkeypatch.setenv("PLUMBLINE_BACKEND", "cublas")
    with pytest.raises(BackendUnavailable, match=r"'cublas' \(from PLUMBLINE_BACKEND\)"):
        built(CASE)


def test_the_environment_is_passed_over_where_the_operation_has_no_such_backend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLUMBLINE_BACKEND", "sgl_kernel")
    best = promised(BLOCK_BACKENDS)[0]
    assert built(BLOCK_CASE).backends["int8_block_scaled_mm"] == best


def test_the_config_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_BACKEND", "cublas")
    assert built(replace(CASE, backend="torch")).backends["int8_scaled_mm"] == "torch"


@pytest.mark.parametrize("backend", ["triton", "sgl_kernel"])
def test_a_gpu_kernel_for_a_cpu_layer_names_the_device(backend: str) -> None:
    problem = Problem(dtype=torch.bfloat16, k=128, n=128)
    with pytest.raises(
        BackendUnavailable, match=rf"'{backend}' needs a GPU \(CUDA sm\d\d"
    ) as error:
        select_backend(INT8_SCALED_MM, "cpu", problem, backend)
    assert "Backends that can run here: torch" in str(error.value)


def test_a_backend_that_the_operation_lacks() -> None:
    problem = Problem(dtype=torch.bfloat16, k=128, n=128)
    with pytest.raises(BackendUnavailable, match="has no backend 'sgl_kernel'"):
        select_backend(INT8_BLOCK_SCALED_MM, device(), problem, "sgl_kernel")
