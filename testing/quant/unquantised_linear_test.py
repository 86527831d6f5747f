"""Unquantised linear layers: sums that fp32 holds exactly, so every bit of the output is known."""

from dataclasses import replace

import pytest

from testing.harness.device import device
from testing.harness.linear import LinearCase, Method
from testing.harness.linear_probes import examine_case
from testing.oracles.unquantised_formats import Unquantised
from testing.quant.linear_cases import case_id, float32_case, linear_cases, odd_case, seed_of

BF16 = Method(Unquantised("bfloat16"), None)
CASES = [*linear_cases(BF16), odd_case(BF16), float32_case(BF16)]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer_is_the_checkpoint(case: LinearCase) -> None:
    method = Method(Unquantised(case.dtype), None)
    examine_case(replace(case, method=method), seed_of(case), device()).require()
