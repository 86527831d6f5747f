"""As `flashinfer_test`, of layers for which FlashInfer compiles kernels of their own: by night."""

import pytest

from testing.attention.attention_cases import CALLS, layers_of, seed_of
from testing.harness.attention.backends import list_attention_backends, require_right_or_refused

list_attention_backends()
LAYERS = layers_of("flashinfer", kinds=True)


@pytest.mark.parametrize("mode", CALLS)
@pytest.mark.parametrize("name", LAYERS)
def test_output_and_cache(name: str, mode: str) -> None:
    case = LAYERS[name]
    require_right_or_refused(case, CALLS[mode], seed_of(case, mode))
