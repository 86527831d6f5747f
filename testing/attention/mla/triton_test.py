"""MLA layers by our Triton kernels against the definition, on pages in every order and size."""

from dataclasses import replace

import pytest

import layers.quantization.fp8
import layers.quantization.w8a8_fp8
import layers.quantization.w8a8_int8  # noqa: F401 all register themselves
from testing.attention.mla import cases
from testing.attention.mla.backends import list_mla_backends
from testing.attention.mla.examine import examine_case, seed_of
from testing.attention.mla.layer import DEEPSEEK, SMALL, MlaCase
from testing.attention.mla.methods import QUANTISED, UNQUANTISED_FP16
from testing.harness.attention.pages import ORDERS
from testing.harness.device import device

list_mla_backends()
# The page's size and the mode are compiled in, so that each of their pairs costs some seconds.
GRID = cases.on(
    [
        *cases.laid_out(cases.EVERY_MODE, (16,)),
        *cases.laid_out([cases.MIXED, cases.DECODE], (1,)),
    ],
    "triton",
    SMALL,
)
IN_ORDER = [replace(case, order=order) for case in GRID[1:2] for order in ORDERS]
REAL_SIZES = cases.on(
    cases.laid_out([cases.PROMPTS, cases.MIXED, cases.DECODE, cases.DRAFT_TREE], (64,)), "triton"
)
FP16 = [
    replace(case, method=UNQUANTISED_FP16, dtype="float16")
    for case in cases.on(cases.laid_out([cases.DECODE], (64,)), "triton")
]
QUANTISED_CASES = [
    replace(case, method=method)
    for method in QUANTISED
    for case in cases.on([cases.PROMPTS, cases.DECODE], "triton", SMALL)
]
ABSORBED = [replace(case, path="absorbed") for case in cases.on([cases.PROMPTS], "triton", SMALL)]
FP8_CACHE = [
    replace(case, fp8_scale=0.02)
    for case in cases.on(cases.laid_out([cases.MIXED, cases.DECODE], (16,)), "triton", SMALL)
]
LONG = [
    replace(case, page_size=64, shape=cases.heads(DEEPSEEK, 16))
    for case in (cases.LONG_DECODE, cases.LONG_EXTEND)
]


@pytest.mark.parametrize("case", [*GRID, *IN_ORDER, *REAL_SIZES, *FP16], ids=cases.case_id)
def test_unquantised(case: MlaCase) -> None:
    examine_case(case, seed_of(case), device()).require()


@pytest.mark.parametrize("case", [*QUANTISED_CASES, *ABSORBED, *FP8_CACHE], ids=cases.case_id)
def test_quantised_weights_paths_and_caches(case: MlaCase) -> None:
    examine_case(case, seed_of(case), device()).require()


@pytest.mark.parametrize("case", cases.on(LONG, "triton"), ids=cases.case_id)
def test_long_contexts(case: MlaCase) -> None:
    examine_case(case, seed_of(case), device()).require()
