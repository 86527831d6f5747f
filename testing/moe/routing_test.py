"""The choice of experts and their weights, on every backend, against the rule's definition."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
import torch

from layers.kernels.capability import Problem
from layers.moe.topk import TopKConfig
from layers.moe.topk_operations import TOPK_GROUPED, TOPK_SIGMOID, TOPK_SOFTMAX, operation_of
from testing.harness import backend_table
from testing.harness.device import device, promised
from testing.harness.moe.backends import list_moe_backends
from testing.harness.moe.layer import topk_config
from testing.harness.tensors import floats_to_torch, to_numpy
from testing.oracles.arrays import Float64
from testing.oracles.moe.routing import (
    Int64,
    Routing,
    choose,
    relative_score_error,
    scores_of,
    unacceptable,
    weigh,
)

BACKENDS = {
    "cpu": ["torch"],
    "gpu": ["triton", "torch"],
    "h100": ["triton", "sgl_kernel", "torch"],
}
# Of sgl_kernel's kernels, which layers.moe.runners.sgl_kernel_topk lists: any other backend takes
# every rule, and one that does not fails.
PARTIAL = "sgl_kernel"
MIXTRAL, QWEN = Routing(2), Routing(4, renormalise=False)
DEEPSEEK_V2 = Routing(6, renormalise=False, groups=8, kept_groups=3, factor=16.0)
DEEPSEEK_V3 = Routing(8, "sigmoid", groups=8, kept_groups=4, factor=2.5, shared=1)
GPT_OSS = Routing(4)
RULES = {
    "mixtral": (MIXTRAL, 8, False),
    "qwen": (QWEN, 60, False),
    "gpt-oss": (GPT_OSS, 32, False),
    "deepseek-v2": (DEEPSEEK_V2, 160, False),
    "deepseek-v3": (DEEPSEEK_V3, 256, True),
    "sigmoid": (Routing(3, "sigmoid", renormalise=False, shared=2), 16, False),
    "softmax with bias": (Routing(3, groups=4, kept_groups=2, factor=0.5), 16, True),
    "all experts": (Routing(4, "sigmoid"), 4, True),
    "one expert": (Routing(1), 1, False),
}

_EASY = Problem(torch.bfloat16, 8, 2)

list_moe_backends(TOPK_SOFTMAX, TOPK_SIGMOID, TOPK_GROUPED, easy=_EASY)


@dataclass(frozen=True)
class Chosen:
    """What a backend gave: ids (T, K) and weights (T, K)."""

    ids: Int64
    weights: Float64


def select(
    backend: str,
    logits: Float64,
    routing: Routing,
    bias: Float64 | None = None,
    dtype: torch.dtype = torch.float32,
) -> Chosen:
    """The backend's choice; the test is skipped where it says that it knows no such router."""
    config: TopKConfig = topk_config(routing)
    operation = operation_of(config)
    found = next((b for b in operation.backends if b.name == backend), None)
    if found is None and backend == PARTIAL:
        pytest.skip(f"{operation.name} has no backend {backend}")
    assert found is not None, f"{operation.name} has no backend {backend}"
    assert found.needs.unmet(device(), _EASY) is None, f"{backend} is promised on this pool"
    problem = Problem(torch.bfloat16, logits.shape[1], config.choices, bias=bias is not None)
    reason = found.needs.unmet(device(), problem)
    if reason and backend == PARTIAL:
        pytest.skip(reason)
    assert not reason, f"{backend}, of {routing}: {reason}"
    backend_table.count_run({operation.name: backend})
    x = floats_to_torch(logits, dtype, device())
    correction = None if bias is None else floats_to_torch(bias, torch.float32, device())
    chosen = found.load()(x, config, correction)
    assert (chosen.ids.dtype, chosen.weights.dtype) == (torch.int32, torch.float32)
    return Chosen(chosen.ids.cpu().numpy().astype(np.int64), to_numpy(chosen.weights))


def require_right(
    chosen: Chosen, logits: Float64, routing: Routing, bias: Float64 | None = None
) -> None:
    """The choice is one that float32 scores lead to, and each weight is that of its expert."""
    routed = chosen.ids[:, : routing.top_k]
    assert unacceptable(routed, logits, routing, bias) == []
    want = weigh(routed, scores_of(logits, routing), relative_score_error(logits, routing), routing)
    assert np.array_equal(chosen.ids, want.ids), "shared experts are not behind the routed ones"
    off = np.abs(chosen.weights - want.weights) > want.error
    assert not off.any(), f"{off.sum()} weights, first {np.argwhere(off)[0]}"


def float32_logits(rng: np.random.Generator, tokens: int, experts: int) -> Float64:
    return (rng.standard_normal((tokens, experts)) * 2).astype(np.float32).astype(np.float64)


def float32_bias(rng: np.random.Generator, experts: int) -> Float64:
    return (rng.standard_normal(experts) / 8).astype(np.float32).astype(np.float64)


every_backend = pytest.mark.parametrize("backend", promised(BACKENDS))
every_rule = pytest.mark.parametrize("name", RULES)


@every_backend
@every_rule
@pytest.mark.parametrize("tokens", [1, 500])
def test_random_logits(name: str, backend: str, tokens: int) -> None:
    routing, experts, has_bias = RULES[name]
    rng = np.random.default_rng(experts)
    logits = float32_logits(rng, tokens, experts)
    bias = float32_bias(rng, experts) if has_bias else None
    chosen = select(backend, logits, routing, bias)
    require_right(chosen, logits, routing, bias)
    want = choose(logits, routing, bias)
    # In falling order of the biased score too, but where two are near each other.
    assert (chosen.ids == want.ids).all(axis=1).mean() > 0.97


