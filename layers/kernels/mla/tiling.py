"""How our Triton kernels divide MLA's absorbed attention: tiles and splits. Needs no GPU.

Chosen on an H200 (sm90), by times beside FlashInfer's. Elsewhere tiles follow from the shared
memory that the GPU has, and have never run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from layers.sharding import ceil_div

MAX_SPLITS = 128
# Steps that could be made while a program starts and ends, and while parts are put together.
START_AND_END = 2
COMBINING = 1
KIB = 1024


@dataclass(frozen=True)
class Tiles:
    """Rows (tokens times heads) and keys of a step, and how a GPU works on them.

    resident: programs that a multiprocessor has at a time.
    """

    rows: int
    keys: int
    warps: int
    stages: int
    resident: int = 1


HOPPER = Tiles(64, 64, warps=8, stages=2)


def choose_tiles(rows: int, shared_memory: int) -> Tiles:
    """Tiles for the longest request's `rows` = tokens · heads.

    Queries, and latents of all stages, lie in shared memory: 1152 bytes a row in 16 bits.
    """
    if shared_memory < 200 * KIB:
        return Tiles(16, 16 if shared_memory < 128 * KIB else 32, warps=4, stages=2)
    if rows <= 16:
        # Two programs hide each other's waits: it is the latents' memory that sets the pace.
        return Tiles(16, 32, warps=4, stages=3, resident=2)
    return HOPPER


@cache
def choose_splits(programs: int, capacity: int, keys: int, places: int) -> int:
    """Into how many parts the keys are divided, so that every multiprocessor has work.

    The fewest by which the GPU is done after the fewest steps.

    Args:
        programs: without splits.
        capacity: keys that a request has room for. Its keys themselves are not looked at, so that a
            captured CUDA graph stays right for other lengths.
        keys: of a step.
        places: programs that the GPU's multiprocessors have at a time.
    """
    steps = max(1, ceil_div(capacity, keys))

    def taken(splits: int) -> int:
        each = START_AND_END + ceil_div(steps, splits)
        return ceil_div(programs * splits, places) * each + (COMBINING if splits > 1 else 0)

    return min(range(1, min(MAX_SPLITS, steps) + 1), key=taken)
