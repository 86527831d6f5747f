"""What the backends of a test's operations need, for the table at its end; and refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from layers.kernels.capability import BackendUnavailable, Operation, Problem
from testing.harness import backend_table
from testing.harness.backend_table import BackendRow
from testing.harness.device import device
from testing.harness.linear import LinearCase
from testing.harness.linear_probes import examine_case

# A shape that every kernel takes, so that only device and package are left to be missing.
_EASY = Problem(dtype=torch.bfloat16, k=1024, n=1024, scalar_scales=True)
_LIMIT = re.compile(
    r"needs (K|N) (divisible|of at)|needs inputs and outputs of|needs a layer without bias"
    r"|needs one scale for x"
)


def list_backends(*operations: Operation) -> None:
    """Have every backend of these operations in the table at the end of the test."""
    for operation in operations:
        backend_table.add_source(lambda operation=operation: _rows(operation))  # type: ignore[misc]


def present(operation: Operation, *backends: str) -> list[str]:
    """Those of the backends that can run here: for kernels of packages that no pool promises."""
    missing = operation.availability(device(), _EASY)
    return [name for name in backends if missing[name] is None]


def _rows(operation: Operation) -> list[BackendRow]:
    missing = operation.availability(device(), _EASY)
    return [
        BackendRow(operation.name, b.name, b.needs.describe_device(), missing[b.name])
        for b in operation.backends
    ]


def require_right_or_refused(case: LinearCase, seed: int) -> bool:
    """Examine a layer; where its backend cannot take its shape, it has to say so as it is built.

    Gives whether the layer ran.

    Raises:
        AssertionError: a finding, or a refusal for any other reason: the pool promises the backend.
    """
    with refusing_shapes_only(case) as ran:
        examine_case(case, seed, device()).require()
    return bool(ran)


@contextmanager
def refusing_shapes_only(case: LinearCase) -> Iterator[list[bool]]:
    """Lets a layer be refused for its shape or form, and for no other reason.

    Gives a list that ends up empty if it was.

    Raises:
        AssertionError: a refusal for any other reason.
    """
    ran = [True]
    try:
        yield ran
    except BackendUnavailable as error:
        ran.clear()
        message = str(error)
        limit = _LIMIT.search(message)
        if limit is None:
            raise AssertionError(f"{case.subject}: {message}") from error
        sentence = message[limit.start() :].split(". Backends that")[0]
        backend_table.count_refusal(case.backend or "", re.sub(r", (K|N) is \d+$", "", sentence))
