"""What post-load hands to FlashInfer's MXFP4 MoE kernel means what the checkpoint means.

The kernel itself needs sm100. A stand-in for it keeps its arguments, which are read here as the
package reads them: rows of the first matrix are up and gate in turn, and the rows of both are
stored in the order of `flashinfer.utils.get_shuffle_matrix_a_row_indices` for tiles of 128: in each
32 rows, row 8 c + r goes where 4 r + c was, for c in 0 to 3.
"""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import layers.moe.quantization.mxfp4
import layers.quantization.mxfp4  # noqa: F401 both register themselves
from layers.moe.layer import FusedMoE
from layers.moe.runners.flashinfer_mxfp4 import prepare
from layers.moe.topk import TopKConfig, TopKOutput
from layers.quantization.registry import get_quantization_config
from layers.weights import load_weights
from testing.moe.flashinfer_layouts.decoded import values
from testing.oracles.arrays import Float64
from testing.oracles.codecs import e2m1, e8m0

EXPERTS, HIDDEN, INTERMEDIATE, PADDED = 3, 288, 96, 256
PADDED_HIDDEN = 512


def stored_rows(rows: int) -> torch.Tensor:
    """For each stored row, the row of the matrix that lies there."""
    old = torch.arange(rows)
    within = old % 32
    new = old - within + within % 4 * 8 + within // 4
    stored = torch.empty_like(old)
    stored[new] = old
    return stored


class Checkpoint:
    """Random experts in gpt-oss's layout."""

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        self.tensors: dict[str, torch.Tensor] = {}
        self.weights: dict[str, Float64] = {}
        shapes = {
            "gate_up_proj": (2 * INTERMEDIATE, HIDDEN),
            "down_proj": (HIDDEN, INTERMEDIATE),
        }
        for name, (rows, columns) in shapes.items():
            shape = (EXPERTS, rows, columns // 32)
            blocks = rng.integers(0, 256, (*shape, 16), dtype=np.uint8)
            scales = rng.integers(100, 140, shape, dtype=np.uint8)
            bias = rng.integers(-64, 64, (EXPERTS, rows)) / 8
            codes = e2m1.decode(e2m1.unpack(blocks.reshape(EXPERTS, rows, -1)))
            self.weights[name] = codes * np.repeat(e8m0.decode(scales), 32, axis=2)
            self.weights[f"{name}_bias"] = bias
            self.tensors[f"{name}_blocks"] = torch.from_numpy(blocks)
            self.tensors[f"{name}_scales"] = torch.from_numpy(scales)
            self.tensors[f"{name}_bias"] = torch.from_numpy(bias).bfloat16()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []

    def routed_moe(**options: Any) -> None:
        seen.append(options)

    def indices(cache: Any, matrix: torch.Tensor, tile: int) -> torch.Tensor:
        assert tile == 128
        return stored_rows(matrix.shape[0])

    modules = {name: ModuleType(name) for name in ("flashinfer", "flashinfer.fused_moe")}
    modules["flashinfer.fused_moe.core"] = ModuleType("flashinfer.fused_moe.core")
    functions: dict[str, Any] = {"trtllm_fp4_block_scale_routed_moe": routed_moe}
    modules["flashinfer.fused_moe"].__dict__.update(functions)
    modules["flashinfer.fused_moe.core"].__dict__["get_w2_permute_indices_with_cache"] = indices
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return seen


def call_once(checkpoint: Checkpoint, calls: list[dict[str, Any]]) -> dict[str, Any]:
    config = {"quant_method": "mxfp4"}
    layer = FusedMoE(
        EXPERTS,
        HIDDEN,
        INTERMEDIATE,
        topk=TopKConfig(2),
        quant_config=get_quantization_config("mxfp4").from_config(config),
        prefix="experts",
        activation="swiglu_oai",
        has_bias=True,
    )
    load_weights(layer, checkpoint.tensors.items())
    prepare(layer.quant_method, layer)  # type: ignore[arg-type]
    topk = TopKOutput(torch.ones(4, 2), torch.tensor([[0, 2]] * 4, dtype=torch.int32))
    x = torch.ones(4, HIDDEN, dtype=torch.bfloat16)
    assert layer.quant_method.apply(layer, x, topk).shape == x.shape
    (call,) = calls
    return call


def in_order(stored: Float64) -> Float64:
    """(E, rows, …) as stored -> in the order of the matrix."""
    rows = np.empty_like(stored)
    rows[:, stored_rows(stored.shape[1]).numpy()] = stored
    return rows


def test_every_matrix_and_bias_is_the_checkpoints(calls: list[dict[str, Any]]) -> None:
    checkpoint = Checkpoint()
    call = call_once(checkpoint, calls)
    w13 = in_order(values(call["gemm1_weights"], call["gemm1_weights_scale"], 32))
    w2 = in_order(values(call["gemm2_weights"], call["gemm2_weights_scale"], 32))
    bias13 = in_order(call["gemm1_bias"].double().numpy())
    bias2 = in_order(call["gemm2_bias"].double().numpy())
    wanted = checkpoint.weights
    # The checkpoint has gate first.
    for here, there in ((0, 1), (1, 0)):
        rows = w13[:, here::2]
        assert np.array_equal(rows[:, :INTERMEDIATE, :HIDDEN], wanted["gate_up_proj"][:, there::2])
        assert not rows[:, INTERMEDIATE:].any() and not rows[:, :, HIDDEN:].any()
        bias = bias13[:, here::2]
        assert np.array_equal(bias[:, :INTERMEDIATE], wanted["gate_up_proj_bias"][:, there::2])
        assert not bias[:, INTERMEDIATE:].any()
    assert np.array_equal(w2[:, :HIDDEN, :INTERMEDIATE], wanted["down_proj"])
    assert not w2[:, HIDDEN:].any() and not w2[:, :, INTERMEDIATE:].any()
    assert np.array_equal(bias2[:, :HIDDEN], wanted["down_proj_bias"])
    assert not bias2[:, HIDDEN:].any()


def test_shapes_and_dtypes_are_those_the_launcher_checks(calls: list[dict[str, Any]]) -> None:
    call = call_once(Checkpoint(), calls)
    assert tuple(call["gemm1_weights"].shape) == (EXPERTS, 2 * PADDED, PADDED_HIDDEN // 2)
    assert tuple(call["gemm2_weights"].shape) == (EXPERTS, PADDED_HIDDEN, PADDED // 2)
    assert call["gemm1_weights"].dtype == torch.uint8
    assert call["gemm1_weights_scale"].dtype == torch.float8_e4m3fn
    assert call["gemm1_bias"].dtype == call["gemm2_bias"].dtype == torch.float32
    ids, weights = call["topk_ids"]
    assert (ids.dtype, weights.dtype) == (torch.int32, torch.bfloat16)
    assert tuple(call["hidden_states"].shape) == (4, PADDED_HIDDEN)
    assert call["hidden_states"].dtype == torch.bfloat16
    assert tuple(call["output"].shape) == (4, HIDDEN)
    assert call["intermediate_size"] == PADDED


def test_the_activation_is_gpt_oss_s(calls: list[dict[str, Any]]) -> None:
    call = call_once(Checkpoint(), calls)
    names = ("gemm1_alpha", "gemm1_beta", "gemm1_clamp_limit")
    seen = [call[name].tolist() for name in names]
    assert seen == [[np.float32(1.702).item()] * EXPERTS, [1.0] * EXPERTS, [7.0] * EXPERTS]
