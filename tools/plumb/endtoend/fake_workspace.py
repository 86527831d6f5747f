"""A git workspace whose tools/bazel prints a made-up graph, to drive the whole command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FAKE = '''#!{python}
"""Stands in for Bazel: prints as graph what the files *.test of the workspace declare."""
import pathlib, subprocess, sys, time
root = pathlib.Path.cwd()
if sys.argv[1:] == ["--version"]:
    sys.exit(print("bazel 7.7.1"))
command = [a for a in sys.argv[1:] if not a.startswith("-")][0]
if command == "version":
    # Asked to start a server; there is none.
    with open({log!r} + ".servers", "a") as log:
        print(root, file=log)
    sys.exit()
with open({log!r}, "a") as log:
    log.write(command + "\\n")
while (root / "slow").exists():
    time.sleep(0.05)
if command == "test":
    while (root / "slow_test").exists():
        time.sleep(0.05)
    with open("listed", "w") as listed:
        subprocess.run(["git", "ls-files"], stdout=listed, check=True)
    sys.exit(3 if (root / "fail").exists() else 0)
elif (root / "broken").exists():
    sys.exit(print("ERROR: broken BUILD file", file=sys.stderr) or 7)
else:
    sys.path[:0] = {path!r}
    from tools.plumb.stream.write import delimited
    show = lambda target: sys.stdout.buffer.write(delimited(target))
    for file in sorted(root.glob("*.test")):
        name, tags = "//:" + file.stem, file.name.endswith("gpu.test")
        tags = ["gpu", "h100", "gpus:1", "sm:sm90", "seconds:20"] if tags else ["cpu", "seconds:3"]
        tags += ["cadence:nightly"] if "nightly" in name else []
        pool = [{{"key": "test.Pool", "value": "h100" if "gpu" in tags else "cpu"}}]
        show({{"type": "RULE", "rule": {{
            "name": name, "ruleClass": "py_test", "ruleInput": ["//:" + file.name],
            "attribute": [
                {{"name": "tags", "type": "STRING_LIST", "stringListValue": tags}},
                {{"name": "exec_properties", "type": "STRING_DICT", "stringDictValue": pool}},
            ]}}}})
        show({{"type": "SOURCE_FILE", "sourceFile": {{"name": "//:" + file.name}}}})
'''
# Seconds; a command takes one or two, and one that hangs would take the test's log along.
PATIENCE = 100
POLICY = '[[rule]]\npattern = "*.md"\naffects = "nothing"\nreason = "documentation"\n'


class Workspace:
    """A workspace in git, and what plumb says in it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.caches, self.log = folder / "ws", folder / "caches", folder / "log"
        fake = FAKE.format(python=sys.executable, log=str(self.log), path=sys.path)
        for path, text in {
            "WORKSPACE": "",
            "BUILD": "",
            "tools/bazel": fake,
            "one.test": "1",
            "two_gpu.test": "1",
            "notes.md": "",
            "tools/plumb/policy.toml": POLICY,
        }.items():
            self.write(path, text)
        (self.root / "tools/bazel").chmod(0o755)
        self.git("init", "--quiet")
        self.commit()

    def write(self, path: str, text: str) -> None:
        """Writes a file."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def git(self, *arguments: str) -> None:
        """Runs git."""
        identity = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]
        subprocess.run(
            ["git", *identity, *arguments], cwd=self.root, check=True, capture_output=True
        )

    def commit(self) -> None:
        """Commits everything."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "x")

    def environment(self) -> dict[str, str]:
        """What plumb's process gets, with caches of this workspace's own."""
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
        return variables

    def plumb(
        self, *arguments: str, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command; no mistake may end in a traceback."""
        result = subprocess.run(
            [sys.executable, "-m", "tools.plumb", *arguments],
            cwd=cwd or self.root,
            env=self.environment() | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert "Traceback" not in result.stderr
        return result

    def servers(self) -> list[str]:
        """The folders in which the stand-in was asked to start a server, and no more."""
        started = self.log.with_name(f"{self.log.name}.servers")
        return started.read_text().split() if started.exists() else []

    def calls(self) -> list[str]:
        """The commands that the stand-in was given."""
        return self.log.read_text().split() if self.log.exists() else []
