"""int8 128x128-block linear layers against the checkpoint's own meaning."""

from dataclasses import replace

import pytest

import layers.quantization.blockwise_int8  # noqa: F401 registers itself
from testing.harness.device import device, promised
from testing.harness.linear import LinearCase, new_layer
from testing.harness.linear_probes import examine_case
from testing.quant.int8.methods import BLOCK, BLOCK_BACKENDS
from testing.quant.linear_cases import case_id, float32_case, linear_cases, odd_case, seed_of

CASES = [*linear_cases(BLOCK), odd_case(BLOCK), float32_case(BLOCK)]


@pytest.mark.parametrize("backend", promised(BLOCK_BACKENDS))
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer_is_the_checkpoint(case: LinearCase, backend: str) -> None:
    examine_case(replace(case, backend=backend), seed_of(case), device()).require()


def test_a_shard_boundary_inside_a_block_is_refused() -> None:
    case = LinearCase(BLOCK, "merged", 4, {"gate": 160, "up": 256}, 256)
    with pytest.raises(ValueError, match=r"gate_up_proj.*shard 0 has 160 of 160 rows.*128 rows"):
        new_layer(case, device())
