from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.plumb.cli import VERSION
from tools.plumb.endtoend.fake_workspace import PATIENCE, Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_nothing_affected_is_one_line(workspace: Workspace) -> None:
    result = workspace.plumb("affected", "--base", "HEAD")

    assert result.returncode == 0
    assert result.stdout == (
        "Nothing affected: none of 2 tests differs between HEAD and the working tree.\n"
    )


def test_an_edit_is_named_by_pool_with_sums(workspace: Workspace) -> None:
    workspace.write("one.test", "2")
    workspace.write("two_gpu.test", "2")

    result = workspace.plumb("affected", "--base", "HEAD")

    assert result.returncode == 0
    for part in (
        "cpu: 1 test, 3 s",
        "h100: 1 test, 20 s, 20 GPU-s",
        "//:one",
        "one.test",
        "2 of 2 tests affected, 23 s, 20 GPU-s",
    ):
        assert part in result.stdout


def test_a_source_edit_asks_bazel_once_and_then_never(workspace: Workspace) -> None:
    workspace.write("one.test", "2")
    workspace.plumb("affected", "--base", "HEAD")
    assert workspace.calls() == ["query"]

    workspace.write("one.test", "3")
    workspace.plumb("affected", "--base", "HEAD")
    assert workspace.calls() == ["query"]


def test_the_server_of_a_first_question_starts_early_and_once(workspace: Workspace) -> None:
    for text in "23":
        workspace.write("one.test", text)
        assert workspace.plumb("affected", "--base", "HEAD").returncode == 0
    (checkout,) = workspace.caches.glob("plumbline/plumb/*/tree")

    assert workspace.servers() == [str(checkout)]


def test_a_long_sum_in_what_steers_bazel_is_read_as_any_other(workspace: Workspace) -> None:
    long = " + ".join(["'a'"] * 600)
    workspace.write("WORKSPACE", f"load('//x:d.bzl', 'r')\nr(name = 'q', x = {long})\n")
    workspace.write("x/d.bzl", f"def r(name, x):\n    return {long}\n")

    assert "2 of 2 tests affected" in workspace.plumb("affected", "--base", "HEAD").stdout


def test_json_is_alone_on_stdout(workspace: Workspace) -> None:
    workspace.write("one.test", "2")

    result = workspace.plumb("affected", "--base", "HEAD", "--format", "json")
    content = json.loads(result.stdout)

    assert content["schema"] == 1
    assert content["tests"] == [
        {
            "label": "//:one",
            "pool": "cpu",
            "gpus": 0,
            "seconds": 3,
            "cadence": None,
            "cause": "input",
            "because": "one.test",
        }
    ]
    assert content["totals"]["affected"]["tests"] == 1 and content["totals"]["all_tests"] == 2
    assert content["why"] is None and content["run"] is None


def test_two_revisions_are_compared(workspace: Workspace) -> None:
    workspace.write("one.test", "2")
    workspace.commit()
    workspace.write("two_gpu.test", "dirty")

    result = workspace.plumb("affected", "--base", "HEAD~1", "--head", "HEAD", "--format", "json")

    assert [t["label"] for t in json.loads(result.stdout)["tests"]] == ["//:one"]


def test_run_runs_what_it_can_and_names_the_rest(workspace: Workspace) -> None:
    workspace.write("one.test", "2")
    workspace.write("two_gpu.test", "2")

    passed = workspace.plumb("affected", "--base", "HEAD", "--run")
    assert passed.returncode == 0
    assert "cpu: ran 1 test, all passed" in passed.stdout
    assert "left to pool h100" in passed.stdout and "//:two_gpu" in passed.stdout

    workspace.write("fail", "")
    failed = workspace.plumb("affected", "--base", "HEAD", "--run")
    assert failed.returncode == 3


def test_run_of_another_head_runs_that_tree(workspace: Workspace) -> None:
    workspace.write("one.test", "2")
    workspace.write("fail", "")
    workspace.commit()
    (workspace.root / "fail").unlink()

    result = workspace.plumb("affected", "--base", "HEAD~1", "--head", "HEAD", "--run")

    assert result.returncode == 3
    (export,) = workspace.caches.glob("plumbline/plumb/*/export")
    assert (export / "tree" / "fail").exists()
    assert (export / "tree" / "listed").read_text().split() == [
        "BUILD",
        "WORKSPACE",
        "fail",
        "notes.md",
        "one.test",
        "tools/bazel",
        "tools/plumb/policy.toml",
        "two_gpu.test",
    ]

    workspace.git("rm", "--quiet", "fail")
    workspace.commit()
    again = workspace.plumb("affected", "--base", "HEAD~2", "--head", "HEAD", "--run")
    assert again.returncode == 0
    assert list(workspace.caches.glob("plumbline/plumb/*/export")) == [export]
    assert not (export / "tree" / "fail").exists()


