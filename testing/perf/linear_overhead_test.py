from functools import partial

import pytest
import torch

from testing.perf import linear_overhead, timing
from testing.perf.linear_overhead import Row
from testing.perf.methods import METHODS


def test_every_method_is_measured_on_a_cpu_and_what_is_absent_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["linear_overhead", "--size", "128", "--rows", "1", "--rounds", "1", "--require"]
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    assert linear_overhead.main() == 0

    times, _, rest = capsys.readouterr().out.partition("Memory after post-load")
    memory, _, absent = rest.partition("Not run here")
    for method in METHODS:
        assert f"| {method.name} | torch | 1 |" in times
        assert f"| {method.name} | torch | " in memory
    assert (
        "needs a GPU (CUDA sm80 or newer), the layer is on 'cpu': int8 channel (triton)" in absent
    )


@pytest.mark.parametrize(
    ("m", "layer", "kernels", "met"),
    [
        (1, 64.9, 50.0, True),
        (1, 65.1, 50.0, False),
        (4096, 102.9, 100.0, True),
        (4096, 103.1, 100.0, False),
    ],
)
def test_goals_are_a_difference_for_few_rows_and_a_ratio_for_many(
    m: int, layer: float, kernels: float, met: bool
) -> None:
    row = Row("fp8", "triton", m, layer, kernels, matmul=40.0)
    assert row.met == met
    assert ("met" if met else "MISSED") in row.cells(judged=True)


def test_each_call_is_repeated_as_often_as_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    counts = {"slow": 0, "quick": 0}

    def count(name: str) -> None:
        counts[name] += 1

    calls = {name: partial(count, name) for name in counts}
    times = timing.medians(calls, rounds=3, host=True)

    assert counts["slow"] == counts["quick"] == 2 * timing.WARM_UP + 3 * timing.MAX_REPEATS
    assert all(0 < us < 1000 for us in times.values())
