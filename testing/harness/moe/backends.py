"""What the backends of a MoE test's operations need, for the table at its end."""

from __future__ import annotations

import torch

from layers.kernels.capability import Operation, Problem
from testing.harness import backend_table
from testing.harness.backend_table import BackendRow
from testing.harness.device import device

# A shape that every kernel takes, so that only device and package are left to be missing.
_EASY = Problem(dtype=torch.bfloat16, k=1024, n=2048)


def list_moe_backends(*operations: Operation) -> None:
    """Have every backend of these operations in the table at the end of the test."""
    for operation in operations:
        _list(operation)


def _list(operation: Operation) -> None:
    def rows() -> list[BackendRow]:
        missing = operation.availability(device(), _EASY)
        return [
            BackendRow(operation.name, b.name, b.needs.describe_device(), missing[b.name])
            for b in operation.backends
        ]

    backend_table.add_source(rows)
