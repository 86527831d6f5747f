"""fp8 MoE layers with a scale a tensor against the checkpoint's own meaning."""

import pytest

import layers.moe.quantization.fp8
import layers.quantization.fp8  # noqa: F401 both register themselves
from layers.kernels.moe.grouped_fp8 import GROUPED_FP8_SCALED_MM
from testing.harness.moe.backends import list_moe_backends, require_right_or_refused
from testing.harness.moe.layer import MoeCase
from testing.moe.fp8.methods import DYNAMIC, FP8_BACKENDS, STATIC, STATIC_EXACT
from testing.moe.moe_cases import case_id, moe_cases, on_backends, seed_of

list_moe_backends(GROUPED_FP8_SCALED_MM)
STATIC_CASES = [*moe_cases(STATIC), moe_cases(STATIC_EXACT)[0]]


@pytest.mark.parametrize("case", on_backends(moe_cases(DYNAMIC), FP8_BACKENDS), ids=case_id)
def test_dynamic_layer_is_the_checkpoint(case: MoeCase) -> None:
    require_right_or_refused(case, seed_of(case))


@pytest.mark.parametrize(
    "case", on_backends([*moe_cases(STATIC), moe_cases(STATIC_EXACT)[0]], FP8_BACKENDS), ids=case_id
)
def test_static_layer_is_the_checkpoint(case: MoeCase) -> None:
    require_right_or_refused(case, seed_of(case))
