"""How long calls take, measured side by side: one after the other in every round, and medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

Call = Callable[[], object]
WARM_UP = 5
# Long enough for the clock, short enough for many rounds.
ROUND_SECONDS = 0.01
MAX_REPEATS = 200


def medians(calls: Mapping[str, Call], *, rounds: int, host: bool) -> dict[str, float]:
    """Microseconds a call, the median over rounds; in a round all are repeated equally often.

    Args:
        calls: by name; all run on the current device.
        rounds: how often each is measured.
        host: measure wall-clock time from the first call to the end of the GPU's work, which is the
            host's time where that is longer; otherwise the GPU's own, by events.
    """
    seconds = _wall if host or not torch.cuda.is_available() else _events
    slowest = 0.0
    for call in calls.values():
        _wall(call, WARM_UP)
        slowest = max(slowest, seconds(call, WARM_UP) / WARM_UP)
    repeats = min(MAX_REPEATS, max(1, round(ROUND_SECONDS / slowest)))
    names: Sequence[str] = list(calls)
    seen: dict[str, list[float]] = {name: [] for name in names}
    for index in range(rounds):
        # Whoever comes first finds a cooler card and emptier caches: take turns.
        first = index % len(names)
        for name in [*names[first:], *names[:first]]:
            seen[name].append(seconds(calls[name], repeats) / repeats * 1e6)
    return {name: statistics.median(values) for name, values in seen.items()}


def _wall(call: Call, repeats: int) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _events(call: Call, repeats: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3
