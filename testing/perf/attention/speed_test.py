import pytest
import torch

from testing.perf.attention import speed


def test_on_a_cpu_the_layer_is_measured_and_what_is_absent_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["speed", "--requests", "2", "--require"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    assert speed.main() == 0

    printed = capsys.readouterr().out
    for mode in ("decode", "extend"):
        assert f"| {mode} | 2 | 64 | torch | " in printed
    for backend in ("triton", "flashinfer"):
        assert f"backend '{backend}' needs a GPU (CUDA sm80 or newer)" in printed


@pytest.mark.parametrize("option", ["--requests", "--contexts", "--rounds"])
def test_an_argument_with_a_slip_is_named(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["speed", option, "0"])

    with pytest.raises(SystemExit) as left:
        speed.main()

    assert left.value.code == 2
    assert f"{option}: '0', wanted a whole number from 1" in capsys.readouterr().err
