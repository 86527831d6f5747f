from __future__ import annotations

import pytest

from tools.plumb.steering import inputs
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
        "tools/bazel",
        "third_party/repos.bzl",
        "third_party/more.bzl",
        "third_party/data.json",
    }
    parts_of_repositories = {"third_party/z.BUILD", "third_party/z.patch", "vendor/near"}
    assert set(found.loaded) == {"WORKSPACE", ".bazelrc", "more.rc", *parts_of_repositories}
    assert set(found.repositories) == {"near", "z"} and found.opaque == {"z"}
    assert found.locks == {"pip": "lock.txt"}
    assert found.labels == {"//p:linux", "//p:other", "//tc:a"}
    assert found.configs == {"x"}


def test_labels_of_other_repositories_name_no_file_of_ours() -> None:
    text = 'workspace(name = "me")\nload("@other//a:b.bzl", "x")\nload("@me//a:c.bzl", "y")\n'
    found = inputs.read(files({"WORKSPACE": text, "a/b.bzl": "", "a/c.bzl": ""}))

    assert set(found.identities) == {"WORKSPACE", "a/c.bzl"}


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        ({"WORKSPACE.bazel": 'workspace(name = "me")', "WORKSPACE": ""}, "WORKSPACE.bazel"),
        ({"WORKSPACE": 'workspace(\n    # x\n    name = "me",\n)'}, "WORKSPACE"),
        ({"MODULE.bazel": 'module(version = "1", name = "me")'}, "MODULE.bazel"),
        ({"MODULE.bazel": 'module(name = "x", repo_name = "me")'}, "MODULE.bazel"),
    ],
)
def test_the_repositorys_own_name_is_read_wherever_bazel_takes_it_from(
    texts: dict[str, str], names: str
) -> None:
    tree = {**texts, names: f'{texts[names]}\nload("@me//:deps.bzl", "x")\n', "deps.bzl": ""}

    assert "deps.bzl" in inputs.read(files(tree)).identities


def test_files_that_a_module_file_includes_are_followed() -> None:
    tree = {
        "MODULE.bazel": 'include("//a:x.MODULE.bazel")',
        "a/x.MODULE.bazel": 'ext = use_extension(":ext.bzl", "ext")',
        "a/ext.bzl": "",
    }

    assert {"a/x.MODULE.bazel", "a/ext.bzl"} <= set(inputs.read(files(tree)).identities)


def test_a_folder_taken_by_path_counts_with_its_content() -> None:
    changed = inputs.read(files({**TREE, "vendor/near/f": "edited"})).repositories
    before = inputs.read(files(TREE)).repositories

    assert changed["near"] != before["near"] and changed["z"] == before["z"]


def test_comments_and_layout_steer_nothing() -> None:
    laid_out = WORKSPACE.replace("(", "(  # x\n").replace("load(", "# a comment\nload(")
    more = {
        "WORKSPACE": laid_out,
        "third_party/more.bzl": "# x\n",
        "third_party/repos.bzl": (
            'load(":more.bzl",\n    "x")\nDATA = Label("//third_party:data.json")  # x\n'
        ),
    }
    old, new = inputs.read(files(TREE)), inputs.read(files({**TREE, **more}))

    assert (old.identities, old.repositories) == (new.identities, new.repositories)
    assert old.loaded != new.loaded


def test_a_lock_that_no_rule_names_steers_everything() -> None:
    tree = files({"WORKSPACE": 'some_rule(lock = "//:lock.txt")', "lock.txt": ""})

    assert "lock.txt" in inputs.read(tree).identities


def test_a_workspace_that_python_cannot_parse_is_still_searched() -> None:
    tree = files({"WORKSPACE": 'x = = 1\nload("//a:b.bzl", "c")\n', "a/b.bzl": ""})

    assert "a/b.bzl" in inputs.read(tree).identities


def test_rc_files_that_import_each_other_end() -> None:
    tree = files({"WORKSPACE": "", ".bazelrc": "import a.rc\n", "a.rc": "import .bazelrc\n"})

    assert {".bazelrc", "a.rc"} <= set(inputs.read(tree).loaded)


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("--override_repository=foo=%workspace%/third/foo", {"third/foo"}),
        ("--override_repository foo=third/foo", {"third/foo"}),
        ("--override_module=foo=./third/foo/", {"third/foo"}),
        ("--override_repository=foo=%workspace%/gone", {"gone"}),
        ("--vendor_dir=third", {"third"}),
        ("--registry=file://%workspace%/third/foo,--x", {"third/foo"}),
        ("--override_repository=foo=/far", set()),
        ("--package_path=%workspace%/", set()),
        ("--x=%workspace%/third/none", set()),
    ],
)
def test_a_folder_that_an_option_names_counts_with_its_content(
    option: str, named: set[str]
) -> None:
    texts = {"WORKSPACE": "", ".bazelrc": f"common {option}\n", "third/foo/f": "1", "gone": "->/x"}
    old, new = (inputs.read(files({**texts, "third/foo/f": text})) for text in ("1", "2"))

    assert set(old.identities) == {"WORKSPACE", *named}
    assert all(old.identities[path] != new.identities[path] for path in named - {"gone"})


def test_an_overriding_repository_refers_back_as_a_local_one() -> None:
    texts = {
        "WORKSPACE": 'workspace(name = "me")',
        ".bazelrc": "build --override_repository=foo=%workspace%/third/foo\n",
        "third/foo/BUILD": 'alias(name = "x", actual = "@me//lib:core")',
    }

    assert inputs.read(files(texts)).back == {"foo": {"//lib:core"}}


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


def test_a_comment_in_the_bazel_entry_changes_nothing() -> None:
    def entry(text: str) -> str:
        return inputs.read(files({**TREE, "tools/bazel": text})).identities["tools/bazel"]

    plain = entry("#!/bin/sh\nexec bazel\n")
    assert plain == entry("#!/bin/sh\n# why\nexec bazel\n")
    assert plain != entry("#!/bin/sh\nexec bazel --x\n")
