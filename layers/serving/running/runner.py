"""Runs batches on one rank: the model, its caches, and what a draft needs of the last batch."""

from __future__ import annotations

from typing import Protocol

import torch

from layers.serving.running.batch import Batch, metadata_of
from layers.serving.running.graphs import Captured, DecodeGraphs, GraphPlan
from layers.serving.running.model import Caches, Model


class Executor(Protocol):
    """What runs batches: one rank, or rank 0 with others behind it."""

    def target(self, batch: Batch) -> torch.Tensor:
        """As `Runner.target`."""

    def draft_first(self, input_ids: list[int], rows: list[int]) -> torch.Tensor:
        """As `Runner.draft_first`."""

    def draft_next(self, batch: Batch) -> torch.Tensor:
        """As `Runner.draft_next`."""


class Runner:
    """One rank's share of the model.

    Args:
        model: loaded.
        num_pages, page_size: of the caches; page 0 is nobody's.
        dtype: of the caches; None is the model's.
        with_draft: whether the model's draft module runs.
        graphs: the decode batches to capture, on a GPU; None runs each from Python.
    """

    def __init__(
        self,
        model: Model,
        num_pages: int,
        page_size: int,
        *,
        dtype: torch.dtype | None = None,
        with_draft: bool = False,
        graphs: GraphPlan | None = None,
    ) -> None:
        self.model = model
        self.page_size = page_size
        self.draft_caches: Caches = []
        with torch.inference_mode():
            self.caches = model.make_caches(num_pages, page_size, dtype)
            if with_draft:
                self.draft_caches = model.draft.make_caches(num_pages, page_size, dtype)
            self.graphs = graphs and DecodeGraphs(graphs, model, self.caches, self.draft_caches)

    def target(self, batch: Batch) -> torch.Tensor:
        """The model's logits of `batch.rows`: (n, vocab_size) float32.

        What `draft_first` needs is kept until the next call.
        """
        with torch.inference_mode():
            self._run_target(batch)
            if not batch.rows:
                nothing = (0, self.model.config.vocab_size)
                return self._hidden.new_empty(nothing, dtype=torch.float32)
            return self.model.logits(self._hidden[self._tensor(batch.rows)])

    def draft_first(self, input_ids: list[int], rows: list[int]) -> torch.Tensor:
        """The draft module's logits behind the batch that `target` ran.

        Args:
            input_ids: T, the token behind each row of that batch.
            rows: whose logits are wanted; `draft_next` goes on from these.

        Returns:
            (n, vocab_size) float32; (0, hidden) without rows.
        """
        with torch.inference_mode():
            if self.graphs and self._captured is not None:
                hidden = self.graphs.first(self._captured).replay(input_ids)
            else:
                hidden = self.model.draft.forward(
                    self._tensor(input_ids),
                    self._metadata.positions,
                    self._hidden,
                    self.draft_caches,
                    self._metadata,
                )
            return self._draft_logits(hidden[self._tensor(rows)])

    def draft_next(self, batch: Batch) -> torch.Tensor:
        """The draft module's logits one token further, of a decode batch of the same texts.

        Args:
            batch: its texts are those of `draft_first`'s rows, in the same order.
        """
        with torch.inference_mode():
            captured = self.graphs.next(batch.num_texts) if self.graphs else None
            if captured is not None:
                assert captured.previous is not None
                captured.update(batch)
                captured.previous[: batch.num_texts].copy_(self._draft_hidden)
                hidden = captured.replay(batch.input_ids)[: batch.num_texts]
            else:
                metadata = metadata_of(batch, self.page_size, self.model.device)
                hidden = self.model.draft.forward(
                    self._tensor(batch.input_ids),
                    metadata.positions,
                    self._draft_hidden,
                    self.draft_caches,
                    metadata,
                )
            return self._draft_logits(hidden)

    def _run_target(self, batch: Batch) -> None:
        self._captured: Captured | None = self.graphs.target(batch) if self.graphs else None
        if self._captured is not None:
            self._captured.update(batch)
            self._hidden = self._captured.replay(batch.input_ids)
            return
        self._metadata = metadata_of(batch, self.page_size, self.model.device)
        ids = self._tensor(batch.input_ids)
        self._hidden = self.model.forward(
            ids, self._metadata.positions, self.caches, self._metadata
        )

    def _draft_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        self._draft_hidden = hidden
        return self.model.logits(hidden) if len(hidden) else hidden.float()

    def _tensor(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self.model.device)
