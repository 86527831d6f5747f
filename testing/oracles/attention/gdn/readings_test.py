"""Each reading of a wrong output is told from the definition, and from the other readings."""

import numpy as np

from testing.oracles.attention.gdn.gdn import GdnShape, delta_rule
from testing.oracles.attention.gdn.inputs import random_call
from testing.oracles.attention.gdn.readings import READINGS, readings
from testing.oracles.rounding import BF16


def test_every_reading_differs_from_the_definition_and_from_the_others() -> None:
    shape = GdnShape(k_heads=2, v_heads=4, k_dim=8, v_dim=8)
    call = random_call(np.random.default_rng(0), shape, BF16, (5, 9), (True, True))
    found = dict(readings(call))
    assert set(found) == set(READINGS)
    outputs = [delta_rule(call).output, *found.values()]
    for i, one in enumerate(outputs):
        for other in outputs[:i]:
            assert not np.allclose(one, other, rtol=1e-3)


def test_a_call_has_only_readings_that_change_it() -> None:
    # Nobody brings a state, keys are not as long as values, and each value head has its own key.
    shape = GdnShape(k_heads=2, v_heads=2, k_dim=8, v_dim=6)
    call = random_call(np.random.default_rng(1), shape, BF16, (5, 9), (False, False))
    assert set(READINGS) - {name for name, _ in readings(call)} == {
        "inputs before this call are not convolved",
        "the states that requests bring are not used",
        "the states that requests bring are transposed",
        "value head h uses key head h mod Hk",
    }
