"""Drives the whole command on a git workspace whose tools/bazel prints a made-up graph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.plumb.cli import VERSION

FAKE = '''#!{python}
"""Stands in for Bazel: prints as graph what the files *.test of the workspace declare."""
import json, pathlib, sys
root = pathlib.Path.cwd()
command = [a for a in sys.argv[1:] if not a.startswith("-")][0]
with open({log!r}, "a") as log:
    log.write(command + "\\n")
if command == "info":
    print("release 7.7.1")
elif command == "test":
    sys.exit(3 if (root / "fail").exists() else 0)
elif (root / "broken").exists():
    sys.exit(print("ERROR: broken BUILD file", file=sys.stderr) or 7)
else:
    for file in sorted(root.glob("*.test")):
        name, tags = "//:" + file.stem, file.name.endswith("gpu.test")
        tags = ["gpu", "h100", "gpus:1", "sm:sm90", "seconds:20"] if tags else ["cpu", "seconds:3"]
        pool = [{{"key": "test.Pool", "value": "h100" if "gpu" in tags else "cpu"}}]
        print(json.dumps({{"type": "RULE", "rule": {{
            "name": name, "ruleClass": "py_test", "ruleInput": ["//:" + file.name],
            "attribute": [
                {{"name": "tags", "type": "STRING_LIST", "stringListValue": tags}},
                {{"name": "exec_properties", "type": "STRING_DICT", "stringDictValue": pool}},
            ]}}}}))
        print(json.dumps({{"type": "SOURCE_FILE", "sourceFile": {{"name": "//:" + file.name}}}}))
'''


class Workspace:
    """A workspace in git, and what plumb says in it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.caches, self.log = folder / "ws", folder / "caches", folder / "log"
        fake = FAKE.format(python=sys.executable, log=str(self.log))
        for path, text in {
            "WORKSPACE": "",
            "tools/bazel": fake,
            "one.test": "1",
            "two_gpu.test": "1",
            "notes.md": "",
        }.items():
            self.write(path, text)
        (self.root / "tools/bazel").chmod(0o755)
        self.git("init", "--quiet")
        self.commit()

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]
        subprocess.run(
            ["git", *identity, *arguments], cwd=self.root, check=True, capture_output=True
        )

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "x")

    def plumb(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        variables = {
            k: v
            for k, v in os.environ.items()
            if k not in ("BUILD_WORKING_DIRECTORY", "PLUMBLINE_BAZEL")
        }
        variables |= {
            "XDG_CACHE_HOME": str(self.caches),
            "COLUMNS": "120",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        result = subprocess.run(
            [sys.executable, "-m", "tools.plumb", *arguments],
            cwd=cwd or self.root,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in result.stderr
        return result

    def calls(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []


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
        "cpu: 1 tests, 3 s",
        "h100: 1 tests, 20 s, 20 GPU-s",
        "//:one",
        "one.test",
        "2 of 2 tests affected, 23 s, 20 GPU-s",
    ):
        assert part in result.stdout


def test_a_source_edit_asks_bazel_once_and_then_never(workspace: Workspace) -> None:
    workspace.write("one.test", "2")
    workspace.plumb("affected", "--base", "HEAD")
    assert workspace.calls() == ["query", "info"]

    workspace.write("one.test", "3")
    workspace.plumb("affected", "--base", "HEAD")
    assert workspace.calls() == ["query", "info"]


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
    assert "cpu: ran 1 tests, all passed" in passed.stdout
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
    (tree,) = (workspace.caches / "plumbline" / "trees").iterdir()
    assert (tree / "fail").exists()


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
    for path in workspace.caches.rglob("*.json.gz"):
        path.write_bytes(b"half")
    for path in workspace.caches.rglob("index"):
        (path.parent / "unfinished").touch()

    assert workspace.plumb("affected", "--base", "HEAD").returncode == 0
    assert workspace.calls() == ["query", "info"] * 2


def test_version_and_help(workspace: Workspace) -> None:
    assert workspace.plumb("--version").stdout == f"plumb {VERSION}\n"
    shown = workspace.plumb("affected", "--help")
    assert shown.returncode == 0
    for part in ("Examples", "Exit codes", "--why"):
        assert part in shown.stdout
