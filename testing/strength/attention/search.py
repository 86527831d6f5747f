"""The smallest bias that is found in 19 of 20 layers, by steps of a quarter of an octave."""

from __future__ import annotations

from collections.abc import Callable

from testing.harness.records import record
from testing.strength.figures import FILE, percent

SEEDS, MISSES, STEPS = 20, 1, 4
Finds = Callable[[int, float], bool]
"""(seed, relative bias) → whether the layer test's checks report anything."""


def smallest(finds: Finds, largest: float = 1.0) -> float | None:
    """The smallest gain from which on all are found in 19 of 20 seeds; None: not even `largest`.

    A gain of nothing must not be found: then it is 0.
    """
    if any(finds(seed, 0.0) for seed in range(SEEDS)):
        return 0.0
    gain, found = largest, None
    while _is_found(finds, gain):
        found = gain
        gain /= 2 ** (1 / STEPS)
    return found


def _is_found(finds: Finds, gain: float) -> bool:
    misses = 0
    for seed in range(SEEDS):
        misses += not finds(seed, gain)
        if misses > MISSES:
            return False
    return True


def require_at_most(goal: float, finds: Finds, layer: str, family: str, device: str) -> None:
    """Raises AssertionError unless a bias of `goal` is found; keeps the smallest that is.

    The search starts a few octaves above the goal.
    """
    gain = smallest(finds, min(1.0, 8 * goal))
    print(f"{layer} {family}: {percent(gain)}, goal {percent(goal)}")
    entry: dict[str, object] = {
        "format": layer,
        "family": family,
        "device": device,
        "smallest": {"found": gain},
    }
    record(entry, FILE)
    assert gain is not None and 0 < gain <= goal, (
        f"{layer}: the smallest bias of the {family} found in 19 of {SEEDS} seeds is "
        f"{percent(gain)}, wanted at most {percent(goal)}"
    )
