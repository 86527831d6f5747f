from __future__ import annotations

from typing import Any

from tools.plumb.compare.digest import Digests
from tools.plumb.compare.why import Change, Tracer, telling
from tools.plumb.graph import Target
from tools.plumb.synthetic import py_test, revision, rule, source

FILES = {"a/s": "1", "a/other": "1", "d/one": "1", "d/two": "1"}


def tracer(head_files: dict[str, str], old: list[Target], new: list[Target]) -> Tracer:
    base, head = revision(FILES, *old), revision(head_files, *new)
    return Tracer(*(Digests(side.graph, side.files, side.steering) for side in (base, head)))


def targets(**attributes: Any) -> list[Target]:
    return [
        py_test("//a:t", ["//a:long", "//a:short"]),
        rule("//a:long", deps=["//a:middle"]),
        rule("//a:middle", deps=["//a:s"]),
        rule("//a:short", deps=["//a:s"], **attributes),
        source("//a:s"),
        source("//a:other"),
    ]


def test_the_chain_is_the_shortest_one_to_the_file() -> None:
    chain = tracer({**FILES, "a/s": "2"}, targets(), targets()).chain("//a:t")

    assert chain.file == "a/s"
    assert chain.labels == ["//a:s", "//a:short", "//a:t"]
    assert [change.name for change in chain.changes] == ["content"]


def test_an_attribute_is_shown_with_both_values() -> None:
    made = tracer(FILES, targets(imports=["x"]), targets(imports=["y"]))
    chain = made.chain("//a:t")

    assert chain.file is None
    assert chain.labels == ["//a:short", "//a:t"]
    assert chain.changes == [Change("imports", ["x"], ["y"])]


def test_a_new_target_has_no_old_values() -> None:
    chain = tracer(FILES, [], targets()).chain("//a:t")

    assert chain.labels == ["//a:t"] and chain.new
    assert chain.changes == [Change("deps", None, ["//a:long", "//a:short"])]


def test_what_bazel_adds_by_itself_is_left_out_unless_nothing_else_differs() -> None:
    own = [Change("$rule_implementation_hash", "1", "2"), Change(":action_listener", None, [])]
    deps = Change("deps", None, [])

    assert telling([*own, deps]) == [deps]
    assert telling(own) == own


def test_the_changed_file_inside_a_folder_is_named() -> None:
    made = [py_test("//:t", ["//:d"])]
    chain = tracer({**FILES, "d/two": "2"}, made, made).chain("//:t")

    assert chain.file == "d/two"


def test_an_unchanged_target_has_not_changed() -> None:
    made = tracer({**FILES, "a/other": "2"}, targets(), targets())

    assert not made.changed("//a:t") and made.changed("//a:other")
