"""The backends of MLA's two operations, for the table at the end of a test, and refusals."""

from __future__ import annotations

import torch

from layers.kernels.capability import Operation
from layers.kernels.mla.absorbed import MLA_ABSORBED
from layers.kernels.mla.problem import MLAProblem, MLASpec
from layers.kernels.mla.unabsorbed import MLA_UNABSORBED
from testing.harness import backend_table
from testing.harness.backend_table import BackendRow
from testing.harness.device import device

# Sizes that every kernel takes, so that only device and package are left to be missing.
EASY = MLASpec(torch.bfloat16, 128, 512, 128, 64, 128, 192**-0.5)
_MODES = {MLA_ABSORBED.name: "decode", MLA_UNABSORBED.name: "extend"}


def list_mla_backends() -> None:
    """Have every backend of both operations in the table at the end of the test."""
    for operation in (MLA_ABSORBED, MLA_UNABSORBED):
        _list(operation)


def _list(operation: Operation) -> None:
    def rows() -> list[BackendRow]:
        problem = MLAProblem.of(EASY, _MODES[operation.name], torch.bfloat16, 64)
        missing = operation.availability(device(), problem)
        return [
            BackendRow(operation.name, b.name, b.needs.describe_device(), missing[b.name])
            for b in operation.backends
        ]

    backend_table.add_source(rows)
