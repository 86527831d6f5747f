"""A thousand right NVFP4 layers of each format, from fresh seeds, raise no alarm."""

import pytest

import layers.quantization.modelopt_fp4  # noqa: F401 registers itself
from testing.strength.chosen import chosen
from testing.strength.null_runs import BATCH, BATCHES, require_silence
from testing.strength.nvfp4.faults import METHODS


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("fmt", chosen(METHODS))
def test_right_layers_raise_no_alarm(fmt: str, batch: int) -> None:
    require_silence(METHODS[fmt], BATCH, backend="torch")
