"""`plumb deps` as a user calls it, with real Bazel and buildozer, in a workspace of its own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.plumb.deps.fix import VARIABLE
from tools.plumb.deps.own_bazel import own_bazel

MACRO = """\
def pools_test(name, pools, deps = [], **kwargs):
    for pool in pools:
        native.py_test(
            name = name + "_" + pool,
            main = name + ".py",
            deps = deps + ["//lib:runner"],
            **kwargs
        )
"""
LIB = """\
load("//:macros.bzl", "pools_test")

package(default_visibility = ["//visibility:public"])

py_library(
    name = "core",
    srcs = ["core.py"],
)

py_library(
    name = "idle",
    srcs = ["idle.py"],
)

py_library(
    name = "runner",
    srcs = ["runner.py"],
)

pools_test(
    name = "core_test",
    srcs = ["core_test.py"],
    pools = [
        "cpu",
        "gpu",
    ],
    deps = [%s],
)
"""
RIGHT = LIB % '":core"'
FILES = {
    "WORKSPACE": "",
    ".bazelrc": "common --noenable_bzlmod\n",
    ".gitignore": "/bazel-*\n",
    "BUILD": "",
    "macros.bzl": MACRO,
    "lib/BUILD": LIB % '":idle"',
    "lib/core.py": "",
    "lib/idle.py": "",
    "lib/runner.py": "",
    "lib/core_test.py": "import lib.core\n",
}


class Small:
    """The workspace, and plumb in it."""

    def __init__(self, root: Path, program: Path, caches: Path) -> None:
        self.root = root
        self.environ = {
            **{k: v for k, v in os.environ.items() if k != "BUILD_WORKING_DIRECTORY"},
            "XDG_CACHE_HOME": str(caches),
            "PLUMBLINE_BAZEL": str(program),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        if VARIABLE in os.environ:
            # Bazel names it from the folder in which the test starts.
            self.environ[VARIABLE] = str(Path(os.environ[VARIABLE]).absolute())
        for path, text in FILES.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        subprocess.run(["git", "init", "--quiet", root], check=True)

    def build_file(self) -> str:
        """The text of the BUILD file in which all targets stand."""
        return (self.root / "lib/BUILD").read_text()

    def deps(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs `plumb deps`."""
        return subprocess.run(
            [sys.executable, "-m", "tools.plumb", "deps", *arguments],
            cwd=self.root,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    folder = tmp_path_factory.mktemp("deps")
    with own_bazel(folder) as (program, caches):
        yield Small(caches.parent / "workspace", program, caches)


def test_what_is_wrong_is_found_mended_and_right_then(small: Small) -> None:
    wrong = small.deps("check")
    assert wrong.returncode == 3, wrong.stderr
    assert (
        "lib/core_test.py:1: //lib:core_test (core_test_cpu, core_test_gpu) needs "
        "`import lib.core`, and nothing declares it\n"
        "    add :core to deps: plumb deps fix //lib:core_test\n"
    ) in wrong.stdout
    assert "(core_test_cpu, core_test_gpu) declares :idle in deps" in wrong.stdout

    planned = small.deps("fix", "--dry-run")
    assert planned.stdout == ("add deps :core|//lib:core_test\nremove deps :idle|//lib:core_test\n")
    assert small.build_file() == FILES["lib/BUILD"]

    if VARIABLE not in os.environ and shutil.which("buildozer") is None:
        pytest.skip(f"{VARIABLE} is not set, as Bazel sets it")
    mended = small.deps("fix", "//lib:core_test")
    assert mended.returncode == 0, mended.stderr
    assert small.build_file() == RIGHT

    right = small.deps("check", "//lib/...", "--format", "json")
    assert right.returncode == 0
    assert json.loads(right.stdout) == {"schema": 1, "checked": 5, "findings": []}


def test_a_target_that_is_none_is_refused(small: Small) -> None:
    refused = small.deps("check", "//lib:nothing")

    assert refused.returncode == 2
    assert "no Python target matches '//lib:nothing'" in refused.stderr


def test_a_build_file_that_does_not_load_is_shown_in_bazels_words(small: Small) -> None:
    before = small.build_file()
    (small.root / "lib/BUILD").write_text("py_library(")

    broken = small.deps("check")

    (small.root / "lib/BUILD").write_text(before)
    assert broken.returncode == 7
    assert "lib/BUILD" in broken.stderr
    assert "Traceback" not in broken.stderr
