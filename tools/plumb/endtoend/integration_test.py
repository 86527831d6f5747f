"""Compares `plumb affected` with what a real `bazel test` runs again, one kind of change at a time
in one small workspace.

Needs a Bazel: $PLUMBLINE_BAZEL, or this repository's tools/bazel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.plumb.endtoend.tiny_workspace import FILES, RC, RULES, Tiny, tiny_workspace


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiny]:
    with tiny_workspace(tmp_path_factory.mktemp("tiny")) as made:
        yield made


@pytest.fixture
def tiny(shared: Tiny) -> Tiny:
    """The small workspace as it was made, whatever the cases before did."""
    shared.reset()
    return shared


Edit = Callable[[Tiny], object]


def _link_build_file(tiny: Tiny) -> None:
    tiny.write("common/BUILD.template", (tiny.root / "app/BUILD").read_text())
    tiny.link("app/BUILD", "../common/BUILD.template")


def _list_a_manual_test(tiny: Tiny) -> None:
    tiny.replace(
        "app/BUILD",
        'tests = [":core_test",',
        'tests = [":manual_test", ":core_test",',
    )
    manual = '["//lib:core"], tags = ["manual"])\n'
    tiny.write(
        "app/BUILD",
        (tiny.root / "app/BUILD").read_text()
        + f'checked(name = "manual_test", data = {manual}'
        + f'checked(name = "unlisted_test", data = {manual}',
    )


def _refer_back(tiny: Tiny) -> None:
    tiny.write("vendor/ext/WORKSPACE", "")
    tiny.write(
        "vendor/ext/BUILD",
        'package(default_visibility = ["//visibility:public"])\n'
        'filegroup(name = "back", srcs = ["@tiny//lib:core"])\n',
    )
    tiny.write(".bazelignore", "vendor\n")
    tiny.write(
        "WORKSPACE",
        FILES["WORKSPACE"] + 'local_repository(name = "ext", path = "vendor/ext")\n',
    )
    tiny.replace("app/BUILD", '"lone_test"', '"lone_test", data = ["@ext//:back"]')


def _override(tiny: Tiny) -> None:
    tiny.write("third/foo/WORKSPACE", "")
    tiny.write("third/foo/BUILD", 'exports_files(["f"], visibility = ["//visibility:public"])\n')
    tiny.write("third/foo/f", "1\n")
    tiny.write(".bazelignore", "third\n")
    tiny.write(".bazelrc", RC + "common --override_repository=foo=%workspace%/third/foo\n")
    tiny.replace("app/BUILD", '"lone_test"', '"lone_test", data = ["@foo//:f"]')


def _write_outside(tiny: Tiny, text: str) -> Path:
    outside = tiny.root.parent / "outside.txt"
    outside.write_text(text)
    return outside


# What is in place, and tested, before the edit of that name.
SETUPS: dict[str, Edit] = {
    "edit behind a link": lambda t: t.link("lib/core.txt", "unused.txt"),
    "edit behind a linked BUILD file": _link_build_file,
    "manual test that a suite lists": _list_a_manual_test,
    "source that an external repository refers back to": _refer_back,
    "file of a repository that an option names": _override,
    "file outside the workspace": lambda t: t.link("lib/core.txt", str(_write_outside(t, "1\n"))),
}
# Edits after which plumb has to name exactly the tests that Bazel runs.
EXACT: dict[str, Edit] = {
    "nothing": lambda t: None,
    "source edit": lambda t: t.write("app/plain.sh", "#!/bin/sh\n# edited\nexit 0\n"),
    "transitive source edit": lambda t: t.write("lib/core.txt", "core 2\n"),
    "edit of an unused source": lambda t: t.write("lib/unused.txt", "unused 2\n"),
    "BUILD comment": lambda t: t.replace("lib/BUILD", "filegroup(", "# a comment\nfilegroup("),
    "attribute change": lambda t: t.replace(
        "app/BUILD", '"core_test", ', '"core_test", args = ["x"], '
    ),
    "default spelled out": lambda t: t.replace(
        "app/BUILD", 'name = "plain_test",', 'name = "plain_test", flaky = False,'
    ),
    "file added to a glob": lambda t: t.write("lib/parts/c.txt", "c\n"),
    "file removed from a glob": lambda t: (t.root / "lib/parts/a.txt").unlink(),
    "file in a folder label": lambda t: t.write("app/folder/more.txt", "more\n"),
    "alias retargeted": lambda t: t.replace("lib/BUILD", 'actual = ":core"', 'actual = ":unused"'),
    "visibility": lambda t: t.replace(
        "lib/BUILD", 'name = "core",', 'name = "core", visibility = ["//app:__pkg__"],'
    ),
    "package group": lambda t: t.replace("lib/BUILD", '["//..."]', '["//app/..."]'),
    "macro edit that changes nothing": lambda t: t.replace(
        "macros.bzl", "native.sh_test(", "_ = 1\n    native.sh_test("
    ),
    "macro edit that changes one": lambda t: t.replace(
        "macros.bzl", "**kwargs)\n", "env = {'A': 'b'} if name == 'lone_test' else {}, **kwargs)\n"
    ),
    "unused .bzl added": lambda t: t.write("new.bzl", "X = 1\n"),
    "test renamed": lambda t: t.replace("app/BUILD", '"lone_test"', '"alone_test"'),
    "test deleted": lambda t: t.replace("app/BUILD", 'checked(name = "lone_test")', ""),
    "test added": lambda t: t.replace(
        "app/BUILD", "test_suite", 'checked(name = "new_test")\ntest_suite'
    ),
    "link in place of a file": lambda t: t.link("lib/core.txt", "unused.txt"),
    "edit behind a link": lambda t: t.write("lib/unused.txt", "unused 2\n"),
    "edit behind a linked BUILD file": lambda t: t.replace(
        "common/BUILD.template", '"core_test", ', '"core_test", args = ["x"], '
    ),
    "manual test that a suite lists": lambda t: t.write("lib/core.txt", "core 2\n"),
    "source that an external repository refers back to": lambda t: t.write(
        "lib/core.txt", "core 2\n"
    ),
    "documentation": lambda t: t.write("README.md", "More.\n"),
    "BUILD added below a glob": lambda t: t.write("lib/parts/BUILD", ""),
    ".bzl comment in a rule": lambda t: t.write("rules.bzl", "# a comment\n" + RULES),
    "WORKSPACE comment": lambda t: t.write("WORKSPACE", 'workspace(name = "tiny")\n# x\n'),
    ".bazelrc option": lambda t: t.write(".bazelrc", RC + "test --test_env=A=b\n"),
    "package features": lambda t: t.replace("lib/BUILD", "package(", 'package(features = ["x"], '),
    "option of another config": lambda t: t.write(".bazelrc", RC + "test:x --test_env=A=b\n"),
    "option that only prints": lambda t: t.write(".bazelrc", RC + "test --test_output=all\n"),
    ".bazelrc comment": lambda t: t.write(".bazelrc", RC + "# x\n"),
    "tags of a test": lambda t: t.replace("app/BUILD", '"seconds:3"', '"seconds:4", "covers:a.b"'),
    "tags of a library": lambda t: t.replace(
        "lib/BUILD", 'name = "core",', 'name = "core", tags = ["seconds:3"],'
    ),
    "unused helper beside a rule": lambda t: t.write(
        "rules.bzl", RULES + "\ndef helper():\n    return 1\n"
    ),
    "rule edit": lambda t: t.replace(
        "rules.bzl", '"cat /dev/null %s > %s"', '"(echo more; cat /dev/null %s) > %s"'
    ),
}
# Edits for which plumb may name more tests than Bazel runs.
SOUND: dict[str, Edit] = {
    "executable bit": lambda t: (t.root / "lib/core.txt").chmod(0o755),
    "rule edit with the same result": lambda t: t.replace(
        "rules.bzl", "cat /dev/null", "cat /dev/null /dev/null"
    ),
    "file of a repository that an option names": lambda t: t.write("third/foo/f", "2\n"),
    "file outside the workspace": lambda t: _write_outside(t, "2\n"),
    "unowned file": lambda t: t.write("lib/stray.txt", "stray\n"),
}


def _apply(tiny: Tiny, edit: Edit, setup: Edit = lambda t: None) -> tuple[set[str], set[str]]:
    setup(tiny)
    tiny.commit()
    tiny.executed()
    edit(tiny)
    return tiny.selected(), tiny.executed()


@pytest.mark.parametrize("kind", EXACT)
def test_names_exactly_what_bazel_runs(tiny: Tiny, kind: str) -> None:
    selected, executed = _apply(tiny, EXACT[kind], SETUPS.get(kind, lambda t: None))
    assert selected == executed


@pytest.mark.parametrize("kind", SOUND)
def test_names_at_least_what_bazel_runs(tiny: Tiny, kind: str) -> None:
    selected, executed = _apply(tiny, SOUND[kind], SETUPS.get(kind, lambda t: None))
    assert executed or kind not in SETUPS
    print(f"{kind}: {len(selected - executed)} more than Bazel's {len(executed)}")
    assert selected >= executed


def test_a_base_that_does_not_load_selects_everything(tiny: Tiny) -> None:
    tiny.write("app/broken/BUILD", "no_such_rule()\n")
    broken = tiny.plumb("--base", "HEAD")
    tiny.commit()
    (tiny.root / "app/broken/BUILD").unlink()

    selected = tiny.selected()

    assert broken.returncode == 7
    assert "no_such_rule" in broken.stderr and "Traceback" not in broken.stderr
    assert "//app:core_test" in selected and "//app:lone_test" in selected


@pytest.mark.parametrize(("visible", "code"), [("//app:__pkg__", 0), ("//visibility:private", 1)])
def test_under_run_bazel_says_whether_another_visibility_breaks_a_user(
    tiny: Tiny, visible: str, code: int
) -> None:
    tiny.replace("lib/BUILD", 'name = "core",', f'name = "core", visibility = ["{visible}"],')

    result = tiny.plumb("--base", "HEAD", "--run", "--format", "json")

    assert result.returncode == code, result.stderr
    assert json.loads(result.stdout)["tests"] == []
    assert json.loads(result.stdout)["run"]["analysed"]["bazel_exit"] == code


def test_leaves_the_users_checkout_as_it_was(tiny: Tiny) -> None:
    tiny.commit()
    tiny.write("lib/other.txt", "dirty\n")
    tiny.write("untracked.md", "untracked\n")
    tiny.git("status")
    before = (
        tiny.git("status", "--porcelain"),
        (tiny.root / ".git/index").read_bytes(),
        sorted(p for p in (tiny.root / ".git").rglob("*")),
    )

    tiny.plumb("--base", "HEAD~1")

    assert before == (
        tiny.git("status", "--porcelain"),
        (tiny.root / ".git/index").read_bytes(),
        sorted(p for p in (tiny.root / ".git").rglob("*")),
    )


def test_runs_what_is_affected_and_says_if_it_failed(tiny: Tiny) -> None:
    tiny.write("app/plain.sh", "#!/bin/sh\nexit 1\n")

    result = tiny.plumb("--base", "HEAD", "--run", "--format", "json")

    assert result.returncode == 3, result.stderr
    ran = {"tests": 1, "bazel_exit": 3, "passed": [], "failed": ["//app:plain_test"]}
    assert json.loads(result.stdout)["run"]["ran"] == {"cpu": ran}
