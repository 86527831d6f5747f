"""What our Triton kernel divides its work into fits an H200, and leaves none of it idle or out."""

from itertools import product

import pytest
import torch

from layers.kernels.attention.problem import AttentionSpec
from layers.kernels.attention.tiling import MAX_SPLITS, choose_splits, choose_tiles

SM90_SHARED_MEMORY = 227 * 1024
MULTIPROCESSORS = 132


def spec(head_dim: int, window: int | None = None, cap: float = 0.0) -> AttentionSpec:
    sizes = (torch.bfloat16, 8, 2, head_dim, head_dim, head_dim**-0.5)
    return AttentionSpec(*sizes, sliding_window=window, logit_soft_cap=cap)


def test_a_group_is_the_query_heads_of_a_key_value_head() -> None:
    assert spec(64).group == 4


@pytest.mark.parametrize("head_dim", [16, 64, 96, 128, 192, 256])
def test_tiles_fit_into_shared_memory(head_dim: int) -> None:
    width = 1 << (head_dim - 1).bit_length()
    given = product((spec(head_dim), spec(head_dim, 9, 5.0)), ("extend", "decode", "draft"))
    for of, mode in given:
        for rows in (1, 8, 16, 17, 64, 65, 4096):
            tiles = choose_tiles(of, mode, rows)
            # Queries once, and keys and values of each stage, in 16 bits.
            taken = 2 * width * (tiles.rows + 2 * tiles.keys * tiles.stages)
            assert taken <= SM90_SHARED_MEMORY, (of, mode, rows)
            # What tensor cores multiply.
            assert tiles.rows % 16 == 0 and tiles.keys % 16 == 0


@pytest.mark.parametrize(
    ("mode", "rows", "window", "wanted"),
    [
        ("decode", 16, None, (16, 64, 4)),
        ("extend", 17, None, (64, 64, 4)),
        ("extend", 64, None, (64, 64, 4)),
        ("extend", 65, None, (128, 64, 4)),
        ("extend", 65, 9, (128, 64, 8)),
        ("draft", 65, None, (64, 32, 8)),
    ],
)
def test_tiles_of_heads_of_128(
    mode: str, rows: int, window: int | None, wanted: tuple[int, int, int]
) -> None:
    tiles = choose_tiles(spec(128, window), mode, rows)

    assert (tiles.rows, tiles.keys, tiles.warps) == wanted


@pytest.mark.parametrize(
    ("programs", "capacity", "wanted"),
    [
        # Two programs on each of 132 multiprocessors, of eight or of one already there.
        (8, 8192, 33),
        (1, 8192, MAX_SPLITS),
        (264, 8192, 1),
        (133, 8192, 1),
        (132, 8192, 2),
        # No fewer than 64 keys a split.
        (8, 64, 1),
        (8, 65, 2),
        (8, 1024, 16),
        (0, 8192, MAX_SPLITS),
    ],
)
def test_keys_are_split_until_every_multiprocessor_has_work(
    programs: int, capacity: int, wanted: int
) -> None:
    assert choose_splits(programs, capacity, MULTIPROCESSORS) == wanted
