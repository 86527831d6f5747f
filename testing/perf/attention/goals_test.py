import pytest
import torch

from testing.perf.attention.batch import Batch, Sizes, random_batch
from testing.perf.attention.goals import MET, MISSED, UNRESOLVED, KernelRow, LayerRow
from testing.perf.timing import Comparison

CPU = torch.device("cpu")


def batch(mode: str, requests: int = 2, context: int = 32) -> Batch:
    return random_batch(Sizes(4, 2, 16), mode, requests, context, CPU)


def test_work_is_counted_as_a_loop_over_pairs_would() -> None:
    decode, extend = batch("decode"), batch("extend")

    pairs = sum(1 for i in range(32) for j in range(32) if j <= i)
    assert extend.operations == 2 * pairs * 4 * (2 * 16 + 2 * 16)
    assert decode.operations == 2 * 32 * 4 * (2 * 16 + 2 * 16)
    assert decode.key_bytes == decode.cache.k.nbytes + decode.cache.v.nbytes


@pytest.mark.parametrize(
    ("mode", "ours", "verdict"),
    [
        ("decode", 100.0, MET),
        ("decode", 139.0, MET),
        ("decode", 143.0, UNRESOLVED),
        ("decode", 146.0, MISSED),
        ("extend", 190.0, MET),
        ("extend", 203.0, MISSED),
    ],
)
def test_a_kernel_is_held_to_its_share_of_the_rate(mode: str, ours: float, verdict: str) -> None:
    row = KernelRow(batch(mode), Comparison(ours, 100.0, ours - 100.0, 2.0))

    assert row.verdict == verdict
    assert row.ratio == pytest.approx(100.0 / ours)
    assert row.cells(judged=True)[-1] == verdict
    assert row.cells(judged=False)[-1] == "—"


@pytest.mark.parametrize(
    ("difference", "verdict"), [(4.0, MET), (5.5, UNRESOLVED), (6.5, MISSED), (-3.0, MET)]
)
def test_a_layer_may_cost_a_twentieth_more_than_its_kernel(difference: float, verdict: str) -> None:
    times = Comparison(100.0 + difference, 100.0, difference, 1.0)

    row = LayerRow(batch("decode"), "triton", times, 120.0)

    assert row.verdict == verdict
    assert not row.has_goal
    assert not LayerRow(batch("decode", 32, 8192), "torch", times, 120.0).has_goal
    assert LayerRow(batch("decode", 32, 8192), "triton", times, 120.0).has_goal
