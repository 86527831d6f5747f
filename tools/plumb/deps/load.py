"""Reads a workspace for the check: graph and files as git sees the working tree."""

from __future__ import annotations

from tools.pip.lock import parse as parse_lock
from tools.plumb.deps import policy
from tools.plumb.deps.packages import Packages
from tools.plumb.deps.workspace import Workspace
from tools.plumb.revision import Loader
from tools.plumb.trees.files import FileTable


def load(loader: Loader) -> Workspace:
    """The working tree of the loader's workspace, uncommitted and untracked files included.

    Raises PlumbError if it cannot be read, bazel.GraphError if Bazel cannot load it.
    """
    scratch = loader.folder / "scratch"
    with loader.repository.working_tree(scratch) as tree:
        revision = loader.load(tree)
        table = policy.parse(_text(revision.files, policy.POLICY_PATH))
        locks = {hub: _text(revision.files, path) for hub, path in revision.steering.locks.items()}
        names = {name for text in locks.values() for name, _ in parse_lock(text)}
        packages = Packages(frozenset(names), tuple(locks) or ("pip",), table.labels, table.imports)
        paths = frozenset(revision.files.entries)
    return Workspace(loader.workspace, revision.graph, paths, packages, table)


def _text(files: FileTable, path: str) -> str:
    entry = files.entries.get(path)
    return files.read(entry).decode(errors="replace") if entry is not None else ""
