import pytest
import torch

from testing.perf.mla import speed
from testing.perf.mla.batch import Batch, random_batch
from testing.perf.mla.speed import Timed
from testing.perf.timing import Comparison

CPU = torch.device("cpu")


def batch(mode: str, context: int = 32) -> Batch:
    return random_batch(2, mode, 3, context, CPU)


def test_work_is_counted_as_a_loop_over_pairs_would() -> None:
    decode, extend = batch("decode"), batch("extend")

    pairs = sum(1 for i in range(32) for j in range(32) if j <= i)
    assert extend.operations == 3 * pairs * 2 * 2 * (512 + 64 + 512)
    assert decode.operations == 3 * 32 * 2 * 2 * (512 + 64 + 512)
    assert decode.latent_bytes == 3 * 32 * 576 * 2


@pytest.mark.parametrize(("ours", "verdict"), [(140.0, "met"), (146.0, "MISSED")])
def test_our_kernel_is_held_to_its_share_of_the_rate(ours: float, verdict: str) -> None:
    row = Timed(batch("decode"), "triton", Comparison(ours, 100.0, ours - 100.0, 1.0))

    assert row.kernel_cells()[-3:] == [f"{100 / ours:.2f}", "0.7", verdict]


def test_on_a_cpu_the_layer_is_measured_and_what_is_absent_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["speed", "--requests", "2", "--require"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    assert speed.main() == 0

    printed = capsys.readouterr().out
    for mode in ("decode", "extend"):
        assert f"| {mode} | 2 | 2 | 64 | torch | " in printed
    for backend in ("triton", "flashinfer", "flashmla"):
        assert f"backend '{backend}' needs a GPU (CUDA sm" in printed
