"""NVFP4 MoE layers, with x and h quantised or as they are, against the checkpoint's own meaning."""

from dataclasses import replace

import pytest

import layers.quantization.modelopt_fp4  # noqa: F401 registers itself
from layers.moe.quantization.nvfp4 import NVFP4_RUNNERS
from testing.harness.moe.backends import list_moe_backends, require_right_or_refused
from testing.harness.moe.layer import MoeCase
from testing.moe.fp4.nvfp4_methods import NVFP4_BACKENDS, W4A4, W4A4_EXACT, W4A16
from testing.moe.moe_cases import case_id, moe_cases, on_backends, seed_of

list_moe_backends(NVFP4_RUNNERS)
CASES = [*moe_cases(W4A4, 16), moe_cases(W4A4_EXACT, 16)[0]]


@pytest.mark.parametrize("case", on_backends(CASES, NVFP4_BACKENDS), ids=case_id)
def test_layer_is_the_checkpoint(case: MoeCase) -> None:
    if case.backend == "triton":
        # It reads the same checkpoint, and leaves x and h as they are.
        case = replace(case, method=W4A16)
    require_right_or_refused(case, seed_of(case))
