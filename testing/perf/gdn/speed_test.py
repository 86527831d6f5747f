from pathlib import Path

import pytest
import torch

from testing.perf.gdn import speed
from testing.perf.gdn.batch import Sizes, random_batch, ready_layer

CPU = torch.device("cpu")


def test_work_is_counted() -> None:
    layer = ready_layer(Sizes(2, 4, 16), "torch", CPU)

    decode, extend = random_batch(layer, "decode", 3, 1), random_batch(layer, "extend", 3, 5)

    channels = 2 * 2 * 16 + 4 * 16
    assert decode.state_bytes == 2 * 3 * 4 * 16 * 16 * 4
    assert extend.conv_bytes == 2 * 3 * 5 * channels * 2
    assert sorted(decode.metadata.state_indices.tolist()) == [0, 1, 2]


def test_on_a_cpu_the_layer_is_measured_and_what_is_absent_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = tmp_path / "speed.md"
    arguments = ["speed", "--requests", "2", "--tokens", "8", "--out", str(kept)]
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    assert speed.main() == 0

    printed = capsys.readouterr().out
    assert kept.read_text() == printed
    assert "| decode | 2 | 1 | torch | " in printed
    assert "| extend | 2 | 4 | torch | " in printed
    for backend in ("triton", "flashinfer"):
        assert f"backend '{backend}' needs a GPU (CUDA sm" in printed


@pytest.mark.parametrize("option", ["--requests", "--tokens", "--rounds"])
def test_an_argument_with_a_slip_is_named(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["speed", option, "x"])

    with pytest.raises(SystemExit) as left:
        speed.main()

    assert left.value.code == 2
    assert f"{option}: 'x', wanted a whole number from 1" in capsys.readouterr().err
