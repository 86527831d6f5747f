from __future__ import annotations

import pytest

from tools.plumb.steering import back_references, inputs
from tools.plumb.synthetic import files

LOCAL = 'local_repository(name = "ext", path = "vendor/ext")'
BACK = 'filegroup(name = "x", srcs = ["@me//lib:core", "@@//lib", "@other//:y", "//own:z"])'


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (
            {"WORKSPACE": LOCAL, "vendor/ext/a/BUILD": BACK},
            {"ext": {"//lib:core", "//lib:lib", "@other//:y"}},
        ),
        (
            {"WORKSPACE": 'archive(name = "e", build_file = "//:e.BUILD")', "e.BUILD": BACK},
            {"e": {"//lib:core", "//lib:lib", "@other//:y"}},
        ),
        (
            {"WORKSPACE": "archive(name = 'e', build_file_content = 'alias(\"@me//lib:core\")')"},
            {"e": {"//lib:core"}},
        ),
        ({"WORKSPACE": 'mine(name = "e", core = "//lib:core")'}, {"e": {"//lib:core"}}),
        (
            {
                "WORKSPACE": 'load("//:d.bzl", "d")\nd()',
                "d.bzl": 'def d():\n    r(name = "e", core = "//lib:core")\n',
            },
            {"": {"//lib:core"}},
        ),
        (
            {"WORKSPACE": 'load("//:d.bzl", "d")', "d.bzl": 'A = Label("@pip_x//:y")'},
            {},
        ),
        ({"WORKSPACE": 'local_repository(name = "me2", path = ".")'}, {"me2": {"//:."}}),
        ({"WORKSPACE": 'local_repository(name = "far", path = "../far")'}, {}),
        ({"WORKSPACE": 'x = = 1\nmine(core = "@me//lib:core")'}, {"": {"//lib:core"}}),
    ],
)
def test_finds_what_definitions_refer_back_to(
    texts: dict[str, str], found: dict[str, set[str]]
) -> None:
    tree = {"MODULE.bazel": 'module(name = "me")', **texts}

    assert inputs.read(files(tree)).back == found


def test_a_repository_that_bazel_defines_refers_to_nothing_of_ours() -> None:
    references = {"": {"//a:b"}, "ext": {"//c:d"}}

    assert back_references.of("bazel_tools", references) == set()
    assert back_references.of("ext", references) == {"//a:b", "//c:d"}
    assert back_references.of("rules_python", references) == {"//a:b"}
