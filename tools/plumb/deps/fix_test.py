"""Edits by a real buildozer: $PLUMBLINE_BUILDOZER."""

import os
import shutil
from pathlib import Path

import pytest

from tools.plumb.deps import fix
from tools.plumb.deps.check import check
from tools.plumb.deps.findings import Finding, Kind
from tools.plumb.deps.small_tree import workspace
from tools.plumb.errors import PlumbError

BUILD = """\
# The core.
py_library(
    name = "core",
    srcs = ["core.py"],
)

py_library(
    name = "user",
    srcs = ["user.py"],
    deps = [
        ":idle",
        "//far",  # plumb: keep, it registers itself
    ],
)

pool_test(
    name = "user_test",
    srcs = ["user_test.py"],
    pools = ["cpu"],
    deps = select({
        "//:gpu": [":idle"],
        "//conditions:default": [],
    }),
)

py_library(
    name = "idle",
    srcs = ["idle.py"],
)
"""
FIXED = BUILD.replace('":idle",\n        "//far"', '":core",\n        "//far"')
FILES = {
    "WORKSPACE": "",
    "lib/BUILD": BUILD,
    "lib/core.py": "",
    "lib/idle.py": "",
    "lib/user.py": "import lib.core",
    "lib/user_test.py": "import lib.user\nX = open(os.path.dirname(__file__) / 'x.txt')",
    "lib/x.txt": "",
    "far/BUILD": 'py_library(name = "far", srcs = ["far.py"])\n',
    "far/far.py": "",
    "run/BUILD": 'py_library(name = "runner", deps = ["@pip//pytest:pkg"])\n',
    "run/main.py": "",
}


@pytest.fixture
def buildozer(tmp_path: Path) -> Path:
    if fix.VARIABLE not in os.environ and shutil.which("buildozer") is None:
        pytest.skip(f"{fix.VARIABLE} is not set, as Bazel sets it")
    return fix.find_buildozer(tmp_path, print)


def test_the_build_file_is_edited_and_stays_as_it_was_else(tmp_path: Path, buildozer: Path) -> None:
    tree = workspace(tmp_path, FILES)

    fix.apply(tmp_path, check(tree), buildozer)

    edited = (tmp_path / "lib/BUILD").read_text()
    before, after = edited.split("pool_test(\n")
    assert before == FIXED.split("pool_test(\n")[0]
    assert 'data = ["x.txt"]' in after
    assert '":user"' in after
    # The branch of the select() has lost what nothing uses.
    assert '":idle"' not in after
    again = workspace(tmp_path, {**FILES, "lib/BUILD": edited})
    assert check(again) == []


def test_nothing_to_do_is_no_error(tmp_path: Path, buildozer: Path) -> None:
    tree = workspace(tmp_path, {**FILES, "lib/BUILD": BUILD})
    fix.apply(tmp_path, [], buildozer)

    assert (tree.root / "lib/BUILD").read_text() == BUILD


def test_what_buildozer_refuses_is_said_in_its_words(tmp_path: Path, buildozer: Path) -> None:
    workspace(tmp_path, FILES)
    finding = Finding(Kind.MISSING, "//lib:gone", (), "deps", "//lib:core", "lib/a.py:1", "x")

    with pytest.raises(PlumbError, match="rule 'gone' not found"):
        fix.apply(tmp_path, [finding], buildozer)


def test_a_buildozer_that_is_no_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fix.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(PlumbError, match="is not a program"):
        fix.find_buildozer(tmp_path, print)

    monkeypatch.delenv(fix.VARIABLE)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlumbError, match="no buildozer on PATH"):
        fix.find_buildozer(tmp_path, print)
    assert fix.VARIABLE not in os.environ
