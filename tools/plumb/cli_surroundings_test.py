"""The command where what is around it is odd: Bazel, stdout, the folder, the history."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.plumb.fake_workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_a_bazel_that_says_nothing_is_refused_and_leaves_nothing_behind(
    workspace: Workspace,
) -> None:
    workspace.write("one.test", "2")
    silent = workspace.plumb("affected", "--base", "HEAD", PLUMBLINE_BAZEL="/bin/true")

    assert silent.returncode == 36 and silent.stdout == ""
    assert "true printed no targets" in silent.stderr and "PLUMBLINE_BAZEL" in silent.stderr
    assert "1 of 2 tests affected" in workspace.plumb("affected", "--base", "HEAD").stdout
