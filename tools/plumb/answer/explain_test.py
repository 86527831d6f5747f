from __future__ import annotations

import pytest

from tools.plumb.answer.explain import explain, resolve
from tools.plumb.compare.affected import compare
from tools.plumb.errors import PlumbError
from tools.plumb.synthetic import graph, py_test, revision, rule, source

KNOWN = graph(
    source("//lib:core.txt"),
    source("//lib:parts/a.txt"),
    source("//:top"),
    rule("//lib:lib"),
    py_test("//app:core_test"),
).targets


@pytest.mark.parametrize(
    ("name", "folder", "label"),
    [
        ("//lib", "app", "//lib:lib"),
        ("@@//lib:core.txt", "", "//lib:core.txt"),
        ("lib", "", "//lib:lib"),
        ("app:core_test", "", "//app:core_test"),
        ("lib/core.txt", "", "//lib:core.txt"),
        ("lib/parts/a.txt", "app", "//lib:parts/a.txt"),
        ("top", "", "//:top"),
        ("core.txt", "lib", "//lib:core.txt"),
        ("a.txt", "lib/parts", "//lib:parts/a.txt"),
        (":core_test", "app", "//app:core_test"),
        (":top", "", "//:top"),
    ],
)
def test_a_target_can_be_named_by_label_or_by_path(name: str, folder: str, label: str) -> None:
    assert resolve(name, KNOWN, folder) == label


@pytest.mark.parametrize("name", ["//app:core_tst", ":core_tst", "core_tst"])
def test_a_wrong_name_is_answered_with_near_ones(name: str) -> None:
    with pytest.raises(PlumbError, match="Did you mean //app:core_test"):
        resolve(name, KNOWN, "app")


def test_a_new_test_is_just_new() -> None:
    test = py_test("//a:t", ["//a:s"], size="small", **{"$x": "y"})
    head = revision({}, test, source("//a:s"))
    found = explain(compare(revision({}), head, "", manual=False), "//a:t", head.graph.targets)

    assert found["text"] == "new test"
    assert found["changes"] == [{"name": "deps", "old": None, "new": ["//a:s"]}]


def test_a_test_below_which_a_target_is_new_names_that() -> None:
    base, head = (
        revision({}, py_test("//a:t", ["//a:l"]), *more) for more in ((), (rule("//a:l"),))
    )
    found = explain(compare(base, head, "", manual=False), "a:t", head.graph.targets)

    assert found["text"] == "//a:l: new target" and found["chain"] == ["//a:l", "//a:t"]
