"""What NVFP4 and MXFP4 layers hand to FlashInfer, by a stand-in that takes no more than it does.

Its matmuls need sm100. Here the real layer loads, arranges its weights and calls, and the stand-in
asks for what FlashInfer 0.6.13's sources do: one alpha, N and K multiples of 32, swizzled scales,
a column-major weight. It multiplies by the oracle's codecs.
"""

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import layers.quantization.modelopt_fp4
import layers.quantization.mxfp4  # noqa: F401 both register themselves
from layers.kernels import capability
from layers.kernels.capability import BackendUnavailable
from testing.harness.linear import LinearCase, Method, build
from testing.harness.linear_probes import examine_case
from testing.oracles.arrays import Float64
from testing.oracles.codecs import e2m1, e4m3, e8m0, swizzle
from testing.quant.linear_cases import case_id, seed_of
from testing.quant.mxfp4.methods import W4A4 as MXFP4
from testing.quant.nvfp4.methods import W4A4 as NVFP4

CALLS: list[tuple[str, int]] = []


def decoded(packed: torch.Tensor, scales: torch.Tensor, group: int) -> Float64:
    rows, columns = packed.shape[0], packed.shape[1] * 2
    assert scales.shape == swizzle.padded(rows, columns // group)
    by_row = swizzle.unswizzle(scales.numpy(), rows, columns // group)
    values = e4m3.decode(by_row) if group == 16 else e8m0.decode(by_row)
    return e2m1.decode(e2m1.unpack(packed.numpy())) * np.repeat(values, group, axis=1)


def mm_fp4(
    a: torch.Tensor,
    b: torch.Tensor,
    a_descale: torch.Tensor,
    b_descale: torch.Tensor,
    alpha: torch.Tensor | None,
    out_dtype: torch.dtype,
    *,
    block_size: int = 16,
    backend: str = "auto",
    use_nvfp4: bool = True,
) -> torch.Tensor:
    assert use_nvfp4 == (block_size == 16)
    assert all(t.is_contiguous() for t in (a, b.t(), a_descale, b_descale.t()))
    assert alpha is None or (alpha.dtype is torch.float32 and alpha.numel() == 1)
    k, n = a.shape[1] * 2, b.shape[1]
    assert b.shape[0] == a.shape[1]
    assert k % 32 == n % 32 == 0
    x = decoded(a, a_descale, block_size)
    weight = torch.from_numpy(decoded(b.t(), b_descale.t(), block_size))
    if backend == "trtllm":
        weight = reordered(weight, 128)
    CALLS.append((backend, n))
    out = torch.from_numpy(x) @ weight.t()
    return out.mul_(1.0 if alpha is None else alpha).to(out_dtype)


def reordered(rows: torch.Tensor, tile: int) -> torch.Tensor:
    """In place of trtllm's order: its own inverse, and like it one within blocks of 32 rows."""
    assert tile == 128
    assert len(rows) % tile == 0
    return rows.unflatten(0, (-1, 32)).flip(1).flatten(0, 1)


def shuffle_matrix_sf_a(scales: torch.Tensor, tile: int) -> torch.Tensor:
    return torch.from_numpy(swizzle.swizzle(reordered(scales, tile).numpy())).flatten()


def only_matmuls_run(needs: capability.Needs, device: torch.device) -> str | None:
    # FlashInfer's matmuls are the backends that take no bias.
    return None if needs.package is None or not needs.bias else "not here"


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("flashinfer")
    module.mm_fp4 = mm_fp4
    module.shuffle_matrix_a = reordered
    module.shuffle_matrix_sf_a = shuffle_matrix_sf_a
    monkeypatch.setitem(sys.modules, "flashinfer", module)
    monkeypatch.setattr(capability.Needs, "_unmet_device", only_matmuls_run)
    monkeypatch.setattr(torch.cuda, "device_of", lambda tensor: contextlib.nullcontext())
    CALLS.clear()


def merged(method: Method, shards: Mapping[str, int], k: int) -> LinearCase:
    return LinearCase(method, "merged", 5, shards, k)


@pytest.mark.parametrize("kernel", ["auto", "cudnn", "cutlass", "trtllm"])
@pytest.mark.parametrize(
    "case",
    [
        merged(NVFP4, {"gate": 100, "up": 60}, 336),
        LinearCase(NVFP4, "qkv", 3, {"q": 192, "k": 64, "v": 64}, 1040),
        LinearCase(NVFP4, "column", 2, {"": 7}, 16),
    ],
    ids=case_id,
)
def test_each_shard_has_its_own_alpha(case: LinearCase, kernel: str) -> None:
    backend = "flashinfer" if kernel == "auto" else f"flashinfer_{kernel}"

    examine_case(replace(case, backend=backend), seed_of(case), "cpu").require()

    assert {name for name, _ in CALLS} == {kernel}


def test_shards_that_agree_are_multiplied_at_once() -> None:
    case = replace(merged(NVFP4, {"gate": 100, "up": 60}, 64), backend="flashinfer")
    for one_scale, sizes in ((True, [160]), (False, [128, 64])):
        one = replace(case, one_scale=one_scale)
        loaded = build(one, one.checkpoint(np.random.default_rng(7)), "cpu")
        CALLS.clear()

        loaded(np.ones((1, one.k)))

        assert [rows for _, rows in CALLS] == sizes


def test_mxfp4_layer_is_the_checkpoint() -> None:
    case = replace(merged(MXFP4, {"gate": 100, "up": 60}, 352), backend="flashinfer")

    examine_case(case, seed_of(case), "cpu").require()

    assert {name for name, _ in CALLS} == {"auto"}


def test_a_bias_is_left_to_kernels_that_add_it_before_rounding() -> None:
    case = replace(merged(NVFP4, {"gate": 100, "up": 60}, 64), bias=True, backend="flashinfer")
    with pytest.raises(BackendUnavailable, match="'flashinfer' needs a layer without bias"):
        build(case, case.checkpoint(np.random.default_rng(7)), "cpu")
