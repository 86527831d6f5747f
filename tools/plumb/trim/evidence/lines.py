"""Sets of line numbers as short texts, such as '3-7' and '12'."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def ranges(numbers: Iterable[int]) -> list[str]:
    """The numbers as sorted runs."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [str(a) if a == b else f"{a}-{b}" for a, b in found]


def numbers(texts: Sequence[str]) -> set[int]:
    """The numbers of runs. Raises ValueError for a text that is none."""
    found: set[int] = set()
    for text in texts:
        first, _, last = text.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
