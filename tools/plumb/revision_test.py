from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from tools.plumb import revision
from tools.plumb.bazel import GraphError
from tools.plumb.errors import PlumbError
from tools.plumb.graph import Graph
from tools.plumb.incremental.manifest import of_tree
from tools.plumb.pair import load_both
from tools.plumb.steering import inputs
from tools.plumb.synthetic import files, graph, source
from tools.plumb.trees.git import Repository, Tree

TREE = {
    "WORKSPACE": 'pip_parse(name = "pip", requirements_lock = "//:lock")',
    "lock": "a==1",
    "a/BUILD": "",
    "a/x.bzl": "",
    "a/s.py": "",
    "a/link": "->s.py",
    ".bazelrc": "",
}
BASE, HEAD = Tree("1" * 40, "base"), Tree("2" * 40, "head")


def key(changes: dict[str, str]) -> str:
    tree = files({**TREE, **changes})
    return of_tree(tree, inputs.read(tree)).digest()


@pytest.mark.parametrize(
    "changes",
    [
        {"a/BUILD": "x"},
        {"a/x.bzl": "x"},
        {"a/new.py": ""},
        {"a/link": "->BUILD"},
        {"WORKSPACE": ""},
        {"lock": "a==2"},
        {".bazelrc": "common --x"},
        {".bazelrc": "startup --x"},
        {"tools/build_rules/prelude_bazel": ""},
    ],
)
def test_the_graph_depends_on_names_and_on_what_bazel_loads(changes: dict[str, str]) -> None:
    assert key(changes) != key({})


@pytest.mark.parametrize("link", ["b/BUILD", "b/BUILD.bazel", "b/y.bzl"])
def test_the_graph_depends_on_what_is_behind_a_link_that_bazel_loads(link: str) -> None:
    tree = {link: "->../a/template", "a/template": "x"}

    assert key(tree) != key({**tree, "a/template": "y"})


@pytest.mark.parametrize(
    "changes",
    [
        {"a/s.py": "edited"},
        {"a/s.py": "*edited"},
        {".bazelrc": "build --x"},
        {"WORKSPACE": f"# said\n{TREE['WORKSPACE']}"},
        {"of_no_package": ""},
    ],
)
def test_the_graph_does_not_depend_on_what_no_query_reads(changes: dict[str, str]) -> None:
    assert key(changes) == key({})


class Loader(revision.Loader):
    """Answers from a list of graphs, and fails where one is None."""

    def _query(self, tree: Tree, **asked: Any) -> Graph:
        release = RELEASES[tree.name].pop(0)
        if release is None:
            raise GraphError("broken", 7)
        return graph(source("//a:s.py"), release=release)


RELEASES: dict[str, list[str | None]] = {}


def loader(folder: Path, base: dict[str, str], head: dict[str, str]) -> Loader:
    repository = create_autospec(Repository, instance=True)
    trees = {BASE.id: files(base), HEAD.id: files(head)}
    repository.files.side_effect = lambda tree: trees[tree.id]
    return Loader(repository, folder, folder, lambda text: None)


def test_a_graph_of_another_bazel_is_read_anew(tmp_path: Path) -> None:
    RELEASES.update(base=["7.6", "7.7"], head=["7.7", "7.7"])
    made = loader(tmp_path, TREE, {**TREE, "a/BUILD": "x"})

    base, head, _ = load_both(made, BASE, HEAD)

    assert base is not None and base.graph.release == head.graph.release == "7.7"


def test_a_graph_of_files_outside_the_workspace_is_read_anew(tmp_path: Path) -> None:
    RELEASES.update(head=["7.7", "7.8"])
    made = loader(tmp_path, {}, {**TREE, "b/BUILD": "->/far/BUILD"})

    assert [made.load(HEAD).graph.release for _ in range(2)] == ["7.7", "7.8"]


def test_a_base_that_does_not_load_is_no_base(tmp_path: Path) -> None:
    RELEASES.update(base=[None], head=["7.7"])
    made = loader(tmp_path, TREE, {**TREE, "a/BUILD": "x"})

    base, head, why = load_both(made, BASE, HEAD)

    assert base is None and "broken" in why and head.graph.release == "7.7"


def test_a_base_without_workspace_is_no_base(tmp_path: Path) -> None:
    RELEASES.update(head=["7.7"])

    base, _, why = load_both(loader(tmp_path, {}, TREE), BASE, HEAD)

    assert base is None and "base has no WORKSPACE" in why


def test_a_head_without_workspace_or_that_does_not_load_is_an_error(tmp_path: Path) -> None:
    RELEASES.update(base=["7.7"], head=[None])
    with pytest.raises(PlumbError, match="broken"):
        load_both(loader(tmp_path, TREE, {**TREE, "a/BUILD": "y"}), BASE, HEAD)

    with pytest.raises(PlumbError, match="head has no WORKSPACE"):
        load_both(loader(tmp_path, TREE, {}), BASE, replace(HEAD))


def test_what_was_read_ahead_is_found(tmp_path: Path) -> None:
    RELEASES.update(base=["7.7"])
    loader(tmp_path, TREE, {}).load(BASE)
    made = loader(tmp_path, TREE, {})

    with made.reading_ahead(BASE):
        pass
    repository: Any = made.repository
    repository.files.side_effect = AssertionError("read twice")
    (tmp_path / "graphs").rename(tmp_path / "gone")

    assert made.load(BASE).graph.release == "7.7"


def test_an_interrupt_while_reading_ahead_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = loader(tmp_path, TREE, {})
    repository: Any = made.repository
    repository.files.side_effect = KeyboardInterrupt

    with made.reading_ahead(BASE):
        pass
    assert not capsys.readouterr().err


def test_an_error_while_reading_ahead_is_left_to_the_one_who_asks(tmp_path: Path) -> None:
    made = loader(tmp_path, TREE, {})
    repository: Any = made.repository
    repository.files.side_effect = PlumbError("no such tree")

    with made.reading_ahead(BASE):
        pass
    with pytest.raises(PlumbError, match="no such tree"):
        made.load(BASE)
