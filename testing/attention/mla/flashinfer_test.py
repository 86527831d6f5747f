"""MLA layers by FlashInfer's wrapper against the definition, on pages in every order and size."""

from dataclasses import replace

import pytest

from testing.attention.mla import cases
from testing.attention.mla.backends import list_mla_backends
from testing.attention.mla.examine import examine_case, seed_of
from testing.attention.mla.layer import DEEPSEEK, MlaCase
from testing.attention.mla.methods import UNQUANTISED_FP16
from testing.harness.device import device

list_mla_backends()
BF16 = cases.on(cases.laid_out([*cases.EXTEND, *cases.DECODES]), "flashinfer")
FP16 = [
    replace(case, method=UNQUANTISED_FP16, dtype="float16")
    for case in cases.on(cases.laid_out([cases.MIXED, cases.DECODE], (32,)), "flashinfer")
]
HEADS = [
    replace(case, shape=cases.heads(DEEPSEEK, heads))
    for case in cases.on([cases.DECODE], "flashinfer")
    for heads in (1, 8, 128)
]
LONG = cases.on(
    [replace(case, page_size=64) for case in (cases.LONG_DECODE, cases.LONG_EXTEND)], "flashinfer"
)


@pytest.mark.parametrize("case", [*BF16, *FP16, *HEADS], ids=cases.case_id)
def test_layer(case: MlaCase) -> None:
    examine_case(case, seed_of(case), device()).require()


@pytest.mark.parametrize("case", LONG, ids=cases.case_id)
def test_long_contexts(case: MlaCase) -> None:
    examine_case(case, seed_of(case), device()).require()
