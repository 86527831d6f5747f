"""Attention in a window by FlashInfer, of layers with kernels of their own: by night."""

import pytest

from testing.attention.attention_cases import (
    CALLS,
    flashinfer_kinds,
    seed_of,
    takes,
    templates_of,
)
from testing.harness.attention.backends import (
    compile_ahead,
    list_attention_backends,
    require_right,
)

list_attention_backends()
LAYERS = flashinfer_kinds(window=True)
RUNS = [(name, mode) for name, case in LAYERS.items() for mode in CALLS if takes(case, mode)]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    for case in LAYERS.values():
        compile_ahead(case, templates_of(case))


@pytest.mark.parametrize(("name", "mode"), RUNS)
def test_output_and_cache(name: str, mode: str) -> None:
    case = LAYERS[name]
    require_right(case, CALLS[mode], seed_of(case, mode))
