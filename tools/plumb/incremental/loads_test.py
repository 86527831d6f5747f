from __future__ import annotations

import pytest

from tools.plumb.incremental.loads import Loads
from tools.plumb.synthetic import files

TREE = {
    "WORKSPACE": "",
    "a/BUILD.bazel": 'load("//a:rules/x.bzl", "x")\nload("@pip//:requirements.bzl", "y")',
    "a/rules/x.bzl": 'load(":y.bzl", "y")\nload("@ws//b:z.bzl", "z")',
    "a/y.bzl": 'load(":rules/x.bzl", "x")',
    "b/BUILD.bazel": "",
    "b/z.bzl": "",
    "BUILD": 'load(":top.bzl", "t")',
    "top.bzl": "",
}


def loads(changes: dict[str, str], *packages: str) -> dict[str, tuple[str, ...]]:
    return Loads(files({**TREE, **changes}), frozenset({"", "ws"})).of(packages)


def test_files_are_loaded_by_way_of_others_too() -> None:
    everything = ("//a:rules/x.bzl", "//a:y.bzl", "//b:z.bzl", "@pip//:requirements.bzl")

    assert loads({}, "//a", "//b", "//") == {"//a": everything, "//b": (), "//": ("//:top.bzl",)}


@pytest.mark.parametrize(
    "statement",
    [
        "load(':z.bzl', 'z')",
        'load(\n    # why\n    "//b:z.bzl",\n    "z")',
        'load ("""//b:z.bzl""", "z")',
        'load(r"@@//b:z.bzl", "z")',
        '# load("//b:z.bzl", "z")',
        'load("\\x2f/b:z.bzl", "z")',
    ],
)
def test_however_it_is_written_it_is_seen(statement: str) -> None:
    found = loads({"b/BUILD.bazel": statement}, "//b")["//b"]

    assert "//b:z.bzl" in found or "//:b/z.bzl" in found


def test_what_is_no_load_is_none() -> None:
    assert loads({"b/BUILD.bazel": 'download("//b:z.bzl")\nload = "//b:z.bzl"'}, "//b") == {
        "//b": ()
    }
