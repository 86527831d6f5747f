"""Per-channel int8 linear layers against the checkpoint's own meaning."""

from dataclasses import replace

import numpy as np
import pytest

import layers.quantization.w8a8_int8  # noqa: F401 registers itself
from layers.kernels.capability import BackendUnavailable
from testing.harness.device import device, promised
from testing.harness.linear import LinearCase, build
from testing.harness.linear_probes import examine_case
from testing.oracles.arrays import Float64, Int8, Tensors
from testing.oracles.checkpoints import LinearCheckpoint
from testing.oracles.places import Layout, single_shard
from testing.oracles.rounding import BF16, round_to
from testing.quant.int8.methods import CHANNEL, CHANNEL_BACKENDS
from testing.quant.linear_cases import case_id, float32_case, linear_cases, odd_case, seed_of


@pytest.mark.parametrize("backend", promised(CHANNEL_BACKENDS))
@pytest.mark.parametrize("case", linear_cases(CHANNEL), ids=case_id)
def test_layer_is_the_checkpoint(case: LinearCase, backend: str) -> None:
    examine_case(replace(case, backend=backend), seed_of(case), device()).require()


@pytest.mark.parametrize("backend", promised(CHANNEL_BACKENDS))
@pytest.mark.parametrize(
    ("case", "limit"),
    [
        (odd_case(CHANNEL), "needs K divisible by 16, K is 100"),
        (float32_case(CHANNEL), "needs inputs and outputs of .*, they are torch.float32"),
    ],
    ids=["odd sizes", "float32"],
)
def test_layer_is_right_or_refused_with_the_limit(
    case: LinearCase, limit: str, backend: str
) -> None:
    case = replace(case, backend=backend)
    if backend == "sgl_kernel":
        with pytest.raises(BackendUnavailable, match=limit):
            examine_case(case, 0, device())
    else:
        examine_case(case, 0, device()).require()


def product_of_codes(backend: str, x: Float64, weight: Int8) -> Float64:
    """What a layer with codes `weight` (N, K) and scales of 1 makes of x (M, K)."""
    rows, k = weight.shape
    case = LinearCase(CHANNEL, "column", len(x), {"": rows}, k, backend=backend)
    tensors: Tensors = {"weight": weight, "weight_scale": np.ones((rows, 1), np.float32)}
    layout = Layout(single_shard(rows), k)
    checkpoint = LinearCheckpoint(
        CHANNEL.format, {"": tensors}, weight.astype(np.float64), None, layout
    )
    return build(case, checkpoint, device())(x)


@pytest.mark.parametrize("backend", promised(CHANNEL_BACKENDS))
def test_sums_are_exact_beyond_what_float32_holds(backend: str) -> None:
    # Each half of K adds up to some 1.2e8, of one sign; float32 holds every integer up to 1.7e7.
    # The halves cancel, but for a few cells: what is left shows the last bits of the sums.
    rng = np.random.default_rng(60)
    m, n, half = 8, 16, 8192
    part = rng.integers(120, 127, (n, half))
    other = -part - (rng.random((n, half)) < 0.001) * rng.choice([-1, 1], (n, half))
    weight = np.concatenate([part, other], axis=1).astype(np.int8)
    x = rng.integers(120, 128, (m, half)).astype(np.float64)
    x[:, 0] = 127
    x = np.concatenate([x, x], axis=1)
    exact = x @ weight.T.astype(np.float64)
    assert 100 < np.abs(exact).max() < 5000
    assert np.array_equal(product_of_codes(backend, x, weight), round_to(exact, BF16))


@pytest.mark.parametrize("backend", promised(CHANNEL_BACKENDS))
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_sum_of_one_sign_overflows_no_int32(backend: str, sign: float) -> None:
    k = 2**17
    x = np.full((1, k), 127.0 * sign)
    got = product_of_codes(backend, x, np.full((8, k), -128, np.int8))
    assert np.array_equal(got, round_to(np.full((1, 8), -sign * 127 * 128 * k), BF16))
