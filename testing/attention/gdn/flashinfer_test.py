"""Gated delta layers by FlashInfer's kernels, against the recurrence token by token."""

from dataclasses import replace

import pytest

from testing.attention.gdn import cases
from testing.attention.gdn.backends import list_gdn_backends
from testing.attention.gdn.continued import examine_in_parts
from testing.attention.gdn.examine import examine_case, seed_of
from testing.attention.gdn.layer import QWEN, GdnCase
from testing.harness.device import device

list_gdn_backends()
CASES = cases.on([*cases.EXTEND, *cases.DECODE], "flashinfer", QWEN)
ONE_HEAD = replace(QWEN, k_heads=1, v_heads=2)
LONG = replace(cases.LONG, backend="flashinfer", shape=ONE_HEAD)
IN_PARTS = GdnCase("extend", (140,), (False,), backend="flashinfer", shape=QWEN)


@pytest.mark.parametrize("case", CASES, ids=cases.case_id)
def test_output_and_states(case: GdnCase) -> None:
    examine_case(case, seed_of(case), device()).require()


def test_a_long_text() -> None:
    examine_case(LONG, seed_of(LONG), device(), replicas=2).require()


@pytest.mark.parametrize("cuts", [(1,), (2, 66), (63, 64, 129), (64, 128), (65, 138)])
@pytest.mark.parametrize("brings", [False, True])
def test_a_text_in_parts(cuts: tuple[int, ...], brings: bool) -> None:
    case = replace(IN_PARTS, initial=(brings,))
    examine_in_parts(case, cuts, seed_of(case), device()).require()
