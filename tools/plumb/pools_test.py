from __future__ import annotations

from tools.plumb.pools import Placement, count_cards, placement
from tools.plumb.synthetic import py_test


def test_reads_pool_gpus_seconds_and_cadence() -> None:
    test = py_test(
        "//a:t",
        tags=["gpu", "gpus:2", "sm:sm90", "seconds:20", "cadence:nightly"],
        exec_properties=[{"key": "test.Pool", "value": "h100"}],
    )

    assert placement(test) == Placement("h100", "sm90", 2, 20, "nightly")


def test_a_plain_test_is_a_cpu_test_that_states_no_seconds() -> None:
    assert placement(py_test("//a:t")) == Placement("cpu", None, 0, None, None)


def test_a_gpu_test_of_no_named_pool_takes_one_gpu() -> None:
    found = placement(py_test("//a:t", tags=["gpu", "seconds:x"]))

    assert (found.pool, found.gpus, found.seconds) == ("gpu", 1, None)


def test_counts_cards_by_architecture() -> None:
    assert count_cards("9.0\n9.0\n12.0\n[N/A]\n") == {"sm90": 2, "sm120": 1}
    assert count_cards("") == {}
