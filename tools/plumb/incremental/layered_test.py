from __future__ import annotations

import pytest

from tools.plumb import graph
from tools.plumb.graph import Graph
from tools.plumb.incremental import layered
from tools.plumb.stream import store
from tools.plumb.synthetic import graph as made_up
from tools.plumb.synthetic import py_test, rule, source

A = [py_test("//a:t", ["//a:l", "//b:l"]), rule("//a:l", deps=["//a:s.py"]), source("//a:s.py")]
B = [rule("//b:l", deps=["@r//:x"], select={"elements": []}), rule("//b:gone")]
C = [rule("//c:l", deps=["//b:gone", "//b:l"])]
ROOT = made_up(*A, *B, *C)
NEW_B = [rule("//b:l", deps=["//b:n.py"]), source("//b:n.py"), py_test("//b:t", ["//c:l"])]


def kept(found: Graph) -> Graph:
    """As the cache gives it back."""
    return store.load(store.dump(found, {}))[0]


@pytest.fixture(params=[ROOT, kept(ROOT)])
def over_root(request: pytest.FixtureRequest) -> Graph:
    return layered.over(request.param, made_up(*NEW_B), ["//b"])


def test_packages_stand_in_place_of_the_roots(over_root: Graph) -> None:
    plain = made_up(*A, *NEW_B, *C)

    assert dict(over_root.targets) == dict(plain.targets)
    assert len(over_root.targets) == len(plain.targets)
    assert "//b:gone" not in over_root.targets and "//b:n.py" in over_root.targets


def test_it_answers_as_a_graph_made_at_once(over_root: Graph) -> None:
    layers, plain = over_root.index, made_up(*A, *NEW_B, *C).index

    assert layers.leaves == plain.leaves == {"//b:gone"}
    for label in {*plain, *plain.leaves, "@r//:x"}:
        assert {*layers.users(label)} == {*plain.users(label)}, label
    for label in plain:
        assert dict(layers.said(label)) == dict(plain.said(label))
    # In an order where packages of both follow each other.
    mixed = ["//b:t", "//a:t", "//b:l", "//c:l", "//b:n.py", "//a:l"]
    assert [dict(one) for one in layers.said_of(mixed)] == [dict(plain.said(n)) for n in mixed]
    assert sorted(layers.tests) == sorted(plain.tests) == ["//a:t", "//b:t"]
    assert {*layers.sources()} == {*plain.sources()}
    assert layers.source_paths == plain.source_paths
    assert {*layers.of_class("py_test".__eq__)} == {*plain.of_class("py_test".__eq__)}
    assert {*layers.with_trait(graph.SELECTS)} == {*plain.with_trait(graph.SELECTS)} == set()
    assert over_root.test_labels == ["//a:t", "//b:t"]


def test_a_package_that_is_gone_has_no_targets() -> None:
    without = layered.over(ROOT, Graph({}, ROOT.release), ["//b"])

    assert dict(without.targets) == dict(made_up(*A, *C).targets)
    assert without.index.leaves == {"//b:gone", "//b:l"}


def test_apart_are_the_packages_that_were_read_anew(over_root: Graph) -> None:
    root = layered.split(over_root.index)[0]
    again = layered.over(over_root, made_up(*C), ["//c"])

    apart = {"//b:l", "//b:gone", "//b:n.py", "//b:t"}
    assert layered.apart(root, over_root.index) == apart
    assert layered.apart(over_root.index, root) == apart
    assert layered.apart(again.index, over_root.index) == {"//c:l"}
    assert layered.apart(root, root) == set()
    assert layered.apart(over_root.index, made_up(*A).index) is None
