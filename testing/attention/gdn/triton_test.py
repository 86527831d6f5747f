"""Gated delta layers by Triton against the recurrence token by token.

Convolution and decode are our kernels, prefill is flash-linear-attention's.
"""

from dataclasses import replace

import pytest

from testing.attention.gdn import cases
from testing.attention.gdn.backends import list_gdn_backends
from testing.attention.gdn.continued import examine_in_parts
from testing.attention.gdn.examine import examine_case, seed_of
from testing.attention.gdn.layer import QWEN, SMALL, GdnCase
from testing.harness.device import device

list_gdn_backends()
# Sizes and types of heads are compiled in, so that each of their pairs costs some seconds.
CASES = cases.on([*cases.EXTEND, *cases.DECODE], "triton", SMALL)
OTHERS = [
    *cases.on([cases.MIXED, cases.DECODE[1]], "triton", QWEN),
    *cases.on([cases.DECODE[1]], "triton", cases.SHAPES[0]),
    *cases.on([cases.DECODE[1]], "triton", cases.SHAPES[3]),
    replace(cases.DECODE[1], dtype="float16", backend="triton"),
]
LONG = replace(cases.LONG, backend="triton")
IN_PARTS = GdnCase("extend", (140,), (False,), backend="triton", shape=SMALL)


@pytest.mark.parametrize("case", [*CASES, *OTHERS], ids=cases.case_id)
def test_output_and_states(case: GdnCase) -> None:
    examine_case(case, seed_of(case), device()).require()


def test_a_long_text() -> None:
    examine_case(LONG, seed_of(LONG), device(), replicas=8).require()


@pytest.mark.parametrize("cuts", [(2, 66), (63, 64, 129), (65, 138)])
@pytest.mark.parametrize("brings", [False, True])
def test_a_text_in_parts(cuts: tuple[int, ...], brings: bool) -> None:
    case = replace(IN_PARTS, initial=(brings,))
    examine_in_parts(case, cuts, seed_of(case), device()).require()
