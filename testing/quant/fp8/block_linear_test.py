"""fp8 128x128-block linear layers against the checkpoint's own meaning."""

from dataclasses import replace

import pytest

import layers.quantization.fp8  # noqa: F401 registers itself
from layers.kernels.fp8.fp8_block_scaled_mm import FP8_BLOCK_SCALED_MM
from layers.kernels.fp8.per_token_group_fp8_quant import PER_TOKEN_GROUP_FP8_QUANT
from testing.harness.backends import list_backends, present, require_right_or_refused
from testing.harness.device import promised
from testing.harness.linear import LinearCase
from testing.quant.fp8.methods import BLOCK, BLOCK_BACKENDS
from testing.quant.linear_cases import case_id, every_case, seed_of

list_backends(FP8_BLOCK_SCALED_MM, PER_TOKEN_GROUP_FP8_QUANT)
# sgl_kernel 0.4.2 has the kernel, 0.4.8 has not: it runs where the former is installed.
BACKENDS = [*promised(BLOCK_BACKENDS), *present(FP8_BLOCK_SCALED_MM, "sgl_kernel")]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", every_case(BLOCK), ids=case_id)
def test_layer_is_the_checkpoint(case: LinearCase, backend: str) -> None:
    require_right_or_refused(replace(case, backend=backend), seed_of(case))
