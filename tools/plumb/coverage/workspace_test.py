"""`plumb coverage` in a git workspace: of the working tree, of a revision, without Bazel again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.plumb.cells.made_up import as_stream, claim_target, graph_of, test_target
from tools.plumb.coverage.made_up import SOURCE
from tools.plumb.endtoend.fake_workspace import Workspace
from tools.plumb.graph import Target

BAZEL = """#!{python}
# Stands in for Bazel: its graph is what BUILD.bazel holds, a JSON object a line.
import json, pathlib, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("bazel 7.7.1"))
command = [a for a in sys.argv[1:] if not a.startswith("-")][0]
with open({log!r}, "a") as log:
    log.write(command + "\\n")
lines = pathlib.Path("BUILD.bazel").read_text().splitlines()
if "broken" in lines:
    sys.exit(print("ERROR: broken BUILD file", file=sys.stderr) or 7)
sys.path[:0] = {path!r}
from tools.plumb.stream.write import delimited
for line in lines:
    sys.stdout.buffer.write(delimited(json.loads(line)))
"""
CLAIM = claim_target("a.b", "cpu:per-commit", "sm90:per-commit")
ON_CPU = test_target("//q:t_cpu", "a.b", seconds=4)
ON_H100 = test_target("//q:t_h100", "a.b", pool="h100", seconds=9)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path)
    fake = BAZEL.format(python=sys.executable, log=str(workspace.log), path=sys.path)
    workspace.write("tools/bazel", fake)
    workspace.write("q/t_cpu.py", SOURCE)
    declare(workspace, CLAIM, ON_CPU)
    workspace.commit()
    yield workspace


def declare(workspace: Workspace, *targets: Target) -> None:
    workspace.write("BUILD.bazel", as_stream(graph_of(*targets)))


def missing(done: subprocess.CompletedProcess[str]) -> list[str]:
    content = json.loads(done.stdout)
    return [cell["arch"] for claim in content["claims"] for cell in claim["cells"]]


def test_the_working_tree_and_a_revision_answer_for_themselves(workspace: Workspace) -> None:
    declare(workspace, CLAIM, ON_CPU, ON_H100)

    now = workspace.plumb("coverage", "--missing", "--format", "json")
    then = workspace.plumb("coverage", "--missing", "--format", "json", "--at", "HEAD")

    assert (now.returncode, missing(now)) == (0, [])
    assert (then.returncode, missing(then)) == (3, ["sm90"])


def test_a_second_question_asks_no_bazel(workspace: Workspace) -> None:
    first = workspace.plumb("coverage")
    asked = workspace.calls()
    second = workspace.plumb("coverage")

    assert (second.returncode, second.stdout) == (0, first.stdout)
    assert asked
    assert workspace.calls() == asked


def test_lines_are_those_of_the_revision(workspace: Workspace) -> None:
    workspace.write("q/t_cpu.py", "\n\n" + SOURCE)

    now = workspace.plumb("coverage", "--detail")
    then = workspace.plumb("coverage", "--detail", "--at", "HEAD")

    assert "q/t_cpu.py:10" in now.stdout
    assert "q/t_cpu.py:8" in then.stdout


def test_a_workspace_that_does_not_load_ends_with_7(workspace: Workspace) -> None:
    workspace.write("BUILD.bazel", "broken")

    done = workspace.plumb("coverage")

    assert (done.returncode, done.stdout) == (7, "")
    assert "broken BUILD file" in done.stderr


def test_an_unknown_revision_ends_with_2(workspace: Workspace) -> None:
    done = workspace.plumb("coverage", "--at", "nowhere")

    assert done.returncode == 2
    assert "nowhere" in done.stderr


def test_a_reader_that_goes_away_is_no_error(workspace: Workspace) -> None:
    asks = f"{sys.executable} -m tools.plumb coverage --detail"
    done = subprocess.run(
        ["bash", "-c", f"{asks} | true; exit ${{PIPESTATUS[0]}}"],
        cwd=workspace.root,
        env=workspace.environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode in (0, 141)
    assert "Traceback" not in done.stderr
