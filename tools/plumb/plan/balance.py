"""Spreads tests over identical slots so that the last is done early (P||Cmax).

Longest-first (Graham, SIAM J. Appl. Math. 17, 1969) is at most a third above the optimum, and on
measured suites some percent. Moves and swaps between the latest slot and the others take most of
that away; first-fit-decreasing under a bisected limit (MULTIFIT: Coffman, Garey and Johnson, SIAM
J. Comput. 7, 1978) gives them a second beginning.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

Bins = list[list[int]]
"""For each slot the numbers of its tests."""
_BISECTIONS = 40
_ROUNDS = 10_000


def longest_first(costs: Sequence[float], slots: int) -> Bins:
    """Each test, the longest first, to the slot that is free first."""
    bins: Bins = [[] for _ in range(slots)]
    free = [(0.0, slot) for slot in range(slots)]
    for number in _by_length(costs):
        load, slot = heapq.heappop(free)
        bins[slot].append(number)
        heapq.heappush(free, (load + costs[number], slot))
    return bins


def balance(costs: Sequence[float], slots: int, bound: float = 0.0) -> Bins:
    """The best that longest-first, MULTIFIT, moves and swaps find; stops at `bound`."""
    best = _improve(longest_first(costs, slots), costs, bound)
    if _latest(best, costs) > bound:
        other = _improve(_multifit(costs, slots), costs, bound)
        best = min(best, other, key=lambda bins: _latest(bins, costs))
    return best


def fewest(costs: Sequence[float], limit: float) -> int:
    """The fewest slots, by first-fit-decreasing, in which every test is done within `limit`.

    Raises:
        ValueError: a test alone takes longer.
    """
    if costs and max(costs) > limit:
        raise ValueError(f"a test takes {max(costs):g} s, wanted at most {limit:g} s")
    bins = _first_fit(costs, limit)
    # A balanced spread may do with fewer than first-fit took.
    least = max(1, len(bins))
    while least > 1 and _latest(balance(costs, least - 1), costs) <= limit:
        least -= 1
    return least


def _by_length(costs: Sequence[float]) -> list[int]:
    return sorted(range(len(costs)), key=lambda number: (-costs[number], number))


def _latest(bins: Bins, costs: Sequence[float]) -> float:
    return max(sum(costs[number] for number in own) for own in bins)


def _first_fit(costs: Sequence[float], limit: float) -> Bins:
    bins: Bins = []
    loads: list[float] = []
    for number in _by_length(costs):
        slot = next((i for i, load in enumerate(loads) if load + costs[number] <= limit), None)
        if slot is None:
            bins.append([])
            loads.append(0.0)
            slot = len(bins) - 1
        bins[slot].append(number)
        loads[slot] += costs[number]
    return bins


def _multifit(costs: Sequence[float], slots: int) -> Bins:
    low = max(sum(costs) / slots, max(costs, default=0.0))
    high = max(2 * sum(costs) / slots, max(costs, default=0.0))
    best = longest_first(costs, slots)
    for _ in range(_BISECTIONS):
        limit = (low + high) / 2
        bins = _first_fit(costs, limit)
        if len(bins) <= slots:
            best, high = bins + [[] for _ in range(slots - len(bins))], limit
        else:
            low = limit
    return best


def _improve(bins: Bins, costs: Sequence[float], bound: float) -> Bins:
    """Moves a test from the latest slot, or swaps it for a shorter one, while that helps."""
    loads = [sum(costs[number] for number in own) for own in bins]
    for _ in range(_ROUNDS):
        latest = max(range(len(bins)), key=loads.__getitem__)
        if loads[latest] <= bound:
            break
        change = _best_change(bins, costs, loads, latest)
        if change is None:
            break
        other, mine, theirs = change
        _exchange(bins, costs, loads, latest, other, mine, theirs)
    return bins


def _best_change(
    bins: Bins, costs: Sequence[float], loads: list[float], latest: int
) -> tuple[int, int, int | None] | None:
    """(other slot, test of the latest, test of the other or None) with the lowest later load."""
    best, found = loads[latest] - 1e-9, None
    for other in range(len(bins)):
        if other == latest:
            continue
        for mine in bins[latest]:
            for theirs in (None, *bins[other]):
                moved = costs[mine] - (costs[theirs] if theirs is not None else 0.0)
                if moved <= 0:
                    continue
                later = max(loads[latest] - moved, loads[other] + moved)
                if later < best:
                    best, found = later, (other, mine, theirs)
    return found


def _exchange(
    bins: Bins,
    costs: Sequence[float],
    loads: list[float],
    latest: int,
    other: int,
    mine: int,
    theirs: int | None,
) -> None:
    bins[latest].remove(mine)
    bins[other].append(mine)
    moved = costs[mine]
    if theirs is not None:
        bins[other].remove(theirs)
        bins[latest].append(theirs)
        moved -= costs[theirs]
    loads[latest] -= moved
    loads[other] += moved
