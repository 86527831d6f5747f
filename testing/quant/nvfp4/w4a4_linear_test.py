"""NVFP4 linear layers that quantise x, against the checkpoint's own meaning."""

from dataclasses import replace

import pytest

import layers.quantization.modelopt_fp4  # noqa: F401 registers itself
from layers.kernels.fp4.nvfp4_mm import NVFP4_MM
from layers.kernels.fp4.nvfp4_quant import NVFP4_QUANT
from testing.harness.backends import list_backends, require_right_or_refused
from testing.harness.device import promised
from testing.harness.linear import LinearCase
from testing.quant.linear_cases import case_id, every_case, linear_cases, one_scale_cases, seed_of
from testing.quant.nvfp4.methods import W4A4, W4A4_BACKENDS, W4A4_EXACT

list_backends(NVFP4_MM, NVFP4_QUANT)
CASES = [*every_case(W4A4, block=16), *one_scale_cases(W4A4)]


@pytest.mark.parametrize("backend", promised(W4A4_BACKENDS))
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer_is_the_checkpoint(case: LinearCase, backend: str) -> None:
    require_right_or_refused(replace(case, backend=backend), seed_of(case))


@pytest.mark.parametrize("backend", promised(W4A4_BACKENDS))
@pytest.mark.parametrize("case", linear_cases(W4A4_EXACT, block=16)[1:9:3], ids=case_id)
def test_a_scale_that_is_a_power_of_two_shows_ties(case: LinearCase, backend: str) -> None:
    require_right_or_refused(replace(case, backend=backend), seed_of(case))
