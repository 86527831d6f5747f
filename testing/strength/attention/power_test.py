"""How small a bias of an attention layer the layer tests' checks find."""

from dataclasses import replace

import pytest

from testing.harness.attention.case import AttentionCase, on_backend
from testing.harness.device import pool
from testing.strength.attention.faults import WINDOW
from testing.strength.attention.power import require_power
from testing.strength.chosen import chosen

PLAIN = AttentionCase(8, 2, 64)
CASES = {"dense": PLAIN, "swa": replace(PLAIN, window=WINDOW)}
GOALS = {
    "torch": {"scaling": 5e-4, "v_scale": 2e-4, "gain": 2e-4, "head": 1e-3, "token": 2e-3},
    # Rounding probabilities to bf16 scatters what a bias has to stand out from.
    "triton": {"scaling": 2e-3, "v_scale": 1e-3},
}
BACKENDS = ["torch"] if pool() == "cpu" else ["torch", "triton"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("family", GOALS["torch"])
@pytest.mark.parametrize("fmt", chosen(CASES))
def test_bias_as_small_as_the_goal_is_found(fmt: str, family: str, backend: str) -> None:
    if family not in GOALS[backend]:
        pytest.skip(f"{backend} rounds its output inside the kernel: no bias can be planted there")
    require_power(fmt, on_backend(CASES[fmt], backend), family, GOALS[backend][family])
