from __future__ import annotations

from tools.plumb import inputs
from tools.plumb.synthetic import files

WORKSPACE = """
load("//third_party:repos.bzl", "repos")
local_repository(name = "near", path = "vendor/near")
http_archive(name = "z", build_file = "//third_party:z.BUILD", patches = ["//third_party:z.patch"])
pip_parse(name = "pip", requirements_lock = "//:lock.txt")
"""
TREE = {
    "WORKSPACE": WORKSPACE,
    "lock.txt": "a==1\n",
    "third_party/repos.bzl": 'load(":more.bzl", "x")\nDATA = Label("//third_party:data.json")\n',
    "third_party/more.bzl": "",
    "third_party/data.json": "{}",
    "third_party/unused.bzl": "",
    "third_party/z.BUILD": "",
    "third_party/z.patch": "",
    "vendor/near/f": "",
    ".bazelrc": (
        "# see //comment:x\nimport %workspace%/more.rc\nbuild --platforms=//p:linux,//p:other\n"
        "test:x --//f:g=on --//f:h=@pip_a//:pkg \\\n  --extra_toolchains //tc:a\n"
    ),
    "more.rc": "try-import %workspace%/absent.rc\n",
    "tools/bazel": "*#!/bin/sh\n",
    "src/a.py": "",
}


def test_finds_what_workspace_and_rc_files_reach() -> None:
    found = inputs.read(files(TREE))

    assert set(found.identities) == {
        "WORKSPACE",
        ".bazelrc",
        "more.rc",
        "tools/bazel",
        "third_party/repos.bzl",
        "third_party/more.bzl",
        "third_party/data.json",
        "third_party/z.BUILD",
        "third_party/z.patch",
        "vendor/near",
    }
    assert found.locks == {"pip": "lock.txt"}
    assert found.labels == {"//p:linux", "//p:other", "//tc:a"}
    assert found.flags == {"//f:g": set(), "//f:h": {"@pip_a//:pkg"}}


def test_labels_of_other_repositories_name_no_file_of_ours() -> None:
    text = 'workspace(name = "me")\nload("@other//a:b.bzl", "x")\nload("@me//a:c.bzl", "y")\n'
    found = inputs.read(files({"WORKSPACE": text, "a/b.bzl": "", "a/c.bzl": ""}))

    assert set(found.identities) == {"WORKSPACE", "a/c.bzl"}


def test_a_folder_taken_by_path_counts_with_its_content() -> None:
    changed = inputs.read(files({**TREE, "vendor/near/f": "edited"}))

    assert changed.identities["vendor/near"] != inputs.read(files(TREE)).identities["vendor/near"]


def test_a_lock_that_no_rule_names_steers_everything() -> None:
    tree = files({"WORKSPACE": 'some_rule(lock = "//:lock.txt")', "lock.txt": ""})

    assert "lock.txt" in inputs.read(tree).identities


def test_a_workspace_that_python_cannot_parse_is_still_searched() -> None:
    tree = files({"WORKSPACE": 'x = = 1\nload("//a:b.bzl", "c")\n', "a/b.bzl": ""})

    assert "a/b.bzl" in inputs.read(tree).identities


def test_rc_files_that_import_each_other_end() -> None:
    tree = files({"WORKSPACE": "", ".bazelrc": "import a.rc\n", "a.rc": "import .bazelrc\n"})

    assert {".bazelrc", "a.rc"} <= set(inputs.read(tree).identities)


def test_package_settings_are_those_that_attributes_do_not_show() -> None:
    plain = inputs.package_settings('package(default_visibility = ["//x"])\n')

    assert plain == inputs.package_settings("# package(\n") == inputs.package_settings("")
    assert inputs.package_settings('package(features = ["a"])') != plain
    assert inputs.package_settings("package(features = ['a'])") == inputs.package_settings(
        'package(\n    features = ["a"],\n)'
    )


def test_a_build_file_that_python_cannot_parse_is_compared_whole() -> None:
    assert inputs.package_settings("package( = 1") == "package( = 1"


def test_is_workspace_looks_at_the_root() -> None:
    assert inputs.is_workspace(files({"MODULE.bazel": ""}))
    assert not inputs.is_workspace(files({"a/WORKSPACE": ""}))
