"""What the backends of attention need, for the table at a test's end; and refusals."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch

from layers.kernels.attention.attend import ATTENTION
from layers.kernels.attention.problem import AttentionProblem, AttentionSpec
from layers.kernels.capability import BackendUnavailable
from testing.harness import backend_table
from testing.harness.attention.case import AttentionCase, Call
from testing.harness.attention.examine import examine
from testing.harness.attention.layer import build
from testing.harness.backend_table import BackendRow
from testing.harness.device import device

# A shape that every kernel takes, so that only device and package are left to be missing.
_EASY = AttentionProblem.of(AttentionSpec(torch.bfloat16, 8, 8, 128, 128, 128**-0.5), "decode")
_LIMIT = re.compile(
    r"needs (head_dim|v_head_dim|pages|a KV cache|inputs)|query heads for each key-value head"
    r"|has no (mode|sinks|soft cap|window|fp8)"
)


def list_attention_backends() -> None:
    """Have every backend of attention in the table at the end of the test."""

    def rows() -> list[BackendRow]:
        missing = ATTENTION.availability(device(), _EASY)
        return [
            BackendRow(ATTENTION.name, b.name, b.needs.describe_device(), missing[b.name])
            for b in ATTENTION.backends
        ]

    backend_table.add_source(rows)


def require_right(case: AttentionCase, calls: Sequence[Call], seed: int) -> None:
    """Build the layer and examine every call.

    Raises:
        AssertionError: a finding.
        BackendUnavailable: a refusal.
    """
    rng = np.random.default_rng(seed)
    examine(build(case, rng, device()), calls, rng).require()


def require_right_or_refused(case: AttentionCase, calls: Sequence[Call], seed: int) -> bool:
    """As `require_right`; where the backend cannot take the layer, it has to say which limit.

    Gives whether the layer ran.

    Raises:
        AssertionError: a finding, or a refusal for any other reason: the pool promises the backend.
    """
    try:
        require_right(case, calls, seed)
    except BackendUnavailable as error:
        message = str(error)
        limit = _LIMIT.search(message)
        if limit is None:
            raise AssertionError(f"{case.subject}: {message}") from error
        sentence = message[limit.start() :].split(". Backends that")[0]
        backend_table.count_refusal(case.backend, re.sub(r", (it|they|there) .*$", "", sentence))
        return False
    return True
