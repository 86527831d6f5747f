"""A call as a CUDA graph, so that the host's time for launches is not taken for the GPU's."""

from __future__ import annotations

import torch

from testing.perf.timing import Call


def graphed(call: Call, device: torch.device) -> Call:
    """The replay of a call that was captured; on a CPU the call itself.

    The call runs once before: it may plan and compile, and must not wait for the GPU the next time.
    """
    call()
    if device.type != "cuda":
        return call
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    replay: Call = graph.replay
    return replay
