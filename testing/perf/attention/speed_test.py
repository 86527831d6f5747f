import os
from pathlib import Path
from typing import Any

import pytest
import torch

from layers.attention.layer import Attention
from testing.perf.attention import speed


def test_on_a_cpu_the_layer_is_measured_and_what_is_absent_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = tmp_path / "speed.md"
    monkeypatch.setattr("sys.argv", ["speed", "--requests", "2", "--require", "--out", str(kept)])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    assert speed.main() == 0

    printed = capsys.readouterr().out
    assert kept.read_text() == printed
    for mode in ("decode", "extend"):
        assert f"| {mode} | 2 | 64 | torch | " in printed
    for backend in ("triton", "flashinfer"):
        assert f"backend '{backend}' needs a GPU (CUDA sm80 or newer)" in printed


def test_everything_is_compiled_before_the_host_is_kept_to_one_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, int]] = []
    cores = len(os.sched_getaffinity(0))
    forward = Attention.forward

    def spy(layer: Attention, q: torch.Tensor, *rest: Any) -> torch.Tensor:
        seen.append((rest[-1].mode, len(os.sched_getaffinity(0))))
        return forward(layer, q, *rest)

    monkeypatch.setattr("sys.argv", ["speed", "--requests", "2"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(Attention, "forward", spy)
    speed.main()

    assert seen[:2] == [("decode", cores), ("extend", cores)]


@pytest.mark.parametrize("option", ["--requests", "--contexts", "--rounds"])
def test_an_argument_with_a_slip_is_named(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["speed", option, "0"])

    with pytest.raises(SystemExit) as left:
        speed.main()

    assert left.value.code == 2
    assert f"{option}: '0', wanted a whole number from 1" in capsys.readouterr().err
