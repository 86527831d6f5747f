"""What the backends of a MoE test's operations need, for the table at its end; and refusals."""

from __future__ import annotations

import re

import torch

from layers.kernels.capability import BackendUnavailable, Operation, Problem
from testing.harness import backend_table
from testing.harness.backend_table import BackendRow
from testing.harness.device import device
from testing.harness.moe.examine import examine_case
from testing.harness.moe.layer import MoeCase

# A shape that every kernel takes, so that only device and package are left to be missing.
_EASY = Problem(dtype=torch.bfloat16, k=1024, n=2048)
_LIMIT = re.compile(r"needs (K|N) (divisible|of at)|needs inputs and outputs of")


def list_moe_backends(*operations: Operation, easy: Problem = _EASY) -> None:
    """Have every backend of these operations in the table at the end of the test.

    easy: a shape that all of them take.
    """
    for operation in operations:
        _list(operation, easy)


def _list(operation: Operation, easy: Problem) -> None:
    def rows() -> list[BackendRow]:
        missing = operation.availability(device(), easy)
        return [
            BackendRow(operation.name, b.name, b.needs.describe_device(), missing[b.name])
            for b in operation.backends
        ]

    backend_table.add_source(rows)


def require_right_or_refused(case: MoeCase, seed: int) -> bool:
    """Examine a layer; where its backend cannot take its shape, it has to say so as it is built.

    Gives whether the layer ran.

    Raises:
        AssertionError: a finding, or a refusal for any other reason: the pool promises the backend.
    """
    try:
        examine_case(case, seed, device()).require()
    except BackendUnavailable as error:
        message = str(error)
        limit = _LIMIT.search(message)
        if limit is None:
            raise AssertionError(f"{case.subject}: {message}") from error
        sentence = message[limit.start() :].split(". Backends that")[0]
        backend_table.count_refusal(case.backend or "", re.sub(r", (K|N) is \d+$", "", sentence))
        return False
    return True
