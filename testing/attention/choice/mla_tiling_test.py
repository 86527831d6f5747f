"""What MLA's Triton kernels divide their work into fits an H200, and leaves none of it idle."""

import pytest

from layers.kernels.mla.tiling import HOPPER, MAX_SPLITS, choose_splits, choose_tiles

KIB = 1024
SM90_SHARED_MEMORY = 227 * KIB
# The least that a GPU has whose tensor cores multiply 16 bits: sm86, sm89 and sm120.
LEAST_SHARED_MEMORY = 99 * KIB
MULTIPROCESSORS = 132


@pytest.mark.parametrize("shared_memory", [LEAST_SHARED_MEMORY, 163 * KIB, SM90_SHARED_MEMORY])
@pytest.mark.parametrize("rows", [1, 16, 17, 64, 4096])
def test_tiles_fit_into_shared_memory(rows: int, shared_memory: int) -> None:
    tiles = choose_tiles(rows, shared_memory)

    # Queries once and latents, of one stage less where tensor cores take them by way of registers;
    # and that as often as programs share a multiprocessor.
    kept = tiles.stages if tiles.rows == 64 else tiles.stages - 1
    assert 2 * (512 + 64) * (tiles.rows + tiles.keys * kept) * tiles.resident <= shared_memory
    # What tensor cores multiply.
    assert tiles.rows % 16 == 0 and tiles.keys % 16 == 0


def test_hopper_has_room_for_weights_beside_its_tiles() -> None:
    latents = 2 * (512 + 64) * (HOPPER.rows + HOPPER.keys * HOPPER.stages)

    assert latents + 2 * HOPPER.rows * HOPPER.keys <= SM90_SHARED_MEMORY


@pytest.mark.parametrize(
    ("programs", "capacity", "keys", "resident", "wanted"),
    [
        # 128 heads are two tiles of rows a request: 32 requests fill half of 132 places.
        (64, 8192, 64, 1, 2),
        (64, 1024, 64, 1, 2),
        # Almost four waves, of which splits would only make more.
        (512, 8192, 64, 1, 1),
        # No more than there are steps, nor than leave two steps to each.
        (2, 1024, 64, 1, 16),
        (2, 8192, 64, 1, 64),
        (1, 64, 64, 1, 1),
        # 16 heads, two programs a multiprocessor.
        (32, 8192, 32, 2, 8),
        (256, 8192, 32, 2, 1),
        (1, 8192, 32, 2, MAX_SPLITS),
        (1, 0, 32, 2, 1),
    ],
)
def test_keys_are_split_until_every_multiprocessor_has_work(
    programs: int, capacity: int, keys: int, resident: int, wanted: int
) -> None:
    assert choose_splits(programs, capacity, keys, resident * MULTIPROCESSORS) == wanted
