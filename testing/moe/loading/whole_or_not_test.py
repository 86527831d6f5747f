"""A tensor or a post-load that a MoE layer refuses leaves the layer as it was."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import layers.moe.quantization.fp8
import layers.moe.quantization.int8
import layers.moe.quantization.mxfp4
import layers.moe.quantization.nvfp4  # noqa: F401 all register themselves, and their configs
from layers.errors import WeightLoadError
from layers.kernels.capability import BACKEND_VARIABLE, BackendUnavailable
from layers.moe.layer import FusedMoE
from layers.moe.layout import MoEParallel
from layers.moe.parameter import ExpertParameter
from layers.moe.topk import TopKConfig
from layers.weights import load_weights, process_weights_after_loading
from testing.harness.moe.layer import MoeCase, build, checkpoint_tensors, model_of, new_layer
from testing.harness.moe.names import Named
from testing.moe.fp4.mxfp4_methods import MXFP4
from testing.moe.fp4.nvfp4_methods import W4A4
from testing.moe.fp8.methods import STATIC
from testing.moe.int8.methods import CHANNEL

INT8 = MoeCase(CHANNEL, 4, 3, 128, 64)
FP8 = MoeCase(STATIC, 4, 3, 128, 64, backend="torch")
NVFP4 = MoeCase(W4A4, 4, 3, 128, 64, backend="torch")
# Of H 512 a row has 16 blocks of 16 bytes: either order has the same shape once it is flat.
GPT_OSS = MoeCase(MXFP4, 4, 3, 512, 32, naming="gpt_oss")


def unquantised() -> FusedMoE:
    topk = TopKConfig(1)
    return FusedMoE(3, 8, 4, topk=topk, params_dtype=torch.float16, prefix="mlp.experts")


def test_experts_fused_after_a_single_one() -> None:
    layer = new_layer(INT8, "cpu")
    weight = layer.get_parameter("w13_weight")
    weight.data.zero_()
    layer.weight_loader(weight, torch.ones(64, 128, dtype=torch.int8), "", "w1", 2)
    fused = torch.full((3, 128, 128), 2, dtype=torch.int8)
    with pytest.raises(WeightLoadError, match=r"expert 2\]' shard 'w1' was loaded twice"):
        layer.weight_loader(weight, fused, "", "w13", None)
    assert weight[:2].eq(0).all() and weight[2, :64].eq(1).all() and weight[2, 64:].eq(0).all()
    assert len([name for name in layer.missing_weights() if "w13_weight[" in name]) == 5


def test_the_last_expert_of_a_fused_tensor_overflows() -> None:
    layer = unquantised()
    weight = layer.get_parameter("w2_weight")
    weight.data.zero_()
    fused = torch.ones(3, 8, 4)
    fused[2, 7, 3] = -1e5
    with pytest.raises(WeightLoadError, match=r"expert 2\]' shard 'w2' has values up to 100000"):
        layer.weight_loader(weight, fused, "", "w2", None)
    assert weight.eq(0).all()
    fused[2, 7, 3] = 3
    layer.weight_loader(weight, fused, "", "w2", None)
    assert weight.sum() == 98


def test_blocks_in_another_order() -> None:
    layer = new_layer(GPT_OSS, "cpu")
    blocks = torch.zeros(3, 64, 8, 32, dtype=torch.uint8)
    with pytest.raises(WeightLoadError, match=r"shape \(3, 64, 8, 32\), wanted \(3, 64, 256\)"):
        layer.weight_loader(layer.get_parameter("w13_weight"), blocks, "", "w13", None)
    layer.weight_loader(
        layer.get_parameter("w13_weight"), blocks.view(3, 64, 16, 16), "", "w13", None
    )


def test_a_bias_with_a_dimension_too_many() -> None:
    layer = FusedMoE(3, 8, 4, topk=TopKConfig(1), prefix="mlp.experts", has_bias=True)
    with pytest.raises(WeightLoadError, match=r"shape \(2, 4\), wanted \(8,\)"):
        layer.weight_loader(layer.get_parameter("w13_bias"), torch.zeros(3, 2, 4), "", "w13", None)


def test_a_second_tensor_of_another_ranks_expert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MoEParallel, "current", lambda: MoEParallel(ep_rank=1, ep_size=3))
    layer = unquantised()
    weight = layer.get_parameter("w2_weight")
    layer.weight_loader(weight, torch.ones(8, 4), "", "w2", 0)
    with pytest.raises(WeightLoadError, match=r"expert 0\]' shard 'w2' was loaded twice"):
        layer.weight_loader(weight, torch.ones(8, 4), "", "w2", 0)
    assert len([n for n in layer.missing_weights() if "w2" in n]) == 1


@pytest.mark.parametrize(
    ("case", "value"), [(FP8, 0.0), (FP8, -1.0), (NVFP4, 0.0), (NVFP4, -1.0), (NVFP4, 1e-40)]
)
@pytest.mark.parametrize("name", ["w13_input_scale", "w2_input_scale"])
def test_a_refused_post_load_can_be_repeated(case: MoeCase, value: float, name: str) -> None:
    checkpoint = case.checkpoint(np.random.default_rng(5))
    layer = new_layer(case, "cpu")
    model = model_of(layer)
    load_weights(model, checkpoint_tensors(case, checkpoint))
    right = layer.get_parameter(name).data.clone()
    layer.get_parameter(name).data[1] = value
    for _ in range(2):
        with pytest.raises(ValueError, match=f"{name}.*wanted.*Calibrate the model again"):
            process_weights_after_loading(model)
    assert all(isinstance(p, ExpertParameter) for p in layer.parameters())
    layer.get_parameter(name).data.copy_(right)
    process_weights_after_loading(model)
    assert_same(layer, build(case, checkpoint, "cpu").layer)


@pytest.mark.parametrize("case", [FP8, NVFP4, INT8], ids=["fp8", "nvfp4", "int8"])
def test_a_backend_that_was_misspelt(case: MoeCase, monkeypatch: pytest.MonkeyPatch) -> None:
    case = MoeCase(case.method, 4, 3, 128, 64)
    checkpoint = case.checkpoint(np.random.default_rng(6))
    layer = new_layer(case, "cpu")
    model = model_of(layer)
    load_weights(model, checkpoint_tensors(case, checkpoint))
    monkeypatch.setenv(BACKEND_VARIABLE, "Triton")
    with pytest.raises(
        BackendUnavailable, match=r"'Triton' \(from PLUMBLINE_BACKEND\), wanted one"
    ):
        process_weights_after_loading(model)
    assert all(isinstance(p, ExpertParameter) for p in layer.parameters())
    monkeypatch.setenv(BACKEND_VARIABLE, "torch")
    process_weights_after_loading(model)
    assert_same(layer, build(case, checkpoint, "cpu").layer)


@pytest.mark.parametrize(("factor", "input_scale"), [(1e-40, 1.0), (3e38, 8.0)])
def test_a_product_of_scales_out_of_range(factor: float, input_scale: float) -> None:
    values = {"weight_scale_2": factor, "input_scale": input_scale}

    def change(tensors: Iterator[Named]) -> Iterator[Named]:
        for name, tensor in tensors:
            _, is_up, suffix = name.partition("1.up_proj.")
            value = values.get(suffix) if is_up else None
            yield name, tensor if value is None else torch.full_like(tensor, value)

    with pytest.raises(ValueError, match=r"w13_weight_scale_2' is .*, wanted a product that is"):
        build(NVFP4, NVFP4.checkpoint(np.random.default_rng(7)), "cpu", change)


def assert_same(layer: FusedMoE, other: FusedMoE) -> None:
    generator = torch.Generator().manual_seed(8)
    x = torch.randn(4, 128, generator=generator).bfloat16()
    logits = torch.randn(4, 3, generator=generator)
    assert torch.equal(layer(x, logits), other(x, logits))
