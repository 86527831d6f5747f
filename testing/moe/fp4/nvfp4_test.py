"""NVFP4 MoE layers that quantise x and h against the checkpoint's own meaning."""

from dataclasses import replace

import pytest

import layers.moe.quantization.nvfp4
import layers.quantization.modelopt_fp4  # noqa: F401 both register themselves
from layers.kernels.moe_fp4.fp4_grouped_mm import NVFP4_GROUPED_MM
from testing.harness.moe.backends import list_moe_backends, require_right_or_refused
from testing.harness.moe.layer import MoeCase
from testing.moe.fp4.nvfp4_methods import W4A4, W4A4_BACKENDS, W4A4_EXACT
from testing.moe.moe_cases import case_id, moe_cases, promised, seed_of

list_moe_backends(NVFP4_GROUPED_MM)


@pytest.mark.parametrize("backend", promised(W4A4_BACKENDS))
@pytest.mark.parametrize("case", [*moe_cases(W4A4, 16), moe_cases(W4A4_EXACT, 16)[0]], ids=case_id)
def test_layer_is_the_checkpoint(case: MoeCase, backend: str) -> None:
    require_right_or_refused(replace(case, backend=backend), seed_of(case))
