"""Steps: plan, run the model, choose tokens, verify drafts, and end texts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import torch

from layers.serving.messages import Generate, NewTokens, TokenLogprobs
from layers.serving.running.batch import Batch, pack_pages
from layers.serving.running.runner import Executor
from layers.serving.sampling.logprobs import logprobs_of
from layers.serving.sampling.sampler import sample
from layers.serving.scheduling.request import Request
from layers.serving.scheduling.scheduler import Scheduler
from layers.serving.scheduling.step import Part, Step
from layers.serving.speculation.drafter import Computed, Drafter
from layers.serving.speculation.verify import accept


@dataclass
class Counts:
    """What happened since somebody last asked.

    Attributes:
        drafted: tokens that the draft module proposed.
        accepted: those of them that texts got.
        accept_lengths: tokens that a text got of each verification, the model's own included.
    """

    drafted: int = 0
    accepted: int = 0
    accept_lengths: list[int] = field(default_factory=list)


class Engine:
    """A model that generates many texts at once.

    Args:
        executor: runs the model.
        scheduler: decides what it runs.
        eos_token_ids: any of them ends a text.
        drafter: proposes tokens, or None to generate one token a step and text.
    """

    def __init__(
        self,
        executor: Executor,
        scheduler: Scheduler,
        eos_token_ids: Collection[int],
        drafter: Drafter | None = None,
    ) -> None:
        self._executor = executor
        self._scheduler = scheduler
        self._eos = frozenset(eos_token_ids)
        self._drafter = drafter
        self._requests: dict[int, Request] = {}
        self.counts = Counts()

    @property
    def is_idle(self) -> bool:
        """Whether no text is in the making."""
        return not self._requests

    def add(self, message: Generate) -> None:
        """Takes a text.

        Raises:
            ValueError: its number is in use, or the cache is too small for it.
        """
        if message.choice in self._requests:
            raise ValueError(f"choice {message.choice} is in the making already")
        request = Request(
            choice=message.choice,
            tokens=list(message.ids),
            num_prompt=len(message.ids),
            params=message.params,
            detokenizer=message.detokenizer,
            stop=message.stop,
        )
        self._scheduler.add(request)
        self._requests[message.choice] = request

    def abort(self, choice: int) -> tuple[int, NewTokens] | None:
        """Ends a text that nobody waits for; one that has ended already is no error.

        Returns:
            Its detokenizer and the last word for it; None if there is no such text.
        """
        request = self._requests.pop(choice, None)
        if request is None:
            return None
        self._scheduler.remove(request)
        return request.detokenizer, NewTokens(choice, [], [], [], "abort")

    def step(self) -> list[tuple[int, NewTokens]]:
        """Runs one step.

        Returns:
            For each text that got tokens: its detokenizer, and these.
        """
        step = self._scheduler.plan()
        if step is None:
            return []
        batch, row_counts = self._batch(step)
        logits = self._executor.target(batch)
        chosen = self._sample(step, logits)
        outputs: list[tuple[int, NewTokens]] = []
        computed: list[Computed] = []
        first = 0
        for part, rows in zip(step.parts, row_counts, strict=True):
            mine = slice(first, first + rows)
            first += rows
            if not rows:
                computed.append(Computed(part, (), goes_on=False))
                continue
            output = self._extend(part, chosen[mine], logits[mine])
            computed.append(Computed(part, tuple(output.ids), goes_on=not output.finish))
            outputs.append((part.request.detokenizer, output))
        if self._drafter is not None:
            self._drafter.propose(computed)
        for c in computed:
            self._scheduler.computed(c.part.request, c.part.end + max(len(c.new) - 1, 0))
        for _, output in outputs:
            if output.finish:
                self._scheduler.remove(self._requests.pop(output.choice))
        return outputs

    def _batch(self, step: Step) -> tuple[Batch, list[int]]:
        """What the ranks run, and how many rows' logits each part wants."""
        page_size = self._scheduler.limits.page_size
        ids: list[int] = []
        rows: list[int] = []
        row_counts: list[int] = []
        for part in step.parts:
            ids += part.request.tokens[part.start : part.end]
            if part.is_sampled:
                rows += range(len(ids) - 1, len(ids) + len(part.drafts))
            row_counts.append((1 + len(part.drafts)) if part.is_sampled else 0)
            ids += part.drafts
        kv_lens = [part.start + part.num_rows for part in step.parts]
        counts = [-(-length // page_size) for length in kv_lens]
        batch = Batch(
            mode=step.mode,
            input_ids=ids,
            query_lens=[part.num_rows for part in step.parts],
            kv_lens=kv_lens,
            page_table=pack_pages([part.request.pages for part in step.parts], counts),
            rows=rows,
        )
        return batch, row_counts

    @staticmethod
    def _sample(step: Step, logits: torch.Tensor) -> list[int]:
        params, places = [], []
        for part in step.parts:
            if part.is_sampled:
                for behind in range(1 + len(part.drafts)):
                    params.append(part.request.params)
                    places.append(part.end + behind)
        return sample(logits, params, places)

    def _extend(self, part: Part, chosen: list[int], logits: torch.Tensor) -> NewTokens:
        """Puts a part's new tokens behind its text, up to where the text ends."""
        request = part.request
        accepted = accept(part.drafts, chosen)
        new, finish, has_eos = self._until_end(request, accepted)
        self._count(part, len(new), min(len(new), len(accepted) - 1))
        request.tokens += new
        request.drafts = []
        stop = [] if request.has_started else request.stop
        request.has_started = True
        logprobs: list[TokenLogprobs] = []
        if request.params.logprobs is not None:
            logprobs = logprobs_of(logits[: len(new)], new, [request.params.logprobs] * len(new))
        return NewTokens(request.choice, new, logprobs, stop, finish, has_eos)

    def _until_end(self, request: Request, accepted: list[int]) -> tuple[list[int], str, bool]:
        most = request.params.max_tokens - request.num_generated
        for count, token in enumerate(accepted, start=1):
            if token in self._eos and not request.params.ignore_eos:
                return accepted[:count], "stop", True
            if count == most:
                return accepted[:count], "length", False
        return accepted, "", False

    def _count(self, part: Part, num_new: int, num_accepted: int) -> None:
        """Of the text alone: what a verification has right behind its end is nobody's."""
        if part.drafts:
            self.counts.drafted += len(part.drafts)
            self.counts.accepted += num_accepted
            self.counts.accept_lengths.append(num_new)
