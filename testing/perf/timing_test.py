"""With a clock of its own: what an unquiet machine does to the figures."""

from __future__ import annotations

import gc
import os

import pytest
import torch

from testing.perf import timing
from testing.perf.timing import Call, alone, compare, quiet_host


class UnquietClock:
    """Layer and kernels take 60 and 50 µs a call; now and then all is slower, or one is held up."""

    def __init__(self) -> None:
        self.blocks = 0
        self.names: list[str] = []

    def __call__(self, call: Call, repeats: int) -> float:
        self.blocks += 1
        name = str(call())
        self.names.append(name)
        seconds = {"layer": 60e-6, "kernels": 50e-6}[name] * repeats
        if self.blocks % 9 < 4:
            seconds *= 1.7
        return seconds + (300e-6 if self.blocks % 7 == 0 else 0.0)


def layer() -> str:
    return "layer"


def kernels() -> str:
    return "kernels"


def test_interruptions_and_slow_spells_leave_the_difference_as_it_is() -> None:
    seen = compare(layer, kernels, pairs=60, clock=UnquietClock())
    assert seen.difference == pytest.approx(10.0)
    assert (seen.first, seen.second) == pytest.approx((60.0, 50.0))
    assert seen.spread == pytest.approx(0.0, abs=1e-6)


def test_a_clock_that_jumps_from_block_to_block_shows_in_the_spread() -> None:
    jumps = iter(range(10_000))

    def clock(call: Call, repeats: int) -> float:
        return repeats * (50e-6 + 20e-6 * (next(jumps) * 7 % 5))

    assert compare(layer, kernels, pairs=60, clock=clock).spread > 5.0


def test_first_and_second_take_turns() -> None:
    clock = UnquietClock()
    compare(layer, kernels, pairs=4, clock=clock)
    assert clock.names[-8:] == [
        *("layer", "kernels", "kernels", "layer", "layer", "kernels", "kernels", "layer")
    ]


def test_one_call_alone() -> None:
    assert alone(kernels, 40, UnquietClock()) == pytest.approx(50.0)


def test_real_clocks_agree_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    x = torch.randn(200, 200)
    for clock in (timing.wall_time, timing.gpu_time):
        assert 0 < clock(lambda: x @ x, 3) < 10


def test_a_gpu_is_busy_until_all_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            done.append("record")

        def synchronize(self) -> None:
            done.append("wait")

        def elapsed_time(self, end: Event) -> float:
            return 6.0

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: done.append(f"sleep {cycles}"))

    assert timing.gpu_time(lambda: done.append("call"), 3) == pytest.approx(0.006)
    assert done == ["sleep 900000", "record", *["call"] * 3, "record", "wait"]


def test_the_host_is_left_as_it_was() -> None:
    before = os.sched_getaffinity(0)
    with quiet_host():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert os.sched_getaffinity(0) == before
