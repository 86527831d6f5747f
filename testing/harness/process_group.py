"""Run one function in several processes that form a torch.distributed world.

Each process is a fresh Python (spawn): the function is found by its module and name, so it must be
at the top level of a module that can be imported. A failure in any process fails the test with
that process's traceback, and no process outlives the call.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from layers.distributed.parallel_state import (
    destroy_distributed_environment,
    init_distributed_environment,
)

# A process that has answered has nothing left to do but to unload its libraries.
END_SECONDS = 20.0

_CONTEXT = multiprocessing.get_context("spawn")


class ProcessFailed(AssertionError):
    """A process raised, died or did not end in time; the message holds its traceback."""


@dataclass
class _Child:
    rank: int
    process: BaseProcess
    answers: Connection


@dataclass(frozen=True)
class _Success:
    value: Any


@dataclass(frozen=True)
class _Failure:
    rank: str
    when: float
    what: str


def run_in_processes(
    function: Callable[..., Any],
    world_size: int,
    *arguments: Any,
    backend: str = "gloo",
    seconds: float = 120,
) -> list[Any]:
    """Call `function(rank, *arguments)` in each of `world_size` processes of one world.

    backend: "gloo", or "nccl" where this machine has a GPU for each process.
    seconds: for all of them together, imports included.

    Returns what each rank returned, by rank. Arguments and results are pickled.

    Raises ProcessFailed with the failing ranks' tracebacks, the first to fail first, with the
    ranks that gave no answer, or with those that answered and then crashed or hung.
    """
    with tempfile.TemporaryDirectory(prefix="world-") as folder:
        # A file is the meeting point: a port that was free a moment ago may not be free now.
        meeting = f"file://{Path(folder) / 'meeting'}"
        children: list[_Child] = []
        try:
            for rank in range(world_size):
                task = (function, rank, world_size, meeting, backend, seconds, arguments)
                children.append(_start(rank, task))
            results = _collect(children, seconds)
            _require_orderly_end(children)
            return results
        finally:
            for child in children:
                _end(child.process)


def _start(rank: int, task: tuple[Any, ...]) -> _Child:
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(
        target=_child_main, args=(sender, *task), name=f"rank {rank}", daemon=True
    )
    with _ImportableMain():
        process.start()
    sender.close()
    return _Child(rank, process, receiver)


class _ImportableMain:
    """Keeps spawn from running the parent's script again in the child.

    The parent's __main__ is the pytest entry; a child that ran it under another name would only
    lose time. The function's own module is imported by name all the same.
    """

    def __enter__(self) -> None:
        main: Any = sys.modules["__main__"]
        self.kept = (getattr(main, "__file__", None), getattr(main, "__spec__", None))
        main.__file__, main.__spec__ = None, None

    def __exit__(self, *_: object) -> None:
        main: Any = sys.modules["__main__"]
        main.__file__, main.__spec__ = self.kept


def _child_main(
    answers: Connection,
    function: Callable[..., Any],
    rank: int,
    world_size: int,
    meeting: str,
    backend: str,
    seconds: float,
    arguments: tuple[Any, ...],
) -> None:
    try:
        init_distributed_environment(
            world_size=world_size,
            rank=rank,
            local_rank=rank,
            init_method=meeting,
            backend=backend,
            timeout=timedelta(seconds=seconds),
        )
        result = function(rank, *arguments)
        destroy_distributed_environment()
        answers.send(_Success(result))
    except BaseException:
        what = f"raised:\n{traceback.format_exc()}"
        answers.send(_Failure(f"rank {rank}", time.time(), what))
        # Other ranks may wait for this one in a collective: no orderly end is left to it.
        answers.close()
        sys.stderr.flush()
        os._exit(1)


def _collect(children: list[_Child], seconds: float) -> list[Any]:
    deadline = time.monotonic() + seconds
    results: dict[int, Any] = {}
    failures: list[_Failure] = []
    waiting: dict[Any, _Child] = {child.answers: child for child in children}
    while waiting:
        ready = wait(list(waiting), timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            break
        for connection in ready:
            child = waiting.pop(connection)
            answer = _answer(child)
            if isinstance(answer, _Failure):
                failures.append(answer)
                # The other ranks' errors follow from this one; do not wait for them long.
                deadline = min(deadline, time.monotonic() + 1)
            else:
                results[child.rank] = answer.value
    if failures:
        failures.sort(key=lambda failure: failure.when)
        raise ProcessFailed("\n".join(f"{f.rank} of {len(children)} {f.what}" for f in failures))
    if waiting:
        ranks = ", ".join(str(child.rank) for child in waiting.values())
        raise ProcessFailed(
            f"ranks {ranks} of {len(children)} gave no answer within {seconds:g} s: "
            "a collective that not every rank enters, or a machine that is too slow"
        )
    return [results[child.rank] for child in children]


def _answer(child: _Child) -> _Success | _Failure:
    try:
        answer: _Success | _Failure = child.answers.recv()
        return answer
    except EOFError:
        child.process.join(5)
        code = child.process.exitcode
        what = f"died with exit code {code} before it answered"
        return _Failure(f"rank {child.rank}", time.time(), what)


def _require_orderly_end(children: list[_Child]) -> None:
    deadline = time.monotonic() + END_SECONDS
    wrong = []
    for child in children:
        child.process.join(max(0.0, deadline - time.monotonic()))
        code = child.process.exitcode
        if code is None:
            wrong.append(f"rank {child.rank} answered, but did not end within {END_SECONDS:g} s")
        elif code:
            wrong.append(f"rank {child.rank} answered, then ended with exit code {code}")
    if wrong:
        raise ProcessFailed("\n".join(wrong))


def _end(process: BaseProcess) -> None:
    if process.is_alive():
        process.kill()
        process.join()
    process.close()
