"""A small model for the tests of what shows coverage, and a workspace that holds its sources."""

from __future__ import annotations

from pathlib import Path

from tools.plumb.cells.made_up import (
    as_stream,
    claim_target,
    graph_of,
    suite_target,
    test_target,
)
from tools.plumb.graph import Graph

LINEAR, LOADER, SERVE = "quant.int8.linear", "quant.int8.loader", "serve.accuracy"
SOURCE = '''"""Text."""


def helper():
    pass


def test_products():
    assert True


def test_rows():
    assert True
'''


def small_graph() -> Graph:
    """Three claims: one covered on the CPU, sm90 and not sm100, one by night only, one by none."""
    return graph_of(
        claim_target(
            LINEAR,
            "cpu:per-commit",
            "sm90:per-commit",
            "sm100:per-commit",
            sentence="int8 linear layers give the checkpoint's <product>.",
        ),
        claim_target(LOADER, "cpu:per-commit", "sm90:per-commit", sentence="Every cell arrives."),
        claim_target(SERVE, "sm90:nightly", sentence="A served model answers.", level="e2e"),
        test_target("//quant:a_test_cpu", LINEAR, LOADER, seconds=6),
        test_target("//quant:a_test_h100", LINEAR, pool="h100", seconds=20, gpus=2),
        test_target("//quant:n_test_h100", LOADER, pool="h100", seconds=30, cadence="nightly"),
        test_target("//quant/deep:d_test_h100", LINEAR, pool="h100", seconds=5),
        test_target("//other:plain_test"),
        suite_target("//quant:a_test", "//quant:a_test_cpu", "//quant:a_test_h100"),
    )


def write(folder: Path, graph: Graph | None = None) -> Path:
    """Writes sources into `folder`, and the graph into the file that is returned."""
    (folder / "quant").mkdir(parents=True)
    (folder / "quant/a_test_cpu.py").write_text(SOURCE)
    file = folder / "graph.json"
    file.write_text(as_stream(graph or small_graph()))
    return file
