"""The norm of hidden states against its definition, bit by bit where float32 leaves no doubt."""

import numpy as np
import pytest
import torch

from layers.norm.rms_norm import RMSNorm
from layers.weights import load_weights, process_weights_after_loading
from testing.harness.device import device, pool
from testing.harness.tensors import DTYPES, KINDS, to_numpy
from testing.oracles.arrays import Float64
from testing.oracles.error_model.noise import gamma
from testing.oracles.rounding import round_to

BACKENDS = ["torch"] if pool() == "cpu" else ["torch", "triton"]


def norm_of(size: int, weight: torch.Tensor, dtype: torch.dtype, backend: str) -> RMSNorm:
    layer = RMSNorm(size, 0.01, params_dtype=dtype, prefix="norm", backend=backend, device=device())
    load_weights(layer, {"weight": weight})
    process_weights_after_loading(layer)
    return layer


def bounds(x: Float64, weight: Float64) -> tuple[Float64, Float64]:
    """The definition, and how far float32 arithmetic may be off before the last rounding.

    A sum of N squares has N roundings in any order, half of which the root leaves; a root, a
    division and two products a few more.
    """
    exact = x * weight / np.sqrt((x**2).mean(axis=1, keepdims=True) + 0.01)
    return exact, np.abs(exact) * gamma(x.shape[1] // 2 + 8)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("size", [1, 64, 1000, 4096])
@pytest.mark.parametrize("has_residual", [False, True])
def test_rows_are_the_definition_s(backend: str, dtype: str, size: int, has_residual: bool) -> None:
    kind = KINDS[dtype]
    generator = torch.Generator().manual_seed(size)
    # Rows of very different lengths, with gaps between them.
    wide = torch.randn((7, size + 24), generator=generator) * torch.logspace(-3, 2, 7)[:, None]
    x = wide.to(DTYPES[dtype]).to(device())[:, :size]
    residual = torch.randn((7, size), generator=generator).to(x)
    weight = torch.randn(size, generator=generator).to(DTYPES[dtype])
    layer = norm_of(size, weight, DTYPES[dtype], backend)
    if has_residual:
        kept = x.clone()
        out, summed = layer.add(x, residual)
        want = round_to(to_numpy(x) + to_numpy(residual), kind)
        # Two values of 16 bits are summed exactly, or nearly, in float32.
        np.testing.assert_array_equal(to_numpy(summed), want)
        assert torch.equal(x, kept)
    else:
        out, summed = layer(x), x
    exact, bound = bounds(to_numpy(summed), to_numpy(weight))
    low, high = round_to(exact - bound, kind), round_to(exact + bound, kind)
    got = to_numpy(out)
    assert ((low <= got) & (got <= high)).all()
    # The bound leaves no doubt about most values.
    assert (low == high).mean() > (0.5 if size == 4096 else 0.9)


def test_a_batch_of_nothing() -> None:
    layer = norm_of(64, torch.ones(64), torch.bfloat16, "torch")
    nothing = torch.empty((0, 64), dtype=torch.bfloat16, device=device())
    assert layer(nothing).shape == (0, 64) and layer.add(nothing, nothing)[1].shape == (0, 64)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"layer 'a': eps is 0, wanted a number above 0"):
        RMSNorm(64, 0, prefix="a")
    layer = norm_of(64, torch.ones(64), torch.bfloat16, "torch")
    x = torch.ones((2, 64), dtype=torch.bfloat16, device=device())
    with pytest.raises(ValueError, match=r"x is \(2, 63\) torch.bfloat16 .* wanted \(2, 64\)"):
        layer(x[:, 1:])
    with pytest.raises(ValueError, match=r"x is \(1, 64\) .* wanted \(2, 64\)"):
        layer.add(x, x[:1])
    with pytest.raises(RuntimeError, match="layer 'b' is not ready for forward"):
        RMSNorm(64, 1e-6, prefix="b", device=device())(x)
