"""MXFP4 MoE layers (gpt-oss) against the checkpoint's own meaning."""

import pytest

import layers.quantization.mxfp4  # noqa: F401 registers itself
from layers.moe.quantization.mxfp4 import MXFP4_RUNNERS
from testing.harness.moe.backends import list_moe_backends, require_right_or_refused
from testing.harness.moe.layer import MoeCase
from testing.moe.fp4.mxfp4_methods import MXFP4_BACKENDS, gpt_oss_cases
from testing.moe.moe_cases import case_id, on_backends, seed_of

list_moe_backends(MXFP4_RUNNERS)


@pytest.mark.parametrize("case", on_backends(gpt_oss_cases(), MXFP4_BACKENDS), ids=case_id)
def test_layer_is_the_checkpoint(case: MoeCase) -> None:
    require_right_or_refused(case, seed_of(case))
