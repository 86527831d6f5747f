"""Unquantised MoE layers against the checkpoint's own meaning."""

import pytest

from layers.kernels.moe.grouped_mm import GROUPED_MM
from testing.harness.moe.backends import list_moe_backends, require_right_or_refused
from testing.harness.moe.layer import MoeCase, MoeMethod
from testing.moe.moe_cases import case_id, moe_cases, on_backends, seed_of
from testing.oracles.error_model.accumulators import HOPPER_BF16
from testing.oracles.unquantised_formats import Unquantised

UNQUANTISED = MoeMethod(Unquantised(), None, accumulators={"triton": HOPPER_BF16})
BACKENDS = {"cpu": ["torch"], "gpu": ["triton", "torch"]}

list_moe_backends(GROUPED_MM)


@pytest.mark.parametrize("case", on_backends(moe_cases(UNQUANTISED), BACKENDS), ids=case_id)
def test_layer_is_the_checkpoint(case: MoeCase) -> None:
    require_right_or_refused(case, seed_of(case))
