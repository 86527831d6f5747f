from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools.plumb.graph import Graph
from tools.plumb.incremental import layered
from tools.plumb.incremental.graphs import Graphs, Known
from tools.plumb.incremental.manifest import Manifest
from tools.plumb.synthetic import graph, rule

ROOT = graph(rule("//a:l"), rule("//b:l", x="old"))
MANIFEST = Manifest("rest", "locks", {"//a": "1", "//b": "2"}, {"a/x.bzl": "3"})
KNOWN = Known(ROOT, MANIFEST, "root", defaults=False)


def edited(known: Known, value: str) -> Known:
    read = replace(graph(rule("//b:l", x=value)), loads={"//b": ("//a:x.bzl",)})
    return known.over(read, ("//b",), replace(MANIFEST, packages={"//b": value}))


def test_graphs_come_back_as_they_were(tmp_path: Path) -> None:
    part = edited(KNOWN, "new")
    Graphs(tmp_path).keep("root", KNOWN)
    Graphs(tmp_path).keep("part", part)

    graphs = Graphs(tmp_path)
    for key, known in (("root", KNOWN), ("part", part)):
        found = graphs.find(key)
        assert found is not None and dict(found.graph.targets) == dict(known.graph.targets)
        assert (found.manifest, found.root, found.defaults) == (known.manifest, "root", False)
        assert found.graph.loads == known.graph.loads
        assert found.has_defaults("//b") == (key == "part") and not found.has_defaults("//a")
    assert graphs.find("other") is None
    latest = graphs.latest()
    assert latest is not None and latest.root == "root"


def test_two_over_one_root_share_it(tmp_path: Path) -> None:
    graphs = Graphs(tmp_path)
    graphs.keep("root", KNOWN)
    for name in ("one", "two"):
        graphs.keep(name, edited(KNOWN, name))

    fresh = Graphs(tmp_path)
    one, two, root = (fresh.find(name) for name in ("one", "two", "root"))
    assert one is not None and two is not None and root is not None
    assert layered.apart(one.graph.index, two.graph.index) == {"//b:l"}
    assert layered.apart(root.graph.index, two.graph.index) == {"//b:l"}


def test_a_package_that_is_gone_stays_gone(tmp_path: Path) -> None:
    Graphs(tmp_path).keep("root", KNOWN)
    Graphs(tmp_path).keep("gone", KNOWN.over(Graph({}, ROOT.release), ("//b",), MANIFEST))

    found = Graphs(tmp_path).find("gone")
    assert found is not None and [*found.graph.targets] == ["//a:l"]


def test_many_layers_become_one(tmp_path: Path) -> None:
    Graphs(tmp_path).keep("root", KNOWN)
    known = KNOWN
    for number in range(20):
        known = edited(known, str(number))
    Graphs(tmp_path).keep("part", known)

    found = Graphs(tmp_path).find("part")
    assert found is not None and len(found.layers) == 1
    assert found.graph.targets["//b:l"].attributes["x"] == "19"
    assert found.graph.loads["//b"] == ("//a:x.bzl",)


@pytest.mark.parametrize("name", ["root.graph", "part.part"])
@pytest.mark.parametrize("content", [b"", b"half", None])
def test_what_is_damaged_or_gone_is_not_known(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    Graphs(tmp_path).keep("root", KNOWN)
    Graphs(tmp_path).keep("part", edited(KNOWN, "new"))
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)

    assert Graphs(tmp_path).find("part") is None
