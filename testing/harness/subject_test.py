"""A subject's natural data leaves no doubt of any code."""

import numpy as np
import pytest

from testing.harness.linear import LinearCase, Method
from testing.harness.subject import Subject
from testing.oracles.formats import LinearFormat
from testing.oracles.int8_formats import Int8Block, Int8Channel
from testing.oracles.linear_formats.fp8 import Fp8Block, Fp8Tensor
from testing.oracles.linear_formats.mx import Mxfp4, Mxfp8
from testing.oracles.linear_formats.nvfp4 import Nvfp4
from testing.oracles.probes import natural
from testing.oracles.rounding import round_to

FORMATS: list[LinearFormat] = [
    Int8Channel(),
    Int8Block(),
    Fp8Tensor(),
    Fp8Tensor(static=True),
    Fp8Block(),
    Mxfp8(),
    Mxfp4(dynamic=True),
    Nvfp4(exact_scale=True),
]


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_settled_data_is_natural_and_off_every_tie(fmt: LinearFormat, dtype: str) -> None:
    case = LinearCase(Method(fmt, None), "column", 64, {"": 32}, 512, dtype=dtype)
    rng = np.random.default_rng(3)
    subject = Subject(case, case.checkpoint(rng))
    moved = 0
    for _ in range(10):
        x = natural(rng, 64, 512, subject.kind)
        settled = subject.settled(x)
        assert not subject.encode(settled).near_tie.any()
        assert np.array_equal(round_to(settled, subject.kind), settled)
        moved += int((settled != x).sum())
        np.testing.assert_allclose(settled, x, rtol=0.04)
    assert moved < 0.2 * 10 * 64 * 512
