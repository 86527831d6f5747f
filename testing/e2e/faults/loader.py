"""The real loader, with the fault of this process planted around it: `--loader` of a server."""

from __future__ import annotations

from typing import Any

from layers.models.load import load_model
from testing.e2e.faults import engine_faults, model_faults  # noqa: F401 they register themselves
from testing.e2e.faults.fault import planted


def load(*arguments: Any, **options: Any) -> Any:
    """As `layers.models.load.load_model`."""
    fault = planted()
    if fault is None:
        return load_model(*arguments, **options)
    planting = fault.plant()
    next(planting)
    model = load_model(*arguments, **options)
    planting.send(model)
    return model
