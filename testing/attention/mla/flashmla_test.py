"""MLA decode by FlashMLA against the definition: pages of 64 in every order."""

from dataclasses import replace

import pytest

from testing.attention.mla import cases
from testing.attention.mla.backends import list_mla_backends
from testing.attention.mla.examine import examine_case, seed_of
from testing.attention.mla.layer import DEEPSEEK, MlaCase
from testing.attention.mla.methods import UNQUANTISED_FP16
from testing.harness.attention.pages import ORDERS
from testing.harness.device import device

list_mla_backends()
BACKEND = {"decode": "flashmla"}
AROUND_A_PAGE = MlaCase("decode", (1,) * 6, (1, 63, 64, 65, 128, 129), page_size=64)
SHARED = MlaCase("decode", (1, 1, 1), (65, 100, 64), page_size=64, shared_pages=1)
ORDERED = [replace(AROUND_A_PAGE, order=order) for order in ORDERS]
BF16 = cases.on([*ORDERED, SHARED, replace(cases.DECODE, page_size=64)], BACKEND)
FP16 = [
    replace(case, method=UNQUANTISED_FP16, dtype="float16")
    for case in cases.on([AROUND_A_PAGE], BACKEND)
]
HEADS = [
    replace(case, shape=cases.heads(DEEPSEEK, heads))
    for case in cases.on([AROUND_A_PAGE], BACKEND)
    for heads in (1, 32, 64, 128)
]
LONG = cases.on([replace(cases.LONG_DECODE, page_size=64)], BACKEND)


@pytest.mark.parametrize("case", [*BF16, *FP16, *HEADS, *LONG], ids=cases.case_id)
def test_decode(case: MlaCase) -> None:
    examine_case(case, seed_of(case), device()).require()
