"""A thousand right MLA layers, from fresh seeds, raise no alarm."""

import pytest

import layers.quantization.fp8
import layers.quantization.w8a8_fp8
import layers.quantization.w8a8_int8  # noqa: F401 all register themselves
from testing.strength.attention.mla.null_runs import require_silence
from testing.strength.null_runs import BATCH, BATCHES


@pytest.mark.parametrize("batch", range(BATCHES))
def test_right_layers_raise_no_alarm(batch: int) -> None:
    require_silence(BATCH)
