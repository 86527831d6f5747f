"""Each reading of a wrong output is told from the definition, and from the other readings."""

import numpy as np
import pytest

from testing.oracles.attention.masks import tree_of
from testing.oracles.attention.mla.mla import MlaCall, MlaShape, attend
from testing.oracles.attention.mla.paged import Paged
from testing.oracles.attention.mla.readings import READINGS, readings
from testing.oracles.attention.rope.rope import Rope

# Square, so that every reading is possible.
SHAPE = MlaShape(heads=3, nope=8, v=8, rank=8, rope=Rope(4), scaling=0.4)


def call_of(seed: int = 0) -> MlaCall:
    rng = np.random.default_rng(seed)
    trees = np.stack([tree_of([-1, 0, 0, 1])] * 2)
    paged = Paged((4, 4), (10, 12), np.array([[2, 0, 4], [1, 3, 5]]), 4, trees)
    positions = np.array([6, 7, 7, 8, 8, 9, 9, 10])
    return MlaCall(
        SHAPE,
        paged,
        rng.standard_normal((48, 8)),
        rng.standard_normal((8, 3, 12)),
        rng.standard_normal((8, 8)),
        rng.standard_normal((8, 4)),
        positions,
        rng.standard_normal((6, 4, 12)),
    )


def test_every_reading_differs_from_the_definition_and_from_the_others() -> None:
    call = call_of()
    found = {name: attend(changed) for name, changed in readings(call)}
    assert set(found) == set(READINGS)
    outputs = [attend(call), *found.values()]
    for i, one in enumerate(outputs):
        for other in outputs[:i]:
            assert not np.allclose(one, other, rtol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_a_reading_leaves_the_call_as_it_was(seed: int) -> None:
    call = call_of(seed)
    before = attend(call)
    list(readings(call))
    np.testing.assert_array_equal(attend(call_of(seed)), before)
    np.testing.assert_array_equal(attend(call), before)
