"""Attention in a window by our Triton kernels gives the oracle's output."""

from dataclasses import replace

import pytest

from testing.attention.attention_cases import CALLS, FEW, GARBAGE, LONG, layers_of, seed_of
from testing.harness.attention.backends import list_attention_backends, require_right

list_attention_backends()
LAYERS = layers_of("triton", window=True)


@pytest.mark.parametrize("mode", CALLS)
@pytest.mark.parametrize("name", LAYERS)
def test_output_and_cache(name: str, mode: str) -> None:
    case = LAYERS[name]
    require_right(case, CALLS[mode], seed_of(case, mode))


@pytest.mark.parametrize("mode", LONG)
def test_long_contexts(mode: str) -> None:
    case = replace(LAYERS["gqa"], window=1024)
    require_right(case, LONG[mode], seed_of(case, mode))


@pytest.mark.parametrize("mode", FEW)
def test_a_few_tokens_to_a_request(mode: str) -> None:
    case = LAYERS["gqa"]
    require_right(case, FEW[mode], seed_of(case, mode))


@pytest.mark.parametrize("mode", GARBAGE)
def test_what_stands_past_a_page_table_is_not_read(mode: str) -> None:
    case = LAYERS["gqa"]
    require_right(case, GARBAGE[mode], seed_of(case, mode))
