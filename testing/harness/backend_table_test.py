"""The table names each backend once, with what ran or what it lacks."""

from collections import Counter
from types import SimpleNamespace

import pytest

from testing.harness import backend_table
from testing.harness.backend_table import BackendRow


@pytest.fixture(autouse=True)
def empty_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_table, "_SOURCES", [])
    monkeypatch.setattr(backend_table, "_RAN", Counter())
    monkeypatch.setattr(backend_table, "_REFUSED", Counter())


def test_nothing_to_say() -> None:
    assert backend_table.lines() == []


def test_what_ran_and_what_others_need() -> None:
    missing = "needs a GPU (CUDA sm100 or newer), the layer is on 'cpu'"
    rows = [
        BackendRow("nvfp4_mm", "flashinfer", "CUDA sm100 or newer", missing),
        BackendRow("nvfp4_mm", "torch", "any device", None),
        BackendRow("nvfp4_quant", "torch", "any device", None),
    ]
    backend_table.add_source(lambda: rows)
    backend_table.add_source(lambda: rows)
    for _ in range(3):
        backend_table.count_run({"nvfp4_mm": "torch"})
    backend_table.count_run({"int8_scaled_mm": "torch"})
    backend_table.count_refusal("torch", "needs K divisible by 16")
    header, first, second, third, unlisted, refusal = backend_table.lines()
    assert header.split() == ["operation", "backend", "ran", "here", "needs"]
    assert first == f"nvfp4_mm        flashinfer  no: {missing}  CUDA sm100 or newer"
    assert second.split() == ["nvfp4_mm", "torch", "3", "layers", "any", "device"]
    assert "no: it could, and was not asked" in third
    assert unlisted.split() == ["int8_scaled_mm", "torch", "1", "layers"]
    assert refusal == "torch refused 1 layers: needs K divisible by 16"


@pytest.mark.parametrize(("runs", "status"), [([], 1), (["torch"], 1), (["torch", "triton"], 0)])
def test_a_backend_that_refused_all_its_layers_fails_the_run(runs: list[str], status: int) -> None:
    backend_table.count_refusal("triton", "needs K divisible by 16")
    for backend in runs:
        backend_table.count_run({"int8_scaled_mm": backend})
    session = SimpleNamespace(exitstatus=0)
    backend_table.pytest_sessionfinish(session)
    assert session.exitstatus == status
    assert ("FAILED: triton refused all its layers" in backend_table.lines()) == bool(status)
