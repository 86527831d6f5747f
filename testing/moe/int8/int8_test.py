"""int8 MoE layers, per channel and by blocks, against the checkpoint's own meaning."""

import pytest

import layers.moe.quantization.int8
import layers.quantization.blockwise_int8
import layers.quantization.w8a8_int8  # noqa: F401 all register themselves
from layers.kernels.moe.grouped_int8 import GROUPED_INT8_BLOCK_SCALED_MM, GROUPED_INT8_SCALED_MM
from testing.harness.moe.backends import list_moe_backends, require_right_or_refused
from testing.harness.moe.layer import MoeCase
from testing.moe.int8.methods import BLOCK, CHANNEL, INT8_BACKENDS
from testing.moe.moe_cases import case_id, moe_cases, on_backends, seed_of

list_moe_backends(GROUPED_INT8_SCALED_MM, GROUPED_INT8_BLOCK_SCALED_MM)


@pytest.mark.parametrize("case", on_backends(moe_cases(CHANNEL), INT8_BACKENDS), ids=case_id)
def test_channel_layer_is_the_checkpoint(case: MoeCase) -> None:
    require_right_or_refused(case, seed_of(case))


@pytest.mark.parametrize("case", on_backends(moe_cases(BLOCK), INT8_BACKENDS), ids=case_id)
def test_block_layer_is_the_checkpoint(case: MoeCase) -> None:
    require_right_or_refused(case, seed_of(case))
