"""A thousand right int8 layers of each format, from fresh seeds, raise no alarm."""

import pytest

import layers.quantization.blockwise_int8
import layers.quantization.w8a8_int8  # noqa: F401 both register themselves
from testing.strength.chosen import chosen
from testing.strength.int8.faults import METHODS
from testing.strength.null_runs import BATCH, BATCHES, require_silence


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("fmt", chosen(METHODS))
def test_right_layers_raise_no_alarm(fmt: str, batch: int) -> None:
    require_silence(METHODS[fmt], BATCH)
