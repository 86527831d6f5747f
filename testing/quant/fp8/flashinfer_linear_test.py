"""fp8 layers on FlashInfer's kernels, which nvcc compiles when they are first called."""

from dataclasses import replace

import pytest

import layers.quantization.fp8  # noqa: F401 registers itself
from layers.kernels.fp8.fp8_block_scaled_mm import FP8_BLOCK_SCALED_MM
from layers.kernels.fp8.fp8_scaled_mm import FP8_SCALED_MM
from testing.harness.backends import list_backends, require_right_or_refused
from testing.harness.linear import LinearCase
from testing.quant.fp8.methods import BLOCK, STATIC
from testing.quant.linear_cases import case_id, linear_cases, one_scale_cases, seed_of

list_backends(FP8_SCALED_MM, FP8_BLOCK_SCALED_MM)
SCALED = [*linear_cases(STATIC), *one_scale_cases(STATIC)]


@pytest.mark.parametrize("case", SCALED, ids=case_id)
def test_layer_of_single_scales_is_the_checkpoint(case: LinearCase) -> None:
    ran = require_right_or_refused(replace(case, backend="flashinfer"), seed_of(case))
    single = case.one_scale or len(case.shards) == 1
    assert ran == (single and not case.bias and not sum(case.shards.values()) % 16)


@pytest.mark.parametrize("case", linear_cases(BLOCK), ids=case_id)
def test_layer_of_blocks_is_the_checkpoint(case: LinearCase) -> None:
    require_right_or_refused(replace(case, backend="flashinfer"), seed_of(case))
