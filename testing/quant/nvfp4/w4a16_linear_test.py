"""NVFP4 linear layers whose backend leaves x as it is, against the checkpoint's own meaning."""

from dataclasses import replace

import pytest

import layers.quantization.modelopt_fp4  # noqa: F401 registers itself
from layers.kernels.fp4.w4a16_mm import W4A16_MM
from testing.harness.backends import list_backends, require_right_or_refused
from testing.harness.device import promised
from testing.harness.linear import LinearCase
from testing.quant.linear_cases import case_id, every_case, one_scale_cases, seed_of
from testing.quant.nvfp4.methods import W4A16, W4A16_BACKENDS

list_backends(W4A16_MM)
CASES = [*every_case(W4A16, block=16), *one_scale_cases(W4A16)]


@pytest.mark.parametrize("backend", promised(W4A16_BACKENDS))
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer_is_the_checkpoint(case: LinearCase, backend: str) -> None:
    require_right_or_refused(replace(case, backend=backend), seed_of(case))
