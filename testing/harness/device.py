"""Which pool a test runs on, and the device that stands for it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import torch


def pool() -> str:
    """The pool that the target was declared for; "cpu" outside Bazel."""
    return os.environ.get("PLUMBLINE_POOL", "cpu")


def gpus() -> int:
    """How many GPUs the target takes; 0 on a pool without GPU."""
    return int(os.environ.get("PLUMBLINE_GPUS", "0"))


def device() -> torch.device:
    """The first device of this test's pool.

    Raises RuntimeError on a GPU pool where torch sees no GPU: that test has to fail, since a skip
    would report a pool as guarded that nothing ran on.
    """
    if pool() == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        arch = os.environ.get("PLUMBLINE_ARCH", "")
        raise RuntimeError(
            f"pool {pool()} needs a CUDA device ({arch}), but torch {torch.__version__} sees none: "
            "check the driver, and that this torch is a CUDA build"
        )
    return torch.device("cuda", 0)


def promised(backends: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The backends that this pool promises; one that cannot run there fails, and is not skipped.

    backends: by pool; "gpu" stands for GPU pools that are not named.
    """
    here = pool()
    return backends[here] if here in backends else backends["gpu"]
