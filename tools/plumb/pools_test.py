from __future__ import annotations

import pytest

from testing.harness import gpu_slot
from tools.plumb.errors import PlumbError
from tools.plumb.pools import Placement, PoolRule, local_gpus, parse, placement
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


def test_a_mapping_gives_plain_tests_a_pool_by_their_tags() -> None:
    text = '[[pool]]\nname = "h100"\ntags = ["gpu", "big"]\ngpus = 4\narch = "sm90"\n'
    rules = parse(text)

    assert rules == (PoolRule("h100", ("gpu", "big"), 4, "sm90"),)
    assert placement(py_test("//a:t", tags=["big", "gpu"]), rules) == Placement(
        "h100", "sm90", 4, None, None
    )
    assert placement(py_test("//a:t", tags=["big", "gpu", "gpus:1"]), rules).gpus == 1
    assert placement(py_test("//a:t", tags=["big"]), rules).pool == "cpu"


@pytest.mark.parametrize(
    "text",
    [
        "[[pool]]\nname = 3\n",
        '[[pool]]\nname = "x"\n',
        '[[pool]]\nnom = "x"\n',
        "pool = 3",
        "x = [",
        f"x = {'9' * 5000}",
        f"x = {'[' * 5000}{']' * 5000}",
    ],
)
def test_a_mapping_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(PlumbError, match=r"tools/plumb/pools\.toml"):
        parse(text)


def test_counts_the_cards_that_a_test_could_take(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [
        gpu_slot.Gpu(str(n), f"GPU-{n}", arch, "x")
        for n, arch in enumerate(["sm90", "sm90", "sm120"])
    ]
    monkeypatch.setattr(gpu_slot, "machine_gpus", lambda: cards)

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert local_gpus() == {"sm120": 1, "sm90": 2}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert local_gpus() == {"sm90": 1}