def test_why_shows_the_chain(workspace: Workspace) -> None:
    workspace.write("one.test", "2")

    result = workspace.plumb("affected", "--base", "HEAD", "--why", "//:one")
    assert "//:one is affected: one.test" in result.stdout
    assert "-> //:one" in result.stdout

    result = workspace.plumb("affected", "--base", "HEAD", "--why", "//:two_gpu")
    assert "//:two_gpu is not affected" in result.stdout


def test_documentation_affects_nothing_and_says_so(workspace: Workspace) -> None:
    workspace.write("notes.md", "more")

    result = workspace.plumb("affected", "--base", "HEAD")

    assert "notes.md affects nothing" in result.stdout and "Nothing affected" in result.stdout


def test_a_base_that_does_not_load_affects_everything(workspace: Workspace) -> None:
    workspace.write("broken", "")
    workspace.commit()
    (workspace.root / "broken").unlink()

    result = workspace.plumb("affected", "--base", "HEAD", "--format", "json")

    assert len(json.loads(result.stdout)["tests"]) == 2
    assert "broken BUILD file" in json.loads(result.stdout)["everything"][0]


def test_a_head_that_does_not_load_is_exit_7_with_bazels_words(workspace: Workspace) -> None:
    workspace.write("broken", "")

    result = workspace.plumb("affected", "--base", "HEAD")

    assert result.returncode == 7 and "ERROR: broken BUILD file" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--base", "nowhere"], "'nowhere' is not a commit"),
        (["--base", "HEAD", "--why", "//:onne"], "Did you mean //:one or"),
        (["--base", "HEAD", "--format", "yaml"], "yaml"),
        ([], "--base"),
        (["--base", "HEAD", "--workspace", "/absent"], "Run plumb in a Bazel workspace"),
    ],
)
def test_mistakes_are_sentences_and_exit_2(
    workspace: Workspace, arguments: list[str], says: str
) -> None:
    result = workspace.plumb("affected", *arguments)

    assert result.returncode == 2 and says in result.stderr


def test_outside_git_is_a_sentence(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "WORKSPACE").touch()

    result = workspace.plumb("affected", "--base", "HEAD", cwd=tmp_path / "bare")

    assert result.returncode == 2 and "not in a git working tree" in result.stderr


def test_a_broken_cache_entry_is_read_anew(workspace: Workspace) -> None:
    workspace.plumb("affected", "--base", "HEAD")
    for path in workspace.caches.rglob("*.graph"):
        path.write_bytes(b"half")
    for path in workspace.caches.rglob("index"):
        (path.parent / "unfinished").touch()

    assert workspace.plumb("affected", "--base", "HEAD").returncode == 0
    assert workspace.calls() == ["query"] * 2


def started(workspace: Workspace, *arguments: str, calls: int) -> subprocess.Popen[str]:
    """The command, once it has started Bazel for the `calls`th time."""
    command = [sys.executable, "-m", "tools.plumb", "affected", "--base", "HEAD", *arguments]
    process = subprocess.Popen(
        command,
        cwd=workspace.root,
        env=workspace.environment() | {"PYTHONFAULTHANDLER": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + PATIENCE
    while len(workspace.calls()) < calls and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    if len(workspace.calls()) < calls:
        pytest.fail(f"it has called Bazel for {workspace.calls()}; {said_at_its_end(process)}")
    return process


def said_at_its_end(process: subprocess.Popen[str], seconds: float = 0) -> str:
    """What it said on stderr. One that does not end within `seconds` fails, with its stack."""
    try:
        return process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        pytest.fail(f"it hangs:\n{process.communicate(timeout=20)[1]}")


@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_is_exit_8_and_the_next_run_is_right(
    workspace: Workspace, number: int, group: bool
) -> None:
    workspace.write("slow", "")
    process = started(workspace, calls=1)
    (os.killpg if group else os.kill)(process.pid, number)
    errors = said_at_its_end(process, PATIENCE)

    assert process.returncode == 8 and errors.endswith("plumb: interrupted\n")
    (workspace.root / "slow").unlink()
    workspace.write("one.test", "2")
    assert "1 of 2 tests affected" in workspace.plumb("affected", "--base", "HEAD").stdout
    assert not list(workspace.caches.rglob("scratch/*"))


def test_a_termination_reaches_the_bazel_that_runs_tests(workspace: Workspace) -> None:
    workspace.write("one.test", "2")
    workspace.write("slow_test", "")
    process = started(workspace, "--run", calls=3)
    process.terminate()
    said_at_its_end(process, PATIENCE)

    assert workspace.calls()[-1] == "test" and process.returncode != 0


def test_a_cache_that_cannot_be_written_is_a_sentence(workspace: Workspace) -> None:
    workspace.caches.write_text("a file where the cache should be")

    result = workspace.plumb("affected", "--base", "HEAD")

    assert result.returncode == 36 and "Set XDG_CACHE_HOME" in result.stderr


def test_version_and_help(workspace: Workspace) -> None:
    assert workspace.plumb("--version").stdout == f"plumb {VERSION}\n"
    shown = workspace.plumb("affected", "--help")
    assert shown.returncode == 0
    for part in ("Examples", "Exit codes", "--why"):
        assert part in shown.stdout
