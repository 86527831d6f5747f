"""What is no usable tensor, scale or size is refused by name, and leaves a layer as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import layers.quantization.fp8
import layers.quantization.modelopt_fp4  # noqa: F401 both register themselves
from layers.errors import WeightLoadError
from layers.linear.column import ColumnParallelLinear
from layers.linear.merged_column import MergedColumnParallelLinear
from layers.linear.qkv import QKVParallelLinear
from layers.linear.replicated import ReplicatedLinear
from layers.quantization.registry import get_quantization_config
from layers.weights import load_weights, process_weights_after_loading

STATIC = {"quant_method": "fp8", "activation_scheme": "static"}
NVFP4 = {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4"}


def layer(config: dict[str, Any] | None = None, columns: int = 32) -> ReplicatedLinear:
    quantised = config and get_quantization_config(config["quant_method"]).from_config(
        config, backend="torch"
    )
    return ReplicatedLinear(columns, 16, quant_config=quantised or None, prefix="mlp.fc")


def static_tensors(input_scale: float) -> dict[str, torch.Tensor]:
    return {
        "weight": torch.ones(16, 32).to(torch.float8_e4m3fn),
        "weight_scale": torch.tensor(0.5),
        "input_scale": torch.tensor(input_scale),
    }


def nvfp4_tensors(**scales: float) -> dict[str, torch.Tensor]:
    return {
        # 0x22 is the code of 1.0 twice.
        "weight": torch.full((16, 16), 0x22, dtype=torch.uint8),
        "weight_scale": torch.ones(16, 2).to(torch.float8_e4m3fn),
        "weight_scale_2": torch.tensor(scales.get("weight_scale_2", 0.5)),
        "input_scale": torch.tensor(scales.get("input_scale", 0.5)),
    }


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t.to("meta"), "is on the meta device, which holds no values"),
        (lambda t: t.to_sparse(), r"has layout torch.sparse_coo, wanted torch.strided"),
        (lambda t: t.float().numpy(), r"is a numpy.ndarray, wanted a torch.Tensor"),
        (lambda t: None, r"is a builtins.NoneType, wanted a torch.Tensor"),
    ],
)
def test_what_holds_no_values(edit: Callable[[torch.Tensor], Any], message: str) -> None:
    fc = layer()
    weight = edit(torch.ones(16, 32))
    with pytest.raises(WeightLoadError, match=rf"tensor for 'mlp\.fc\.weight' {message}"):
        fc.weight_loader_v2(fc.get_parameter("weight"), weight)
    assert fc.missing_weights() == ["'mlp.fc.weight'"]


def test_a_tensor_that_requires_a_gradient_leaves_none_behind() -> None:
    fc = layer()
    weight = torch.full((16, 32), 2.0, requires_grad=True)
    fc.weight_loader_v2(fc.get_parameter("weight"), weight)
    assert fc.get_parameter("weight").eq(2).all()
    assert not fc.get_parameter("weight").requires_grad


def test_a_fused_tensor_that_overflows_in_its_last_shard_writes_nothing() -> None:
    fused = MergedColumnParallelLinear(8, [4, 4], params_dtype=torch.float16, prefix="mlp.gate_up")
    weight = torch.ones(8, 8)
    weight[7, 7] = 1e5
    fused.get_parameter("weight").data.zero_()
    with pytest.raises(WeightLoadError, match=r"shard 1 has values up to 100000, beyond float16"):
        fused.weight_loader_v2(fused.get_parameter("weight"), weight)
    assert fused.get_parameter("weight").eq(0).all()
    assert len(fused.missing_weights()) == 2


@pytest.mark.parametrize("byte", [0x81, 0xB8, 0xFE])
def test_a_block_scale_has_no_sign(byte: int) -> None:
    tensors = nvfp4_tensors()
    tensors["weight_scale"].view(torch.uint8)[3, 1] = byte
    with pytest.raises(WeightLoadError, match=r"holds -[\d.e-]+, wanted scales of at least"):
        load_weights(layer(NVFP4), tensors.items())


def test_the_negative_zero_of_a_block_scale_is_a_zero() -> None:
    fc, tensors = layer(NVFP4), nvfp4_tensors()
    tensors["weight_scale"].view(torch.uint8)[3] = 0x80
    load_weights(fc, tensors.items())
    process_weights_after_loading(fc)
    out = fc(torch.full((1, 32), 6.0, dtype=torch.bfloat16))
    assert out[0, 3] == 0 and out[0, 4] == 32 * 6 * 0.5


@pytest.mark.parametrize(
    ("scales", "seen"),
    [
        ({"weight_scale_2": 1e-30, "input_scale": 1e-10}, "9.99995e-41"),
        ({"weight_scale_2": 1e30, "input_scale": 1e20}, "inf"),
    ],
)
def test_a_product_of_scales_out_of_range(scales: dict[str, float], seen: str) -> None:
    fc = layer(NVFP4)
    load_weights(fc, nvfp4_tensors(**scales).items())
    with pytest.raises(ValueError, match=rf"mlp\.fc\.weight_scale_2' is .* is {seen}, wanted"):
        process_weights_after_loading(fc)
    assert all(hasattr(p, "missing_shards") for p in fc.parameters())


@pytest.mark.parametrize(
    ("config", "tensors"), [(STATIC, static_tensors(0.0)), (NVFP4, nvfp4_tensors(input_scale=0.0))]
)
def test_a_refused_layer_is_as_it_was(
    config: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> None:
    fc = layer(config)
    load_weights(fc, tensors.items())
    for _ in range(2):
        with pytest.raises(ValueError, match=r"'mlp\.fc\.input_scale' is 0"):
            process_weights_after_loading(fc)
    # What is mended by hand is then taken.
    fc.get_parameter("input_scale").data.fill_(0.25)
    process_weights_after_loading(fc)
    # 6 is exact in both formats.
    out = fc(torch.full((1, 32), 6.0, dtype=torch.bfloat16))
    assert out.eq(32 * 6 * 0.5).all()


@pytest.mark.parametrize(
    ("kind", "sizes", "options", "message"),
    [
        (ReplicatedLinear, ("64", 8), {}, "input size is '64', wanted an integer"),
        (ReplicatedLinear, (64, 8.0), {}, "output size is 8.0, wanted an integer"),
        (ReplicatedLinear, (64, True), {}, "output size is True, wanted an integer"),
        (ColumnParallelLinear, (64, None), {}, "output size is None, wanted an integer"),
        (ColumnParallelLinear, (64, 64), {"tp_rank": "0", "tp_size": 2}, "tp rank is '0', wanted"),
        (MergedColumnParallelLinear, (64, "64"), {}, "output_sizes is '64', wanted a list"),
        (MergedColumnParallelLinear, (64, [64, "64"]), {}, "output size of shard 1, is '64'"),
        (QKVParallelLinear, (64, "16", 4), {}, "head size is '16', wanted an integer"),
        (ReplicatedLinear, (64, 8), {"quant_config": STATIC}, "quant_config is {'quant_method'"),
        (ReplicatedLinear, (64, 8), {"params_dtype": [1]}, r"params_dtype is \[1\], wanted torch"),
    ],
)
def test_a_size_or_option_that_is_none(
    kind: Callable[..., Any], sizes: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"layer 'fc': {message}"):
        kind(*sizes, prefix="fc", **options)


def test_an_input_that_is_no_tensor() -> None:
    fc = layer()
    load_weights(fc, [("weight", torch.ones(16, 32))])
    process_weights_after_loading(fc)
    with pytest.raises(ValueError, match=r"'mlp.fc': x is a builtins.list, wanted a torch.Tensor"):
        fc([1.0] * 32)


def test_a_ready_layer_is_not_converted() -> None:
    fc = layer()
    load_weights(fc, [("weight", torch.ones(16, 32))])
    process_weights_after_loading(fc)
    with pytest.raises(
        RuntimeError, match=r"'mlp.fc' is ready .* 'weight' would change from torch"
    ):
        fc.half()
    assert fc.to("cpu").get_parameter("weight").dtype is torch.bfloat16
