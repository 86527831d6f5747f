"""The formats that a target asks for, of those that its file knows."""

from __future__ import annotations

import os
from collections.abc import Iterable

VARIABLE = "PLUMBLINE_FORMAT"


def chosen(formats: Iterable[str]) -> list[str]:
    """All of them, or the one that PLUMBLINE_FORMAT names.

    Raises:
        ValueError: a name that is not among them.
    """
    known, asked = list(formats), os.environ.get(VARIABLE)
    if not asked:
        return known
    if asked not in known:
        raise ValueError(f"{VARIABLE} is '{asked}', wanted one of {', '.join(known)}")
    return [asked]
