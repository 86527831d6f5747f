from pathlib import Path

from tools.plumb.pool.config import Server, Slot
from tools.plumb.pool.engine import parts
from tools.plumb.pool.home import Home

PROGRAMS = parts.Programs(Path("/buildbox"), Path("/postgres"), Path("/python"), ())


def environment(slot: Slot) -> dict[str, str]:
    return parts.worker(Home(Path("/home")), Server(), PROGRAMS, slot).environment


def test_a_slots_tests_see_its_gpu_and_how_many_share_it() -> None:
    found = environment(Slot("h100-gpu3-1", "h100", 3, sharers=2))

    names = ("CUDA_VISIBLE_DEVICES", "PLUMBLINE_SLOT_GPUS", "PLUMBLINE_TESTS_PER_GPU")
    assert [found[name] for name in names] == ["3", "3", "2"]


def test_a_slot_without_gpu_hides_all_and_its_own_environment_goes_before() -> None:
    found = environment(Slot("cpu-0", "cpu", env={"PLUMBLINE_TESTS_PER_GPU": "9"}))

    assert found["CUDA_VISIBLE_DEVICES"] == found["PLUMBLINE_SLOT_GPUS"] == ""
    assert found["PLUMBLINE_TESTS_PER_GPU"] == "9"
