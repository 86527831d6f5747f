"""The backends of the gated delta rule's operations, for the table at the end of a test."""

from __future__ import annotations

import torch

from layers.kernels.capability import Operation, Problem
from layers.kernels.gdn.operations import GDN_CONV, GDN_DECODE, GDN_EXTEND
from testing.harness import backend_table
from testing.harness.backend_table import BackendRow
from testing.harness.device import device

# Head sizes that every kernel takes.
EASY = Problem(torch.bfloat16, 128, 128)


def list_gdn_backends() -> None:
    """Have every backend of the three operations in the table."""
    for operation in (GDN_CONV, GDN_EXTEND, GDN_DECODE):
        _list(operation)


def _list(operation: Operation) -> None:
    def rows() -> list[BackendRow]:
        missing = operation.availability(device(), EASY)
        return [
            BackendRow(operation.name, b.name, b.needs.describe_device(), missing[b.name])
            for b in operation.backends
        ]

    backend_table.add_source(rows)


def missing(backend: str) -> str | None:
    """Why a backend of extend or decode cannot run on this pool's device; None if both can."""
    found = (operation.availability(device(), EASY) for operation in (GDN_EXTEND, GDN_DECODE))
    reasons = [reason for names in found if (reason := names[backend]) is not None]
    return reasons[0] if reasons else None
