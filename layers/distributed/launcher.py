"""What the launcher of this process, such as torchrun, says of its place in the world."""

from __future__ import annotations

import os
from datetime import timedelta

import torch
import torch.distributed as dist


def from_launcher(value: int | None, variable: str, default: int) -> int:
    """`value`, else the launcher's environment variable, else `default`.

    Raises:
        ValueError: the variable is no number.
    """
    if value is not None:
        return value
    text = os.environ.get(variable, "")
    if not text:
        return default
    if not text.isdigit():
        raise ValueError(f"environment variable {variable} is {text!r}, wanted a number")
    return int(text)


def default_backend(world_size: int) -> str:
    """NCCL for tensors on GPUs where each process of this host has one, else gloo alone."""
    on_this_host = from_launcher(None, "LOCAL_WORLD_SIZE", world_size)
    gpus = torch.cuda.device_count() if dist.is_nccl_available() else 0
    return "cpu:gloo,cuda:nccl" if gpus >= on_this_host else "gloo"


def join_world(
    backend: str, rank: int, world_size: int, init_method: str | None, timeout: timedelta
) -> None:
    """Meets the other processes; a world of one meets itself on a free port.

    Raises:
        ValueError: several processes and no meeting point.
    """
    if init_method is None and world_size == 1:
        # Port 0 lets the system choose: looking for a free port first would be a race.
        store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True, timeout=timeout)
        dist.init_process_group(backend, store=store, rank=0, world_size=1, timeout=timeout)
        return
    if init_method is None and "MASTER_ADDR" not in os.environ:
        raise ValueError(
            f"a world of {world_size} processes needs a meeting point: pass "
            f"init_method='tcp://HOST:PORT', or start with torchrun, which sets MASTER_ADDR "
            f"and MASTER_PORT."
        )
    dist.init_process_group(
        backend,
        init_method=init_method or "env://",
        rank=rank,
        world_size=world_size,
        timeout=timeout,
    )
