"""The rounding that experts are trained under is the format's own, as the oracle encodes."""

import numpy as np
import torch

from testing.oracles.codecs import mx
from tools.tiny.mxfp4 import add_rounding, keep_rounded, rounded_to_mxfp4


class Experts(torch.nn.Module):  # type: ignore[misc]
    """Expert tensors under the names that a gpt-oss checkpoint has."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.gate_up_proj = torch.nn.Parameter(weight.clone())
        self.down_proj = torch.nn.Parameter(weight.clone())


def test_rounds_as_the_oracle_encodes() -> None:
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((3, 64, 40)).astype(np.float32) * 2.0 ** rng.integers(-9, 9, 40)
    weight[0, :32, 0] = 0
    weight[0, :8, 1] = [0.25, 0.75, 1.25, 2.5, 3.5, 5.0, 7.9, -5.0]
    ours = rounded_to_mxfp4(torch.from_numpy(weight)).numpy()
    for expert in range(3):
        rows = weight[expert].T.astype(np.float64)
        oracle = mx.dequantise(*mx.quantise(rows, "e2m1"), "e2m1")
        np.testing.assert_array_equal(ours[expert].T, oracle)


def test_gradients_pass_and_rounded_weights_stay() -> None:
    weight = torch.randn(2, 32, 8, generator=torch.Generator().manual_seed(1))
    module = Experts(weight)
    rounded = add_rounding(module)
    assert len(rounded) == 2
    assert torch.equal(module.gate_up_proj, weight)
    for one in rounded:
        one.enabled = True
    assert torch.equal(module.gate_up_proj, rounded_to_mxfp4(weight))
    module.gate_up_proj.sum().backward()
    original = module.parametrizations.gate_up_proj.original
    assert torch.equal(original.grad, torch.ones_like(weight))
    keep_rounded(module)
    assert torch.equal(module.state_dict()["down_proj"], rounded_to_mxfp4(weight))
    assert set(module.state_dict()) == {"gate_up_proj", "down_proj"}
