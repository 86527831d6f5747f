"""A thousand right MoE layers of each format, from fresh seeds, raise no alarm."""

import pytest

import testing.strength.moe.registered  # noqa: F401 registers the methods
from testing.strength.chosen import chosen
from testing.strength.moe.formats import METHODS
from testing.strength.moe.null_runs import require_silence
from testing.strength.null_runs import BATCH, BATCHES

UNITS = {"mxfp4": (32, 32), "int8_block": (16, 128), "fp8_block": (16, 128)}


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("fmt", chosen(METHODS))
def test_right_layers_raise_no_alarm(fmt: str, batch: int) -> None:
    require_silence(METHODS[fmt], BATCH, *UNITS.get(fmt, (16, 16)))
