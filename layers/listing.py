"""Long lists of names in messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_EXPERT = re.compile(r"\[expert (\d+)\]")


def compress(names: Iterable[str]) -> str:
    """Names with commas between; those that differ in their expert alone are joined.

    "'w2[expert 0]', 'w2[expert 1]', 'w2[expert 3]'" becomes "'w2[experts 0-1, 3]'".
    """
    experts: dict[str, list[int]] = {}
    for name in names:
        found = _EXPERT.search(name)
        key = _EXPERT.sub("[expert]", name)
        experts.setdefault(key, []).extend([int(found.group(1))] if found else [])
    return ", ".join(
        name.replace("[expert]", f"[{_count(ids)}]") if ids else name
        for name, ids in experts.items()
    )


def _count(ids: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for i in sorted(ids):
        if runs and i == runs[-1][-1] + 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    spelled = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"expert{'s' if len(ids) > 1 else ''} {spelled}"
