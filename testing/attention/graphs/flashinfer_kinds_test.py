"""As `cuda_graph_test`, of layers for which FlashInfer compiles kernels of their own: by night."""

import pytest

from testing.attention.attention_cases import flashinfer_kinds, takes
from testing.attention.graphs.graph_calls import CALLS
from testing.harness.attention.graphs import require_replays

# The same layers as in testing/attention/dense, so that a run compiles them once.
LAYERS = {
    name: case for name, case in flashinfer_kinds().items() if name in ("cap", "fp8", "sinks")
}
RUNS = [(name, mode) for name, case in LAYERS.items() for mode in CALLS if takes(case, mode)]


@pytest.mark.parametrize(("name", "mode"), RUNS)
def test_replays_are_what_the_layer_gives_outside(name: str, mode: str) -> None:
    require_replays(LAYERS[name], CALLS[mode], seed=6)
