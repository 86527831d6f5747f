"""What a MoE layer's forward takes: no tokens at all, any float logits; and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import layers.moe.quantization.int8
import layers.quantization.w8a8_int8  # noqa: F401 both register themselves
from testing.harness.device import device
from testing.harness.moe.layer import LoadedMoe, MoeCase, build
from testing.harness.tensors import floats_to_torch, to_numpy
from testing.moe.int8.methods import CHANNEL
from testing.oracles.moe.probes import router_logits

CASE = MoeCase(CHANNEL, 6, 4, 128, 64)


@pytest.fixture(scope="module")
def loaded() -> LoadedMoe:
    return build(CASE, CASE.checkpoint(np.random.default_rng(50)), device())


def inputs(loaded: LoadedMoe, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(51)
    x = rng.integers(-8, 9, (tokens, CASE.hidden)) / 8.0
    logits = router_logits(rng, tokens, CASE.experts)
    where = loaded.layer.device
    return (
        floats_to_torch(x, torch.bfloat16, where),
        floats_to_torch(logits, torch.float32, where),
    )


def test_no_tokens_give_no_outputs(loaded: LoadedMoe) -> None:
    out = loaded.layer(*inputs(loaded, 0))
    assert (tuple(out.shape), out.dtype) == ((0, CASE.hidden), torch.bfloat16)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_logits_of_a_narrower_float_are_the_same_numbers(
    loaded: LoadedMoe, dtype: torch.dtype
) -> None:
    x, logits = inputs(loaded, 6)
    want = to_numpy(loaded.layer(x, logits))
    assert np.array_equal(to_numpy(loaded.layer(x, logits.to(dtype))), want)


def test_tokens_in_another_order_give_outputs_in_that_order(loaded: LoadedMoe) -> None:
    x, logits = inputs(loaded, 6)
    order = torch.tensor([3, 0, 5, 1, 4, 2], device=x.device)
    want = loaded.layer(x, logits)[order]
    # Integer sums are exact, so no order of rows changes a bit.
    assert torch.equal(loaded.layer(x[order], logits[order]), want)


def test_a_token_alone_is_the_same_token(loaded: LoadedMoe) -> None:
    x, logits = inputs(loaded, 6)
    want = loaded.layer(x, logits)
    for token in range(6):
        alone = loaded.layer(x[token : token + 1], logits[token : token + 1])
        assert torch.equal(alone, want[token : token + 1])


@pytest.mark.parametrize(
    ("x_shape", "logits_shape", "wanted"),
    [
        ((6, 64), (6, 4), "128"),
        ((6, 128), (6, 3), "4"),
        ((6, 128), (5, 4), "6"),
        ((2, 3, 128), (6, 4), "128"),
    ],
)
def test_a_wrong_shape_is_refused_with_the_shape_wanted(
    loaded: LoadedMoe, x_shape: tuple[int, ...], logits_shape: tuple[int, ...], wanted: str
) -> None:
    where = loaded.layer.device
    x = torch.zeros(x_shape, dtype=torch.bfloat16, device=where)
    with pytest.raises(ValueError, match=rf"mlp\.experts.*{wanted}"):
        loaded.layer(x, torch.zeros(logits_shape, device=where))


def test_a_wrong_dtype_is_refused_by_name(loaded: LoadedMoe) -> None:
    x, logits = inputs(loaded, 6)
    with pytest.raises(ValueError, match=r"mlp\.experts.*float16.*bfloat16"):
        loaded.layer(x.half(), logits)
    with pytest.raises(ValueError, match=r"router_logits.*int64"):
        loaded.layer(x, logits.long())


def test_a_gradient_is_refused(loaded: LoadedMoe) -> None:
    x, logits = inputs(loaded, 6)
    with pytest.raises(ValueError, match="gradient"):
        loaded.layer(x.requires_grad_(), logits)
