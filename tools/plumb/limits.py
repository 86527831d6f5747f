"""What numbers an option takes beside those within its limits."""

from __future__ import annotations

import math

import typer


def finite(value: float | None) -> float | None:
    """Lets an option's number through.

    Raises typer.BadParameter for nan, which is within any limits, and for infinity.
    """
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number to reckon with; give one such as 2.5")
    return value
