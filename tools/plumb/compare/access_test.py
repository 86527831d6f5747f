from __future__ import annotations

from typing import Any

from tools.plumb.compare.access import Access, compare
from tools.plumb.graph import GROUP, Graph, Target
from tools.plumb.synthetic import generated, graph, py_test, rule


def made(group: list[str] | None = None, **core: Any) -> Graph:
    return graph(
        rule("//lib:core", **core),
        generated("//lib:out", "//lib:core"),
        rule("//lib:alias", "alias", ["//lib:core"]),
        rule("//lib:unrelated"),
        py_test("//a:direct", ["//lib:core"]),
        py_test("//a:by_alias", ["//lib:alias"]),
        py_test("//a:by_file", ["//lib:out"]),
        py_test("//a:manual", ["//lib:core"], tags=["manual"]),
        rule("//a:above", deps=["//a:direct"]),
        Target("//lib:inner", GROUP, "", {"containedPackage": group or []}, ()),
        Target("//lib:outer", GROUP, "", {"includedPackageGroup": ["//lib:inner"]}, ()),
    )


USERS = ["//a:by_alias", "//a:by_file", "//a:direct", "//lib:alias"]


def test_who_uses_a_target_of_another_visibility_must_be_analysed() -> None:
    found = compare(made(visibility=["//a", "//b"]), made(visibility=["//a"]))

    assert found == Access(["//lib:core"], USERS)


def test_order_and_the_same_access_are_no_change() -> None:
    assert compare(made(visibility=["//a", "//b"]), made(visibility=["//b", "//a"])) == Access()
    assert compare(graph(), made(visibility=["//a"])) == Access()


def test_a_group_counts_for_all_that_it_makes_visible() -> None:
    visible = {"visibility": ["//lib:outer"]}

    found = compare(made(["//a"], **visible), made(["//b"], **visible))

    assert found == Access(["//lib:inner"], USERS)


def test_testonly_counts_for_the_target_itself_too() -> None:
    found = compare(made(testonly=False), made(testonly=True))

    assert found == Access(["//lib:core"], [*USERS, "//lib:core"])
