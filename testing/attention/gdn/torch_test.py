"""Gated delta layers by the backend torch, against the recurrence token by token."""

from dataclasses import replace

import pytest

from testing.attention.gdn import cases
from testing.attention.gdn.backends import list_gdn_backends
from testing.attention.gdn.continued import examine_in_parts
from testing.attention.gdn.examine import examine_case, seed_of
from testing.attention.gdn.layer import QWEN, SMALL, GdnCase
from testing.harness.device import device, pool

list_gdn_backends()
# On a GPU the same code runs, by other products: a call of each mode for each size does there.
ALL = [*cases.EXTEND, *cases.DECODE] if pool() == "cpu" else [cases.EDGES, cases.DECODE[1]]
CASES = cases.on(ALL, "torch", SMALL)
OTHERS = cases.every_shape("torch")
DTYPES = [
    replace(case, dtype=dtype, backend="torch")
    for dtype in ("float16", "float32")
    for case in (cases.MIXED, cases.DECODE[1])
]
QWENS = cases.on([cases.MIXED, cases.DECODE[1]], "torch", QWEN)
LONG = replace(cases.LONG, backend="torch", shape=cases.SHAPES[1])
ODD = cases.on([*cases.WIDE, *cases.BLANK], "torch", SMALL)
IN_PARTS = GdnCase("extend", (140,), (False,), backend="torch", shape=SMALL)


@pytest.mark.parametrize("case", [*CASES, *OTHERS, *DTYPES, *QWENS, *ODD], ids=cases.case_id)
def test_output_and_states(case: GdnCase) -> None:
    examine_case(case, seed_of(case), device()).require()


def test_a_long_text() -> None:
    examine_case(LONG, seed_of(LONG), device(), replicas=8).require()


@pytest.mark.parametrize("cuts", [(1,), (2, 66), (63, 64, 129), (64, 128), (65, 138)])
@pytest.mark.parametrize("brings", [False, True])
def test_a_text_in_parts(cuts: tuple[int, ...], brings: bool) -> None:
    case = replace(IN_PARTS, initial=(brings,))
    examine_in_parts(case, cuts, seed_of(case), device()).require()
