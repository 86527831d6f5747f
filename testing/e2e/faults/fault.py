"""A fault to plant into a running server: what it changes, and which smokes have to fail of it.

Faults live outside the layers. Those of text are planted before the server forks its workers; those
of the model, the scheduler and the verification where a rank loads its model, around the real
loader. They are monkey patches of seams, as the layer tests' planted faults are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

VARIABLE = "PLUMBLINE_E2E_FAULT"
"""Names the fault of this process, in its environment."""

KINDS = ("detokenizer", "kernel", "loader", "scheduler", "verification")


@dataclass(frozen=True)
class Fault:
    """One fault.

    kind: a member of `KINDS`.
    smokes: those that must fail.
    plant: of text, a function that patches; else a generator that patches what comes before the
        load, is sent the loaded model, and changes that.
    is_slow: whether it changes when text comes, and not which.
    """

    name: str
    kind: str
    smokes: tuple[str, ...]
    plant: Callable[[], Any]
    is_slow: bool = False


FAULTS: dict[str, Fault] = {}


def fault(
    kind: str, *smokes: str, is_slow: bool = False
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Decorator: registers a function as the fault of its name.

    Raises:
        ValueError: an unknown kind, or a name that is taken.
    """

    def add(plant: Callable[[], Any]) -> Callable[[], Any]:
        if kind not in KINDS or plant.__name__ in FAULTS:
            raise ValueError(f"fault '{plant.__name__}' of kind '{kind}': taken, or no such kind")
        FAULTS[plant.__name__] = Fault(plant.__name__, kind, smokes, plant, is_slow)
        return plant

    return add


def planted() -> Fault | None:
    """That of this process."""
    name = os.environ.get(VARIABLE)
    return FAULTS[name] if name else None
