"""What the backends of attention need, for the table at a test's end; and layers on them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from layers.kernels.attention.attend import ATTENTION
from layers.kernels.attention.problem import AttentionProblem, AttentionSpec
from testing.harness import backend_table
from testing.harness.attention.case import AttentionCase, Call, make_batch
from testing.harness.attention.examine import examine
from testing.harness.attention.layer import build, tensors_of
from testing.harness.backend_table import BackendRow
from testing.harness.device import device

# A shape that every kernel takes, so that only device and package are left to be missing.
EASY = AttentionProblem.of(AttentionSpec(torch.bfloat16, 8, 8, 128, 128, 128**-0.5), "decode")


def list_attention_backends() -> None:
    """Have every backend of attention in the table at the end of the test."""

    def rows() -> list[BackendRow]:
        missing = ATTENTION.availability(device(), EASY)
        return [
            BackendRow(ATTENTION.name, b.name, b.needs.describe_device(), missing[b.name])
            for b in ATTENTION.backends
        ]

    backend_table.add_source(rows)


def require_right(case: AttentionCase, calls: Sequence[Call], seed: int) -> None:
    """Build the layer and examine every call.

    Raises:
        AssertionError: a finding.
        BackendUnavailable: a refusal; the backend was asked for what it is said to take.
    """
    rng = np.random.default_rng(seed)
    examine(build(case, rng, device()), calls, rng).require()


def compile_ahead(case: AttentionCase, calls: Sequence[Call]) -> None:
    """Plan for each call, side by side: a backend that compiles at run time does so as it plans.

    Raises:
        BackendUnavailable, RuntimeError: the layer is refused, or its kernel does not compile.
    """
    rng = np.random.default_rng(0)
    layer = build(case, rng, device()).layer
    given = [tensors_of(make_batch(case, call, rng), device()) for call in calls]
    with ThreadPoolExecutor(len(calls)) as threads:
        for done in [threads.submit(layer.plan, t.cache, t.metadata) for t in given]:
            done.result()
