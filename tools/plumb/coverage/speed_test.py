from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tools.plumb.cells.made_up import as_stream, large_graph
from tools.plumb.cells.read import model_of

# As many test targets as a large open CI had, and their cells.
TESTS, CELLS = 613, 2000
LIMIT = 3.0


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("large") / "graph.json"
    file.write_text(as_stream(large_graph(TESTS, CELLS)))
    return file


def _processor_seconds() -> float:
    # Of ended children: what a quiet machine takes, whatever else runs on this one.
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_graph_is_as_large_as_it_says() -> None:
    model = model_of(large_graph(TESTS, CELLS))

    assert len(model.tests) == TESTS
    assert len(model.demanded) == CELLS
    assert model.problems == ()


@pytest.mark.parametrize(
    "arguments", [[], ["--missing"], ["--format", "json"], ["--format", "html"]]
)
def test_the_whole_command_answers_in_time(graph: Path, arguments: list[str]) -> None:
    begin = _processor_seconds()
    done = subprocess.run(
        [sys.executable, "-m", "tools.plumb", "coverage", "--graph", str(graph), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    taken = _processor_seconds() - begin

    assert done.returncode == (3 if "--missing" in arguments else 0), done.stderr
    assert len(done.stdout) > 20_000
    assert taken < LIMIT, f"{taken:.1f} s for {TESTS} tests and {CELLS} cells"
