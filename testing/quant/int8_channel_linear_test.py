"""Per-channel int8 linear layers against the checkpoint's own meaning."""

from dataclasses import replace

import pytest

import layers.quantization.w8a8_int8  # noqa: F401 registers itself
from layers.kernels.capability import BackendUnavailable
from testing.harness.device import device
from testing.harness.linear import LinearCase
from testing.harness.linear_probes import examine_case
from testing.quant.int8_methods import CHANNEL, CHANNEL_BACKENDS
from testing.quant.linear_cases import case_id, linear_cases, odd_case, promised, seed_of


@pytest.mark.parametrize("backend", promised(CHANNEL_BACKENDS))
@pytest.mark.parametrize("case", linear_cases(CHANNEL), ids=case_id)
def test_layer_is_the_checkpoint(case: LinearCase, backend: str) -> None:
    examine_case(replace(case, backend=backend), seed_of(case), device()).require()


@pytest.mark.parametrize("backend", promised(CHANNEL_BACKENDS))
def test_odd_sizes_are_right_or_refused_with_the_limit(backend: str) -> None:
    case = replace(odd_case(CHANNEL), backend=backend)
    if backend == "sgl_kernel":
        with pytest.raises(BackendUnavailable, match="needs K divisible by 16, K is 100"):
            examine_case(case, 0, device())
    else:
        examine_case(case, 0, device()).require()
