"""Gets the model of a workspace: of its working tree, of a revision, or of a graph in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.plumb import pools
from tools.plumb.cells.model import Model
from tools.plumb.cells.read import model_of
from tools.plumb.errors import ExitCode, PlumbError
from tools.plumb.graph import Graph
from tools.plumb.revision import Loader
from tools.plumb.stream.from_json import parse


@dataclass(frozen=True)
class Loaded:
    """A workspace's model, the graph that it was read from, and how to read its files.

    text: the content of a file by its path in the workspace; None if there is none.
    name: what was read, such as 'the working tree'. configs: those that its .bazelrc defines.
    """

    model: Model
    graph: Graph
    text: Callable[[str], str | None]
    name: str
    configs: frozenset[str] = frozenset()


def of_workspace(loader: Loader, revision: str | None = None) -> Loaded:
    """The loader's working tree, or its `revision`. Bazel runs only if the graph is not cached.

    Raises PlumbError if git does not know the revision, bazel.GraphError if it does not load.
    """
    repository = loader.repository
    if revision is not None:
        return _loaded(loader, revision)
    with repository.working_tree(loader.folder / "scratch") as tree:
        found = loader.load(tree)
        # The tree's objects are gone afterwards: sources are read from the folder itself.
        return Loaded(
            model_of(found.graph, found.pool_rules),
            found.graph,
            _reader(loader.workspace),
            tree.name,
            frozenset(found.steering.configs),
        )


def of_file(path: Path, workspace: Path | None) -> Loaded:
    """The graph that `bazel query //... --output=streamed_jsonproto` wrote into `path`.

    workspace: where its sources are, and its mapping of pools; None if nowhere.
    Raises PlumbError if the file is not such a graph.
    """
    text = _reader(workspace) if workspace is not None else _nothing
    rules = pools.parse(text(pools.MAPPING_PATH) or "")
    try:
        with path.open("rb") as lines:
            graph = parse(lines)
        # Values of another type than Bazel's come to light here.
        model = model_of(graph, rules)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise PlumbError(
            f"cannot read a target graph from {path}: {why}. Write one with "
            f"`bazel query //... --output=streamed_jsonproto > {path.name}`.",
            ExitCode.USAGE,
        ) from error
    return Loaded(model, graph, text, str(path))


def _loaded(loader: Loader, revision: str) -> Loaded:
    tree = loader.repository.tree_of(revision)
    found = loader.load(tree)
    model = model_of(found.graph, found.pool_rules)
    configs = frozenset(found.steering.configs)
    return Loaded(model, found.graph, found.files.text, tree.name, configs)


def _reader(workspace: Path) -> Callable[[str], str | None]:
    def text(path: str) -> str | None:
        try:
            return (workspace / path).read_text(errors="replace")
        except OSError:
            return None

    return text


def _nothing(path: str) -> None:
    return None
