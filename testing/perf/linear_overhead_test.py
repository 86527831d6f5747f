import pytest
import torch

from testing.perf import linear_overhead
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
        assert f"| {method.name} | torch | " in times
        assert f"| {method.name} | torch | " in memory
    assert (
        "needs a GPU (CUDA sm80 or newer), the layer is on 'cpu': int8 channel (triton)" in absent
    )
