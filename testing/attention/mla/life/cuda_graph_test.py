"""MLA decode, captured and replayed, gives bit for bit the eager result, at other lengths too."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from testing.attention.mla import cases
from testing.attention.mla.call import Call, random_call
from testing.attention.mla.examine import seed_of
from testing.attention.mla.layer import DEEPSEEK, Inputs, LoadedMla, MlaCase, build
from testing.harness.device import device
from testing.oracles.attention.paging import Int64

# Room for as many pages in the first batch as in the second.
FIRST = MlaCase("decode", (1,) * 5, (200, 64, 65, 1, 130), page_size=64, shape=DEEPSEEK)
SECOND = replace(FIRST, kv_lens=(201, 1, 129, 64, 3))
FP8 = replace(FIRST, fp8_scale=0.0371)
CHAIN = replace(cases.CHAIN, shape=DEEPSEEK, page_size=64, kv_lens=(150, 4, 70, 65))
SECOND_CHAIN = replace(CHAIN, kv_lens=(151, 64, 4, 68))
BACKENDS: list[tuple[Any, MlaCase, MlaCase]] = [
    ({"decode": "flashmla"}, FIRST, SECOND),
    ("flashinfer", FIRST, SECOND),
    ("triton", FIRST, SECOND),
    ("triton", CHAIN, SECOND_CHAIN),
    ("triton", FP8, replace(FP8, kv_lens=SECOND.kv_lens)),
]
NAMES = ["flashmla", "flashinfer", "triton", "drafts", "fp8"]


def copy_into(held: Inputs, inputs: Inputs, lengths: tuple[int, ...]) -> None:
    """Another step's tensors in the memory that a graph reads."""
    for name in ("q", "kv_c", "k_pe", "positions"):
        getattr(held, name).copy_(getattr(inputs, name))
    held.cache.pages.copy_(inputs.cache.pages)
    held.metadata.update(lengths, inputs.metadata.page_table)


def captured(loaded: LoadedMla, inputs: Inputs) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    loaded.layer.plan(inputs.cache, inputs.metadata)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        inputs.forward(loaded.layer)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = inputs.forward(loaded.layer)
    return graph, output


@pytest.mark.parametrize(("backend", "first", "second"), BACKENDS, ids=NAMES)
def test_replay_is_eager_bit_for_bit(backend: Any, first: MlaCase, second: MlaCase) -> None:
    rng = np.random.default_rng(seed_of(first))
    checkpoint = first.checkpoint(rng)
    calls: list[Call] = [
        random_call(replace(case, backend=backend), checkpoint, rng) for case in (first, second)
    ]
    # Same room in both: the table and the pool of the larger one.
    pages = max(call.plan.num_pages for call in calls)
    width = max(call.plan.tables.shape[1] for call in calls)
    calls = [widened(call, pages, width) for call in calls]
    loaded = build(calls[0].case, checkpoint, device())
    held = calls[0].inputs(device())
    graph, output = captured(loaded, held)
    for call in (*calls, calls[0]):
        inputs = call.inputs(device())
        copy_into(held, inputs, call.case.kv_lens)
        graph.replay()
        torch.cuda.synchronize()
        replayed, written = output.clone(), held.cache.pages.clone()
        eager = inputs.forward(loaded.layer)
        torch.cuda.synchronize()
        assert torch.isfinite(replayed).all()
        assert torch.equal(replayed.view(torch.int16), eager.view(torch.int16))
        assert torch.equal(written.view(torch.int16), inputs.cache.pages.view(torch.int16))


def widened(call: Call, pages: int, width: int) -> Call:
    """The call with a page table and a pool of these sizes; what is added is nobody's."""
    plan = call.plan
    table: Int64 = np.full((len(plan.tables), width), -1, np.int64)
    table[:, : plan.tables.shape[1]] = plan.tables
    return replace(call, plan=replace(plan, num_pages=pages, tables=table))
