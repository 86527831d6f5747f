"""How our Triton kernel divides attention: which tiles, how many splits. Needs no GPU."""

from __future__ import annotations

from dataclasses import dataclass

from layers.kernels.attention.problem import AttentionSpec
from layers.sharding import ceil_div

# Programs wanted on each multiprocessor, and the fewest keys that a split is worth.
PROGRAMS_EACH = 2
KEYS_A_SPLIT = 64
MAX_SPLITS = 64


@dataclass(frozen=True)
class Tiles:
    """Rows (tokens times heads of a group) and keys of a step, and how a GPU works on them."""

    rows: int
    keys: int
    warps: int
    stages: int


def choose_tiles(spec: AttentionSpec, mode: str, rows: int) -> Tiles:
    """Tiles for the longest request's `rows` = tokens · group.

    Keys and values of all stages lie in shared memory, 227 KiB on sm90; masks and caps take
    registers, of which more warps have more.
    """
    wide = max(spec.head_dim, spec.v_head_dim) > 128
    plain = mode == "extend" and spec.sliding_window is None and not spec.logit_soft_cap
    if rows <= 16:
        # Tiles(16, 128, 4, 2) took 8 to 12 % less time for decode on an H200; its output was not
        # compared there.
        return Tiles(16, 32 if wide else 64, 4, 3)
    if wide or mode == "draft":
        return Tiles(64, 32, 8, 3)
    if rows <= 64:
        return Tiles(64, 64, 4, 3)
    return Tiles(128, 64, 4 if plain else 8, 3)


def choose_splits(programs: int, capacity: int, multiprocessors: int) -> int:
    """Into how many parts the keys are divided, so that every multiprocessor has work.

    Args:
        programs: without splits.
        capacity: keys that a request has room for. Its keys themselves are not looked at, so that a
            captured CUDA graph stays right for other lengths.
        multiprocessors: of the GPU.
    """
    wanted = PROGRAMS_EACH * multiprocessors // max(programs, 1)
    return max(1, min(wanted, ceil_div(capacity, KEYS_A_SPLIT), MAX_SPLITS))
