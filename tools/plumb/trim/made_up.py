"""Made-up workspaces for the tests of trim, without Bazel and without files."""

from __future__ import annotations

from collections.abc import Mapping

from tools.plumb.cells.load import Loaded
from tools.plumb.cells.made_up import graph_of
from tools.plumb.cells.read import model_of
from tools.plumb.graph import Target
from tools.plumb.trim import ground
from tools.plumb.trim.ground import Ground


def loaded(*targets: Target, files: Mapping[str, str] | None = None) -> Loaded:
    """A workspace of the targets and the files, by path."""
    graph = graph_of(*targets)
    texts = files or {}
    return Loaded(model_of(graph), graph, texts.get, "the made-up workspace")


def ground_of(*targets: Target, files: Mapping[str, str] | None = None) -> Ground:
    """What a trim of it stands on."""
    return ground.of(loaded(*targets, files=files))
