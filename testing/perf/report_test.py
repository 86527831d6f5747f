import pytest

from testing.perf.report import MET, MISSED, UNRESOLVED, Report, Row
from testing.perf.timing import Comparison


def row(
    m: int, difference: float, spread: float = 0.5, backend: str = "triton", on_gpu: float = 40.0
) -> Row:
    times = Comparison(100.0 + difference, 100.0, difference, spread)
    return Row("fp8", backend, f"triton + {backend}", m, times, matmul=30.0, on_gpu=on_gpu)


@pytest.mark.parametrize(
    ("m", "difference", "spread", "verdict"),
    [
        (1, 14.4, 0.5, MET),
        (1, 14.6, 0.5, UNRESOLVED),
        (1, 15.6, 0.5, MISSED),
        (1, -3.0, 20.0, UNRESOLVED),
        (4096, 2.4, 0.5, MET),
        (4096, 2.6, 0.5, UNRESOLVED),
        (4096, 3.6, 0.5, MISSED),
    ],
)
def test_a_goal_is_judged_with_the_spread(
    m: int, difference: float, spread: float, verdict: str
) -> None:
    seen = row(m, difference, spread)
    assert seen.verdict == verdict
    assert verdict in seen.cells(judged=True)
    assert verdict not in seen.cells(judged=False)


def test_the_reference_backend_has_no_goal() -> None:
    report = Report(times=[row(1, 90.0, backend="torch"), row(1, 3.0)])
    assert report.verdicts == {MET: 1}


def test_the_fastest_backend_stands_beside_the_first() -> None:
    report = Report(
        times=[
            row(1, 1.0, backend="torch_scaled_mm", on_gpu=12.0),
            row(1, 1.0, backend="sgl_kernel", on_gpu=9.5),
            row(1, 1.0, backend="torch", on_gpu=1.0),
            row(64, 1.0, backend="torch_scaled_mm"),
        ]
    )
    assert report.fastest() == [["fp8", "1", "sgl_kernel", "9.5", "torch_scaled_mm", "12.0"]]
