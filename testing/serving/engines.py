"""An engine over the known model, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from layers.serving.memory.page_pool import PagePool
from layers.serving.messages import Generate, SamplingParams, TokenLogprobs
from layers.serving.running.runner import Runner
from layers.serving.scheduling.engine import Engine
from layers.serving.scheduling.scheduler import Limits, Scheduler
from layers.serving.speculation.drafter import Drafter
from testing.serving.known_model import KnownConfig, KnownModel


@dataclass
class Result:
    """What came out for one text, over all steps."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    finish: str = ""


@dataclass
class Bench:
    """An engine and its parts."""

    model: KnownModel
    runner: Runner
    pool: PagePool
    scheduler: Scheduler
    engine: Engine
    results: dict[int, Result] = field(default_factory=dict)

    def add(self, choice: int, ids: Sequence[int], params: SamplingParams) -> None:
        """Puts a text into the queue."""
        self.results[choice] = Result()
        self.engine.add(Generate(choice, list(ids), params, 0, []))

    def step(self) -> None:
        """One step; its outputs go into `results`."""
        for _, output in self.engine.step():
            result = self.results[output.choice]
            assert not result.finish, f"choice {output.choice} got tokens behind its end"
            result.ids += output.ids
            result.logprobs += output.logprobs
            result.finish = output.finish

    def run(self, most: int = 100_000) -> None:
        """Steps until all texts have ended."""
        for _ in range(most):
            if self.engine.is_idle:
                return
            self.step()
        raise AssertionError(f"{most} steps, and {len(self.scheduler.running)} texts still run")


def make_bench(
    *,
    num_pages: int = 257,
    page_size: int = 16,
    max_running: int = 16,
    step_tokens: int = 256,
    draft_tokens: int = 0,
    use_prefix_cache: bool = True,
    config: KnownConfig | None = None,
) -> Bench:
    """Builds them as the scheduler's process does."""
    model = KnownModel(config)
    pool = PagePool(num_pages)
    limits = Limits(max_running, step_tokens, page_size, draft_tokens, use_prefix_cache)
    scheduler = Scheduler(limits, pool)
    runner = Runner(model, num_pages, page_size, with_draft=draft_tokens > 0)
    drafter = Drafter(runner, draft_tokens, page_size) if draft_tokens else None
    engine = Engine(runner, scheduler, model.config.eos_token_ids, drafter)
    return Bench(model, runner, pool, scheduler, engine)
