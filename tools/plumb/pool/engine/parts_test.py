import socket
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("address", "listening", "family"),
    [
        ("127.0.0.1", "127.0.0.1", socket.AF_INET),
        ("127.0.0.2", "127.0.0.2", socket.AF_INET),
        ("0.0.0.0", "0.0.0.0", socket.AF_INET),
        ("::1", "::1", socket.AF_INET6),
        ("0::0", "::", socket.AF_INET6),
    ],
)
def test_a_server_is_ready_where_clients_find_it(
    address: str, listening: str, family: socket.AddressFamily
) -> None:
    with socket.socket(family) as heard:
        try:
            heard.bind((listening, 0))
        except OSError as error:
            pytest.skip(f"this machine has no {listening}: {error.strerror}")
        server = Server(address, heard.getsockname()[1])
        made = parts.buildgrid(Home(Path("/home")), server, PROGRAMS, "server")
        assert not parts.is_ready(made)

        heard.listen()

        assert parts.is_ready(made)


def test_the_pools_own_part_answers_on_the_loopback_wherever_clients_are() -> None:
    made = parts.buildgrid(Home(Path("/home")), Server("192.0.2.7"), PROGRAMS, "scheduler")

    assert (made.address, made.port) == ("127.0.0.1", Server().worker_port)
