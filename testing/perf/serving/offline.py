"""A serving engine without a server: scheduler, pages, model and sampling in this process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from layers.serving.memory.page_pool import PagePool
from layers.serving.messages import Generate, SamplingParams
from layers.serving.running.graphs import GraphPlan
from layers.serving.running.runner import Runner
from layers.serving.scheduling.engine import Engine
from layers.serving.scheduling.scheduler import Limits, Scheduler


class OfflineEngine:
    """Generates for batches of any size.

    model: of `layers.models.load.load_model`.
    max_running: texts of a step; on a GPU the batches up to it are captured as graphs.
    longest: tokens of a text, the generated ones included.
    """

    def __init__(
        self, model: Any, max_running: int, longest: int, num_pages: int = 1024, page_size: int = 16
    ) -> None:
        # No prefix is reused: each text is computed, as the bare loop does.
        limits = Limits(max_running, 4096, page_size, 0, use_prefix_cache=False)
        graphs = None
        if model.device.type == "cuda":
            graphs = GraphPlan((max_running,), limits.pages_for(longest), page_size)
        scheduler = Scheduler(limits, PagePool(num_pages))
        runner = Runner(model, num_pages, page_size, graphs=graphs)
        self._engine = Engine(runner, scheduler, model.config.eos_token_ids)
        self._texts = 0

    def run(self, prompts: Sequence[Sequence[int]], num_tokens: int) -> tuple[float, int]:
        """Greedy, `num_tokens` of each text, its end or not.

        Returns:
            Seconds, and tokens generated.
        """
        params = SamplingParams(temperature=0.0, max_tokens=num_tokens, ignore_eos=True)
        began, generated = time.perf_counter(), 0
        for prompt in prompts:
            self._texts += 1
            self._engine.add(Generate(self._texts, list(prompt), params, 0, []))
        while not self._engine.is_idle:
            generated += sum(len(output.ids) for _, output in self._engine.step())
        return time.perf_counter() - began, generated
