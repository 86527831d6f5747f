"""How long calls take, compared in pairs, so that what disturbs the machine disturbs both.

A pair is a short block of calls of each, one right after the other, who comes first taking turns.
Of many pairs only the quietest quarter counts: a block that was interrupted, or ran while a clock
was low, leaves with its pair. What is reported is the median of the pairs' differences, and how far
these spread, which says what the measurement can tell apart.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import torch

Call = Callable[[], object]
Clock = Callable[[Call, int], float]
"""Seconds that a number of calls take together."""

# Interpreters specialise code, and caches fill, in the first calls; slow ones need fewer.
WARM_UP_CALLS = 50
WARM_UP_SECONDS = 0.05
CALLS_AT_ONCE = 5
# Long enough for the clock, short enough to be spared by most interruptions.
BLOCK_SECONDS = 0.0015
MAX_REPEATS = 40
QUIETEST = 4
# More than the host takes to launch what one call does, in cycles of a fast GPU: 150 µs at 2 GHz.
LAUNCH_CYCLES = 300_000
# The first ones serve interrupts on many machines.
CORES_TRIED = 16

_T = TypeVar("_T")


@dataclass(frozen=True)
class Comparison:
    """Microseconds a call, of the quietest pairs.

    first, second: medians.
    difference: the median of first - second.
    spread: half the distance between the quartiles of first - second.
    """

    first: float
    second: float
    difference: float
    spread: float


def compare(first: Call, second: Call, pairs: int, clock: Clock) -> Comparison:
    """Times two calls side by side, in at least two pairs; both run on the current device."""
    repeats = _repeats((first, second), clock)
    seen: list[tuple[float, float]] = []
    for index in range(pairs):
        if index % 2:
            later = clock(second, repeats)
            seen.append((clock(first, repeats), later))
        else:
            seen.append((clock(first, repeats), clock(second, repeats)))
    quiet = _quietest(seen, sum)
    differences = [a - b for a, b in quiet]
    low, middle, high = statistics.quantiles(differences, n=4)
    us = 1e6 / repeats
    return Comparison(
        first=us * statistics.median(a for a, _ in quiet),
        second=us * statistics.median(b for _, b in quiet),
        difference=us * middle,
        spread=us * (high - low) / 2,
    )


def alone(call: Call, blocks: int, clock: Clock) -> float:
    """Microseconds a call, the median of the quietest blocks."""
    repeats = _repeats((call,), clock)
    seen = [clock(call, repeats) for _ in range(blocks)]
    return 1e6 / repeats * statistics.median(_quietest(seen, float))


def _quietest(seen: Sequence[_T], size: Callable[[_T], float]) -> list[_T]:
    return sorted(seen, key=size)[: max(2, len(seen) // QUIETEST)]


def _repeats(calls: Sequence[Call], clock: Clock) -> int:
    """Warms up, and says how many calls make a block."""
    slowest = 0.0
    for call in calls:
        # The first calls compile, and say nothing of how long the others take.
        clock(call, CALLS_AT_ONCE)
        count, taken = 0, 0.0
        while count < WARM_UP_CALLS and taken < WARM_UP_SECONDS:
            last = clock(call, CALLS_AT_ONCE)
            count, taken = count + CALLS_AT_ONCE, taken + last
        slowest = max(slowest, last / CALLS_AT_ONCE)
    return min(MAX_REPEATS, max(1, round(BLOCK_SECONDS / slowest)))


@contextmanager
def quiet_host() -> Iterator[None]:
    """No collection of garbage, and one core for this thread where the system allows it."""
    allowed = os.sched_getaffinity(0)
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        with suppress(OSError):
            os.sched_setaffinity(0, {_quietest_core(sorted(allowed))})
        yield
    finally:
        if os.sched_getaffinity(0) != allowed:
            os.sched_setaffinity(0, allowed)
        if collecting:
            gc.enable()


def _quietest_core(cores: Sequence[int]) -> int:
    """That on which a loop of about a millisecond is done first."""
    seconds = {}
    for core in cores[-CORES_TRIED:]:
        os.sched_setaffinity(0, {core})
        start = time.perf_counter()
        for _ in range(30_000):
            pass
        seconds[core] = time.perf_counter() - start
    return min(seconds, key=seconds.__getitem__)


def wall_time(call: Call, repeats: int) -> float:
    """From the first call to the end of the GPU's work: the host's time where that is longer."""
    _wait()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    _wait()
    return time.perf_counter() - start


def gpu_time(call: Call, repeats: int) -> float:
    """The GPU's own time: it is kept busy until the host has launched everything.

    Where the host takes longer than the GPU, this is what a CUDA graph would leave of it. Without a
    GPU, the same as `wall_time`.
    """
    if not torch.cuda.is_available():
        return wall_time(call, repeats)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(LAUNCH_CYCLES * repeats)
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
