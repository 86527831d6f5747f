"""Starts the workers, notices the first that ends, and leaves none behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

from layers.serving.options import Options
from layers.serving.tokenizing.files import TokenizerFiles
from layers.serving.workers import detokenizer, tokenizer
from layers.serving.workers.endpoints import Endpoints
from layers.serving.workers.process import Worker, start

STOP_SECONDS = 10.0


def start_all(options: Options, endpoints: Endpoints, files: TokenizerFiles) -> list[Worker]:
    """Forks every worker; the caller must have one thread alone."""
    workers = [start("scheduler", _scheduler, options, endpoints)]
    for rank in range(1, options.tensor_parallel):
        workers.append(start(f"rank-{rank}", _rank, rank, options, endpoints))
    for number in range(options.tokenizer_workers):
        name = f"tokenizer-{number}"
        workers.append(start(name, tokenizer.run, name, endpoints, files))
    for number in range(options.detokenizer_workers):
        name = f"detokenizer-{number}"
        workers.append(start(name, detokenizer.run, name, endpoints, files.tokenizer))
    return workers


def _scheduler(*arguments: Any) -> None:
    # Here alone: the other processes do without torch.
    from layers.serving.workers import scheduler

    scheduler.run(*arguments)


def _rank(*arguments: Any) -> None:
    from layers.serving.workers import rank

    rank.run(*arguments)


def watch(loop: Any, workers: list[Worker], died: Callable[[Worker], None]) -> None:
    """Calls `died` in the event loop for each worker that ends."""
    for worker in workers:
        loop.add_reader(worker.process.sentinel, _noticed, loop, worker, died)


def unwatch(loop: Any, workers: list[Worker]) -> None:
    """Ends `watch`."""
    for worker in workers:
        loop.remove_reader(worker.process.sentinel)


def _noticed(loop: Any, worker: Worker, died: Callable[[Worker], None]) -> None:
    loop.remove_reader(worker.process.sentinel)
    worker.process.join()
    died(worker)


def end_all(workers: list[Worker], *, at_once: bool) -> list[Worker]:
    """Waits for workers that were told to stop, and kills those that do not.

    Args:
        workers: all.
        at_once: kill without waiting: one of them is gone, and others may wait for it for ever.

    Returns:
        Those that were killed.
    """
    deadline = time.monotonic() + (0 if at_once else STOP_SECONDS)
    left: dict[object, Worker] = {worker.process.sentinel: worker for worker in workers}
    while left:
        seconds = max(0.0, deadline - time.monotonic())
        ended = wait([worker.process.sentinel for worker in left.values()], timeout=seconds)
        if not ended:
            break
        for sentinel in ended:
            left.pop(sentinel)
    for worker in left.values():
        worker.process.kill()
    for worker in workers:
        worker.process.join()
    return list(left.values())
