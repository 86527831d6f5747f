import contextlib
import multiprocessing
import threading
import time
from pathlib import Path

import pytest

from testing.harness import gpu_slot
from testing.harness.gpu_slot import Gpu, NoGpu

TWO = [Gpu("0", "GPU-aa11", "sm90", "NVIDIA H100"), Gpu("1", "GPU-bb22", "sm90", "NVIDIA H100")]


def test_the_drivers_table_is_read() -> None:
    gpus = gpu_slot.parse_gpus("0, GPU-a, 9.0, NVIDIA H200\n1, GPU-b, 12.0, RTX 5090, 32 GB\n")

    assert gpus == [
        Gpu("0", "GPU-a", "sm90", "NVIDIA H200"),
        Gpu("1", "GPU-b", "sm120", "RTX 5090, 32 GB"),
    ]


def test_another_architecture_is_no_candidate() -> None:
    assert gpu_slot.candidates(TWO, "sm100", {}) == []


def test_an_executor_that_hands_out_gpus_is_obeyed() -> None:
    def left(visible: str) -> list[Gpu]:
        return gpu_slot.candidates(TWO, "sm90", {"CUDA_VISIBLE_DEVICES": visible})

    assert left("1") == [TWO[1]]
    assert left("0, 1") == TWO
    assert left("GPU-bb22") == left("GPU-b") == [TWO[1]]
    assert left("") == []


def test_more_gpus_than_there_are_is_refused_at_once(tmp_path: Path) -> None:
    refused = pytest.raises(NoGpu, match="wanted 4, this machine offers 2")
    with refused, gpu_slot.take(TWO, 4, tmp_path):
        pass


def test_two_tests_at_once_get_different_gpus(tmp_path: Path) -> None:
    with gpu_slot.take(TWO, 1, tmp_path) as first, gpu_slot.take(TWO, 1, tmp_path) as second:
        assert {first[0].index, second[0].index} == {"0", "1"}


def test_a_test_waits_until_enough_gpus_are_free_and_holds_none_meanwhile(tmp_path: Path) -> None:
    got = threading.Event()

    def both() -> None:
        with gpu_slot.take(TWO, 2, tmp_path):
            got.set()

    with gpu_slot.take(TWO, 1, tmp_path):
        waiting = threading.Thread(target=both)
        waiting.start()
        assert not got.wait(0.6)
        # The other GPU is still to be had, though a test that wants both is waiting.
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            taken, locks = gpu_slot._try_take(TWO, 1, tmp_path, 1)
            if taken:
                break
        assert taken
        locks[0].release()
    assert got.wait(5)
    waiting.join()


def _hold_for_ever(folder: Path, ready: "multiprocessing.synchronize.Event") -> None:
    with gpu_slot.take(TWO[:1], 1, folder):
        ready.set()
        time.sleep(60)


def test_a_killed_test_gives_its_gpu_back(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    holder = context.Process(target=_hold_for_ever, args=(tmp_path, ready))
    holder.start()
    assert ready.wait(10)
    holder.kill()
    holder.join()

    with gpu_slot.take(TWO[:1], 1, tmp_path) as taken:
        assert taken == TWO[:1]


def test_tests_share_a_gpu_where_they_are_allowed_to_and_spread_first(tmp_path: Path) -> None:
    def one() -> contextlib.AbstractContextManager[list[Gpu]]:
        return gpu_slot.take(TWO, 1, tmp_path, per_gpu=2)

    with contextlib.ExitStack() as held:
        taken = [held.enter_context(one())[0].index for _ in range(4)]

        assert sorted(taken[:2]) == sorted(taken[2:]) == ["0", "1"]
        assert gpu_slot._try_take(TWO, 1, tmp_path, 2) == ([], [])


def test_a_test_that_shares_takes_each_gpu_once(tmp_path: Path) -> None:
    with gpu_slot.take(TWO, 2, tmp_path, per_gpu=2) as taken:
        assert [gpu.index for gpu in taken] == ["0", "1"]


def test_how_many_share_a_gpu_is_a_whole_number_from_1() -> None:
    assert gpu_slot.tests_per_gpu({}) == 1
    assert gpu_slot.tests_per_gpu({"PLUMBLINE_TESTS_PER_GPU": "4"}) == 4
    for wrong in ("0", "-1", "two"):
        with pytest.raises(ValueError, match=f"is '{wrong}', wanted a whole number from 1"):
            gpu_slot.tests_per_gpu({"PLUMBLINE_TESTS_PER_GPU": wrong})


def test_a_slot_of_a_remote_worker_goes_before_what_the_client_sees() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "0", "PLUMBLINE_SLOT_GPUS": "1"}

    assert [gpu.index for gpu in gpu_slot.candidates(TWO, "sm90", environ)] == ["1"]
    assert gpu_slot.candidates(TWO, "sm90", {**environ, "PLUMBLINE_SLOT_GPUS": ""}) == []
