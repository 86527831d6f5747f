"""The scheduler's process, which is rank 0 as well: requests in, tokens out."""

from __future__ import annotations

import time
from collections.abc import Iterable

import zmq

from layers.kernels.capability import BackendUnavailable
from layers.serving.memory.page_pool import PagePool
from layers.serving.messages import (
    Abort,
    Failed,
    Generate,
    LateKernels,
    NewTokens,
    Ready,
    Stats,
    Stop,
    Tokens,
    ToScheduler,
    decoder,
)
from layers.serving.options import Options
from layers.serving.running.kernels import KernelWatch
from layers.serving.running.ranks import RankGroup
from layers.serving.scheduling.engine import Counts, Engine
from layers.serving.scheduling.scheduler import Scheduler
from layers.serving.speculation.drafter import Drafter
from layers.serving.workers.endpoints import Endpoints, inbox, outbox, received, tell
from layers.serving.workers.loading import Loaded, load
from layers.serving.workers.warm_up import warm_up

NAME = "scheduler"
STATS_SECONDS = 0.25


class SchedulerWorker:
    """The loop between the engine and the other processes.

    Args:
        options: of the server.
        endpoints: where the others are.
    """

    def __init__(self, options: Options, endpoints: Endpoints) -> None:
        self._context = zmq.Context()
        self._inbox = inbox(self._context, endpoints.of(NAME))
        self._server = outbox(self._context, endpoints.of("server"))
        self._detokenizers = [
            outbox(self._context, endpoints.of(f"detokenizer-{number}"))
            for number in range(options.detokenizer_workers)
        ]
        others = [
            outbox(self._context, endpoints.of(f"rank-{rank}"))
            for rank in range(1, options.tensor_parallel)
        ]
        self._decoder = decoder(ToScheduler)
        self._kernels = KernelWatch(NAME)
        loaded = load(options, 0, endpoints, self._kernels)
        limits = loaded.limits
        self._ranks = RankGroup(loaded.runner, others)
        self._pool = PagePool(loaded.num_pages)
        self._scheduler = Scheduler(limits, self._pool)
        drafter = None
        if limits.draft_tokens:
            drafter = Drafter(self._ranks, limits.draft_tokens, limits.page_size)
        config = loaded.runner.model.config
        self._engine = Engine(self._ranks, self._scheduler, config.eos_token_ids, drafter)
        self._told_at = 0.0
        self._told = (0, 0)
        if options.warm_up and loaded.runner.model.device.type == "cuda":
            self._warm_up(loaded)
        self._kernels.expect_no_more()
        self._ranks.ready()
        tell(self._server, Ready(NAME, config.vocab_size, loaded.context_length))

    def run(self) -> None:
        """Steps while there are texts, else waits; ends when told to."""
        while self._take_messages():
            outputs = self._engine.step()
            has_end = any(output.finish for _, output in outputs)
            # Before the last tokens: who has an answer finds it counted.
            if has_end or time.monotonic() - self._told_at > STATS_SECONDS:
                self._tell_stats()
            self._send(outputs)
        self._ranks.stop()
        self._context.destroy()

    def _warm_up(self, loaded: Loaded) -> None:
        """Before the ready line; a CPU has nothing to compile."""
        began = time.monotonic()
        steps = warm_up(self._ranks, loaded.limits, loaded.context_length)
        print(
            f"Warmed up by {steps} steps in {time.monotonic() - began:.1f} s; of "
            f"{self._kernels.prepared} kernels {self._kernels.compiled} were compiled, the others "
            f"cached.",
            flush=True,
        )

    def _take_messages(self) -> bool:
        wait = self._engine.is_idle
        for message in received(self._inbox, self._decoder, wait=wait):
            if isinstance(message, Stop):
                return False
            if isinstance(message, Generate):
                self._engine.add(message)
            elif isinstance(message, Abort):
                ended = self._engine.abort(message.choice)
                if ended is not None:
                    self._tell_stats()
                    self._send([ended])
        return True

    def _send(self, outputs: Iterable[tuple[int, NewTokens]]) -> None:
        by_worker: dict[int, list[NewTokens]] = {}
        for detokenizer, output in outputs:
            by_worker.setdefault(detokenizer, []).append(output)
        for detokenizer, mine in by_worker.items():
            tell(self._detokenizers[detokenizer], Tokens(mine))

    def _tell_stats(self) -> None:
        scheduler, counts = self._scheduler, self._engine.counts
        self._engine.counts = Counts()
        totals = (scheduler.num_prefix_hits, scheduler.num_preemptions)
        hits, preemptions = (now - then for now, then in zip(totals, self._told, strict=True))
        self._told = totals
        self._told_at = time.monotonic()
        idle = self._pool.num_idle
        stats = Stats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            pages_total=self._pool.num_usable,
            pages_used=self._pool.num_usable - self._pool.num_free - idle,
            pages_cached=idle,
            prefix_hit_tokens=hits,
            preemptions=preemptions,
            drafted=counts.drafted,
            accepted=counts.accepted,
            accept_lengths=counts.accept_lengths,
        )
        tell(self._server, stats)
        if late := self._kernels.late_since():
            tell(self._server, LateKernels(late))


def run(options: Options, endpoints: Endpoints) -> None:
    """Works until it is told to stop; tells the server why if it cannot start."""
    try:
        worker = SchedulerWorker(options, endpoints)
    except (BackendUnavailable, ValueError, OSError) as error:
        report_failure(NAME, endpoints, error)
        return
    worker.run()


def report_failure(name: str, endpoints: Endpoints, error: Exception) -> None:
    """Tells the server what the user can mend."""
    context = zmq.Context()
    # A name of a file may hold what UTF-8 cannot.
    said = str(error).encode(errors="backslashreplace").decode()
    tell(outbox(context, endpoints.of("server")), Failed(name, said))
    context.destroy()
