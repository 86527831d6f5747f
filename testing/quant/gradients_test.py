"""Codes have no gradient: a quantised layer refuses an x that asks for one."""

import numpy as np
import pytest
import torch

from testing.harness.device import device
from testing.harness.linear import LinearCase, Method, build
from testing.quant.every_method import everything_here, names_of

QUANTISED = [pair for pair in everything_here() if pair[0].config is not None]


@pytest.mark.parametrize(("method", "backend"), QUANTISED, ids=names_of(QUANTISED))
def test_every_quantised_method_refuses_a_gradient(method: Method, backend: str | None) -> None:
    case = LinearCase(method, "column", 2, {"": 128}, 512, backend=backend)
    layer = build(case, case.checkpoint(np.random.default_rng(84)), device()).layer
    x = torch.ones(2, 512, dtype=torch.bfloat16, device=device(), requires_grad=True)
    with pytest.raises(ValueError, match=r"x requires a gradient.*x\.detach\(\)"):
        layer(x)
    with torch.no_grad():
        wanted = layer(x)
    assert torch.equal(layer(x.detach()), wanted)
