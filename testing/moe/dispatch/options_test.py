"""What a MoE layer, its router and its forward refuse, by name, value seen and value wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import layers.moe.quantization.int8  # noqa: F401 it registers itself
from layers.moe.layer import FusedMoE
from layers.moe.topk import TopKConfig
from layers.quantization.registry import get_quantization_config
from layers.weights import load_weights, process_weights_after_loading

NAN, INF = float("nan"), float("inf")


def build(experts: Any = 4, hidden: Any = 8, intermediate: Any = 4, **options: Any) -> FusedMoE:
    given = {"topk": TopKConfig(2), "params_dtype": torch.float32, "prefix": "experts", **options}
    return FusedMoE(experts, hidden, intermediate, **given)


def ready(**options: Any) -> FusedMoE:
    layer = build(**options)
    load_weights(layer, [("w13_weight", torch.ones(4, 8, 8)), ("w2_weight", torch.ones(4, 8, 4))])
    process_weights_after_loading(layer)
    return layer


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": "2"}, "top_k is '2', wanted an integer"),
        ({"top_k": 2.0}, "top_k is 2.0, wanted an integer"),
        ({"top_k": None}, "top_k is None, wanted an integer"),
        ({"top_k": 0}, "top_k is 0, .*wanted at least 1"),
        ({"top_k": 2, "num_shared_experts": 1.5}, "num_shared_experts is 1.5, wanted an integer"),
        ({"top_k": 2, "num_expert_group": 2.0, "topk_group": 1}, "num_expert_group is 2.0, wanted"),
        ({"top_k": 2, "num_expert_group": 2, "topk_group": 3}, "topk_group is 3, wanted 1 to"),
        ({"top_k": 2, "routed_scaling_factor": NAN}, "factor is nan, wanted a finite number"),
        ({"top_k": 2, "routed_scaling_factor": INF}, "factor is inf, wanted a finite number"),
        ({"top_k": 2, "routed_scaling_factor": 1e39}, "factor is 1e.39, wanted a finite number"),
        ({"top_k": 2, "routed_scaling_factor": "1"}, "factor is '1', wanted a finite number"),
        ({"top_k": 2, "renormalize": "no"}, "renormalize is 'no', wanted True or False"),
        ({"top_k": 2, "scoring_func": ["softmax"]}, "scoring_func is .*, wanted 'softmax' or"),
    ],
)
def test_a_router_that_cannot_choose(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TopKConfig(**options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: build("4"), "num experts is '4', wanted an integer"),
        (lambda: build(hidden=8.0), "hidden size is 8.0, wanted an integer"),
        (lambda: build(intermediate=None), "intermediate size is None, wanted an integer"),
        (lambda: build(topk=2), "topk is 2, wanted a layers.moe.topk.TopKConfig"),
        (lambda: build(activation=["silu"]), r"activation is \['silu'\], wanted one of"),
        (lambda: build(params_dtype="bf16"), "params_dtype is 'bf16', wanted torch.float16"),
        (lambda: build(quant_config="fp8"), "quant_config is 'fp8', wanted a Quantization"),
        (lambda: build(correction_bias=torch.zeros(3)), r"is \(3,\) .*, wanted \(4,\) of a float"),
        (lambda: build(correction_bias=torch.zeros(4, 1)), r"is \(4, 1\) .*, wanted \(4,\)"),
        (lambda: build(correction_bias=torch.zeros(4).long()), r"torch.int64 on cpu, wanted"),
        (lambda: build(correction_bias=[0.0] * 4), "correction_bias is a list, wanted a torch"),
    ],
)
def test_a_layer_that_cannot_be_built(make: Callable[[], FusedMoE], message: str) -> None:
    with pytest.raises(ValueError, match=f"layer 'experts': .*{message}"):
        make()


def test_a_backend_that_is_no_name() -> None:
    with pytest.raises(ValueError, match="backend is '', wanted a backend's name"):
        build(backend="")


def test_a_correction_bias_on_another_device_than_the_loaded_layer() -> None:
    layer = build(correction_bias=torch.zeros(4, device="meta"))
    load_weights(layer, [("w13_weight", torch.ones(4, 8, 8)), ("w2_weight", torch.ones(4, 8, 4))])
    with pytest.raises(ValueError, match=r"correction_bias is \(4,\) .* on meta, wanted .* on cpu"):
        process_weights_after_loading(layer)
    assert not layer.is_ready


@pytest.mark.parametrize("value", [NAN, INF])
def test_a_correction_bias_by_which_every_token_takes_the_same_experts(value: float) -> None:
    bias = torch.zeros(4)
    layer = build(correction_bias=bias)
    load_weights(layer, [("w13_weight", torch.ones(4, 8, 8)), ("w2_weight", torch.ones(4, 8, 4))])
    bias[2] = value
    with pytest.raises(ValueError, match=f"is {value} for 1 experts, expert 2 among them, wanted"):
        process_weights_after_loading(layer)
    bias[2] = -INF
    process_weights_after_loading(layer)
    assert layer(torch.ones(2, 8), torch.zeros(2, 4)).isfinite().all()


@pytest.mark.parametrize(
    ("x", "logits", "message"),
    [
        (torch.ones(2, 8), torch.zeros(2, 4).requires_grad_(), "router_logits requires a gradient"),
        (torch.ones(2, 8).requires_grad_(), torch.zeros(2, 4), "x requires a gradient"),
        ([1.0], torch.zeros(2, 4), "x is a builtins.list, wanted a torch.Tensor"),
        (torch.ones(2, 8), None, "router_logits is a builtins.NoneType, wanted a torch.Tensor"),
        (torch.ones(1, 2, 8), torch.zeros(2, 4), r"x is \(1, 2, 8\)"),
        (torch.ones(2, 8), torch.zeros(2, 4).long(), "of a float dtype"),
    ],
)
def test_an_input_that_does_not_fit(x: Any, logits: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"layer 'experts': .*{message}"):
        ready()(x, logits)


def test_without_gradients_they_do_not_matter() -> None:
    with torch.no_grad():
        out = ready()(torch.ones(2, 8), torch.zeros(2, 4).requires_grad_())
    # gate = up = 8, h = silu(8) 8, summed over I = 4; the weights of both choices add up to 1.
    h = torch.nn.functional.silu(torch.tensor(8.0)) * 8
    assert torch.equal(out, (h * 4).expand(2, 8))


@pytest.mark.parametrize("entry", ["experts.3", "3", "experts.3.w1", "re:experts.[01]."])
def test_an_entry_that_ignores_some_experts(entry: str) -> None:
    config = get_quantization_config("w8a8_int8").from_config({"ignore": [entry]})
    with pytest.raises(ValueError, match=r"ignores \d of the 12 matrices of its experts"):
        build(quant_config=config)


def test_entries_that_ignore_every_expert() -> None:
    ignored = [f"experts.{e}" for e in range(4)]
    config = get_quantization_config("w8a8_int8").from_config({"ignore": ignored})
    assert type(build(quant_config=config).quant_method).__name__ == "UnquantizedMoEMethod"


@pytest.mark.parametrize(
    ("convert", "seen"),
    [
        (lambda layer: layer.half(), "to torch.float16 on cpu"),
        (lambda layer: layer.to(torch.bfloat16), "to torch.bfloat16 on cpu"),
        (lambda layer: layer.to("meta"), "to torch.float32 on meta"),
    ],
)
def test_a_ready_layer_is_not_converted(convert: Callable[[Any], Any], seen: str) -> None:
    model = torch.nn.Sequential(ready())
    with pytest.raises(RuntimeError, match=rf"'experts' is ready .* 'w13_weight' would .* {seen}"):
        convert(model)
    assert model[0].get_parameter("w2_weight").dtype is torch.float32


def test_a_conversion_that_changes_nothing() -> None:
    layer = ready()
    with torch.no_grad():
        before = layer(torch.ones(2, 8), torch.zeros(2, 4))
        after = layer.to("cpu").float()(torch.ones(2, 8), torch.zeros(2, 4))
    assert torch.equal(before, after)
