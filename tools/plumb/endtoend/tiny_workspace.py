"""A small git and Bazel workspace, and how plumb and Bazel answer in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

RULES = """
def _concat_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".out")
    ctx.actions.run_shell(
        outputs = [out],
        inputs = ctx.files.srcs,
        command = "cat /dev/null %s > %s" % (" ".join([f.path for f in ctx.files.srcs]), out.path),
    )
    return [DefaultInfo(files = depset([out]))]

concat = rule(implementation = _concat_impl, attrs = {"srcs": attr.label_list(allow_files = True)})
"""
MACROS = """
def checked(name, data = [], **kwargs):
    native.sh_test(name = name, size = "small", srcs = ["check.sh"], data = data, **kwargs)
"""
LIB = """
load("//:rules.bzl", "concat")
package(default_visibility = ["//visibility:public"])
filegroup(name = "core", srcs = ["core.txt"])
alias(name = "core_alias", actual = ":core")
concat(name = "joined", srcs = glob(["parts/*.txt"]))
genrule(name = "made", srcs = [":core"], outs = ["made.txt"], cmd = "cat $(SRCS) > $@")
filegroup(name = "unused", srcs = ["unused.txt"])
package_group(name = "friends", packages = ["//..."])
"""
APP = """
load("//:macros.bzl", "checked")
checked(name = "core_test", data = ["//lib:core"], tags = ["cpu", "seconds:3"])
checked(name = "made_test", data = ["//lib:made"])
checked(name = "joined_test", data = ["//lib:joined"])
checked(name = "alias_test", data = ["//lib:core_alias"])
checked(name = "lone_test")
sh_test(name = "folder_test", size = "small", srcs = ["check.sh"], data = ["folder"])
sh_test(name = "plain_test", size = "small", srcs = ["plain.sh"], data = ["//lib:made.txt"])
test_suite(name = "all", tests = [":core_test", ":made_test"])
"""
# Without the first line Bazel misses what changes inside a folder label.
RC = "startup --host_jvm_args=-DBAZEL_TRACK_SOURCE_DIRECTORIES=1\ncommon --noenable_bzlmod\n"
FILES = {
    "WORKSPACE": 'workspace(name = "tiny")\n',
    "BUILD": "",
    "README.md": "A small workspace.\n",
    ".gitignore": "/bazel-*\n",
    ".bazelrc": RC,
    "rules.bzl": RULES,
    "macros.bzl": MACROS,
    "lib/BUILD": LIB,
    "lib/core.txt": "core\n",
    "lib/unused.txt": "unused\n",
    "lib/other.txt": "other\n",
    "lib/parts/a.txt": "a\n",
    "lib/parts/b.txt": "b\n",
    "app/BUILD": APP,
    "app/check.sh": "#!/bin/sh\nexit 0\n",
    "app/plain.sh": "#!/bin/sh\nexit 0\n",
    "app/folder/data.txt": "data\n",
    "tools/plumb/policy.toml": (
        '[[rule]]\npattern = "**/*.md"\naffects = "nothing"\nreason = "documentation"\n'
        '[[rule]]\npattern = "tools/**"\naffects = "nothing"\nreason = "of plumb itself"\n'
    ),
}


@dataclass
class Tiny:
    """The small workspace with its own caches."""

    root: Path
    bazel: Path
    caches: Path

    def write(self, path: str, text: str) -> None:
        """Writes a file, executable if it is a script."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if path.endswith(".sh") else 0o644)

    def replace(self, path: str, old: str, new: str) -> None:
        """Replaces `old`, which must be there, in a file."""
        text = (self.root / path).read_text()
        assert old in text
        self.write(path, text.replace(old, new))

    def link(self, path: str, target: str) -> None:
        """Puts a link in place of a file."""
        (self.root / path).unlink()
        (self.root / path).symlink_to(target)

    def git(self, *arguments: str) -> str:
        """Runs git and returns what it prints."""
        identity = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def commit(self) -> None:
        """Commits everything."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=x")

    def reset(self) -> None:
        """Goes back to the first commit, as if nothing had happened since."""
        first = self.git("rev-list", "--max-parents=0", "HEAD").strip()
        self.git("reset", "--quiet", "--hard", first)
        self.git("clean", "-ffdxq", "--exclude=/bazel-*")

    def plumb(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs `plumb affected` with caches of this workspace's own."""
        variables = {
            **os.environ,
            "XDG_CACHE_HOME": str(self.caches),
            "PLUMBLINE_BAZEL": str(self.bazel),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        variables.pop("BUILD_WORKING_DIRECTORY", None)
        return subprocess.run(
            [sys.executable, "-m", "tools.plumb", "affected", *arguments],
            cwd=self.root,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )

    def selected(self) -> set[str]:
        """Labels of the tests that plumb names for the uncommitted change."""
        result = self.plumb("--base", "HEAD", "--format", "json")
        assert result.returncode == 0, result.stderr
        return {test["label"] for test in json.loads(result.stdout)["tests"]}

    def executed(self) -> set[str]:
        """Labels of the tests that `bazel test` ran rather than answered from its cache."""
        events = self.caches / "events.json"
        result = subprocess.run(
            [
                self.bazel,
                f"--output_base={self.caches / 'truth'}",
                "test",
                "//...",
                f"--build_event_json_file={events}",
                "--curses=no",
            ],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        found = set()
        for line in events.read_text().splitlines():
            event = json.loads(line)
            if "testResult" in event and not event["testResult"].get("cachedLocally"):
                found.add(event["id"]["testResult"]["label"])
        return found

    def shut_down(self) -> None:
        """Ends the Bazel servers that were started here."""
        bases = [self.caches / "truth", *self.caches.glob("plumbline/plumb/**/output_base")]
        for startup in [[], *([f"--output_base={base}"] for base in bases)]:
            subprocess.run(
                [self.bazel, *startup, "shutdown"], cwd=self.root, capture_output=True, check=False
            )


@contextmanager
def tiny_workspace(otherwise: Path) -> Iterator[Tiny]:
    """The workspace in git, with a Bazel of its own that has run its tests once.

    otherwise: where to put it if Bazel names no folder for tests.
    """
    below = os.environ.get("TEST_TMPDIR")
    folder = Path(mkdtemp(dir=below)) if below else otherwise
    (folder / "caches").mkdir()
    # The entry finds its own Bazel in the user's cache, not in the one that plumb gets here.
    entry = os.environ.get("PLUMBLINE_BAZEL") or Path(__file__).resolve().parents[2] / "bazel"
    wrapper = folder / "bazel"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    own = f"--output_user_root='{folder}/servers'"
    wrapper.write_text(f"#!/bin/sh\nXDG_CACHE_HOME='{cache}' exec '{entry}' {own} \"$@\"\n")
    wrapper.chmod(0o755)
    made = Tiny(folder / "workspace", wrapper, folder / "caches")
    for path, text in FILES.items():
        made.write(path, text)
    made.git("init", "--quiet", ".")
    made.commit()
    try:
        assert len(made.executed()) == 7
        yield made
    finally:
        made.shut_down()
