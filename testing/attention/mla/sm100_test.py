"""MLA decode by the kernels of sm100 (B200), which have never run, against the definition."""

from dataclasses import replace

import pytest

from testing.attention.mla import cases
from testing.attention.mla.backends import list_mla_backends
from testing.attention.mla.examine import examine_case, seed_of
from testing.attention.mla.layer import DEEPSEEK, MlaCase
from testing.harness.device import device

list_mla_backends()
SIZES = {"flashinfer_trtllm": (32, 64), "sgl_kernel_cutlass": (1, 16, 32, 64)}
CASES = [
    replace(case, backend={"decode": backend}, shape=cases.heads(DEEPSEEK, 128))
    for backend, sizes in SIZES.items()
    for case in cases.laid_out([cases.DECODE], sizes)
]


@pytest.mark.parametrize("case", CASES, ids=cases.case_id)
def test_decode(case: MlaCase) -> None:
    examine_case(case, seed_of(case), device()).require()
