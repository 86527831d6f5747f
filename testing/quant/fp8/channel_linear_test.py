"""fp8 linear layers with a scale a row against the checkpoint's own meaning."""

from dataclasses import replace

import pytest

import layers.quantization.w8a8_fp8  # noqa: F401 registers itself
from layers.kernels.fp8.fp8_scaled_mm import FP8_SCALED_MM
from layers.kernels.fp8.per_token_fp8_quant import PER_TOKEN_FP8_QUANT
from testing.harness.backends import list_backends, require_right_or_refused
from testing.harness.device import promised
from testing.harness.linear import LinearCase
from testing.quant.fp8.methods import CHANNEL, SCALED_BACKENDS
from testing.quant.linear_cases import case_id, every_case, seed_of

list_backends(FP8_SCALED_MM, PER_TOKEN_FP8_QUANT)


@pytest.mark.parametrize("backend", promised(SCALED_BACKENDS))
@pytest.mark.parametrize("case", every_case(CHANNEL), ids=case_id)
def test_layer_is_the_checkpoint(case: LinearCase, backend: str) -> None:
    require_right_or_refused(replace(case, backend=backend), seed_of(case))
