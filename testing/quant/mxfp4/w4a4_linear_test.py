"""MXFP4 linear layers that quantise x, against the checkpoint's own meaning."""

from dataclasses import replace

import pytest

import layers.quantization.mxfp4  # noqa: F401 registers itself
from layers.kernels.fp4.mxfp4_mm import MXFP4_MM
from layers.kernels.fp4.mxfp4_quant import MXFP4_QUANT
from testing.harness.backends import list_backends, require_right_or_refused
from testing.harness.device import promised
from testing.harness.linear import LinearCase
from testing.quant.linear_cases import case_id, every_case, seed_of
from testing.quant.mxfp4.methods import W4A4, W4A4_BACKENDS

list_backends(MXFP4_MM, MXFP4_QUANT)


@pytest.mark.parametrize("backend", promised(W4A4_BACKENDS))
@pytest.mark.parametrize("case", every_case(W4A4, block=32), ids=case_id)
def test_layer_is_the_checkpoint(case: LinearCase, backend: str) -> None:
    require_right_or_refused(replace(case, backend=backend), seed_of(case))
