"""Thirty random edits, of which Bazel itself says what they affect.

Needs a Bazel: $PLUMBLINE_BAZEL, or this repository's tools/bazel.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tools.plumb.truth import figures
from tools.plumb.truth.measure import Bench

SEED = 4


@pytest.fixture
def bench() -> Iterator[Bench]:
    folder = Path(mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    entry = os.environ.get("PLUMBLINE_BAZEL") or Path(__file__).resolve().parents[2] / "bazel"
    made = Bench(folder, Path(entry), SEED)
    try:
        yield made
    finally:
        made.close()


def test_every_test_that_bazel_runs_is_named_and_hardly_any_other(bench: Bench) -> None:
    steps = list(bench.steps(30))

    print(figures.table(steps))
    assert [figures.wrong(step) for step in steps if step.executed - step.plumb] == []
    told = [s for s in steps if not (s.is_demanded or s.is_beyond_the_graph)]
    assert [figures.wrong(s) for s in told if s.plumb != s.executed] == []
    assert any(step.executed for step in steps)
