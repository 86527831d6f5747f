"""A thousand right MXFP8 and MXFP4 layers of each format, from fresh seeds, raise no alarm."""

import pytest

import layers.quantization.mxfp4
import layers.quantization.mxfp8  # noqa: F401 both register themselves
from testing.strength.chosen import chosen
from testing.strength.mx.faults import METHODS
from testing.strength.null_runs import BATCH, BATCHES, require_silence


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("fmt", chosen(METHODS))
def test_right_layers_raise_no_alarm(fmt: str, batch: int) -> None:
    require_silence(METHODS[fmt], BATCH, k_unit=32, backend="torch")
