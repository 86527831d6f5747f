from __future__ import annotations

import pytest

from tools.plumb.incremental.manifest import PRELUDE, Manifest, of_tree, reached
from tools.plumb.steering import inputs
from tools.plumb.synthetic import files

TREE = {
    "WORKSPACE": 'pip_parse(name = "pip", requirements_lock = "//:lock")',
    ".bazelrc": "common --x",
    "lock": "a==1",
    "BUILD": "",
    "top.py": "",
    "a/BUILD": "",
    "a/s.py": "",
    "a/sub/t.py": "",
    "a/rules/x.bzl": "",
    "b/BUILD": "",
    "b/link": "->../a/s.py",
    "c/BUILD": "",
}
LOADS = {
    "//": (),
    "//a": ("//a:rules/x.bzl",),
    "//b": ("@pip//:requirements.bzl",),
    "//c": ("@other//:x.bzl", "//a:rules/x.bzl"),
}


def made(changes: dict[str, str | None]) -> Manifest:
    texts = {path: text for path, text in {**TREE, **changes}.items() if text is not None}
    tree = files(texts)
    return of_tree(tree, inputs.read(tree))


def anew(changes: dict[str, str | None]) -> set[str] | None:
    return reached(made({}), LOADS, made(changes))


@pytest.mark.parametrize(
    ("changes", "packages"),
    [
        ({}, set()),
        ({"a/s.py": "edited"}, set()),
        ({"a/s.py": "*executable"}, set()),
        ({"a/BUILD": "x"}, {"//a"}),
        ({"a/new.py": ""}, {"//a"}),
        ({"a/sub/t.py": None}, {"//a"}),
        ({"top.py": None}, {"//"}),
        # A BUILD file takes files from the package above, and gives them back.
        ({"a/sub/BUILD": ""}, {"//a", "//a/sub"}),
        ({"b/BUILD": None}, {"//", "//b"}),
        # subpackages() names a package of new files, and a glob of folders the one above it.
        ({"a/new/BUILD": "", "a/new/x.py": ""}, {"//a", "//a/new"}),
        ({"a/new/inner/BUILD": ""}, {"//a", "//a/new/inner"}),
        ({"new/BUILD": "", "new/inner/BUILD": ""}, {"//", "//new", "//new/inner"}),
        ({"a/BUILD.bazel": ""}, {"//a"}),
        ({"a/rules/x.bzl": "X = 1"}, {"//a", "//c"}),
        ({"a/rules/x.bzl": None}, {"//a", "//c"}),
        ({"b/unused.bzl": ""}, {"//b"}),
        # The label //a:rules/x.bzl is then of no package.
        ({"a/rules/BUILD": ""}, {"//a", "//a/rules", "//c"}),
        ({"lock": "a==2"}, {"//b", "//c"}),
        ({"b/link": "->../a/BUILD"}, {"//b"}),
        ({"a/s.py": None}, {"//a", "//b"}),
        ({".bazelrc": "common --x\ntest:h100 --y"}, set()),
        ({"WORKSPACE": f"# comment\n{TREE['WORKSPACE']}"}, set()),
    ],
)
def test_an_edit_reaches_the_packages_that_read_it(
    changes: dict[str, str | None], packages: set[str]
) -> None:
    assert anew(changes) == packages


@pytest.mark.parametrize(
    "changes",
    [
        {"WORKSPACE": f'{TREE["WORKSPACE"]}\nregister_toolchains("//a:x")'},
        {"WORKSPACE": f'{TREE["WORKSPACE"]}\nlocal_repository(name = "r", path = "a")'},
        {".bazelrc": "common --y"},
        {".bazelrc": "startup --y"},
        {".bazelversion": "7.1.0"},
        {".bazelignore": "c"},
        {"MODULE.bazel": ""},
        {PRELUDE: ""},
        {"b/into": "->../a"},
    ],
)
def test_what_steers_bazel_reaches_every_package(changes: dict[str, str | None]) -> None:
    assert anew(changes) is None


@pytest.mark.parametrize("path", ["d/x.bzl", "d/new.py", "d/BUILD"])
def test_what_is_behind_a_link_to_a_folder_reaches_every_package(path: str) -> None:
    tree = {"d/BUILD": "", "b/into": "->../d"}

    assert reached(made({**tree}), LOADS, made({**tree, path: "x"})) is None


def test_a_prelude_may_load_any_file() -> None:
    old, new = made({PRELUDE: ""}), made({PRELUDE: "", "a/rules/x.bzl": "X = 1"})

    assert reached(old, LOADS, new) is None


def test_a_build_file_is_what_its_link_leads_to() -> None:
    old = made({"c/BUILD": "->../b/template", "b/template": ""})
    new = made({"c/BUILD": "->../b/template", "b/template": "x"})

    assert reached(old, LOADS, new) == {"//c"}
