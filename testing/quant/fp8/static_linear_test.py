"""fp8 linear layers, one weight scale a shard and a static activation scale."""

from dataclasses import replace

import pytest

import layers.quantization.fp8  # noqa: F401 registers itself
from layers.kernels.fp8.fp8_scaled_mm import FP8_SCALED_MM
from layers.kernels.fp8.static_fp8_quant import STATIC_FP8_QUANT
from testing.harness.backends import list_backends, require_right_or_refused
from testing.harness.device import promised
from testing.harness.linear import LinearCase
from testing.quant.fp8.methods import SCALED_BACKENDS, STATIC, STATIC_EXACT
from testing.quant.linear_cases import case_id, every_case, linear_cases, one_scale_cases, seed_of

list_backends(FP8_SCALED_MM, STATIC_FP8_QUANT)
CASES = [*every_case(STATIC), *one_scale_cases(STATIC)]


@pytest.mark.parametrize("backend", promised(SCALED_BACKENDS))
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer_is_the_checkpoint(case: LinearCase, backend: str) -> None:
    require_right_or_refused(replace(case, backend=backend), seed_of(case))


@pytest.mark.parametrize("backend", promised(SCALED_BACKENDS))
@pytest.mark.parametrize("case", linear_cases(STATIC_EXACT)[1:9:3], ids=case_id)
def test_a_scale_that_is_a_power_of_two_shows_ties(case: LinearCase, backend: str) -> None:
    require_right_or_refused(replace(case, backend=backend), seed_of(case))
