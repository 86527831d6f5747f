"""CUDA graphs of decode batches: a forward launched as one piece, for a few batch sizes.

A graph's memory and grids are those of its capture, so batches are filled up to the next captured
size with texts of page 0, which no text owns. Prompts are run from Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from layers.attention.metadata import AttentionMetadata
from layers.serving.running.batch import Batch, make_metadata
from layers.serving.running.model import Caches, Model

Forward = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class GraphPlan:
    """Which batches are captured.

    Attributes:
        sizes: texts of a batch, ascending.
        width: pages of the longest text.
        page_size: tokens a page.
        draft_tokens: of each text; 0 without speculation.
    """

    sizes: tuple[int, ...]
    width: int
    page_size: int
    draft_tokens: int = 0


@dataclass
class Captured:
    """One graph and the memory that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    metadata: AttentionMetadata
    input_ids: torch.Tensor
    previous: torch.Tensor | None
    output: torch.Tensor

    @property
    def num_rows(self) -> int:
        """T, the rows that only fill up included."""
        return int(self.input_ids.shape[0])

    def update(self, batch: Batch) -> None:
        """Puts a batch's lengths and pages where the graph reads them."""
        metadata = self.metadata
        filling = metadata.num_requests - batch.num_texts
        kv_lens = [*batch.kv_lens, *[metadata.max_query_len] * filling]
        table = batch.pages(*metadata.page_table.shape)
        metadata.update(kv_lens, table.to(metadata.page_table.device))

    def replay(self, input_ids: Sequence[int]) -> torch.Tensor:
        """(T, hidden), overwritten by the next replay; the first rows are those of the batch."""
        filled = [*input_ids, *[0] * (self.num_rows - len(input_ids))]
        self.input_ids.copy_(torch.tensor(filled, dtype=torch.int64))
        self.graph.replay()
        return self.output


class DecodeGraphs:
    """The graphs of one rank.

    Args:
        plan: which batches.
        model: loaded, on a GPU.
        caches, draft_caches: that the graphs read and write; of the draft empty without one.
    """

    def __init__(self, plan: GraphPlan, model: Model, caches: Caches, draft_caches: Caches) -> None:
        self._plan = plan
        self._model = model
        self._pool = torch.cuda.graph_pool_handle()
        self._target: dict[int, Captured] = {}
        self._first: dict[int, Captured] = {}
        self._next: dict[int, Captured] = {}
        # The largest first: the smaller ones fit into its memory.
        for size in sorted(plan.sizes, reverse=True):
            target = self._capture_target(size, caches)
            self._target[size] = target
            if plan.draft_tokens:
                self._first[size] = self._capture_draft(
                    target.metadata, target.output, draft_caches
                )
                metadata = self._metadata("decode", size, 1)
                hidden = target.output.new_zeros((size, target.output.shape[1]))
                self._next[size] = self._capture_draft(metadata, hidden, draft_caches)

    def target(self, batch: Batch) -> Captured | None:
        """The graph that can run a batch, or None."""
        wanted = 1 + self._plan.draft_tokens
        fits = batch.mode == ("draft" if self._plan.draft_tokens else "decode")
        if not fits or batch.query_lens[0] != wanted:
            return None
        return self._smallest(self._target, batch.num_texts)

    def first(self, target: Captured) -> Captured:
        """The draft module's graph over the batch that `target` ran."""
        return self._first[target.metadata.num_requests]

    def next(self, num_texts: int) -> Captured | None:
        """The draft module's graph of so many texts, one token each."""
        return self._smallest(self._next, num_texts)

    @staticmethod
    def _smallest(graphs: dict[int, Captured], num_texts: int) -> Captured | None:
        size = min((size for size in graphs if size >= num_texts), default=None)
        return None if size is None else graphs[size]

    def _metadata(self, mode: str, size: int, query_len: int) -> AttentionMetadata:
        plan = self._plan
        shape = (size, plan.width)
        pages = torch.zeros(shape, dtype=torch.int32, device=self._model.device)
        lengths = [query_len] * size
        return make_metadata(mode, lengths, lengths, pages, plan.page_size)

    def _ids(self, metadata: AttentionMetadata) -> torch.Tensor:
        return torch.zeros(metadata.num_tokens, dtype=torch.int64, device=self._model.device)

    def _capture_target(self, size: int, caches: Caches) -> Captured:
        mode = "draft" if self._plan.draft_tokens else "decode"
        metadata = self._metadata(mode, size, 1 + self._plan.draft_tokens)
        ids = self._ids(metadata)
        self._model.plan(caches, metadata)
        return self._capture(
            lambda: self._model.forward(ids, metadata.positions, caches, metadata),
            metadata,
            ids,
            None,
        )

    def _capture_draft(
        self, metadata: AttentionMetadata, hidden: torch.Tensor, caches: Caches
    ) -> Captured:
        ids = self._ids(metadata)
        draft = self._model.draft
        draft.plan(caches, metadata)
        return self._capture(
            lambda: draft.forward(ids, metadata.positions, hidden, caches, metadata),
            metadata,
            ids,
            hidden,
        )

    def _capture(
        self,
        forward: Forward,
        metadata: AttentionMetadata,
        ids: torch.Tensor,
        previous: torch.Tensor | None,
    ) -> Captured:
        # Kernels compile, and libraries take their workspaces, outside the capture.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                forward()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = forward()
        return Captured(graph, metadata, ids, previous, output)
