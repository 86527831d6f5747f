import os
from pathlib import Path
from typing import Any

import pytest
import torch

from layers.attention.mla.layer import MLAAttention
from testing.perf.mla import speed
from testing.perf.mla.batch import Batch, random_batch
from testing.perf.mla.rows import KernelRow
from testing.perf.timing import Comparison

CPU = torch.device("cpu")


def batch(mode: str, context: int = 32) -> Batch:
    return random_batch(2, mode, 3, context, CPU)


def test_work_is_counted_as_a_loop_over_pairs_would() -> None:
    decode, extend, unabsorbed = batch("decode"), batch("extend"), batch("unabsorbed")

    pairs = sum(1 for i in range(32) for j in range(32) if j <= i)
    assert extend.operations == 3 * pairs * 2 * 2 * (512 + 64 + 512)
    assert unabsorbed.operations == 3 * pairs * 2 * 2 * (128 + 64 + 128)
    assert decode.operations == 3 * 32 * 2 * 2 * (512 + 64 + 512)
    assert decode.latent_bytes == 3 * 32 * 576 * 2


@pytest.mark.parametrize(("ours", "verdict"), [(140.0, "met"), (146.0, "MISSED")])
def test_our_kernel_is_held_to_its_share_of_the_rate(ours: float, verdict: str) -> None:
    row = KernelRow(batch("decode"), "triton", Comparison(ours, 100.0, ours - 100.0, 1.0))

    assert row.cells()[-3:] == [f"{100 / ours:.2f}", "0.7", verdict]


def test_on_a_cpu_the_layer_is_measured_and_what_is_absent_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = tmp_path / "speed.md"
    modes = ["decode", "extend", "unabsorbed"]
    arguments = ["--modes", *modes, "--requests", "2", "--require", "--out", str(kept)]
    monkeypatch.setattr("sys.argv", ["speed", *arguments])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    assert speed.main() == 0

    printed = capsys.readouterr().out
    assert kept.read_text() == printed
    for mode in modes:
        assert f"| {mode} | 2 | 2 | 64 | torch | " in printed
    for backend in ("triton", "flashinfer", "flashmla"):
        assert f"backend '{backend}' needs a GPU (CUDA sm" in printed


def test_everything_is_compiled_before_the_host_is_kept_to_one_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, int]] = []
    cores = len(os.sched_getaffinity(0))
    forward = MLAAttention.forward

    def spy(layer: MLAAttention, q: torch.Tensor, *rest: Any) -> torch.Tensor:
        seen.append((rest[-1].mode, len(os.sched_getaffinity(0))))
        return forward(layer, q, *rest)

    monkeypatch.setattr("sys.argv", ["speed", "--requests", "2"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(MLAAttention, "forward", spy)
    speed.main()

    assert seen[:2] == [("decode", cores), ("extend", cores)]
