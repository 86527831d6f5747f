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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rounds", "0"], "--rounds: '0', wanted a whole number from 1"),
        (["--rounds", "many"], "--rounds: 'many', wanted a whole number"),
        (["--rows", "1", "-1"], "--rows: '-1', wanted a whole number from 1"),
        (["--rows", "0"], "--rows: '0', wanted a whole number from 1"),
        (["--size", "33"], "--size: '33', wanted a multiple of 128"),
        (["--backends", "Triton"], "--backends: invalid choice: 'Triton'"),
        (["--method", "int9"], "--method 'int9' is part of no name, wanted one of ['int8 channel'"),
    ],
)
def test_an_argument_with_a_slip_is_named(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["linear_overhead", *arguments])

    with pytest.raises(SystemExit) as left:
        linear_overhead.main()

    assert left.value.code == 2
    assert message in capsys.readouterr().err