@every_backend
@every_rule
def test_logits_of_few_values_are_full_of_ties_and_the_lowest_id_wins(
    name: str, backend: str
) -> None:
    routing, experts, has_bias = RULES[name]
    rng = np.random.default_rng(experts + 1)
    logits = rng.integers(-2, 3, (300, experts)) / 2.0
    bias = np.zeros(experts) if has_bias else None
    chosen = select(backend, logits, routing, bias, torch.bfloat16)
    require_right(chosen, logits, routing, bias)
    if routing.groups is None:
        assert np.array_equal(chosen.ids, choose(logits, routing, bias).ids)


@every_backend
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
@pytest.mark.parametrize("renormalise", [False, True])
def test_every_order_of_four_experts(scoring: str, renormalise: bool, backend: str) -> None:
    logits = np.array(list(product([-1.0, 0.0, 0.5, 2.0], repeat=4)))
    for top_k in (1, 2, 3, 4):
        routing = Routing(top_k, scoring, renormalise)
        chosen = select(backend, logits, routing)
        require_right(chosen, logits, routing)
        assert np.array_equal(chosen.ids, choose(logits, routing).ids)


@every_backend
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_every_order_of_two_groups_of_two(scoring: str, has_bias: bool, backend: str) -> None:
    logits = np.array(list(product([-1.0, 0.0, 0.5, 2.0], repeat=4)))
    bias = np.array([0.25, -0.5, 0.0, 0.125]) if has_bias else None
    for top_k, kept in ((1, 1), (2, 1), (2, 2), (3, 2)):
        routing = Routing(top_k, scoring, groups=2, kept_groups=kept, factor=2.0)
        chosen = select(backend, logits, routing, bias)
        require_right(chosen, logits, routing, bias)


def from_scores(scores: list[float], scoring: str) -> Float64:
    p = np.array([scores])
    logits = np.log(p) if scoring == "softmax" else np.log(p / (1 - p))
    return logits.astype(np.float32).astype(np.float64)


@every_backend
def test_deepseek_v3_by_hand(backend: str) -> None:
    # Biased: .9 .1 | .5 .6 | .3 .2 | .8 .9, sums of two 1.0, 1.1, .5, 1.7: groups 3 and 1 stay.
    logits = from_scores([0.9, 0.1, 0.5, 0.6, 0.8, 0.2, 0.3, 0.4], "sigmoid")
    bias = np.array([0, 0, 0, 0, -0.5, 0, 0.5, 0.5])
    routing = Routing(3, "sigmoid", groups=4, kept_groups=2, factor=2.5, shared=1)
    chosen = select(backend, logits, routing, bias)
    assert chosen.ids.tolist() == [[7, 6, 3, 8]]
    want = [2.5 * 0.4 / 1.3, 2.5 * 0.3 / 1.3, 2.5 * 0.6 / 1.3, 1.0]
    assert chosen.weights[0] == pytest.approx(want, rel=1e-6)


@every_backend
def test_mixtral_and_qwen_by_hand(backend: str) -> None:
    logits = from_scores([0.1, 0.4, 0.2, 0.3], "softmax")
    mixtral, qwen = (select(backend, logits, Routing(2, renormalise=r)) for r in (True, False))
    assert mixtral.ids.tolist() == qwen.ids.tolist() == [[1, 3]]
    assert mixtral.weights[0] == pytest.approx([4 / 7, 3 / 7], rel=1e-6)
    assert qwen.weights[0] == pytest.approx([0.4, 0.3], rel=1e-6)


@every_backend
@every_rule
def test_a_nan_spoils_its_token_and_leaves_ids_valid(name: str, backend: str) -> None:
    routing, experts, has_bias = RULES[name]
    rng = np.random.default_rng(experts + 2)
    logits = float32_logits(rng, 6, experts)
    bias = float32_bias(rng, experts) if has_bias else None
    spoilt = logits.copy()
    spoilt[1] = np.nan
    clean, got = (select(backend, x, routing, bias) for x in (logits, spoilt))
    others = [0, 2, 3, 4, 5]
    assert np.array_equal(got.ids[others], clean.ids[others])
    assert np.array_equal(got.weights[others], clean.weights[others])
    assert np.isnan(got.weights[1, : routing.top_k]).all()
    assert len(set(got.ids[1])) == len(got.ids[1])
    assert ((got.ids >= 0) & (got.ids < experts + routing.shared)).all()


@every_backend
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
def test_logits_of_minus_infinity_rule_an_expert_out(scoring: str, backend: str) -> None:
    logits = np.array([[1.0, -np.inf, 0.5, -np.inf], [-np.inf, 0.0, -np.inf, 0.0]])
    routing = Routing(2, scoring)
    chosen = select(backend, logits, routing)
    assert chosen.ids.tolist() == [[0, 2], [1, 3]]
    assert chosen.weights[1].tolist() == [0.5, 0.5]


@every_backend
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
def test_large_logits_stay_finite(scoring: str, backend: str) -> None:
    logits = np.array([[30000.0, 29999.0, -30000.0, 0.0], [-80.0, -81.0, -79.0, -82.0]])
    chosen = select(backend, logits, Routing(2, scoring))
    assert np.isfinite(chosen.weights).all()
    assert chosen.weights.sum(axis=1) == pytest.approx([1, 1], rel=1e-6)
    assert chosen.ids[1].tolist() == [2, 0]
