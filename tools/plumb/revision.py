"""Loads a revision: its files, what steers Bazel, and its target graph, from the cache if known.

A graph depends on the names of all files, and on the content of those that Bazel loads. So an
edit of a source file alone needs no Bazel at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tools.plumb import bazel, cache, graph, pools
from tools.plumb.errors import PlumbError
from tools.plumb.graph import Target
from tools.plumb.steering import inputs
from tools.plumb.stream import store
from tools.plumb.trees.files import SUBMODULE, SYMLINK, Entry, FileTable
from tools.plumb.trees.git import Repository, Tree

# Part of every cached graph's name: raise it when what is kept of a graph changes.
GRAPH_FORMAT = 5
# Of all graphs of one workspace, in bytes.
_KEPT_GRAPHS = 1 << 29


@dataclass(frozen=True)
class Revision:
    """One side of the comparison."""

    tree: Tree
    files: FileTable
    steering: inputs.SteeringInputs
    graph: graph.Graph
    key: str

    @cached_property
    def pool_rules(self) -> tuple[pools.PoolRule, ...]:
        """What the tree's own mapping file says of pools; empty if it has none."""
        return pools.parse(self.files.text(pools.MAPPING_PATH) or "")

    def placement(self, test: Target) -> pools.Placement:
        """Where `test` runs and what it takes."""
        return pools.placement(test, self.pool_rules)


@dataclass(frozen=True)
class Loader:
    """Loads revisions of one workspace, one after the other.

    workspace: the user's folder, only read. folder: this workspace's cache folder.
    """

    repository: Repository
    workspace: Path
    folder: Path
    notify: cache.Notify
    _loaded: dict[str, graph.Graph] = field(default_factory=dict, repr=False, compare=False)

    def load(self, tree: Tree, *, fresh: bool = False) -> Revision:
        """The revision of `tree`; with fresh, its graph is read anew.

        Raises bazel.GraphError if Bazel cannot load it.
        """
        files = self.repository.files(tree)
        steering = inputs.read(files)
        key = graph_key(files, steering)
        found = None if fresh else self._cached(key)
        if found is not None and loaded_outside(files, steering, found):
            # It is known by what Bazel loads, which nobody can compare here.
            found, fresh = None, True
        if found is None:
            self.notify(f"{tree.name} needs Bazel once: its graph is not in the cache")
            with cache.locked(self.folder / "lock", self.notify, "reads a target graph"):
                found = (None if fresh else self._cached(key)) or self._query(tree)
                cache.write_atomically(self._graph_path(key), store.dump(found))
                cache.keep_within(self.folder / "graphs", _KEPT_GRAPHS)
        # Two trees that differ in sources alone share one graph, and then one object.
        self._loaded[key] = found
        return Revision(tree, files, steering, found, key)

    @contextmanager
    def exported(self, tree: Tree) -> Iterator[bazel.Place]:
        """A checkout of exactly `tree` in the cache, for tests to run in, and a Bazel of its own.

        It is the same folder each time, so that wheels are fetched and kept once.
        """
        place = cache.make_folder(self.folder / "export")
        with cache.locked(place / "lock", self.notify, "runs tests of another revision"):
            self._check_out(tree, place)
            self.repository.make_repository(tree, place / "tree", place / "index")
            yield bazel.Place(place / "tree", self.workspace, place / "output_base")

    def _query(self, tree: Tree) -> graph.Graph:
        self._check_out(tree, self.folder)
        checkout = self.folder / "tree"
        entry = bazel.find_entry(checkout, self.workspace)
        output_base = self.folder / "output_base"
        return bazel.Bazel(entry, output_base, short_run=True).graph(checkout, self.notify)

    def _check_out(self, tree: Tree, place: Path) -> None:
        # The mark outlives an interruption, after which the folder cannot be trusted.
        checkout, index, mark = place / "tree", place / "index", place / "unfinished"
        if mark.exists():
            shutil.rmtree(checkout, ignore_errors=True)
            index.unlink(missing_ok=True)
        mark.touch()
        self.repository.check_out(tree, checkout, index)
        mark.unlink()

    def _cached(self, key: str) -> graph.Graph | None:
        if key in self._loaded:
            return self._loaded[key]
        path = self._graph_path(key)
        try:
            found = store.load(path.read_bytes())
        except (OSError, ValueError):
            return None
        with suppress(OSError):
            os.utime(path)
        return found

    def _graph_path(self, key: str) -> Path:
        return self.folder / "graphs" / f"{key}.graph"


def graph_key(files: FileTable, steering: inputs.SteeringInputs) -> str:
    """Digest of everything that a revision's target graph depends on."""
    digest = hashlib.sha256(f"{GRAPH_FORMAT}\0".encode())
    for path, entry in sorted(files.entries.items()):
        content = _read_by_bazel(files, path, entry)
        digest.update(f"{path}\0{content}\0".encode(errors="surrogateescape"))
    for path, identity in sorted({**steering.identities, **steering.loaded}.items()):
        digest.update(f"{path}\0{identity}\0".encode(errors="surrogateescape"))
    for hub, path in sorted(steering.locks.items()):
        digest.update(f"{hub}\0{path}\0{files.identity(path)}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def loaded_outside(
    files: FileTable, steering: inputs.SteeringInputs, found: graph.Graph
) -> list[str]:
    """Paths of what steers or builds `found` that links lead to out of the tree, sorted."""
    names = {path for path in files.entries if inputs.is_steering(path)}
    names |= {
        path
        for target in found.targets.values()
        if target.kind == graph.SOURCE
        if (path := graph.source_path(target.label)) and inputs.is_steering(path)
    }
    outside = (files.outside(path) for path in names | steering.paths())
    return sorted({path for path in outside if path is not None})


def _read_by_bazel(files: FileTable, path: str, entry: Entry) -> str:
    # A BUILD file may be a link: what counts is what Bazel finds behind it.
    if inputs.is_build_file(path) or inputs.is_loaded_file(path):
        return files.identity(path)
    return entry.object_id if entry.mode in (SYMLINK, SUBMODULE) else ""


def load_both(loader: Loader, base: Tree, head: Tree) -> tuple[Revision | None, Revision, str]:
    """The base's and the head's revision, and why there is no base, if there is none.

    Raises PlumbError if the head is no Bazel workspace or Bazel cannot load it.
    """
    if not inputs.is_workspace(loader.repository.files(head)):
        raise PlumbError(f"{head.name} has no WORKSPACE or MODULE.bazel at its root.")
    older, why = _load_base(loader, base)
    newer = loader.load(head)
    if older is not None and older.graph.release != newer.graph.release:
        # One was cached under another Bazel, whose own rules differ.
        older = loader.load(base, fresh=True)
        newer = loader.load(head, fresh=True)
    return older, newer, why


def _load_base(loader: Loader, base: Tree) -> tuple[Revision | None, str]:
    if not inputs.is_workspace(loader.repository.files(base)):
        return None, f"{base.name} has no WORKSPACE or MODULE.bazel, so there is nothing to compare"
    try:
        return loader.load(base), ""
    except bazel.GraphError as error:
        return None, f"the target graph of {base.name} does not load: {error}"
