"""MXFP8 linear layers against the checkpoint's own meaning."""

from dataclasses import replace

import pytest

import layers.quantization.mxfp8  # noqa: F401 registers itself
from layers.kernels.fp8.mxfp8_quant import MXFP8_QUANT
from layers.kernels.fp8.mxfp8_scaled_mm import MXFP8_SCALED_MM
from testing.harness.backends import list_backends, require_right_or_refused
from testing.harness.device import promised
from testing.harness.linear import LinearCase
from testing.quant.fp8.methods import MXFP8, MXFP8_BACKENDS
from testing.quant.linear_cases import case_id, every_case, seed_of

list_backends(MXFP8_QUANT, MXFP8_SCALED_MM)


@pytest.mark.parametrize("backend", promised(MXFP8_BACKENDS))
@pytest.mark.parametrize("case", every_case(MXFP8, block=32), ids=case_id)
def test_layer_is_the_checkpoint(case: LinearCase, backend: str) -> None:
    require_right_or_refused(replace(case, backend=backend), seed_of(case))
