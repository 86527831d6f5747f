from __future__ import annotations

import pytest

from tools.plumb.starlark.slices import Slices
from tools.plumb.synthetic import files

RULES = """
load(":help.bzl", "helper", other = "renamed")
LIST = []
LIST.append(1)
def _impl(ctx):
    return helper(ctx, LIST)
made = rule(
    implementation = _impl,
)
def macro(name):
    made(name = name)
"""
HELP = "load('//b:more.bzl', 'more')\ndef helper(ctx, x):\n    return more\nrenamed = 1\n"
TREE = {"a/rules.bzl": RULES, "a/help.bzl": HELP, "b/more.bzl": "more = 1\nunused = 2\n"}
PLACE = "a/rules.bzl:7:12: <toplevel>"


def digest(**changed: str) -> str | None:
    texts = TREE | {
        f"{'b' if name == 'more' else 'a'}/{name}.bzl": t for name, t in changed.items()
    }
    found = Slices(files(texts)).of(PLACE)
    return None if found is None else found.digest


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rules", RULES.replace("made(name = name)", "made(name = name + name)")),
        ("rules", RULES.replace("LIST)", "LIST)  # comment")),
        ("help", HELP.replace("renamed = 1", "renamed = 2")),
        ("more", "more = 1\nunused = 3\n"),
    ],
)
def test_what_a_rule_does_not_reach_does_not_count(name: str, text: str) -> None:
    assert digest(**{name: text}) == digest() is not None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rules", RULES.replace("append(1)", "append(2)")),
        ("rules", RULES.replace("helper(ctx, LIST)", "helper(ctx, [])")),
        ("rules", RULES.replace("implementation = _impl,", "implementation = _impl, test = True,")),
        ("help", HELP.replace("return more", "return [more]")),
        ("more", "more = 2\nunused = 2\n"),
    ],
)
def test_what_a_rule_reaches_counts_across_files(name: str, text: str) -> None:
    assert digest(**{name: text}) != digest()


@pytest.mark.parametrize(
    "text",
    [
        HELP.replace("//b:more.bzl", "@other//b:more.bzl"),
        HELP.replace("//b:more.bzl", "//b:gone.bzl"),
        "def helper(:\n",
    ],
)
def test_what_leaves_the_tree_has_no_slice(text: str) -> None:
    assert digest(help=text) is None


def test_the_repositorys_own_name_and_bazels_own_files_stay_in_the_tree() -> None:
    own = HELP.replace("//b:more.bzl", "@me//b:more.bzl")
    bazels = HELP.replace("//b:more.bzl", "@bazel_tools//b:more.bzl")
    found = [Slices(files({**TREE, "a/help.bzl": t}), ("", "me")).of(PLACE) for t in (own, bazels)]

    assert None not in found


def test_attributes_that_are_rarely_read_are_noticed() -> None:
    reading = RULES.replace("helper(ctx, LIST)", "ctx.attr.tags")
    found = Slices(files({**TREE, "a/rules.bzl": reading})).of(PLACE)

    assert found is not None and found.reads == {"tags"}
