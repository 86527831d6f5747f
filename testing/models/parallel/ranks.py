"""Models in two processes, which share each layer, or the experts of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from layers.distributed.parallel_state import destroy_model_parallel, initialize_model_parallel
from layers.models.load import load_model
from testing.models.batch import Seen, previous, run, run_draft, steps, without_last

RANKS = 2


@dataclass(frozen=True)
class Job:
    """A folder to load and tokens to run, on all ranks.

    experts: ranks that share the experts; 1 splits each of them.
    drafts: also what the module that drafts makes of the batch.
    """

    folder: Path
    ids: list[list[int]]
    experts: int = 1
    drafts: bool = False


@dataclass(frozen=True)
class Sent:
    """`Seen` as numpy arrays, which outlive the process that made them."""

    logits: NDArray[Any]
    hidden: NDArray[Any]
    router_logits: list[NDArray[Any]]
    experts: list[NDArray[Any]]

    @classmethod
    def of(cls, seen: Seen) -> Sent:
        """float64 holds every value."""
        return cls(
            seen.logits.double().numpy(),
            seen.hidden.double().numpy(),
            [t.double().numpy() for t in seen.router_logits],
            [t.numpy() for t in seen.experts],
        )

    def seen(self) -> Seen:
        """As tensors again."""
        return Seen(
            torch.from_numpy(self.logits),
            torch.from_numpy(self.hidden),
            [torch.from_numpy(a) for a in self.router_logits],
            [torch.from_numpy(a) for a in self.experts],
        )


def run_rank(rank: int, jobs: list[Job], cuda: bool) -> list[list[Sent]]:
    """In a process: each job's batch in chunks and steps, and what is drafted if it is."""
    torch.set_num_threads(1)
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    return [[Sent.of(seen) for seen in _seen(job, device)] for job in jobs]


def _seen(job: Job, device: torch.device) -> Iterator[Seen]:
    destroy_model_parallel()
    initialize_model_parallel(tensor_parallel_size=RANKS, expert_parallel_size=job.experts)
    ids = [torch.tensor(tokens) for tokens in job.ids]
    model = load_model(job.folder, device=device)
    seen = run(model, ids, steps())
    yield seen
    if job.drafts:
        yield run_draft(model, ids, previous(seen), without_last(steps()))
