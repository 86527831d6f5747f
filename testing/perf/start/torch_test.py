"""What a layer's test does before it starts: import torch. Timed by //testing/perf/start."""

import torch


def test_torch_is_there() -> None:
    assert torch.ones(2).sum() == 2
