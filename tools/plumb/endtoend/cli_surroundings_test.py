"""The command where what is around it is odd: Bazel, stdout, the folder, the history."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.plumb.endtoend.fake_workspace import Workspace


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


def through_shell(workspace: Workspace, rest: str) -> subprocess.CompletedProcess[str]:
    """The exit code and stderr of the command with `rest` after it in a shell's line."""
    line = f"'{sys.executable}' -m tools.plumb affected --base HEAD {rest}"
    result = subprocess.run(
        ["/bin/bash", "-c", f"set -o pipefail; {line}"],
        cwd=workspace.root,
        env=workspace.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in result.stderr and "Exception ignored" not in result.stderr
    return result


@pytest.mark.parametrize("options", ["", "--format json", "--run"])
@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_changes_no_exit_code(
    workspace: Workspace, options: str, closed: str
) -> None:
    workspace.write("one.test", "2")

    assert through_shell(workspace, f"{options} {closed}").returncode == 0


@pytest.mark.parametrize("options", ["", "--format json"])
def test_a_reader_that_is_gone_is_exit_141_and_no_word(workspace: Workspace, options: str) -> None:
    workspace.plumb("affected", "--base", "HEAD")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "tools.plumb", "affected", "--base", "HEAD", *options.split()]
    result = subprocess.run(
        command,
        cwd=workspace.root,
        env=workspace.environment(),
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)

    assert (result.returncode, result.stderr) == (141, "")
    assert not list(workspace.caches.rglob("scratch/*"))


@pytest.mark.parametrize("options", ["", "--format json"])
def test_a_full_disk_is_a_sentence(workspace: Workspace, options: str) -> None:
    result = through_shell(workspace, f"{options} >/dev/full")

    assert result.returncode == 36
    assert "cannot write the answer to stdout: No space left on device" in result.stderr


def test_a_full_disk_behind_stderr_keeps_no_answer_back(workspace: Workspace) -> None:
    result = through_shell(workspace, "2>/dev/full")

    assert result.returncode == 0 and "Nothing affected" in result.stdout


def test_why_takes_a_path_and_a_label_relative_to_the_folder(workspace: Workspace) -> None:
    workspace.write("sub/x", "")
    for name, cwd in (("one.test", "."), ("one.test", "sub"), (":one", "."), ("one", ".")):
        folder = workspace.root / cwd
        result = workspace.plumb("affected", "--base", "HEAD", "--why", name, cwd=folder)
        assert result.returncode == 0 and f"//:{name.lstrip(':')} is" in result.stdout
    wrong = workspace.plumb(
        "affected", "--base", "HEAD", "--why", ":one", cwd=workspace.root / "sub"
    )
    assert "there is no target //sub:one" in wrong.stderr


def test_files_are_named_from_where_bazel_run_was_called(workspace: Workspace) -> None:
    called_in = workspace.root / "called in"
    called_in.mkdir()
    (called_in / "pool.toml").write_text("[[pool]]")

    asked = workspace.plumb(
        "plan", "--pools", "pool.toml", cwd=Path("/"), BUILD_WORKING_DIRECTORY=str(called_in)
    )

    assert asked.returncode == 2 and "pool.toml: pool 1 has no name" in asked.stderr


def test_a_folder_that_was_deleted_is_a_sentence(workspace: Workspace) -> None:
    gone = workspace.root / "gone"
    gone.mkdir()
    line = f"rmdir '{gone}'; exec '{sys.executable}' -m tools.plumb plan"
    result = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=gone,
        env=workspace.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 36
    assert result.stderr == (
        "plumb: the folder that you are in was deleted: change to one that is there.\n"
    )


def test_ctrl_c_while_the_program_loads_is_a_sentence(workspace: Workspace) -> None:
    # A package of that name, found first, sends the signal as the loading comes to it.
    (workspace.root / "jinja2.py").write_text("import os\nos.kill(os.getpid(), 2)\n")
    path = os.pathsep.join([str(workspace.root), *sys.path])

    stopped = workspace.plumb("history", "show", PYTHONPATH=path)

    assert (stopped.returncode, stopped.stdout) == (8, "")
    assert stopped.stderr == "plumb: interrupted\n"


def test_a_tree_without_workspace_as_base_says_so(workspace: Workspace) -> None:
    workspace.write("lib/core.txt", "")
    workspace.commit()
    result = workspace.plumb("affected", "--base", "HEAD:lib")

    assert "Every test is affected: HEAD:lib has no WORKSPACE" in result.stdout


def test_flags_are_shown_without_a_value(workspace: Workspace) -> None:
    for arguments in (["--help"], ["affected", "--help"]):
        assert "bool" not in workspace.plumb(*arguments).stdout


def test_the_target_in_the_help_is_one_of_this_repository(workspace: Workspace) -> None:
    assert "int8:channel_linear_test_cpu" in workspace.plumb("affected", "--help").stdout
