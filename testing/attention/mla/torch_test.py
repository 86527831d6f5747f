"""MLA layers with the backend torch against the definition, on pages in every order and size."""

from dataclasses import replace

import pytest

import layers.quantization.fp8
import layers.quantization.w8a8_fp8
import layers.quantization.w8a8_int8  # noqa: F401 all register themselves
from testing.attention.mla import cases
from testing.attention.mla.examine import examine_case, seed_of
from testing.attention.mla.layer import DEEPSEEK, MlaCase
from testing.attention.mla.methods import QUANTISED, UNQUANTISED_FP16
from testing.harness.device import device, pool

# On a GPU the same code runs, by other products: some calls of each mode do there.
GRID = cases.whole_grid() if pool() == "cpu" else cases.laid_out(cases.EVERY_MODE, (16,))
FP16 = [replace(case, method=UNQUANTISED_FP16, dtype="float16") for case in GRID]
QUANTISED_CASES = [
    replace(case, method=method)
    for method in QUANTISED
    for case in cases.laid_out([cases.PROMPTS, cases.MIXED, cases.DECODE], (16,))
]
ABSORBED = [replace(case, path="absorbed") for case in cases.laid_out([cases.PROMPTS])]
FP8_CACHE = [
    replace(case, fp8_scale=scale)
    for scale, case in zip(
        (0.01, 0.02, 0.5, 1.0) * 2, cases.laid_out(cases.EVERY_MODE, (16,)), strict=False
    )
]
REAL_SIZES = [replace(case, shape=DEEPSEEK) for case in (cases.PROMPTS, cases.MIXED, cases.DECODE)]
LONG = [replace(case, page_size=64) for case in (cases.LONG_DECODE, cases.LONG_EXTEND)]


@pytest.mark.parametrize("case", [*GRID, *FP16], ids=cases.case_id)
def test_unquantised(case: MlaCase) -> None:
    examine_case(case, seed_of(case), device()).require()


@pytest.mark.parametrize("case", QUANTISED_CASES, ids=cases.case_id)
def test_quantised_kv_b_proj(case: MlaCase) -> None:
    examine_case(case, seed_of(case), device()).require()


@pytest.mark.parametrize("case", ABSORBED, ids=cases.case_id)
def test_prompts_on_the_absorbed_path(case: MlaCase) -> None:
    examine_case(case, seed_of(case), device()).require()


@pytest.mark.parametrize("case", FP8_CACHE, ids=cases.case_id)
def test_a_cache_of_eight_bits(case: MlaCase) -> None:
    examine_case(case, seed_of(case), device()).require()


@pytest.mark.parametrize("case", [*REAL_SIZES, *LONG], ids=cases.case_id)
def test_deepseeks_sizes_and_long_contexts(case: MlaCase) -> None:
    examine_case(case, seed_of(case), device()).require()
