"""A thousand right attention layers, dense and in a window, from fresh seeds, raise no alarm."""

import pytest

from testing.strength.attention.null_runs import require_silence
from testing.strength.chosen import chosen
from testing.strength.null_runs import BATCH, BATCHES


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("fmt", chosen(["dense", "swa"]))
def test_right_layers_raise_no_alarm(fmt: str, batch: int) -> None:
    require_silence(BATCH, windowed=fmt == "swa", backend="torch")
