"""MXFP4 MoE layers (gpt-oss) against the checkpoint's own meaning."""

from dataclasses import replace

import pytest

import layers.quantization.mxfp4  # noqa: F401 registers itself
from layers.moe.quantization.mxfp4 import MXFP4_RUNNERS
from testing.harness.moe.backends import list_moe_backends, require_right_or_refused
from testing.harness.moe.layer import MoeCase
from testing.moe.fp4.mxfp4_methods import MXFP4_BACKENDS, gpt_oss_cases
from testing.moe.moe_cases import case_id, promised, seed_of

list_moe_backends(MXFP4_RUNNERS)


@pytest.mark.parametrize("backend", promised(MXFP4_BACKENDS))
@pytest.mark.parametrize("case", gpt_oss_cases(), ids=case_id)
def test_layer_is_the_checkpoint(case: MoeCase, backend: str) -> None:
    require_right_or_refused(replace(case, backend=backend), seed_of(case))
