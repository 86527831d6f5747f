"""Plans of MLA backends: made once a batch and layer shape, kept with the batch's metadata."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

import torch

from layers.attention.metadata import AttentionMetadata, Plan

P = TypeVar("P", bound="Plan")


def plan_once(metadata: AttentionMetadata, key: Hashable, make: Callable[[], P]) -> P:
    """The plan under `key`, which `make` makes the first time.

    Raises:
        RuntimeError: a CUDA graph is being captured, and nobody planned before.
    """
    plan = metadata.plans.get(key)
    if plan is None:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                "this batch has no plan, and planning waits for the GPU, which a CUDA graph's "
                "capture forbids. Call layer.plan(cache, metadata) before the capture."
            )
        plan = metadata.plans[key] = make()
    return plan  # type: ignore[return-value] # the key names the kind of plan
