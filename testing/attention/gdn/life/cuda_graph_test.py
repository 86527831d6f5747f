"""Decode, captured and replayed, gives bit for bit the eager result, for other slots too."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from layers.attention.gdn.layer import GatedDeltaNet
from layers.attention.gdn.metadata import GDNMetadata
from testing.attention.gdn.backends import missing
from testing.attention.gdn.layer import QWEN, SMALL, GdnCase, Inputs, build, inputs_of
from testing.harness.device import device

REQUESTS = (1,) * 5
CASES = [
    GdnCase("decode", REQUESTS, shape=QWEN, backend="triton"),
    GdnCase("decode", REQUESTS, shape=SMALL, dtype="float16", backend="triton"),
    GdnCase("decode", REQUESTS, shape=QWEN, backend="torch"),
]
LACKS = missing("flashinfer")
# An image may hold FlashInfer without the package that its decode kernel is written in.
FLASHINFER = pytest.param(
    GdnCase("decode", REQUESTS, shape=QWEN, backend="flashinfer"),
    marks=pytest.mark.skipif(LACKS is not None, reason=f"flashinfer {LACKS}"),
)


def bits(inputs: Inputs, output: torch.Tensor) -> list[torch.Tensor]:
    """Of the output and of every slot; NaN compares as its bits."""
    conv, ssm = inputs.state.conv, inputs.state.ssm
    return [output.view(torch.int16), conv.view(torch.int16), ssm.mT.view(torch.int32)]


def capture(layer: GatedDeltaNet, inputs: Inputs) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    arguments = (inputs.mixed, inputs.a, inputs.b, inputs.state, inputs.metadata)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        layer(*arguments)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = layer(*arguments)
    return graph, output


@pytest.mark.parametrize("case", [*CASES, FLASHINFER], ids=lambda case: case.subject)
def test_replay_is_eager_bit_for_bit(case: GdnCase) -> None:
    calls = [case.call(np.random.default_rng(seed)) for seed in (1, 2)]
    layer = build(case, calls[0], device())
    first = inputs_of(layer, case, calls[0])
    slots = first.metadata.state_indices.clone()
    held = replace(first, metadata=GDNMetadata.decode(slots))
    graph, output = capture(layer, held)
    for call in (calls[1], calls[0]):
        step = inputs_of(layer, case, call)
        for name in ("mixed", "a", "b"):
            getattr(held, name).copy_(getattr(step, name))
        held.state.conv.copy_(step.state.conv)
        held.state.ssm.copy_(step.state.ssm)
        slots.copy_(step.metadata.state_indices)

        graph.replay()

        eager = layer(step.mixed, step.a, step.b, step.state, step.metadata)
        torch.cuda.synchronize()
        assert torch.isfinite(eager).all()
        for got, want in zip(bits(held, output), bits(step, eager), strict=True):
            assert torch.equal(got, want)
