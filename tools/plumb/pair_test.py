from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from tools.plumb import revision
from tools.plumb.bazel import GraphError
from tools.plumb.graph import GROUP, Graph, Target, package_of
from tools.plumb.incremental import layered
from tools.plumb.pair import load_both
from tools.plumb.synthetic import files, graph, rule, source
from tools.plumb.trees.git import Repository, Tree

BASE, HEAD = Tree("1" * 40, "base"), Tree("2" * 40, "head")
TREE = {"WORKSPACE": "", "a/BUILD": "", "b/BUILD": "", "b/x.bzl": "", "c/BUILD": ""}
TARGETS = [source("//a:s"), rule("//b:l", deps=["//a:s"]), rule("//c:l", x="default")]
SELECT = rule("//c:s", x={"elements": [{"entries": []}]})
LOADS = {"//a": (), "//b": ("//b:x.bzl",), "//c": ()}
# What Bazel was asked: the tree, with attributes that nobody gave a value, the packages.
Asked = tuple[str, bool, Sequence[str] | None]


class Loader(revision.Loader):
    """Answers with the targets of TARGETS, and says what it was asked."""

    asked: list[Asked]
    targets: dict[str, list[Target]]
    broken: bool

    def _query(self, tree: Tree, *, defaults: bool, packages: Sequence[str] | None = None) -> Graph:
        self.asked.append((tree.name, defaults, packages))
        if self.broken and packages is not None:
            raise GraphError("not to be read alone", 7)
        named = LOADS if packages is None else {n: LOADS.get(n, ()) for n in packages}
        found = graph(*(t for t in self.targets[tree.name] if package_of(t.label) in named))
        return replace(found, loads=named)


def loader(folder: Path, edited: dict[str, str], many: int = 0, **targets: list[Target]) -> Loader:
    repository = create_autospec(Repository, instance=True)
    trees = {BASE.id: files(TREE), HEAD.id: files({**TREE, **edited})}
    repository.files.side_effect = lambda tree: trees[tree.id]
    made = Loader(repository, folder, folder, lambda text: None, many)
    object.__setattr__(made, "asked", [])
    object.__setattr__(made, "targets", {"base": TARGETS, "head": TARGETS, **targets})
    object.__setattr__(made, "broken", False)
    return made


def test_of_two_small_trees_only_what_differs_is_read_twice(tmp_path: Path) -> None:
    made = loader(tmp_path, {"a/BUILD": "x", "b/x.bzl": "x"}, many=9)

    older, newer, _ = load_both(made, BASE, HEAD)

    assert made.asked == [("base", True, None), ("head", True, ["//a", "//b"])]
    assert older is not None
    assert layered.apart(older.graph.index, newer.graph.index) == {"//a:s", "//b:l"}


def test_of_large_ones_all_attributes_are_read_where_they_differ(tmp_path: Path) -> None:
    made = loader(tmp_path, {"a/BUILD": "x"})
    load_both(made, BASE, HEAD)

    assert made.asked == [
        ("base", False, None),
        ("base", True, ("//a",)),
        ("head", True, ["//a"]),
    ]
    again = loader(tmp_path, {"a/BUILD": "other"})
    load_both(again, BASE, HEAD)
    assert again.asked == [("head", True, ["//a"])]


def test_a_base_with_all_attributes_needs_no_bazel(tmp_path: Path) -> None:
    load_both(loader(tmp_path, {}), BASE, BASE, defaults=True)

    made = loader(tmp_path, {"a/BUILD": "x"})
    load_both(made, BASE, HEAD)
    assert made.asked == [("head", True, ["//a"])]


def test_packages_that_select_are_read_with_all_attributes(tmp_path: Path) -> None:
    made = loader(tmp_path, {}, base=[*TARGETS, SELECT])
    load_both(made, BASE, HEAD)

    assert made.asked == [("base", False, None), ("base", True, ("//c",))]
    again = loader(tmp_path, {}, base=[*TARGETS, SELECT])
    load_both(again, BASE, HEAD)
    assert again.asked == []


def test_two_small_graphs_in_the_cache_need_no_bazel(tmp_path: Path) -> None:
    edited = {"a/BUILD": "x", "WORKSPACE": "x()"}
    made = loader(tmp_path, edited, many=9)
    for tree in (BASE, HEAD):
        made.load(tree)

    again = loader(tmp_path, edited, many=9)
    load_both(again, BASE, HEAD)
    assert again.asked == []


def test_links_out_of_the_workspace_have_each_revision_read_once(tmp_path: Path) -> None:
    made = loader(tmp_path, {"a/BUILD": "->/far"}, many=9)
    load_both(made, BASE, HEAD)

    assert made.asked == [("base", True, None), ("head", True, None)]


def test_a_package_group_that_differs_needs_every_default(tmp_path: Path) -> None:
    groups = [Target("//a:g", GROUP, "", {"contains": [n]}, ()) for n in ("//x", "//y")]
    made = loader(tmp_path, {"a/BUILD": "x"}, base=[*TARGETS, groups[0]], head=[groups[1]])
    load_both(made, BASE, HEAD)

    assert made.asked[-2:] == [("base", True, None), ("head", True, ["//a"])]


@pytest.mark.parametrize("head", [{"WORKSPACE": "x()"}, {".bazelversion": "7.1.0"}])
def test_what_steers_bazel_has_both_read_whole(tmp_path: Path, head: dict[str, str]) -> None:
    made = loader(tmp_path, head)
    load_both(made, BASE, HEAD)

    assert made.asked[-2:] == [("base", True, None), ("head", True, None)]


def test_where_bazel_refuses_a_part_it_is_asked_for_all(tmp_path: Path) -> None:
    made = loader(tmp_path, {"a/BUILD": "x"}, many=9)
    object.__setattr__(made, "broken", True)
    load_both(made, BASE, HEAD)

    assert made.asked[-1] == ("head", True, None)


def test_a_package_that_bazel_left_out_stays_out(tmp_path: Path) -> None:
    made = loader(tmp_path, {"ignored/BUILD": "x", "a/new": ""}, many=9)
    tree = {**TREE, "ignored/BUILD": ""}
    made.repository.files.side_effect = lambda t: files(  # type: ignore[attr-defined]
        tree if t.id == BASE.id else {**tree, "ignored/BUILD": "x", "a/new": ""}
    )
    load_both(made, BASE, HEAD)

    assert made.asked[-1] == ("head", True, ["//a"])
