"""Takes free GPUs for one test, so that tests which run side by side share none but by consent.

A layer test uses a small part of a GPU. PLUMBLINE_TESTS_PER_GPU says how many of them may share
one, 1 where it is not set; `--config=shared` sets it. A test that measures time must be alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

# A sandboxed test has a /tmp of its own; /dev/shm is the one folder that all of them can lock in.
_SLOTS = Path("/dev/shm/plumbline-gpu-slots")
_POLL_SECONDS = 0.2
_REPORT_SECONDS = 10.0


class NoGpu(Exception):
    """This machine cannot give the GPUs that a test asks for."""


@dataclass(frozen=True)
class Gpu:
    """One GPU as the driver names it.

    Attributes:
        index: its number among all of this machine's GPUs, in the order of the PCI bus.
        uuid: "GPU-…", which names it whatever order CUDA counts in.
        arch: its architecture, such as "sm90".
        name: the product's name.
    """

    index: str
    uuid: str
    arch: str
    name: str


def parse_gpus(csv: str) -> list[Gpu]:
    """The GPUs in what `nvidia-smi --query-gpu=index,uuid,compute_cap,name` printed."""
    rows = [[cell.strip() for cell in line.split(",", 3)] for line in csv.splitlines() if line]
    return [Gpu(index, uuid, f"sm{cap.replace('.', '')}", name) for index, uuid, cap, name in rows]


def machine_gpus() -> list[Gpu]:
    """The GPUs of this machine, none where there is no driver."""
    program = shutil.which(
        "nvidia-smi", path=f"{os.environ.get('PATH', '')}:/usr/bin:/usr/local/nvidia/bin"
    )
    if program is None:
        return []
    query = [program, "--query-gpu=index,uuid,compute_cap,name", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return parse_gpus(done.stdout) if done.returncode == 0 else []


def candidates(gpus: Sequence[Gpu], arch: str, environ: Mapping[str, str]) -> list[Gpu]:
    """The GPUs of architecture `arch` that CUDA_VISIBLE_DEVICES leaves us.

    It names them by number or, as CUDA takes them, by the start of a UUID. On a remote worker
    PLUMBLINE_SLOT_GPUS goes before it, as a client's own setting says nothing about that machine.
    """
    visible = environ.get("PLUMBLINE_SLOT_GPUS", environ.get("CUDA_VISIBLE_DEVICES"))
    found = [gpu for gpu in gpus if gpu.arch == arch]
    if visible is None:
        return found
    allowed = [word.strip() for word in visible.split(",")]
    return [gpu for gpu in found if any(_names(word, gpu) for word in allowed)]


def _names(word: str, gpu: Gpu) -> bool:
    return word == gpu.index or (word.startswith("GPU-") and gpu.uuid.startswith(word))


def tests_per_gpu(environ: Mapping[str, str]) -> int:
    """How many tests may share a GPU, as PLUMBLINE_TESTS_PER_GPU says; 1 where it is not set.

    Raises ValueError if it is no whole number from 1.
    """
    text = environ.get("PLUMBLINE_TESTS_PER_GPU") or "1"
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(
            f"PLUMBLINE_TESTS_PER_GPU is '{text}', wanted a whole number from 1: how many tests "
            f"may share a GPU. Correct it in user.bazelrc or on the command line."
        )
    return int(text)


def _try_take(
    gpus: Sequence[Gpu], count: int, folder: Path, per_gpu: int
) -> tuple[list[Gpu], list[FileLock]]:
    taken: list[Gpu] = []
    locks: list[FileLock] = []
    # Every GPU's first slot before any second one, so that tests spread over the GPUs.
    for slot in range(per_gpu):
        for gpu in gpus:
            if gpu in taken:
                continue
            name = f"{gpu.uuid}.lock" if slot == 0 else f"{gpu.uuid}.{slot}.lock"
            lock = FileLock(folder / name, mode=0o666)
            with contextlib.suppress(Timeout):
                lock.acquire(blocking=False)
                taken.append(gpu)
                locks.append(lock)
            if len(taken) == count:
                return taken, locks
    # Holding a part while waiting for the rest is how two tests wait for each other.
    for lock in locks:
        lock.release()
    return [], []


@contextlib.contextmanager
def take(
    gpus: Sequence[Gpu], count: int, folder: Path | None = None, per_gpu: int = 1
) -> Iterator[list[Gpu]]:
    """Holds `count` of `gpus` while the context lasts; waits until so many have room.

    `per_gpu` tests may share one of them, a test that takes several has each of these once.

    Raises NoGpu if there are fewer than `count` at all. The lock is the kernel's, so a test that is
    killed gives its GPUs back.
    """
    if len(gpus) < count:
        raise NoGpu(f"wanted {count}, this machine offers {len(gpus)}")
    folder = folder or Path(os.environ.get("PLUMBLINE_GPU_SLOTS", _SLOTS))
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):
            folder.chmod(0o1777)
    started = reported = time.monotonic()
    while True:
        taken, locks = _try_take(gpus, count, folder, per_gpu)
        if taken:
            break
        if time.monotonic() - reported > _REPORT_SECONDS:
            reported = time.monotonic()
            waited = f"{reported - started:.0f} s"
            print(f"waiting for {count} free GPU(s) of {len(gpus)}: {waited}", file=sys.stderr)
        time.sleep(_POLL_SECONDS)
    try:
        yield taken
    finally:
        for lock in locks:
            lock.release()
